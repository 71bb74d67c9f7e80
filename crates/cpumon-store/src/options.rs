//! Settings of a store that is written, and of the queue in front of it.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// How long samples are stored, counted from their receipt; `None`: no limit by age.
    pub max_age: Option<Duration>,
    /// How long sums per minute are stored; `None`: no limit.
    pub minute_max_age: Option<Duration>,
    /// How long sums per hour are stored; `None`: no limit.
    pub hour_max_age: Option<Duration>,
    /// How large the file may grow, bytes; the oldest samples go first. `None`: no limit.
    pub max_bytes: Option<u64>,
    /// Age at which an interval may be compacted into a chunk, counted from its receipt.
    pub compact_after: Duration,
    pub compact_intervals: u32,
    /// Age at which intervals are compacted although they do not fill a chunk.
    pub compact_partial_after: Duration,
    pub zstd_level: i32,
    /// Each commit waits for the disk (fsync). Otherwise a power cut can cost what came after the last checkpoint;
    /// killing the process never costs more than the open transaction.
    pub sync_each_commit: bool,
    /// Memory for pages of the database, bytes; at most 1 TiB.
    pub cache_bytes: u64,
    /// Largest number of database pages; a full disk for tests. `None`: SQLite's own limit.
    pub max_page_count: Option<u32>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            max_age: Some(Duration::from_hours(30 * 24)),
            minute_max_age: Some(Duration::from_hours(366 * 24)),
            hour_max_age: None,
            max_bytes: Some(20 << 30),
            compact_after: Duration::from_mins(3),
            compact_intervals: 100,
            compact_partial_after: Duration::from_hours(1),
            zstd_level: 3,
            sync_each_commit: false,
            // The hot pages of a thousand hosts.
            cache_bytes: 32 << 20,
            max_page_count: None,
        }
    }
}

/// Settings of the writer thread and the queue in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    pub max_intervals: usize,
    pub max_bytes: usize,
    /// Longest time from the receipt of an interval to the commit that puts it into the file, while the disk is fast enough.
    pub commit_every: Duration,
    /// Time between attempts to store while there is no space.
    pub retry_every: Duration,
    /// Time that maintenance (compaction, retention) may take between two commits.
    pub maintain_budget: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            max_intervals: 65_536,
            max_bytes: 256 << 20,
            commit_every: Duration::from_millis(500),
            retry_every: Duration::from_secs(5),
            maintain_budget: Duration::from_millis(100),
        }
    }
}
