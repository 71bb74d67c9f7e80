//! This machine's clocks, read in one place.

pub use cpumon_collect::now;

/// Now, ns since the UNIX epoch.
#[must_use]
pub fn wall_ns() -> i64 {
    now().wall_ns
}
