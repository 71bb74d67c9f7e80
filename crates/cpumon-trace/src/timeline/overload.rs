//! *Idle while overloaded*: CPUs that had nothing to do while threads waited behind others that ran.
//!
//! A CPU is idle here if it runs nothing and no thread waits for it: one that was just woken there does not count as work that was left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::cpus::{CpuPart, CpuTimeline, IDLE, UNKNOWN, after, is_run};
use super::{Overload, OverloadSums, Timeline};

/// Changes between two sums.
const BLOCK: usize = 1_024;

/// What a CPU does at one time.
#[derive(Copy, Clone, Debug)]
pub(super) struct Now {
    pub(super) who: u32,
    length: u32,
}

impl Now {
    fn is_idle(self) -> bool {
        self.who == IDLE && self.length == 0
    }

    /// Threads that wait behind one that runs.
    pub(super) fn waiting(self) -> u64 {
        if is_run(self.who) { self.length.into() } else { 0 }
    }
}

/// A CPU from some time on.
pub(super) struct CpuChanges<'c> {
    parts: &'c [CpuPart],
    next_part: usize,
    steps: &'c [u64],
    pub(super) now: Now,
}

impl<'c> CpuChanges<'c> {
    pub(super) fn new(cpu: &'c CpuTimeline, from_ns: u64) -> Self {
        let parts = &cpu.parts.line.parts;
        let next_part = parts.partition_point(|part| part.start_ns <= from_ns);
        let who = next_part.checked_sub(1).map_or(UNKNOWN, |at| parts[at].who);
        let (mut length, mut steps) = cpu.queue.steps_from(from_ns);
        while let Some((step, rest)) = steps.split_first().filter(|(step, _)| **step >> 1 == from_ns) {
            (length, steps) = (after(length, *step), rest);
        }
        Self { parts, next_part, steps, now: Now { who, length } }
    }

    pub(super) fn next_ns(&self) -> Option<u64> {
        let part = self.parts.get(self.next_part).map(|part| part.start_ns);
        let step = self.steps.first().map(|step| step >> 1);
        part.into_iter().chain(step).min()
    }

    /// Takes all changes of this time. Returns how many.
    pub(super) fn take(&mut self, at_ns: u64) -> usize {
        let mut taken = 0;
        while let Some(part) = self.parts.get(self.next_part).filter(|part| part.start_ns == at_ns) {
            self.now.who = part.who;
            (self.next_part, taken) = (self.next_part + 1, taken + 1);
        }
        while let Some((step, rest)) = self.steps.split_first().filter(|(step, _)| **step >> 1 == at_ns) {
            self.now.length = after(self.now.length, *step);
            (self.steps, taken) = (rest, taken + 1);
        }
        taken
    }
}

/// Adds up changes of all CPUs from a time on.
struct Sweep<'c> {
    cpus: Vec<CpuChanges<'c>>,
    next: BinaryHeap<Reverse<(u64, usize)>>,
    at_ns: u64,
    idle: u64,
    waiting: u64,
    sum: Overload,
}

impl<'c> Sweep<'c> {
    fn new(timeline: &'c Timeline, from_ns: u64) -> Self {
        let cpus: Vec<CpuChanges<'c>> =
            timeline.cpus.iter().flatten().map(|cpu| CpuChanges::new(cpu, from_ns)).collect();
        let next = cpus.iter().enumerate().filter_map(|(at, cpu)| Some(Reverse((cpu.next_ns()?, at))));
        let idle = cpus.iter().filter(|cpu| cpu.now.is_idle()).count() as u64;
        let waiting = cpus.iter().map(|cpu| cpu.now.waiting()).sum();
        Self { next: next.collect(), cpus, at_ns: from_ns, idle, waiting, sum: Overload::default() }
    }

    fn pass(&mut self, to_ns: u64) {
        let ns = to_ns - self.at_ns;
        self.at_ns = to_ns;
        if self.idle > 0 && self.waiting > 0 {
            self.sum.wall_ns += ns;
            self.sum.cpu_ns = self.sum.cpu_ns.saturating_add(self.idle.saturating_mul(ns));
            let could = self.idle.min(self.waiting);
            self.sum.thread_ns = self.sum.thread_ns.saturating_add(could.saturating_mul(ns));
        }
    }

    /// The next change before a time. Returns how many changes it was; 0: there are none.
    fn step(&mut self, until_ns: u64) -> usize {
        let Some(&Reverse((at_ns, number))) = self.next.peek() else { return 0 };
        if at_ns >= until_ns {
            return 0;
        }
        self.pass(at_ns);
        let cpu = &mut self.cpus[number];
        let before = cpu.now;
        let taken = cpu.take(at_ns);
        let now = cpu.now;
        self.idle = self.idle + u64::from(now.is_idle()) - u64::from(before.is_idle());
        self.waiting = self.waiting + now.waiting() - before.waiting();
        if let Some(mut first) = self.next.peek_mut() {
            match cpu.next_ns() {
                Some(next_ns) => *first = Reverse((next_ns, number)),
                None => drop(PeekMut::pop(first)),
            }
        }
        taken
    }
}

impl OverloadSums {
    fn of(timeline: &Timeline) -> Self {
        let mut sweep = Sweep::new(timeline, timeline.from_ns);
        let (mut sums, mut changes) = (vec![(timeline.from_ns, Overload::default())], 0);
        loop {
            let taken = sweep.step(timeline.until_ns);
            if taken == 0 {
                return Self(sums);
            }
            changes += taken;
            if changes >= BLOCK {
                changes = 0;
                sums.push((sweep.at_ns, sweep.sum));
            }
        }
    }

    fn until(&self, timeline: &Timeline, at_ns: u64) -> Overload {
        let Some(place) = self.0.partition_point(|(sum_ns, _)| *sum_ns <= at_ns).checked_sub(1) else {
            return Overload::default();
        };
        let (from_ns, sum) = self.0[place];
        let mut sweep = Sweep::new(timeline, from_ns);
        sweep.sum = sum;
        while sweep.step(at_ns) > 0 {}
        sweep.pass(at_ns);
        sweep.sum
    }
}

impl Timeline {
    /// Idle time of a window in which threads waited elsewhere.
    pub fn overload(&self, from_ns: u64, until_ns: u64) -> Overload {
        let (from_ns, until_ns) = self.clip(from_ns, until_ns);
        let sums = self.overload.get_or_init(|| OverloadSums::of(self));
        let (before, behind) = (sums.until(self, from_ns), sums.until(self, until_ns));
        Overload {
            wall_ns: behind.wall_ns - before.wall_ns,
            cpu_ns: behind.cpu_ns - before.cpu_ns,
            thread_ns: behind.thread_ns - before.thread_ns,
        }
    }
}
