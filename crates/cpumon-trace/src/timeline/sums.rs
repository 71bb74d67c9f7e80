//! Sums of a window of a timeline: each thread, for the list beside the picture; the area of some CPUs or of some threads; and the time
//! *idle while overloaded*, in which CPUs had nothing to do while threads waited behind others that ran.
//!
//! A CPU is idle while overloaded if it runs nothing and no thread waits for it: one that was just woken there does not count as work that
//! was left.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};

use cpumon_model::WaitReason;
use cpumon_sched::{CpuState, TraceTask};

use super::cpus::{CpuPart, CpuTimeline, IDLE, UNKNOWN, after, is_run};
use super::lines::{FRESH, LEFT_TO_WAIT, LinePart, OVER, PUSHED_OFF, STATES, ThreadParts, add, since};
use super::{Overload, OverloadSums, Timeline};
use crate::analysis::{CpuAccount, ThreadTotals};

/// A thread in a window. Times in ns, counted as in a [`Report`](crate::Report) of that range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadRow {
    /// Its place in the index.
    pub thread: u32,
    pub totals: ThreadTotals,
}

impl Timeline {
    /// Threads that exist in the window, by place.
    pub fn thread_rows(&self, from_ns: u64, until_ns: u64) -> Vec<ThreadRow> {
        let (from_ns, until_ns) = self.clip(from_ns, until_ns);
        let mut rows: Vec<ThreadRow> = (0..self.threads.len())
            .map(|place| {
                let thread = u32::try_from(place).unwrap_or(u32::MAX);
                ThreadRow { thread, totals: self.threads[place].totals(from_ns, until_ns) }
            })
            .collect();
        self.add_interrupts(from_ns, until_ns, &mut rows);
        let first = self.moves.partition_point(|(at_ns, _)| *at_ns < from_ns);
        for (_, place) in self.moves[first..].iter().take_while(|(at_ns, _)| *at_ns <= until_ns) {
            if let Some(row) = rows.get_mut(*place as usize) {
                row.totals.migrations += 1;
            }
        }
        let is_there = |row: &ThreadRow| {
            let thread = &self.threads[row.thread as usize];
            thread.end_ns >= from_ns && thread.parts.first().is_some_and(|part| part.start_ns <= until_ns)
        };
        rows.retain(is_there);
        rows
    }

    fn add_interrupts(&self, from_ns: u64, until_ns: u64, rows: &mut [ThreadRow]) {
        for cpu in self.cpus.iter().flatten() {
            for (part, ns) in cpu.parts.interrupts_between(from_ns, until_ns) {
                if let Some(row) = rows.get_mut(part.who as usize) {
                    row.totals.add_interrupt(part.interrupt, ns);
                }
            }
        }
    }
}

impl ThreadParts {
    /// What the thread did in a window, without interrupts and moves.
    fn totals(&self, from_ns: u64, until_ns: u64) -> ThreadTotals {
        let (mut totals, mut times) = (ThreadTotals::default(), [0; STATES]);
        // Begin of the wait that the part before belongs to: a search for each part would take N² / 2 steps for N moves.
        let mut wait_ns = None;
        // Switches at the very begin of the window count, so parts that end there are read too.
        for at in self.first_from(from_ns).saturating_sub(1)..self.parts.len() {
            let (part, end_ns) = (&self.parts[at], self.end_of(at));
            if part.start_ns > until_ns {
                break;
            }
            add(&mut times, part.kind(), self.ns_in(at, from_ns, until_ns));
            let has_end = part.is(OVER) && (from_ns..=until_ns).contains(&end_ns);
            totals.voluntary_switches += u64::from(has_end && part.is(LEFT_TO_WAIT));
            totals.involuntary_switches += u64::from(has_end && part.is(PUSHED_OFF));
            if part.is_ready() {
                let goes_on = wait_ns.filter(|_| !part.is(FRESH));
                let since_ns = goes_on.unwrap_or_else(|| self.since_ns(at));
                wait_ns = Some(since_ns);
                let has_begin = part.is(FRESH) && (from_ns..=until_ns).contains(&part.start_ns);
                totals.wakeups += u64::from(has_begin && part.is_woken());
                if end_ns >= from_ns {
                    let delay_ns = end_ns.min(until_ns).saturating_sub(since_ns);
                    if delay_ns > totals.longest_delay_ns {
                        (totals.longest_delay_ns, totals.longest_delay_at_ns) = (delay_ns, since_ns);
                    }
                }
            } else {
                wait_ns = None;
            }
        }
        let [run_ns, ready_woken_ns, ready_preempted_ns, blocked_ns, unknown_ns] = times;
        ThreadTotals { run_ns, ready_woken_ns, ready_preempted_ns, blocked_ns, unknown_ns, ..totals }
    }
}

/// Time blocked for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema))]
pub struct TraceReason {
    /// Its name.
    pub reason: String,
    /// How long.
    pub ns: u64,
}

#[derive(Clone, Debug, Default)]
pub struct WindowSums {
    /// Its part that the index has, ns.
    pub from_ns: u64,
    pub until_ns: u64,
    /// Each CPU. Switches are not counted.
    pub cpus: Vec<CpuAccount>,
    /// All threads together.
    pub totals: ThreadTotals,
    /// Blocked time by reason, ns, the most first.
    pub blocked: Vec<TraceReason>,
}

impl Timeline {
    /// What a CPU did in a window, as a [`Report`](crate::Report) of that range counts it.
    fn cpu_account(&self, number: u16, from_ns: u64, until_ns: u64) -> Option<CpuAccount> {
        let parts = &self.cpu(number)?.parts;
        let [until, from] = [until_ns, from_ns].map(|at_ns| parts.line.times_until(at_ns));
        let [run_ns, unknown_ns, idle_ns] = since(until, from);
        let mut account = CpuAccount { cpu: number, idle_ns, run_ns, unknown_ns, ..CpuAccount::default() };
        for (part, ns) in parts.interrupts_between(from_ns, until_ns) {
            let state = match part.who {
                IDLE => CpuState::Idle,
                UNKNOWN => CpuState::Unknown,
                thread => CpuState::Run(TraceTask(thread)),
            };
            account.interrupt(state, part.interrupt, ns);
        }
        let has = |at_ns: &u64| (from_ns..=until_ns).contains(at_ns);
        account.holes = parts.holes.iter().filter(|at_ns| has(at_ns)).count() as u64;
        let lost = parts.lost.iter().filter(|(at_ns, _)| has(at_ns));
        account.lost = lost.fold(0, |sum, (_, count)| sum.saturating_add(*count));
        Some(account)
    }

    /// Adds up a window. `rows`: those of the window's [`Timeline::thread_rows`] that count.
    pub fn sums(
        &self,
        from_ns: u64,
        until_ns: u64,
        cpus: &dyn Fn(u16) -> bool,
        rows: &[ThreadRow],
    ) -> WindowSums {
        let (from_ns, until_ns) = self.clip(from_ns, until_ns);
        let mut sums = WindowSums { from_ns, until_ns, ..WindowSums::default() };
        let numbers = self.cpus().filter(|number| cpus(*number));
        sums.cpus = numbers.filter_map(|number| self.cpu_account(number, from_ns, until_ns)).collect();
        let mut blocked: BTreeMap<u16, u64> = BTreeMap::new();
        for row in rows {
            sums.totals.merge(&row.totals);
            let Some(thread) = self.thread(row.thread).filter(|_| row.totals.blocked_ns > 0) else {
                continue;
            };
            for (at, ns) in thread.between(from_ns, until_ns).filter(|(_, ns)| *ns > 0) {
                if let Some(reason) = thread.parts[at].state().reason() {
                    let sum = blocked.entry(reason.0).or_default();
                    *sum = sum.saturating_add(ns);
                }
            }
        }
        let named = |(reason, ns)| TraceReason { reason: WaitReason(reason).name().into_owned(), ns };
        sums.blocked = blocked.into_iter().map(named).collect();
        sums.blocked.sort_by_key(|reason| Reverse(reason.ns));
        sums
    }
}

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
