//! [`Books`]: ledgers added up. In: intervals. Out: sums of the host and of each CPU, the worst intervals, and what was
//! measured how. Why: bounded memory for any range.

use std::collections::{BTreeMap, BTreeSet};

use cpumon_model::{CpuTimes, Fields, Interval, Ledger};

/// The lines of one host, of one CPU or of one interval, ns. `None`: no data.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) capacity: i64,
    pub(super) threads: i64,
    /// A CPU's modes do not tell it from `threads`.
    pub(super) exited: Option<i64>,
    /// `None`: inside the threads' run time.
    pub(super) irq: Option<i64>,
    pub(super) softirq: Option<i64>,
    pub(super) steal: i64,
    pub(super) idle: i64,
    pub(super) unattributed: i64,
    /// `None`: no switch events were measured.
    pub(super) unknown: Option<i64>,
}

impl Lines {
    fn of(ledger: &Ledger, has_sched: bool) -> Self {
        let apart = |ns| (!ledger.irq_in_run_time).then_some(ns);
        Self {
            capacity: ledger.capacity_ns,
            threads: ledger.threads_ns,
            exited: Some(ledger.exited_ns),
            irq: apart(ledger.irq_ns),
            softirq: apart(ledger.softirq_ns),
            steal: ledger.steal_ns,
            idle: ledger.idle_ns,
            unattributed: ledger.unattributed_ns(),
            unknown: has_sched.then_some(ledger.unknown_ns),
        }
    }

    /// unattributed ÷ capacity.
    pub(super) fn ratio(&self) -> f64 {
        if self.capacity == 0 { 0.0 } else { self.unattributed as f64 / self.capacity as f64 }
    }
}

/// An interval among the worst.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Bad {
    pub(super) end_wall_ns: i64,
    pub(super) duration_ns: u64,
    pub(super) lines: Lines,
}

#[derive(Copy, Clone, Debug, Default)]
struct CpuSum {
    covered_ns: u64,
    times: [u64; 10],
    unknown_ns: u64,
}

/// Added up.
#[derive(Clone, Debug)]
pub(super) struct Books {
    pub(super) host: String,
    /// Intervals with a ledger; those without are left out.
    pub(super) intervals: u64,
    /// Intervals without CPU times (v1 devices).
    pub(super) without: u64,
    pub(super) covered_ns: u64,
    pub(super) begin_wall_ns: i64,
    pub(super) end_wall_ns: i64,
    pub(super) sources: BTreeSet<&'static str>,
    /// Known in all intervals.
    pub(super) fields: Fields,
    sum: Ledger,
    cpus: BTreeMap<u32, CpuSum>,
    worst: Vec<Bad>,
    keep: usize,
}

impl Books {
    /// Empty; `keep`: how many of the worst intervals are kept.
    pub(super) fn new(host: &str, keep: usize) -> Self {
        Self {
            host: host.to_owned(),
            intervals: 0,
            without: 0,
            covered_ns: 0,
            begin_wall_ns: i64::MAX,
            end_wall_ns: i64::MIN,
            sources: BTreeSet::new(),
            fields: Fields::all(),
            sum: Ledger::default(),
            cpus: BTreeMap::new(),
            worst: Vec::new(),
            keep,
        }
    }

    /// Adds an interval.
    pub(super) fn add(&mut self, interval: &Interval) {
        let ledger = &interval.ledger;
        if ledger.capacity_ns <= 0 {
            self.without += 1;
            return;
        }
        self.intervals += 1;
        self.covered_ns = self.covered_ns.saturating_add(interval.duration_ns());
        self.begin_wall_ns = self.begin_wall_ns.min(interval.begin.wall_ns);
        self.end_wall_ns = self.end_wall_ns.max(interval.end.wall_ns);
        self.sources.insert(interval.source.name());
        self.fields &= interval.fields;
        self.sum += ledger;
        for cpu in &interval.cpus {
            let sum = self.cpus.entry(cpu.cpu).or_default();
            sum.covered_ns = sum.covered_ns.saturating_add(interval.duration_ns());
            sum.unknown_ns = sum.unknown_ns.saturating_add(cpu.sched.unknown_ns);
            for (sum, ns) in sum.times.iter_mut().zip(cpu.times.to_array()) {
                *sum = sum.saturating_add(ns);
            }
        }
        self.note_worst(interval);
    }

    fn note_worst(&mut self, interval: &Interval) {
        let lines = Lines::of(&interval.ledger, interval.fields.contains(Fields::SCHED));
        let size = |bad: &Bad| bad.lines.ratio().abs();
        let bad = Bad { end_wall_ns: interval.end.wall_ns, duration_ns: interval.duration_ns(), lines };
        let at = self.worst.partition_point(|other| size(other) >= size(&bad));
        if at < self.keep {
            self.worst.insert(at, bad);
            self.worst.truncate(self.keep);
        }
    }

    pub(super) fn has_sched(&self) -> bool {
        self.fields.contains(Fields::SCHED)
    }

    /// irq and softirq are inside the threads' run time, in some of the intervals at least.
    pub(super) fn irq_in_run_time(&self) -> bool {
        self.sum.irq_in_run_time
    }

    /// The host's lines.
    pub(super) fn total(&self) -> Lines {
        Lines::of(&self.sum, self.has_sched())
    }

    /// Each CPU's lines: its modes, against its share of the length.
    pub(super) fn per_cpu(&self) -> impl Iterator<Item = (u32, Lines)> + '_ {
        self.cpus.iter().map(|(cpu, sum)| {
            let times = CpuTimes::from_array(sum.times);
            let threads =
                [times.nice_ns, times.system_ns].into_iter().fold(times.user_ns, u64::saturating_add);
            let lines = Lines {
                capacity: signed(sum.covered_ns),
                threads: signed(threads),
                exited: None,
                irq: Some(signed(times.irq_ns)),
                softirq: Some(signed(times.softirq_ns)),
                steal: signed(times.steal_ns),
                idle: signed(times.idle_ns.saturating_add(times.iowait_ns)),
                unattributed: signed(sum.covered_ns).saturating_sub(signed(times.total_ns())),
                unknown: self.has_sched().then(|| signed(sum.unknown_ns)),
            };
            (*cpu, lines)
        })
    }

    /// The intervals with most unattributed, by share of their capacity.
    pub(super) fn worst(&self) -> &[Bad] {
        &self.worst
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
