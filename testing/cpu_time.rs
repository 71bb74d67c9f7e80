//! CPU time for tests: a test knows neither machine nor optimization, so it compares with other work.

use std::hint::black_box;

/// CPU time of this thread for the work, ns.
pub(crate) fn cpu_ns<T>(work: impl FnOnce() -> T) -> u64 {
    let now = || -> u64 {
        // The file has the time up to the last tick or switch, and a tick is 4 or 10 ms: short work would be 0.
        std::thread::yield_now();
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    };
    let before = now();
    black_box(work());
    now() - before
}
