//! Rows of a report: threads, or their sums by process or program.

use std::cmp::Reverse;
use std::collections::HashMap;

use cpumon_model::{CgroupNames, ProcessKey, ThreadKey, TraceTask, Waits};
use foldhash::fast::FixedState;

use super::interrupts::InterruptTimes;
use super::ready::{LongestDelay, ReadySums};
use super::report::{Report, ThreadSums};
use super::switches::SwitchCounts;
use crate::tasks::Tasks;

/// Of a row.
const SHOWN_CULPRITS: usize = 8;
/// The row of what is in no container.
const NO_CONTAINER: &str = "(none)";
/// Of what the trace has the id only.
const NO_NAME: &str = "(no name)";

/// What a row is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ReportBy {
    /// A thread.
    Thread,
    /// A process.
    Process,
    /// All processes of one name.
    Program,
    /// All processes in a container.
    Container,
}

/// Who a row is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKey {
    /// A thread of a process.
    Thread(ThreadKey, ProcessKey),
    /// A process.
    Process(ProcessKey),
    /// A program.
    Program(Box<str>),
    /// A container; empty for what is in none.
    Container(Box<str>),
    /// A task that the trace does not name.
    Unnamed(TraceTask),
}

/// A row.
#[derive(Clone, Debug)]
pub struct GroupRow {
    /// Whose.
    pub key: GroupKey,
    /// Its name. Hostile.
    pub name: Box<str>,
    /// Threads in it.
    pub threads: u64,
    /// On a CPU, ns. Interrupts are part of it where they are not recorded.
    pub run_ns: u64,
    /// What interrupts took of its time on CPUs.
    pub interrupts: InterruptTimes,
    pub(super) ready: ReadySums,
    /// Neither running nor runnable, by reason.
    pub blocked: Waits,
    pub(super) counts: SwitchCounts,
    /// In a state that no event says, ns.
    pub unknown_ns: u64,
    /// Whom it waited behind, ns, the most first. Rows of the same kind.
    pub behind: Vec<(Box<str>, u64)>,
}

impl GroupRow {
    /// Runnable since a wakeup, ns.
    #[must_use]
    pub fn ready_woken_ns(&self) -> u64 {
        self.ready.woken_ns
    }

    /// Runnable since it was pushed off, ns.
    #[must_use]
    pub fn ready_preempted_ns(&self) -> u64 {
        self.ready.preempted_ns
    }

    /// The longest single wait for a CPU, if there was any.
    #[must_use]
    pub fn longest_delay(&self) -> Option<LongestDelay> {
        (self.ready.longest.ns > 0 || !self.ready.histogram.is_empty()).then_some(self.ready.longest)
    }

    /// So many percent of the waits for a CPU were no longer, ns.
    #[must_use]
    pub fn delay_percentile_ns(&self, percent: u32) -> Option<u64> {
        self.ready.histogram.percentile_ns(percent, Some(self.ready.longest.ns))
    }

    /// Waits for a CPU.
    #[must_use]
    pub fn delays(&self) -> u64 {
        self.ready.histogram.total()
    }

    /// Times it left a CPU to wait.
    #[must_use]
    pub fn voluntary_switches(&self) -> u64 {
        self.counts.voluntary
    }

    /// Times it was pushed off a CPU.
    #[must_use]
    pub fn involuntary_switches(&self) -> u64 {
        self.counts.involuntary
    }

    /// Moves to another CPU.
    #[must_use]
    pub fn migrations(&self) -> u64 {
        self.counts.migrations
    }

    /// Times it came to a CPU, and it is not known when it was woken.
    #[must_use]
    pub fn unknown_wakeups(&self) -> u64 {
        self.counts.unknown_wakeups
    }

    fn new(key: GroupKey, name: Box<str>) -> Self {
        Self {
            key,
            name,
            threads: 0,
            run_ns: 0,
            interrupts: InterruptTimes::default(),
            ready: ReadySums::default(),
            blocked: Waits::default(),
            counts: SwitchCounts::default(),
            unknown_ns: 0,
            behind: Vec::new(),
        }
    }

    fn add(&mut self, thread: &ThreadSums) {
        self.threads += 1;
        let run_ns = thread.run.run_ns.saturating_sub(thread.interrupts.total_ns());
        self.run_ns = self.run_ns.saturating_add(run_ns);
        self.interrupts.merge(&thread.interrupts);
        self.unknown_ns = self.unknown_ns.saturating_add(thread.run.unknown_ns);
        self.blocked += &thread.blocked;
        self.counts.merge(&thread.counts);
        self.ready.add(&thread.ready);
    }
}

/// Some recordings have the ids of threads alone.
fn shown(name: &str) -> Box<str> {
    if name.is_empty() { NO_NAME.into() } else { name.into() }
}

/// In which row a task is, and that row's name.
#[must_use]
pub fn group_of(task: TraceTask, by: ReportBy, tasks: &Tasks) -> (GroupKey, Box<str>) {
    let Some(names) = tasks.find(task) else {
        return (GroupKey::Unnamed(task), format!("task {}", task.0).into());
    };
    match by {
        ReportBy::Thread => (GroupKey::Thread(names.thread, names.process), shown(&names.comm)),
        ReportBy::Process => (GroupKey::Process(names.process), shown(&names.program)),
        ReportBy::Program => (GroupKey::Program(names.program.as_ref().into()), shown(&names.program)),
        ReportBy::Container => {
            let path = tasks.group_path(names.group).unwrap_or_default();
            let name: Box<str> = CgroupNames::of(&path).container().into();
            let shown = if name.is_empty() { NO_CONTAINER.into() } else { name.clone() };
            (GroupKey::Container(name), shown)
        }
    }
}

impl Report {
    /// Rows by run time, the most first. Threads that neither ran nor waited in the range have none.
    #[must_use]
    pub fn rows(&self, by: ReportBy, tasks: &Tasks) -> Vec<GroupRow> {
        let mut places: HashMap<GroupKey, usize, FixedState> = HashMap::default();
        let mut rows: Vec<GroupRow> = Vec::new();
        let mut members: Vec<(usize, usize)> = Vec::new();
        let mut rows_of: HashMap<TraceTask, usize, FixedState> = HashMap::default();
        for (slot, thread) in self.threads.iter().enumerate().filter(|(_, thread)| thread.task.is_thread()) {
            let task = thread.task;
            let (key, name) = group_of(task, by, tasks);
            let place = *places.entry(key.clone()).or_insert_with(|| {
                rows.push(GroupRow::new(key, name));
                rows.len() - 1
            });
            rows[place].add(thread);
            members.push((place, slot));
            rows_of.insert(task, place);
        }
        drop(places);
        members.sort_unstable();
        for members in members.chunk_by(|a, b| a.0 == b.0) {
            let behind = self.behind_of(members.iter().map(|member| member.1), &rows_of);
            let behind = behind.into_iter().map(|(place, ns)| (rows[place].name.clone(), ns)).collect();
            rows[members[0].0].behind = behind;
        }
        rows.sort_by(|a, b| b.run_ns.cmp(&a.run_ns).then_with(|| a.key.cmp(&b.key)));
        rows
    }

    /// Behind which rows these threads waited longest, ns.
    fn behind_of(
        &self,
        slots: impl Iterator<Item = usize>,
        rows_of: &HashMap<TraceTask, usize, FixedState>,
    ) -> Vec<(usize, u64)> {
        let mut sums: HashMap<usize, u64, FixedState> = HashMap::default();
        let threads = slots.filter_map(|slot| self.threads.get(slot));
        for (task, ns) in threads.flat_map(|thread| thread.culprits.iter()) {
            if let Some(&place) = rows_of.get(&task) {
                let sum = sums.entry(place).or_default();
                *sum = sum.saturating_add(ns);
            }
        }
        let mut behind: Vec<_> = sums.into_iter().collect();
        behind.sort_unstable_by_key(|(place, ns)| (Reverse(*ns), *place));
        behind.truncate(SHOWN_CULPRITS);
        behind
    }
}
