//! Waits for a state, however slow the machine is.

use std::time::{Duration, Instant};

/// What has not come by then does not come.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// Asks `get` until it gives something.
pub fn eventually<T>(what: &str, get: impl FnMut() -> Option<T>) -> T {
    eventually_within(PATIENCE, what, get)
}

#[allow(dead_code, reason = "few tests wait for another time")]
pub fn eventually_within<T>(patience: Duration, what: &str, mut get: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = get() {
            return found;
        }
        assert!(begin.elapsed() < patience, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
