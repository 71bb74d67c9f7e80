//! [`Minute`]: what a host did in its last minute. A single interval says too little: the busiest of a thousand hosts is another one
//! each second.

use std::collections::VecDeque;

use cpumon_model::{Fields, Flags, Interval, Ledger};

use super::busy::busy_ratio;

/// Length of the minute, ns of measured time.
const MINUTE_NS: u64 = 60_000_000_000;
/// Intervals of a minute at most: hosts with shorter ones get a shorter minute.
pub(super) const MAX_INTERVALS: usize = 240;

/// What a host did in its last minute, as long as its intervals are in memory.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Minute {
    /// Busy share of all CPUs.
    pub busy_ratio: Option<f64>,
    /// The highest of any interval.
    pub peak_ratio: Option<f64>,
    /// Threads ready, waiting for a CPU, on average; of all CPUs together.
    pub ready_mean: Option<f64>,
    /// Tasks running or ready for each CPU, on average.
    pub run_queue_per_cpu: Option<f64>,
    /// Share of the capacity that is not attributed.
    pub unattributed_ratio: Option<f64>,
    /// Its intervals.
    pub intervals: u32,
    /// Those that lack data: snapshots or parts of them were lost on the way.
    pub incomplete: u32,
}

/// One interval of the minute.
#[derive(Copy, Clone, Debug)]
struct Part {
    length_ns: u64,
    ledger: Ledger,
    busy_ratio: Option<f64>,
    ready_ns: Option<i64>,
    run_queue_ns: Option<f64>,
    is_incomplete: bool,
}

impl Part {
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

/// The intervals of the last minute.
#[derive(Debug, Default)]
pub(super) struct Parts(VecDeque<Part>);

impl Parts {
    /// Adds the newest interval; what is older than a minute leaves.
    pub(super) fn push(&mut self, interval: &Interval) {
        self.0.push_back(Part::of(interval));
        let mut length_ns: u64 = self.0.iter().map(|part| part.length_ns).sum();
        while self.0.len() > 1 && (length_ns > MINUTE_NS || self.0.len() > MAX_INTERVALS) {
            length_ns -= self.0.pop_front().map_or(0, |part| part.length_ns);
        }
    }

    pub(super) fn sum(&self) -> Minute {
        let mut sum = Sums::default();
        self.0.iter().for_each(|part| sum.add(part));
        sum.finish()
    }
}

/// A numerator and what it is divided by.
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
struct Sums {
    busy: Ratio,
    ready: Ratio,
    run_queue: Ratio,
    unattributed: Ratio,
    minute: Minute,
}

impl Sums {
    fn add(&mut self, part: &Part) {
        let (capacity_ns, length_ns) = (part.ledger.capacity_ns as f64, part.length_ns as f64);
        self.busy.add(part.busy_ratio.map(|ratio| ratio * capacity_ns), capacity_ns);
        self.ready.add(part.ready_ns.map(|ns| ns as f64), length_ns);
        self.run_queue.add(part.run_queue_ns, capacity_ns);
        self.unattributed.add(Some(part.ledger.unattributed_ns() as f64), capacity_ns);
        let minute = &mut self.minute;
        let highest = |peak: f64, ratio: Option<f64>| ratio.map_or(peak, |ratio| peak.max(ratio));
        minute.peak_ratio =
            minute.peak_ratio.map_or(part.busy_ratio, |peak| Some(highest(peak, part.busy_ratio)));
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

#[cfg(test)]
mod tests {
    use cpumon_model::{CpuInterval, Delta, Moment, ProcessInterval};

    use super::*;

    /// A second of two CPUs.
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
}
