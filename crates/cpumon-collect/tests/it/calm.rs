//! Measuring where others take the CPU away. In: a test that compares times. Out: the same, tried again if it failed while the
//! hypervisor gave this machine's CPUs to others. Why: the clocks that tests compare with are wrong then: the kernel leaves out stolen
//! time only as far as it notices it at once (`update_rq_clock_task()` in kernel/sched/core.c), so `getrusage` includes a part.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A test is tried so often.
const TRIES: u32 = 4;
/// All tests together wait no longer than this for calm.
const MOST_WAITING: Duration = Duration::from_mins(8);

static WAITED: Mutex<Duration> = Mutex::new(Duration::ZERO);

/// All CPUs since boot, ticks: stolen, and all there was.
fn ticks() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let modes: Vec<u64> =
        stat.lines().next().unwrap().split(' ').filter_map(|word| word.parse().ok()).collect();
    (modes[7], modes[..8].iter().sum())
}

/// Stolen time since `before`, and the total CPU time.
fn stolen_since(before: (u64, u64)) -> (u64, u64) {
    let now = ticks();
    (now.0 - before.0, now.1 - before.1)
}

/// An idle CPU has no steal time: two threads work for a moment.
fn is_calm() -> bool {
    let before = ticks();
    let spin = || {
        let end = Instant::now() + Duration::from_millis(500);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(spin);
        spin();
    });
    let (stolen, all) = stolen_since(before);
    stolen * 100 <= all
}

/// Runs `test`; if it fails and CPU time was stolen meanwhile, again when none is.
pub fn when_calm(test: impl Fn()) {
    for tried in 1.. {
        let before = ticks();
        let Err(failure) = catch_unwind(AssertUnwindSafe(&test)) else { return };
        let mut waited = WAITED.lock().unwrap();
        if tried == TRIES || *waited >= MOST_WAITING || stolen_since(before).0 == 0 {
            drop(waited);
            resume_unwind(failure);
        }
        // Not `eprintln!`: its output is kept back while the test passes.
        let name = std::thread::current().name().unwrap_or("test").to_owned();
        let line = format!("again: {name}: failed while CPU time was stolen from this machine\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
        let begin = Instant::now();
        while *waited + begin.elapsed() < MOST_WAITING && !is_calm() {
            std::thread::sleep(Duration::from_secs(2));
        }
        *waited += begin.elapsed();
    }
}
