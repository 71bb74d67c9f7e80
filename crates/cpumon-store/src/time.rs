//! Ranges of wall-clock time, and the clocks of this machine.

use crate::rows::signed;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cpumon_model::Moment;

/// A range of time, ns since the UNIX epoch: after `since_ns`, up to and including `until_ns`.
///
/// Intervals are placed by their end, so neighbouring ranges share no interval.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema))]
pub struct TimeRange {
    /// Start, not in the range itself.
    #[cfg_attr(feature = "json", serde(with = "cpumon_model::nanos"), schema(value_type = cpumon_model::nanos::Nanos))]
    pub since_ns: i64,
    /// End, which is in the range.
    #[cfg_attr(feature = "json", serde(with = "cpumon_model::nanos"), schema(value_type = cpumon_model::nanos::Nanos))]
    pub until_ns: i64,
}

impl TimeRange {
    /// The range that every interval is in.
    pub const ALL: Self = Self { since_ns: i64::MIN, until_ns: i64::MAX };

    /// From `since_ns` (exclusive) to `until_ns` (inclusive).
    pub const fn new(since_ns: i64, until_ns: i64) -> Self {
        Self { since_ns, until_ns }
    }

    /// Its length, ns.
    pub const fn length_ns(&self) -> i64 {
        self.until_ns.saturating_sub(self.since_ns)
    }

    /// Whether an interval that ends at `end_ns` is in the range.
    pub const fn contains(&self, end_ns: i64) -> bool {
        end_ns > self.since_ns && end_ns <= self.until_ns
    }
}

/// Nanoseconds since the UNIX epoch on this machine's clock.
pub fn wall_now_ns() -> i64 {
    ns_of(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// A length of time, ns.
pub(crate) fn ns_of(time: Duration) -> i64 {
    signed(time.as_nanos())
}

/// Now on this machine's clocks.
pub(crate) fn now() -> Moment {
    let ns = |clock| {
        let time = rustix::time::clock_gettime(clock);
        time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
    };
    let mono_ns = ns(rustix::time::ClockId::Monotonic).unsigned_abs();
    let boot_ns = ns(rustix::time::ClockId::Boottime).unsigned_abs();
    Moment { mono_ns, boot_ns, wall_ns: wall_now_ns() }
}

/// This machine's clock differs by more than a day from what the store knows and the time that passed since, by one step or by all together:
/// nothing is deleted by age.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ClockDoubt {
    /// By how much it is ahead, ns; negative: behind.
    pub ahead_ns: i64,
}

impl fmt::Display for ClockDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = Duration::from_nanos(self.ahead_ns.unsigned_abs()).as_secs() / 3600;
        let side = if self.ahead_ns > 0 { "ahead of" } else { "behind" };
        write!(
            f,
            "the receiver's clock is {} d {} h {side} the time that the store knows: nothing is deleted by age until the clock is set \
             right, an enrolled device's clock agrees, or a week has passed",
            hours / 24,
            hours % 24
        )
    }
}
