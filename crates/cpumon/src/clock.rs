//! This machine's clocks. In: nothing. Out: one instant on all three.

use cpumon_model::Moment;
use rustix::time::{ClockId, clock_gettime};

fn read_ns(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// Now.
#[must_use]
pub fn now() -> Moment {
    let since_boot = |clock| u64::try_from(read_ns(clock)).unwrap_or(0);
    Moment {
        mono_ns: since_boot(ClockId::Monotonic),
        boot_ns: since_boot(ClockId::Boottime),
        wall_ns: read_ns(ClockId::Realtime),
    }
}

/// Now, ns since the UNIX epoch.
#[must_use]
pub fn wall_ns() -> i64 {
    read_ns(ClockId::Realtime)
}
