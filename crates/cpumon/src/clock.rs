//! This machine's clocks. In: nothing. Out: one instant on all three. They are read in one place, where the platform is known.

pub use cpumon_collect::now;

/// Now, ns since the UNIX epoch.
#[must_use]
pub fn wall_ns() -> i64 {
    now().wall_ns
}
