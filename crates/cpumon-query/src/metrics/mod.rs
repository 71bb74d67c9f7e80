//! Metrics for Prometheus: counters of every host that only grow, from the intervals as they arrive.
//!
//! In: each interval of each host, once ([`HostMetrics::add`]). Out: the text of a scrape ([`Metrics::write`]), in the format 0.0.4 of
//! Prometheus or as OpenMetrics 1.0. An interval's time is added to the label that a program has now, and counted time never moves from
//! one label to another: no series falls, and together they are the ledger's time, to the nanosecond.

mod budget;
mod count;
mod families;
mod host;
mod labels;
#[cfg(test)]
mod tests;
mod text;
mod write;

use std::sync::{Arc, Mutex};

use cpumon_model::HostStatus;

use self::budget::SeriesBudget;
use crate::report::GroupBy;

pub use budget::MAX_SERIES;
pub use host::HostMetrics;
pub use text::MetricsFormat;

crate::words! {
    /// Groups with series of their own.
    MetricsBy, "grouping",
    Program = "program": "All processes of one name; always counted",
    Service = "service": "systemd unit",
    Container = "container": "Container or systemd unit",
    User = "user": "Real user",
}

impl From<MetricsBy> for GroupBy {
    fn from(by: MetricsBy) -> Self {
        match by {
            MetricsBy::Program => Self::Program,
            MetricsBy::Service => Self::Service,
            MetricsBy::Container => Self::Container,
            MetricsBy::User => Self::User,
        }
    }
}

/// What is counted, and how much of it.
#[derive(Copy, Clone, Debug)]
pub struct MetricsOptions {
    /// Which of [`MetricsBy::ALL`] have series, in their order.
    by: [bool; MetricsBy::ALL.len()],
    /// Whether blocked time of programs is shown.
    pub has_blocked: bool,
    /// Series at most.
    pub max_series: usize,
}

impl Default for MetricsOptions {
    fn default() -> Self {
        Self::by(&[])
    }
}

impl MetricsOptions {
    /// Series of programs and of these groups.
    pub fn by(groups: &[MetricsBy]) -> Self {
        let mut by = [false; MetricsBy::ALL.len()];
        for (at, group) in MetricsBy::ALL.iter().enumerate() {
            by[at] = *group == MetricsBy::Program || groups.contains(group);
        }
        Self { by, has_blocked: false, max_series: MAX_SERIES }
    }

    fn groupings(&self) -> impl Iterator<Item = MetricsBy> {
        MetricsBy::ALL.iter().copied().zip(self.by).filter(|one| one.1).map(|one| one.0)
    }
}

/// A host with what was counted of it, which the thread that takes its data in shares with scrapes.
pub type CountedHost = (HostStatus, Arc<Mutex<HostMetrics>>);

/// The metrics of all hosts of a receiver.
#[derive(Debug)]
pub struct Metrics {
    options: MetricsOptions,
    budget: Arc<SeriesBudget>,
}

impl Metrics {
    /// Metrics without a host.
    pub fn new(options: MetricsOptions) -> Self {
        Self { options, budget: Arc::new(SeriesBudget::new(options.max_series)) }
    }

    /// The counters of a new host; dropping them frees its series.
    pub fn host(&self) -> HostMetrics {
        HostMetrics::new(&self.budget, &self.options)
    }
}

impl std::fmt::Debug for HostMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostMetrics").field("is_shown", &self.is_shown).finish_non_exhaustive()
    }
}
