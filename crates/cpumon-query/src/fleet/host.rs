//! [`FleetHost`]: a host of the fleet, with its state, its newest interval, a summary of its last minute, and its oddities; a healthy host
//! has none. A single interval says too little: the busiest of a thousand hosts is another one each second.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use cpumon_model::{
    Fields, Flags, HostStatus, Interval, Ledger, ProcessInterval, ProcessKey, Trust, WRONG_BEYOND_NS,
    WRONG_ON_ARRIVAL_NS,
};

use crate::named;

/// A host of the fleet with its state.
#[derive(Clone, Debug)]
pub struct FleetHost {
    /// The host as the receiver knows it.
    pub status: HostStatus,
    /// Whether its intervals still arrive.
    pub state: HostState,
    /// Time since its last interval arrived, ns.
    pub age_ns: i64,
    /// Its newest interval in short; `None`: there is none.
    pub glance: Option<Arc<Glance>>,
}

/// Most processes that are listed of a host.
pub const TOP: usize = 20;

/// Summary of a host's newest interval.
#[derive(Clone, Debug, Default)]
pub struct Glance {
    /// Number of the interval.
    pub number: u64,
    /// The last minute, this interval included.
    pub minute: Minute,
    /// Share of all CPUs that was busy; `None` if the CPUs are not known.
    pub busy_ratio: Option<f64>,
    /// Ledger of the interval.
    pub ledger: Ledger,
    /// Names of the interval's flags.
    pub flags: String,
    /// Its busiest processes, the busiest first, at most 20.
    pub top: Vec<Busy>,
}

/// One of the busiest processes of a host.
#[derive(Clone, Debug)]
pub struct Busy {
    /// Pid and start of the process.
    pub key: ProcessKey,
    /// Name of the process; hostile.
    pub name: String,
    /// Container or unit of the process; hostile.
    pub container: String,
    /// Run time in the interval, ns.
    pub run_ns: i64,
    /// Utilization in percent; 100 = one CPU.
    pub cpu_pct: Option<f64>,
    /// Utilization in percent; 100 = all CPUs.
    pub host_pct: Option<f64>,
}

impl Glance {
    pub(super) fn new(number: u64, interval: &Interval, minute: Minute) -> Self {
        let mut rows: Vec<&ProcessInterval> =
            interval.processes.iter().filter(|row| row.delta.run_ns > 0).collect();
        if rows.len() > TOP {
            // A host may have thousands of rows; selecting first leaves 20 to sort.
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

/// Measured time that makes a minute, ns.
const MINUTE_NS: u64 = 60_000_000_000;
/// Intervals of a minute at most: hosts with shorter ones get a shorter minute.
pub(super) const MAX_INTERVALS: usize = 240;

/// What a host did in its last minute, as long as its intervals are in memory.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Minute {
    /// Share of all CPUs that was busy; `None` if not known.
    pub busy_ratio: Option<f64>,
    /// Highest busy share of a single interval.
    pub peak_ratio: Option<f64>,
    /// Threads ready, waiting for a CPU, on average; of all CPUs together.
    pub ready_mean: Option<f64>,
    /// Tasks running or ready for each CPU, on average.
    pub run_queue_per_cpu: Option<f64>,
    /// Share of the capacity that is not attributed.
    pub unattributed_ratio: Option<f64>,
    /// Number of intervals.
    pub intervals: u32,
    /// Intervals that lack data because snapshots or fragments were lost on the way.
    pub incomplete: u32,
}

/// One interval of the minute.
#[derive(Copy, Clone, Debug)]
struct MinutePart {
    length_ns: u64,
    ledger: Ledger,
    busy_ratio: Option<f64>,
    ready_ns: Option<i64>,
    run_queue_ns: Option<f64>,
    is_incomplete: bool,
}

impl MinutePart {
    fn of(interval: &Interval) -> Self {
        let length_ns = interval.duration_ns();
        let is_ready_known = interval.fields.contains(Fields::RUN_DELAY);
        let ready_ns = || interval.processes.iter().map(|row| row.delta.run_delay_ns).sum();
        Self {
            length_ns,
            ledger: interval.ledger,
            busy_ratio: busy_ratio(interval),
            ready_ns: is_ready_known.then(ready_ns),
            run_queue_ns: interval.run_queue_mean().map(|mean| mean * length_ns as f64),
            is_incomplete: interval.flags.intersects(Flags::SPANS_LOSS | Flags::PARTIAL),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Parts(VecDeque<MinutePart>);

impl Parts {
    /// Adds the newest interval and removes those beyond the last minute.
    pub(super) fn push(&mut self, interval: &Interval) {
        self.0.push_back(MinutePart::of(interval));
        let mut length_ns: u64 = self.0.iter().map(|part| part.length_ns).sum();
        while self.0.len() > 1 && (length_ns > MINUTE_NS || self.0.len() > MAX_INTERVALS) {
            length_ns -= self.0.pop_front().map_or(0, |part| part.length_ns);
        }
    }

    pub(super) fn sum(&self) -> Minute {
        let mut sum = MinuteSums::default();
        self.0.iter().for_each(|part| sum.add(part));
        sum.finish()
    }
}

#[derive(Copy, Clone, Default)]
struct Ratio {
    of: f64,
    by: f64,
}

impl Ratio {
    fn add(&mut self, of: Option<f64>, by: f64) {
        if let Some(of) = of.filter(|_| by > 0.0) {
            self.of += of;
            self.by += by;
        }
    }

    fn get(self) -> Option<f64> {
        (self.by > 0.0).then(|| self.of / self.by)
    }
}

#[derive(Default)]
struct MinuteSums {
    busy: Ratio,
    ready: Ratio,
    run_queue: Ratio,
    unattributed: Ratio,
    minute: Minute,
}

impl MinuteSums {
    fn add(&mut self, part: &MinutePart) {
        let (capacity_ns, length_ns) = (part.ledger.capacity_ns as f64, part.length_ns as f64);
        self.busy.add(part.busy_ratio.map(|ratio| ratio * capacity_ns), capacity_ns);
        self.ready.add(part.ready_ns.map(|ns| ns as f64), length_ns);
        self.run_queue.add(part.run_queue_ns, capacity_ns);
        self.unattributed.add(Some(part.ledger.unattributed_ns() as f64), capacity_ns);
        let minute = &mut self.minute;
        minute.peak_ratio = [minute.peak_ratio, part.busy_ratio].into_iter().flatten().reduce(f64::max);
        minute.intervals += 1;
        minute.incomplete += u32::from(part.is_incomplete);
    }

    fn finish(self) -> Minute {
        Minute {
            busy_ratio: self.busy.get(),
            ready_mean: self.ready.get(),
            run_queue_per_cpu: self.run_queue.get(),
            unattributed_ratio: self.unattributed.get(),
            ..self.minute
        }
    }
}

/// Share of all CPUs that was busy; `None` if the CPUs are not known.
pub fn busy_ratio(interval: &Interval) -> Option<f64> {
    if interval.cpus.is_empty() { None } else { busy_of_ledger(&interval.ledger) }
}

pub(super) fn busy_of_ledger(ledger: &Ledger) -> Option<f64> {
    let idle_ns = ledger.idle_ns.saturating_add(ledger.steal_ns);
    (ledger.capacity_ns > 0).then(|| (1.0 - idle_ns as f64 / ledger.capacity_ns as f64).clamp(0.0, 1.0))
}

/// A ledger is balanced if at most this share of the capacity is not attributed.
pub const BALANCED_RATIO: f64 = 0.005;

/// A host is late once its newest interval is older than this many of its intervals, and than [`LATE_NS`].
pub const LATE_INTERVALS: f64 = 2.5;
/// A host is late only if its newest interval is older than this, ns.
pub const LATE_NS: i64 = 3_000_000_000;
/// A host is silent once its newest interval is older than this many of its intervals, and than [`SILENT_NS`].
pub const SILENT_INTERVALS: f64 = 10.0;
/// A host is silent only if its newest interval is older than this, ns.
pub const SILENT_NS: i64 = 15_000_000_000;

named! {
    /// Whether intervals of a host arrive.
    HostState,
    /// Intervals arrive in time.
    Reporting = "reporting",
    /// The last one is older than [`LATE_INTERVALS`] and [`LATE_NS`].
    Late = "late",
    /// The last one is older than [`SILENT_INTERVALS`] and [`SILENT_NS`].
    Silent = "silent",
    /// None arrived since the receiver started: the store has its past.
    Stored = "stored",
}

impl HostState {
    /// The state of a host whose newest interval arrived so long ago.
    pub fn of(age_ns: i64, interval_ns: u64) -> Self {
        let (age_ns, interval_ns) = (age_ns as f64, interval_ns as f64);
        if age_ns <= (interval_ns * LATE_INTERVALS).max(LATE_NS as f64) {
            Self::Reporting
        } else if age_ns <= (interval_ns * SILENT_INTERVALS).max(SILENT_NS as f64) {
            Self::Late
        } else {
            Self::Silent
        }
    }
}

/// Time since a host's last interval arrived, ns.
pub fn age_ns(host: &HostStatus, now_ns: i64) -> i64 {
    now_ns.saturating_sub(host.received_wall_ns).max(0)
}

named! {
    /// Something odd about a host that a reader of its figures must know. In order of weight, the heaviest first.
    #[derive(PartialOrd, Ord)]
    Oddity,
    /// The state of the host is [`HostState::Silent`].
    Silent = "silent",
    /// It did not report since the receiver started; the store has its past.
    Stored = "stored",
    /// The state of the host is [`HostState::Late`].
    Late = "late",
    /// Intervals of the last minute lack data that was lost on the way.
    Loss = "loss",
    /// The ledger of the last minute is not balanced.
    Ledger = "ledger",
    /// The host's wall clock is wrong.
    Clock = "clock",
}

impl FleetHost {
    /// Oddities of the host, the heaviest first. A host that does not report has this single oddity: the losses of its last minute are long
    /// past.
    pub fn oddities(&self) -> Vec<Oddity> {
        match self.state {
            HostState::Silent => return vec![Oddity::Silent],
            HostState::Stored => return vec![Oddity::Stored],
            HostState::Reporting | HostState::Late => {}
        }
        let minute = self.glance.as_ref().map(|glance| glance.minute).unwrap_or_default();
        let is_open = minute.unattributed_ratio.is_some_and(|ratio| ratio.abs() > BALANCED_RATIO);
        [
            (self.state == HostState::Late, Oddity::Late),
            (minute.incomplete > 0, Oddity::Loss),
            (is_open, Oddity::Ledger),
            (self.has_wrong_clock(), Oddity::Clock),
        ]
        .into_iter()
        .filter_map(|(is_so, oddity)| is_so.then_some(oddity))
        .collect()
    }

    /// By the limits from which on the receiver places intervals itself: arrivals say less than exchanges of time.
    fn has_wrong_clock(&self) -> bool {
        let limit_ns = if self.status.clock.is_some() { WRONG_BEYOND_NS } else { WRONG_ON_ARRIVAL_NS };
        let is_foreign = !matches!(self.status.trust, Trust::Local | Trust::Imported);
        is_foreign && self.status.clock_offset_ns().unsigned_abs() > limit_ns.unsigned_abs()
    }

    /// Names of the oddities, joined by commas; empty for a healthy host.
    pub fn health(&self) -> String {
        self.oddities().iter().map(|oddity| oddity.name()).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::{CpuInterval, Delta, Moment, ProcessInterval};

    use super::*;

    /// An interval of one second of a host with two CPUs.
    fn second(nth: u64, idle_ns: i64, flags: Flags) -> Interval {
        let at = |ns: u64| Moment { mono_ns: ns, boot_ns: ns, wall_ns: ns.cast_signed() };
        let row = ProcessInterval {
            delta: Delta { run_delay_ns: 500_000_000, ..Delta::default() },
            ..ProcessInterval::default()
        };
        Interval {
            begin: at(nth * 1_000_000_000),
            end: at((nth + 1) * 1_000_000_000),
            fields: Fields::RUN_DELAY,
            flags,
            cpus: vec![CpuInterval::default(); 2],
            ledger: Ledger {
                capacity_ns: 2_000_000_000,
                idle_ns,
                threads_ns: 2_000_000_000 - idle_ns,
                ..Ledger::default()
            },
            processes: vec![row.clone(), row],
            ..Interval::default()
        }
    }

    #[test]
    fn the_last_minute_has_mean_peak_and_ready_threads_and_nothing_older() {
        let mut parts = Parts::default();
        assert_eq!(parts.sum(), Minute::default());
        // An hour ago everything was busy and lossy.
        (0..100).for_each(|nth| parts.push(&second(nth, 0, Flags::SPANS_LOSS)));
        (100..159).for_each(|nth| parts.push(&second(nth, 2_000_000_000, Flags::empty())));
        parts.push(&second(159, 1_000_000_000, Flags::PARTIAL));
        let minute = parts.sum();
        assert_eq!((minute.intervals, minute.incomplete), (60, 1));
        assert_eq!((minute.peak_ratio, minute.busy_ratio), (Some(0.5), Some(0.5 / 60.0)));
        assert_eq!((minute.ready_mean, minute.unattributed_ratio), (Some(1.0), Some(0.0)));
        assert_eq!(minute.run_queue_per_cpu, None, "no context switches were measured");
    }

    fn host(state: HostState, minute: Minute) -> FleetHost {
        let glance = Some(Arc::new(Glance { minute, ..Glance::default() }));
        FleetHost { status: HostStatus::default(), state, age_ns: 0, glance }
    }

    #[test]
    fn a_healthy_host_has_no_mark_and_an_odd_one_names_each_cause() {
        let fine = Minute { unattributed_ratio: Some(0.004), intervals: 60, ..Minute::default() };
        assert_eq!(host(HostState::Reporting, fine).health(), "", "unauthenticated is no oddity of one host");
        let bad = Minute { unattributed_ratio: Some(-0.02), incomplete: 1, ..fine };
        let mut late = host(HostState::Late, bad);
        assert_eq!(late.health(), "late, loss, ledger");
        late.status.last = Moment { wall_ns: -6_000_000_000, ..Moment::default() };
        assert_eq!(late.health(), "late, loss, ledger, clock");
        late.status.trust = Trust::Local;
        assert_eq!(late.health(), "late, loss, ledger");
        assert_eq!(host(HostState::Silent, bad).health(), "silent");
        assert_eq!(host(HostState::Stored, bad).health(), "stored");
    }
}
