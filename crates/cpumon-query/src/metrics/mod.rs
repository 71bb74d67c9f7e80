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
mod options;
#[cfg(test)]
mod tests;
mod text;
mod write;

pub use budget::MAX_SERIES;
pub use host::HostMetrics;
pub use options::{MetricsBy, MetricsOptions};
pub use text::MetricsFormat;
pub use write::{CountedHost, Metrics};
