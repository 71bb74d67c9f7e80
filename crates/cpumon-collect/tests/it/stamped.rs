//! Threads that sleep, and that this kernel has stamped as queued all the same. Since Linux 6.12 the scheduler may leave a thread in its
//! run queue for some time after it fell asleep; if it is moved to another CPU's queue meanwhile, the kernel counts the rest of its
//! sleep as run delay. Needs root (or `CAP_BPF` and `CAP_PERFMON`): in CI it must run.

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cpumon_model::{Interval, Snapshot};
use rustix::thread::{CpuSet, Pid, gettid, sched_setaffinity};

use crate::bpf::{ALL, bpf};
use crate::skip::say_skipped;

const SLEEPERS: usize = 40;
const ROUNDS: usize = 6;
const SLEEP: Duration = Duration::from_millis(300);
/// Least length of a sleep that the kernel stamped soon after its begin.
const MOST_OF_IT: Duration = Duration::from_millis(270);

fn run_on(thread: Option<Pid>, cpu: usize) {
    let mut one = CpuSet::new();
    one.set(cpu);
    // One that has ended meanwhile cannot be moved.
    let _ = sched_setaffinity(thread, &one);
}

/// Run delay of this thread by the kernel's count, once it runs again.
fn kernel_delay() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').nth(1).unwrap().parse().unwrap())
}

fn burn(stop: &AtomicBool, time: Duration) {
    let end = Instant::now() + time;
    while !stop.load(Ordering::Relaxed) && Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Run delay and sleep of one thread by the kernel's count.
struct Counted {
    tid: u32,
    all: Duration,
    /// Time in sleeps.
    asleep: Duration,
    sleeps: usize,
}

/// Runs a little more than its share, then sleeps; some times.
fn sleeper(own: &AtomicU32, stop: &AtomicBool, done: &AtomicUsize, ends: &Barrier) -> Counted {
    run_on(None, 0);
    let tid = gettid().as_raw_nonzero().get().cast_unsigned();
    own.store(tid, Ordering::SeqCst);
    let mut counted = Counted { tid, all: Duration::ZERO, asleep: Duration::ZERO, sleeps: 0 };
    for _ in 0..ROUNDS {
        burn(stop, Duration::from_millis(5));
        // In this order: a wait for a CPU between the two is no sleep, and makes it too long to count.
        let (begin, before) = (Instant::now(), kernel_delay());
        std::thread::sleep(SLEEP);
        let (grown, slept) = (kernel_delay().saturating_sub(before), begin.elapsed());
        // If it came back in time it can have waited for a CPU for the rest only.
        if grown > MOST_OF_IT && slept < SLEEP + Duration::from_millis(60) {
            counted.asleep += MOST_OF_IT;
            counted.sleeps += 1;
        }
    }
    counted.all = kernel_delay();
    done.fetch_add(1, Ordering::SeqCst);
    // On its way out it would wait for a CPU again, which is not in `all`.
    ends.wait();
    counted
}

/// Moves threads between the CPUs as they fall asleep.
fn move_about(sleepers: &[AtomicU32], stop: &AtomicBool) {
    let mut cpu = 0;
    while !stop.load(Ordering::Relaxed) {
        cpu = 1 - cpu;
        let known = sleepers.iter().map(|own| own.load(Ordering::SeqCst)).filter(|tid| *tid != 0);
        for tid in known {
            run_on(Pid::from_raw(tid.cast_signed()), cpu);
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

#[test]
fn a_thread_that_sleeps_is_not_ready_though_the_scheduler_has_stamped_it() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return say_skipped("threads can be moved between two CPUs only");
    }
    let Some((mut source, _turn)) = bpf(ALL) else { return };
    let mut snapshots = [Snapshot::default(), Snapshot::default()];
    source.source.snapshot(&mut snapshots[0]).unwrap();
    let before = snapshots[0].health.wakeups_unknown;
    let tids: [AtomicU32; SLEEPERS] = std::array::from_fn(|_| AtomicU32::new(0));
    let stop = AtomicBool::new(false);
    let (done, ends) = (AtomicUsize::new(0), Barrier::new(SLEEPERS + 1));
    let mut ready_ns: HashMap<u32, i64> = HashMap::new();
    let counted: Vec<Counted> = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (run_on(None, 0), burn(&stop, Duration::from_secs(15))));
        }
        scope.spawn(|| move_about(&tids, &stop));
        let sleepers: Vec<_> =
            tids.iter().map(|own| scope.spawn(|| sleeper(own, &stop, &done, &ends))).collect();
        let mut is_last = false;
        while !is_last {
            is_last = done.load(Ordering::SeqCst) == SLEEPERS;
            std::thread::sleep(Duration::from_millis(200));
            let [before, after] = &mut snapshots;
            source.source.snapshot(after).unwrap();
            for row in Interval::between(before, after).threads {
                *ready_ns.entry(row.key.tid).or_default() += row.delta.run_delay_ns;
            }
            snapshots.swap(0, 1);
        }
        stop.store(true, Ordering::Relaxed);
        ends.wait();
        sleepers.into_iter().map(|sleeper| sleeper.join().unwrap()).collect()
    });
    let unknown = snapshots[0].health.wakeups_unknown - before;
    let sleeps: usize = counted.iter().map(|thread| thread.sleeps).sum();
    println!("{sleeps} of {} sleeps stamped, {unknown} wakeups unknown", SLEEPERS * ROUNDS);
    if sleeps == 0 {
        return say_skipped("this kernel stamped no thread that sleeps");
    }
    for thread in counted.iter().filter(|thread| thread.sleeps > 0) {
        let ours = Duration::from_nanos(ready_ns[&thread.tid].unsigned_abs());
        // The delays before and after it are real.
        let real = thread.all.saturating_sub(thread.asleep);
        let (all, asleep) = (thread.all, thread.asleep);
        assert!(
            ours <= real + SLEEP / 10,
            "{ours:?} ready; the kernel counts {all:?}, {asleep:?} of it asleep"
        );
    }
    assert!(unknown >= sleeps as u64, "each of them is counted: {unknown} of {sleeps}");
}
