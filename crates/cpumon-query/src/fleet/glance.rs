//! [`Glance`]: a host's newest interval in short.

use std::cmp::Reverse;

use cpumon_model::{Interval, Ledger, ProcessInterval, ProcessKey};

use super::busy::busy_ratio;
use super::minute::Minute;

/// Processes of a host that are listed.
pub const TOP: usize = 20;

/// A host's newest interval in short.
#[derive(Clone, Debug, Default)]
pub struct Glance {
    /// Number of the interval.
    pub number: u64,
    /// The last minute, this interval included.
    pub minute: Minute,
    /// Share of all CPUs that was busy; `None` if the CPUs are not known.
    pub busy_ratio: Option<f64>,
    /// Its ledger.
    pub ledger: Ledger,
    /// Names of its flags.
    pub flags: String,
    /// Its busiest processes, the busiest first, at most 20.
    pub top: Vec<Busy>,
}

/// A busy process.
#[derive(Clone, Debug)]
pub struct Busy {
    /// Its key.
    pub key: ProcessKey,
    /// Its name; hostile.
    pub name: String,
    /// Its container or unit; hostile.
    pub container: String,
    /// Run time in the interval.
    pub run_ns: i64,
    /// Utilization, 100 = one CPU.
    pub cpu_pct: Option<f64>,
    /// Utilization, 100 = all CPUs.
    pub host_pct: Option<f64>,
}

impl Glance {
    pub(super) fn new(number: u64, interval: &Interval, minute: Minute) -> Self {
        let mut rows: Vec<&ProcessInterval> =
            interval.processes.iter().filter(|row| row.delta.run_ns > 0).collect();
        if rows.len() > TOP {
            // A host may have thousands of rows; selecting first leaves 20 of them to sort.
            rows.select_nth_unstable_by_key(TOP, |row| Reverse(row.delta.run_ns));
            rows.truncate(TOP);
        }
        rows.sort_unstable_by_key(|row| (Reverse(row.delta.run_ns), row.key));
        let busy = |row: &&ProcessInterval| Busy {
            key: row.key,
            name: row.info.name.to_string(),
            container: row.info.container.to_string(),
            run_ns: row.delta.run_ns,
            cpu_pct: interval.cpu_pct(row.delta.run_ns),
            host_pct: interval.host_pct(row.delta.run_ns),
        };
        Self {
            number,
            minute,
            busy_ratio: busy_ratio(interval),
            ledger: interval.ledger,
            flags: cpumon_model::flag_names(interval.flags),
            top: rows.iter().map(busy).collect(),
        }
    }
}
