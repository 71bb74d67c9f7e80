//! How busy a host was in an interval.

use cpumon_model::Interval;

/// Share of all CPUs that was busy; `None` if the CPUs are not known.
#[must_use]
pub fn busy_ratio(interval: &Interval) -> Option<f64> {
    let ledger = &interval.ledger;
    let idle_ns = ledger.idle_ns.saturating_add(ledger.steal_ns);
    let knows_cpus = ledger.capacity_ns > 0 && !interval.cpus.is_empty();
    knows_cpus.then(|| (1.0 - idle_ns as f64 / ledger.capacity_ns as f64).clamp(0.0, 1.0))
}
