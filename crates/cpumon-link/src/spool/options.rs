//! [`SpoolOptions`]: directory, size and write interval of a spool.

use std::path::PathBuf;
use std::time::Duration;

/// When what was accepted reaches the disk.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Each snapshot is on the disk (written and fdatasync(2)) before the next one is made.
    Always,
    /// Snapshots are gathered in memory and written together this often, with one fdatasync(2) by a thread of its own.
    Every(Duration),
    /// Snapshots stay in memory until the spool is closed: the disk is not touched before.
    AtEnd,
}

/// Settings of a spool that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolOptions {
    /// Its directory; made if it is not there.
    pub dir: PathBuf,
    /// Most bytes of it, in files and in memory together; the oldest snapshots go first.
    pub max_bytes: u64,
    /// When accepted snapshots are written and synced.
    pub sync: SyncPolicy,
    /// Time between two snapshots: what would be due before the next one is written with this one.
    pub interval: Duration,
}

impl SpoolOptions {
    /// Smallest allowed size, bytes.
    pub const MIN_BYTES: u64 = 64 << 10;
    /// Default size, bytes.
    pub const DEFAULT_BYTES: u64 = 256 << 20;
    /// Default time between two writes.
    pub const DEFAULT_EVERY: Duration = Duration::from_secs(10);

    /// A spool of the usual size, written every ten seconds, with a snapshot each second.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            max_bytes: Self::DEFAULT_BYTES,
            sync: SyncPolicy::Every(Self::DEFAULT_EVERY),
            interval: Duration::from_secs(1),
        }
    }
}
