//! Reads the clocks of a [`Moment`] and the length of `USER_HZ` ticks.

use cpumon_model::Moment;
use rustix::time::{ClockId, clock_gettime};

/// Now, on the three clocks; read one after the other, within a microsecond.
pub(crate) fn now() -> Moment {
    let ns = |clock: ClockId| {
        let time = clock_gettime(clock);
        time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
    };
    Moment {
        mono_ns: ns(ClockId::Monotonic).unsigned_abs(),
        boot_ns: ns(ClockId::Boottime).unsigned_abs(),
        wall_ns: ns(ClockId::Realtime),
    }
}

/// The monotonic clock alone.
pub(crate) fn mono_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec).unsigned_abs()
}

/// Length of one tick of the times in /proc, ns: 10,000,000 on every usual Linux (`sysconf(_SC_CLK_TCK)` = 100).
pub(crate) fn ns_per_tick() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_run_forward() {
        let (first, second) = (now(), now());
        assert!(second.mono_ns >= first.mono_ns && second.boot_ns >= first.boot_ns);
        assert!(first.boot_ns >= first.mono_ns / 2, "boot time includes monotonic time");
        assert!(first.wall_ns > 1_600_000_000_000_000_000);
        assert!(ns_per_tick() > 0);
    }
}
