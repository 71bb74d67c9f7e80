//! [`LedgerSum`]: where CPU time went, added up over a range: of the host, of each CPU, and of the worst intervals. It takes
//! bounded memory for any range.

use std::collections::BTreeMap;

use cpumon_model::{CpuTimes, Fields, HostStatus, Interval, Ledger, SourceKind};
use cpumon_store::{Query, What};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::QueryError;
use crate::history::History;
use crate::json::Nanos;
use crate::time::TimeRange;

/// The lines of one host, of one CPU or of one interval, ns. `None`: no data.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerLines {
    /// Number of CPUs × measured length.
    pub capacity_ns: i64,
    /// Run time of threads that are alive.
    pub threads_ns: i64,
    /// Run time of threads that exited; `None` of a single CPU, whose modes hold it in `threads`.
    pub exited_ns: Option<i64>,
    /// `None`: inside the threads' run time.
    pub irq_ns: Option<i64>,
    /// `None`: inside the threads' run time.
    pub softirq_ns: Option<i64>,
    /// Time that the hypervisor took.
    pub steal_ns: i64,
    /// Idle time, waiting for disks included.
    pub idle_ns: i64,
    /// Capacity less all others: it can be negative.
    pub unattributed_ns: i64,
    /// `None`: no switch events were measured.
    pub unknown_ns: Option<i64>,
}

impl LedgerLines {
    fn of(ledger: &Ledger, has_sched: bool) -> Self {
        let apart = |ns| (!ledger.irq_in_run_time).then_some(ns);
        Self {
            capacity_ns: ledger.capacity_ns,
            threads_ns: ledger.threads_ns,
            exited_ns: Some(ledger.exited_ns),
            irq_ns: apart(ledger.irq_ns),
            softirq_ns: apart(ledger.softirq_ns),
            steal_ns: ledger.steal_ns,
            idle_ns: ledger.idle_ns,
            unattributed_ns: ledger.unattributed_ns(),
            unknown_ns: has_sched.then_some(ledger.unknown_ns),
        }
    }

    /// Share of the capacity that is not attributed; negative if more was attributed than there was.
    pub fn ratio(&self) -> f64 {
        if self.capacity_ns == 0 { 0.0 } else { self.unattributed_ns as f64 / self.capacity_ns as f64 }
    }
}

/// An interval among the worst.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorstInterval {
    /// Its end, ns since the UNIX epoch.
    #[serde(rename = "end_ns", with = "cpumon_model::nanos")]
    #[schema(value_type = Nanos)]
    pub end_wall_ns: i64,
    /// Its measured length, ns.
    pub duration_ns: u64,
    /// Where its capacity went.
    pub lines: LedgerLines,
}

/// A CPU's modes added up.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
struct CpuModes {
    /// Measured time.
    covered_ns: u64,
    /// Time in each mode.
    times: CpuTimes,
    /// Time that no switch event attributes to a thread.
    unknown_ns: u64,
}

/// Ledgers of one host added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerSum {
    /// Its name; hostile.
    pub host: String,
    /// Why much of the time is unattributed: processes that the agent may not see; null: there are none.
    pub hidden: Option<String>,
    /// Intervals with a ledger; those without are left out.
    pub intervals: u64,
    /// Intervals without CPU times (v1 devices).
    pub without: u64,
    /// Sum of the lengths of those intervals, ns.
    pub covered_ns: u64,
    /// Start of the first interval; `i64::MAX` while there is none.
    #[serde(rename = "begin_ns", with = "cpumon_model::nanos")]
    #[schema(value_type = Nanos)]
    pub begin_wall_ns: i64,
    /// End of the last interval; `i64::MIN` while there is none.
    #[serde(rename = "end_ns", with = "cpumon_model::nanos")]
    #[schema(value_type = Nanos)]
    pub end_wall_ns: i64,
    /// The sources that measured, by name.
    pub sources: Vec<SourceKind>,
    /// Counters that all intervals have.
    pub fields: Fields,
    /// Whether Windows was measured: its lines have other names.
    pub is_windows: bool,
    /// All intervals together.
    sum: Ledger,
    /// Each CPU.
    cpus: BTreeMap<u32, CpuModes>,
    /// The intervals with most unattributed, by share of their capacity.
    pub worst: Vec<WorstInterval>,
    /// How many of those are kept.
    #[serde(skip)]
    worst_count: usize,
}

/// Where the CPU time of each host went in a range.
pub(crate) fn ledger(
    history: &History,
    hosts: &[HostStatus],
    range: TimeRange,
    worst: usize,
) -> Result<Vec<LedgerSum>, QueryError> {
    let of_host = |host: &HostStatus| {
        let mut sum = LedgerSum::new(&host.info.hostname, worst);
        sum.hidden = host.info.hidden_processes().map(ToString::to_string);
        let query = Query::new(host.info.host).range(range.since_ns, range.until_ns).what(What::Meta);
        let mut segments = history.segments(&query, None)?;
        while let Some(segment) = segments.read()? {
            sum.add(segment.interval);
        }
        Ok(sum)
    };
    hosts.iter().map(of_host).collect()
}

impl LedgerSum {
    /// Nothing added yet; `worst_count`: how many of the worst intervals are listed.
    pub fn new(host: &str, worst_count: usize) -> Self {
        Self {
            host: host.to_owned(),
            begin_wall_ns: i64::MAX,
            end_wall_ns: i64::MIN,
            fields: Fields::all(),
            worst_count,
            ..Self::default()
        }
    }

    /// Adds an interval.
    pub fn add(&mut self, interval: &Interval) {
        let ledger = &interval.ledger;
        if ledger.capacity_ns <= 0 {
            self.without += 1;
            return;
        }
        self.intervals += 1;
        self.covered_ns = self.covered_ns.saturating_add(interval.duration_ns());
        self.begin_wall_ns = self.begin_wall_ns.min(interval.begin.wall_ns);
        self.end_wall_ns = self.end_wall_ns.max(interval.end.wall_ns);
        if let Err(place) = self.sources.binary_search_by_key(&interval.source.name(), |one| one.name()) {
            self.sources.insert(place, interval.source);
        }
        self.is_windows |= interval.source.is_windows();
        // A counter that is missing in one interval would make the whole sum too small, so it counts as
        // unknown.
        self.fields &= interval.fields;
        self.sum += ledger;
        for cpu in &interval.cpus {
            let sum = self.cpus.entry(cpu.cpu).or_default();
            sum.covered_ns = sum.covered_ns.saturating_add(interval.duration_ns());
            sum.unknown_ns = sum.unknown_ns.saturating_add(cpu.sched.unknown_ns);
            sum.times += &cpu.times;
        }
        self.note_worst(interval);
    }

    fn note_worst(&mut self, interval: &Interval) {
        let lines = LedgerLines::of(&interval.ledger, interval.fields.contains(Fields::SCHED));
        // Negative is as wrong as positive: more was attributed than there was.
        let size = |worst: &WorstInterval| worst.lines.ratio().abs();
        let worst =
            WorstInterval { end_wall_ns: interval.end.wall_ns, duration_ns: interval.duration_ns(), lines };
        let at = self.worst.partition_point(|other| size(other) >= size(&worst));
        if at < self.worst_count {
            self.worst.insert(at, worst);
            self.worst.truncate(self.worst_count);
        }
    }

    /// Whether switch events were measured in all intervals.
    pub fn has_sched(&self) -> bool {
        self.fields.contains(Fields::SCHED)
    }

    /// irq and softirq are inside the threads' run time, in some of the intervals at least.
    pub fn irq_in_run_time(&self) -> bool {
        self.sum.irq_in_run_time
    }

    /// Lines of the whole host.
    pub fn total(&self) -> LedgerLines {
        LedgerLines::of(&self.sum, self.has_sched())
    }

    /// Each CPU's lines: its modes, against its share of the length.
    pub fn per_cpu(&self) -> impl Iterator<Item = (u32, LedgerLines)> + '_ {
        self.cpus.iter().map(|(cpu, sum)| {
            let times = sum.times;
            // Guest time is not added: /proc/stat has it in user and nice already.
            let threads =
                [times.nice_ns, times.system_ns].into_iter().fold(times.user_ns, u64::saturating_add);
            let lines = LedgerLines {
                capacity_ns: signed(sum.covered_ns),
                threads_ns: signed(threads),
                exited_ns: None,
                irq_ns: Some(signed(times.irq_ns)),
                softirq_ns: Some(signed(times.softirq_ns)),
                steal_ns: signed(times.steal_ns),
                idle_ns: signed(times.idle_ns.saturating_add(times.iowait_ns)),
                unattributed_ns: signed(sum.covered_ns).saturating_sub(signed(times.total_ns())),
                unknown_ns: self.has_sched().then(|| signed(sum.unknown_ns)),
            };
            (*cpu, lines)
        })
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
