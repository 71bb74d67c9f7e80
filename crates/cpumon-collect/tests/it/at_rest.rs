//! Waits until threads of this process are idle.

use std::fs;

use crate::eventually::eventually;

/// State and run time.
fn reading(tid: u32) -> (char, String) {
    let read = |file| fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).unwrap();
    let (stat, run) = (read("stat"), read("schedstat"));
    (stat.rsplit_once(") ").unwrap().1.chars().next().unwrap(), run)
}

/// Waits until each of these threads sleeps and all that it ran is counted.
pub fn wait_until_at_rest(tids: &[u32]) {
    let mut last = Vec::new();
    // Two readings are more than a clock tick apart: a thread that still ran would count on.
    eventually("the threads are at rest", || {
        let now: Vec<_> = tids.iter().map(|tid| reading(*tid)).collect();
        let is_at_rest = now == last && now.iter().all(|(state, _)| *state == 'S');
        last = now;
        is_at_rest.then_some(())
    });
}
