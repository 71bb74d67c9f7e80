//! The CPU clock of another process: the run time of all its threads, ended ones included, in ns. One system
//! call of 0.3 µs shows whether *any* of its threads ran, without privileges (`clock_getcpuclockid(3)`). It
//! is the sum of the very counters that schedstat prints, so that sums over threads can be compared to the
//! ns.

use std::fs;
use std::path::Path;

/// `CPUCLOCK_SCHED` of include/linux/posix-timers.h: the clock that reads `sum_exec_runtime`.
const CPUCLOCK_SCHED: libc::clockid_t = 2;

/// Reads the clock; `None` if no process has this pid (a thread's id is no pid).
pub(super) fn process_ns(pid: u32) -> Option<u64> {
    // As clock_getcpuclockid(3) makes it: the inverted pid above three bits that name the clock.
    let clock = !libc::pid_t::try_from(pid).ok()? << 3 | CPUCLOCK_SCHED;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call; any clock id is allowed, unknown ones fail.
    #[expect(unsafe_code, reason = "rustix has no clock ids of other processes")]
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if failed != 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(time.tv_nsec).ok()?)
}

/// Whether `proc_root` shows the pids of this process's own pid namespace, which is the one that the clocks go by.
/// A host's /proc seen from a container, or a test's tree, does not.
pub(in super::super) fn fits(proc_root: &Path) -> bool {
    let own = std::process::id();
    let shown = fs::read_link(proc_root.join("self")).ok();
    let is_own = shown.and_then(|link| link.to_str()?.parse::<u32>().ok()) == Some(own);
    // NSpid (Linux 4.1) lists one number for each namespace from that of the mount down to the process's own.
    let status = fs::read_to_string(proc_root.join("self/status")).unwrap_or_default();
    let levels =
        status.lines().find_map(|line| line.strip_prefix("NSpid:")).map(|ids| ids.split_whitespace().count());
    is_own && levels == Some(1) && process_ns(own).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_proc_fits_and_a_tree_does_not() {
        assert!(fits(Path::new("/proc")));
        assert!(!fits(tempfile::tempdir().unwrap().path()));
    }

    #[test]
    fn own_clock_runs_and_a_missing_process_has_none() {
        let first = process_ns(std::process::id()).unwrap();
        let sum: u64 = (0..3_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        assert!(process_ns(std::process::id()).unwrap() > first, "{sum}");
        assert_eq!(process_ns(0x3fff_fff0), None);
        assert_eq!(process_ns(u32::MAX), None);
    }
}
