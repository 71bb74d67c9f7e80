//! [`ThreadSums`]: the threads of the processes that matter.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use cpumon_model::{Comm, Delta, Flags, Interval, ProcessKey, TaskState, ThreadInterval, ThreadKey, Waits};
use foldhash::HashMap;

use super::part::{WhyPart, scaled, used_ns};
use super::states::at_least_zero;

/// Threads at most, those that did most; while they are read twice as many.
pub(super) const MAX_THREADS: usize = 4_096;
/// CPUs of a thread at most: of more it is only known that it ran on many.
const MAX_CPUS_OF_THREAD: usize = 64;

/// A thread over the time that is explained.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenThread {
    pub(super) process: ProcessKey,
    pub(super) comm: Comm,
    pub(super) nice: i8,
    pub(super) priority: i16,
    pub(super) delta: Delta,
    /// Intervals in which it did something, and their length, ns.
    pub(super) intervals: u64,
    pub(super) length_ns: u64,
    /// Intervals at whose end it waited for a disk (state D).
    pub(super) in_disk: u64,
    /// Intervals in which its affinity had one CPU, among those in which it did something.
    pub(super) on_one_cpu: u64,
    /// The CPUs on which it ran last in an interval.
    pub(super) cpus: BTreeSet<u16>,
    pub(super) waits: Waits,
}

/// Threads of some processes.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadSums {
    pub(super) each: HashMap<ThreadKey, SeenThread>,
    /// Whether threads were left out, because there are too many.
    pub(super) is_cut: bool,
}

impl ThreadSums {
    pub(super) fn add(&mut self, interval: &Interval) {
        for row in &interval.threads {
            self.see(row.key, &SeenThread::of(row, interval.duration_ns()));
        }
    }

    pub(super) fn append(&mut self, later: &Self) {
        later.each.iter().for_each(|(key, seen)| self.see(*key, seen));
        self.is_cut |= later.is_cut;
    }

    /// Makes of threads of a part of a range those of all of it, by its length: none has more than its process.
    pub(super) fn extend_to(&mut self, whole: &WhyPart, scale: f64) {
        let all = |ns: i64| i64::try_from(scaled(at_least_zero(ns), scale)).unwrap_or(i64::MAX);
        for seen in self.each.values_mut() {
            let of_process =
                whole.processes.get(&seen.process).map(|process| process.delta).unwrap_or_default();
            seen.delta = seen.delta.zip_with(&of_process, |own, process| all(own).min(process.max(0)));
            seen.length_ns = scaled(seen.length_ns, scale).min(whole.length_ns);
        }
    }

    fn see(&mut self, key: ThreadKey, seen: &SeenThread) {
        if let Some(sum) = self.each.get_mut(&key) {
            sum.add(seen);
            return;
        }
        self.each.insert(key, seen.clone());
        if self.each.len() > 2 * MAX_THREADS {
            let mut all: Vec<(ThreadKey, SeenThread)> = self.each.drain().collect();
            all.sort_unstable_by_key(|(key, seen)| (Reverse(used_ns(&seen.delta)), *key));
            all.truncate(MAX_THREADS);
            self.each.extend(all);
            self.is_cut = true;
        }
    }
}

impl SeenThread {
    fn of(row: &ThreadInterval, length_ns: u64) -> Self {
        // A thread that waited all through has a row too, where scheduler events are read.
        let is_active = !row.delta.is_zero();
        let counted = u64::from(is_active);
        Self {
            process: row.process,
            comm: row.comm,
            nice: row.nice,
            priority: row.priority,
            delta: row.delta,
            intervals: counted,
            length_ns: counted.saturating_mul(length_ns),
            in_disk: u64::from(is_active && row.state == TaskState(b'D')),
            on_one_cpu: u64::from(is_active && row.flags.contains(Flags::ONE_CPU)),
            cpus: is_active.then_some(row.last_cpu).into_iter().collect(),
            waits: row.sched.waits,
        }
    }

    fn add(&mut self, later: &Self) {
        let Self { process, comm, nice, priority, .. } = *later;
        (self.process, self.comm, self.nice, self.priority) = (process, comm, nice, priority);
        self.delta += &later.delta;
        self.intervals += later.intervals;
        self.length_ns = self.length_ns.saturating_add(later.length_ns);
        self.in_disk += later.in_disk;
        self.on_one_cpu += later.on_one_cpu;
        for cpu in &later.cpus {
            if self.cpus.len() < MAX_CPUS_OF_THREAD {
                self.cpus.insert(*cpu);
            }
        }
        self.waits += &later.waits;
    }

    /// How it is scheduled, where that is not the default.
    pub(super) fn scheduling(&self) -> Option<String> {
        let (nice, priority) = (self.nice, self.priority);
        ThreadInterval { nice, priority, ..ThreadInterval::default() }.scheduling()
    }

    /// Whether its affinity had one CPU all the while.
    pub(super) fn has_one_cpu(&self) -> bool {
        self.intervals > 0 && self.on_one_cpu == self.intervals
    }

    /// Whether it goes before all normal threads: real-time, or with a deadline.
    pub(super) fn is_urgent(&self) -> bool {
        self.priority <= -2
    }
}
