//! Ranges of wall-clock time, and the wall clock of this machine.

use std::time::{SystemTime, UNIX_EPOCH};

/// A range of time, ns since the UNIX epoch: after `since_ns`, up to and including `until_ns`.
///
/// Intervals are placed by their end, so neighbouring ranges share no interval.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TimeRange {
    /// Start, not in the range itself.
    pub since_ns: i64,
    /// End, which is in the range.
    pub until_ns: i64,
}

impl TimeRange {
    /// The range that every interval is in.
    pub const ALL: Self = Self { since_ns: i64::MIN, until_ns: i64::MAX };

    /// From `since_ns` (exclusive) to `until_ns` (inclusive).
    #[must_use]
    pub const fn new(since_ns: i64, until_ns: i64) -> Self {
        Self { since_ns, until_ns }
    }

    /// Its length, ns.
    #[must_use]
    pub const fn length_ns(&self) -> i64 {
        self.until_ns.saturating_sub(self.since_ns)
    }

    /// Whether an interval that ends at `end_ns` is in the range.
    #[must_use]
    pub const fn contains(&self, end_ns: i64) -> bool {
        end_ns > self.since_ns && end_ns <= self.until_ns
    }
}

/// Nanoseconds since the UNIX epoch on this machine's clock.
#[must_use]
pub fn wall_now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
