//! [`Figures`]: what a group did in a range, as it was added up. A row of a report is made from one or two of them.

use cpumon_model::{Delta, Fields, Waits};

use super::answer::{Before, ReportRow, RowKind};
use crate::history::Values;

/// Growth of a group's counters, and how much of the range was measured.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Figures {
    /// Growth of its counters.
    pub(super) delta: Delta,
    /// Its blocked time; `None`: not measured.
    pub(super) blocked_ns: Option<i64>,
    /// Measured time; 0: no data, or of several hosts.
    pub(super) covered_ns: u64,
    /// Counters that every interval has.
    pub(super) fields: Fields,
}

impl Figures {
    fn known(&self, needs: Fields, value: i64) -> Option<i64> {
        self.fields.contains(needs).then_some(value)
    }

    /// For each ns that was measured.
    fn mean(&self, ns: Option<i64>) -> Option<f64> {
        ns.filter(|_| self.covered_ns > 0).map(|ns| ns as f64 / self.covered_ns as f64)
    }

    fn run_ns(&self) -> Option<i64> {
        self.known(Fields::RUN, self.delta.run_ns)
    }

    fn cpu_pct(&self) -> Option<f64> {
        let run_ns = self.run_ns().filter(|_| self.covered_ns > 0)?;
        Some(run_ns as f64 * 100.0 / self.covered_ns as f64)
    }

    fn duration_ns(&self) -> Option<u64> {
        (self.covered_ns > 0).then_some(self.covered_ns)
    }

    fn before(&self) -> Before {
        let is_there = self.covered_ns > 0;
        let delay_ns = self.known(Fields::RUN_DELAY, self.delta.run_delay_ns);
        Before {
            run_ns: self.run_ns().filter(|_| is_there),
            cpu_pct: self.cpu_pct(),
            run_delay_ns: delay_ns.filter(|_| is_there),
            blocked_ns: self.blocked_ns.filter(|_| is_there),
            duration_ns: self.duration_ns(),
        }
    }

    /// A row without what is not added up. `used_ns`: run time of all threads of all hosts of the report.
    pub(super) fn row(&self, kind: RowKind, name: Box<str>, used_ns: i64, before: Option<Self>) -> ReportRow {
        let (delta, run_ns, cpu_pct) = (&self.delta, self.run_ns(), self.cpu_pct());
        let run_delay_ns = self.known(Fields::RUN_DELAY, delta.run_delay_ns);
        let share = |run_ns: i64| run_ns as f64 * 100.0 / used_ns as f64;
        let before = before.map(|before| before.before());
        let change = |before: &Before| Some(cpu_pct? - before.cpu_pct?);
        ReportRow {
            host: None,
            kind,
            name,
            pid: None,
            tid: None,
            start_ns: None,
            process_start_ns: None,
            run_ns,
            user_ns: self.known(Fields::USER, delta.user_ns),
            system_ns: self.known(Fields::SYSTEM, delta.system_ns),
            cpu_pct,
            share_pct: run_ns.filter(|_| used_ns > 0).map(share),
            peak: None,
            run_delay_ns,
            ready_mean: self.mean(run_delay_ns),
            blocked_ns: self.blocked_ns,
            blocked_mean: self.mean(self.blocked_ns),
            voluntary_switches: self.known(Fields::SWITCHES, delta.voluntary_switches),
            involuntary_switches: self.known(Fields::SWITCHES, delta.involuntary_switches),
            waits: Waits::default(),
            first_ns: None,
            last_ns: None,
            duration_ns: self.duration_ns(),
            limits: None,
            change_cpu_pct: before.as_ref().and_then(change),
            before,
            points: Values::new(),
        }
    }
}
