//! CPU time for tests: a test knows neither machine nor optimization, so it compares with other work.

use std::hint::black_box;

/// CPU time of this thread for the work, ns.
pub(crate) fn cpu_ns<T>(work: impl FnOnce() -> T) -> u64 {
    let now = || -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    };
    let before = now();
    black_box(work());
    now() - before
}
