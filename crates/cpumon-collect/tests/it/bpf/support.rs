//! Helpers of the BPF source's tests: checked passes, loads, and the kernel's report of a child.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cpumon_collect::Opened;
use cpumon_model::{ExitSample, Interval, Snapshot};
use rustix::time::{ClockId, clock_gettime};

use crate::eventually::eventually;
use crate::program::copy_program;

/// Longer than the 15 bytes of a comm.
pub const BURNER: &str = "short-lived-burner-program";

/// A task is joined or reaped some microseconds before its last switch; on a crowded machine it may be pushed off the CPU
/// between the two.
pub const LAST_SWITCH: Duration = Duration::from_millis(60);

pub fn pass(source: &mut Opened) -> Snapshot {
    let mut snapshot = Snapshot::default();
    source.source.snapshot(&mut snapshot).unwrap();
    check_shape(&snapshot);
    snapshot
}

/// Checks that hold for every snapshot.
fn check_shape(snapshot: &Snapshot) {
    assert!(snapshot.is_complete);
    assert!(snapshot.threads.is_sorted_by(|a, b| a.key < b.key), "ascending, each once");
    let twice = snapshot.processes.windows(2).find(|pair| pair[0].key >= pair[1].key);
    assert!(twice.is_none(), "ascending, each once: {twice:?}");
    assert!(snapshot.exits.is_sorted_by(|a, b| a.thread.key < b.thread.key), "ascending, each once");
    for thread in &snapshot.threads {
        assert_ne!(thread.key.tid, 0, "the idle task");
        assert_eq!(thread.counters.user_ns + thread.counters.system_ns, thread.counters.run_ns);
        assert_eq!(thread.counters.user_ns % 1_000, 0);
        let process = snapshot.processes.binary_search_by_key(&thread.process, |process| process.key);
        assert!(process.is_ok(), "{thread:?} without its process");
        let ended = snapshot.exits.binary_search_by_key(&thread.key, |exit| exit.thread.key);
        assert!(ended.is_err(), "{thread:?} both lives and ended");
    }
    for exit in &snapshot.exits {
        assert!(exit.end_ns >= exit.thread.key.start_ns && exit.end_ns <= snapshot.end.boot_ns, "{exit:?}");
    }
    assert_eq!(snapshot.health.malformed, 0);
}

/// Nothing is there twice: exits add up to their total, and all threads together ran no longer than the CPUs.
fn check_accounts(before: &Snapshot, after: &Snapshot, interval: &Interval) {
    assert_eq!(after.health.exits_lost, 0);
    let ended_ns: u64 = after.exits.iter().map(|exit| exit.thread.counters.run_ns).sum();
    assert_eq!(after.exited_total.run_ns - before.exited_total.run_ns, ended_ns);
    let booked_ns = interval.ledger.threads_ns + interval.ledger.exited_ns;
    // Counters move in steps of a tick (10 ms at worst), and were read at some time during each pass.
    let pass_ns = |pass: &Snapshot| i64::try_from(pass.end.mono_ns - pass.begin.mono_ns).unwrap();
    let slack_ns = (10_000_000 + pass_ns(before) + pass_ns(after)) * i64::try_from(after.cpus.len()).unwrap();
    assert!(booked_ns <= interval.ledger.capacity_ns + slack_ns, "{:?}", interval.ledger);
}

/// Makes passes until these children of this process have ended in one, and returns their exits. A child is reaped before its last switch.
pub fn exits_of(source: &mut Opened, children: &[u32]) -> Vec<ExitSample> {
    let mut seen = HashMap::new();
    eventually("the children have ended", || {
        let own = |exit: &ExitSample| exit.parent_pid == std::process::id();
        let exits = pass(source).exits.into_iter().filter(own);
        seen.extend(exits.map(|exit| (exit.thread.key.tid, exit)));
        children.iter().map(|pid| seen.get(pid).cloned()).collect()
    })
}

/// Makes passes until `stop` and until `each`, which gets every interval since `before`, has seen all ends: a task is joined or reaped
/// before its last switch.
pub fn watch(
    source: &mut Opened,
    mut before: Snapshot,
    stop: &AtomicBool,
    pause: Duration,
    mut each: impl FnMut(&Interval) -> bool,
) {
    let mut step = || {
        let after = pass(source);
        let interval = Interval::between(&before, &after);
        check_accounts(&before, &after, &interval);
        before = after;
        each(&interval)
    };
    while !stop.load(Ordering::SeqCst) {
        step();
        std::thread::sleep(pause);
    }
    eventually("all have ended", || step().then_some(()));
}

/// Interrupt time that was subtracted from threads, and which the kernel's own clocks include.
pub fn taken_out_ns(interval: &Interval) -> i64 {
    interval.ledger.irq_ns + interval.ledger.softirq_ns
}

pub fn burn(time: Duration) {
    let end_ns = thread_cpu_ns() + ns(time);
    while thread_cpu_ns() < end_ns {
        std::hint::spin_loop();
    }
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

pub fn ns(time: Duration) -> i64 {
    time.as_nanos().try_into().unwrap()
}

/// A copy of the shell under a name of our own.
pub fn burner(dir: &Path) -> PathBuf {
    let program = dir.join(BURNER);
    copy_program("/bin/sh", &program);
    program
}

/// Waits for a child and returns its CPU time, which the kernel scales to its exact run time.
#[expect(unsafe_code, reason = "std knows no wait4")]
pub fn wait_with_usage(child: &mut Child) -> Duration {
    // SAFETY: both pointers are to live values; the child is ours and is waited for here only.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        let pid = libc::pid_t::try_from(child.id()).unwrap();
        assert_eq!(libc::wait4(pid, std::ptr::null_mut(), 0, &raw mut usage), pid);
        usage
    };
    let time = |time: libc::timeval| {
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_usec).unwrap() * 1_000)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}
