//! This machine's clocks, for everything in the receiver that asks what time it is.

pub use cpumon_agent::now;

/// Now on the wall clock, ns since the UNIX epoch.
pub fn wall_ns() -> i64 {
    now().wall_ns
}

pub(crate) fn mono_ns() -> u64 {
    now().mono_ns
}

/// Now on the wall clock, s since the UNIX epoch.
pub fn wall_s() -> u64 {
    u64::try_from(wall_ns() / 1_000_000_000).unwrap_or(0)
}
