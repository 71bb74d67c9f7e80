//! [`Pulse`]: whether a thread is alive, for the watchdog of a service manager.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The time on the monotonic clock until which a thread counts as alive.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// Marks the thread as alive for this time.
    pub fn beat(&self, within: Duration) {
        let within_ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(cpumon_collect::now().mono_ns.saturating_add(within_ns), Ordering::Relaxed);
    }

    /// Whether the last beat has not expired.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        cpumon_collect::now().mono_ns <= self.0.load(Ordering::Relaxed)
    }
}
