//! What a window adds up to: each thread, for the list beside the picture, and an area of some CPUs or of some threads.

use std::collections::BTreeMap;

use cpumon_events::CpuState;
use cpumon_model::{TraceTask, WaitReason};

use super::Timeline;
use super::cpus::{IDLE, UNKNOWN};
use super::lines::{FRESH, LEFT_TO_WAIT, LinePart, OVER, PUSHED_OFF, STATES, add, since};
use crate::sums::{CpuAccount, ThreadTotals};

/// A thread in a window. Times in ns, counted as in a [`Report`](crate::Report) of that range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadRow {
    /// Its place in the index.
    pub thread: u32,
    /// What it did.
    pub totals: ThreadTotals,
}

impl Timeline {
    /// Threads that exist in the window, by place.
    pub fn thread_rows(&self, from_ns: u64, until_ns: u64) -> Vec<ThreadRow> {
        let (from_ns, until_ns) = self.clip(from_ns, until_ns);
        let mut rows: Vec<ThreadRow> = (0..self.threads.len())
            .map(|place| {
                let thread = u32::try_from(place).unwrap_or(u32::MAX);
                ThreadRow { thread, totals: self.thread_totals(place, from_ns, until_ns, &mut |_, _| {}) }
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

    /// Without interrupts and moves. `blocked` takes the time by reason.
    fn thread_totals(
        &self,
        place: usize,
        from_ns: u64,
        until_ns: u64,
        blocked: &mut dyn FnMut(WaitReason, u64),
    ) -> ThreadTotals {
        let (mut totals, mut times) = (ThreadTotals::default(), [0; STATES]);
        let thread = &self.threads[place];
        // Switches at the very begin of the window count, so parts that end there are read too.
        for at in thread.first_from(from_ns).saturating_sub(1)..thread.parts.len() {
            let (part, end_ns) = (&thread.parts[at], thread.end_of(at));
            if part.start_ns > until_ns {
                break;
            }
            let ns = thread.ns_in(at, from_ns, until_ns);
            add(&mut times, part.kind(), ns);
            if let Some(reason) = part.state().reason().filter(|_| ns > 0) {
                blocked(reason, ns);
            }
            let has_end = part.is(OVER) && (from_ns..=until_ns).contains(&end_ns);
            totals.voluntary_switches += u64::from(has_end && part.is(LEFT_TO_WAIT));
            totals.involuntary_switches += u64::from(has_end && part.is(PUSHED_OFF));
            if part.is_ready() {
                let has_begin = part.is(FRESH) && (from_ns..=until_ns).contains(&part.start_ns);
                totals.wakeups += u64::from(has_begin && part.is_woken());
                if end_ns >= from_ns {
                    let since_ns = thread.since_ns(at);
                    let delay_ns = end_ns.min(until_ns).saturating_sub(since_ns);
                    if delay_ns > totals.longest_delay_ns {
                        (totals.longest_delay_ns, totals.longest_delay_at_ns) = (delay_ns, since_ns);
                    }
                }
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

/// Sums of a window.
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

    /// Adds up a window. `rows` are [`Timeline::thread_rows`] of it, those that count.
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
            if row.totals.blocked_ns == 0 {
                continue;
            }
            self.thread_totals(row.thread as usize, from_ns, until_ns, &mut |reason, ns| {
                let sum = blocked.entry(reason.0).or_default();
                *sum = sum.saturating_add(ns);
            });
        }
        let named = |(reason, ns)| TraceReason { reason: WaitReason(reason).name().into_owned(), ns };
        sums.blocked = blocked.into_iter().map(named).collect();
        sums.blocked.sort_by_key(|reason| std::cmp::Reverse(reason.ns));
        sums
    }
}
