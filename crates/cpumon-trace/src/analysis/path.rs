//! The critical path to a moment of a thread: the thread's states, the threads that it waited behind, and, while it was blocked, the path of
//! its waker. Each ns of the path is in one step, and the steps add up to its length. [`PathSums`] adds up whose time the steps of one or
//! many paths are.

use std::collections::HashMap;

use cpumon_model::Waits;
use cpumon_sched::{ThreadState, TraceTask};
use foldhash::fast::RandomState;

use super::history::{HeldState, TraceHistory};
use super::ready::Culprits;
use super::report::{GroupKey, GroupRow, ReportBy, SHOWN_CULPRITS, group_of};
use super::wakers::Waker;
use super::{Memory, ThreadTotals};
use crate::tasks::Tasks;

impl TraceHistory {
    /// The path of a thread back from a time to the begin of the range, the latest step first.
    pub fn path(&self, task: TraceTask, at_ns: u64) -> impl Iterator<Item = PathStep> {
        let walk = |slot| PathWalk { history: self, slot, task, at_ns, waker: None, frames: Vec::new() };
        self.slot(task).map(walk).into_iter().flatten()
    }
}

/// Most wakers that a path follows back.
const MAX_DEPTH: usize = 256;
/// Calls that end when a timer does: who was on the CPU then was only interrupted.
const SLEEPS: [&str; 2] = ["nanosleep", "clock_nanosleep"];

#[derive(Clone, Debug)]
pub struct PathStep {
    pub task: TraceTask,
    /// State of the task; never [`ThreadState::Dead`].
    pub state: ThreadState,
    pub from_ns: u64,
    pub until_ns: u64,
    /// The CPU it was on, or in whose queue it waited.
    pub cpu: u16,
    /// How many wakers away from the thread whose path it is.
    pub depth: usize,
    /// Who ended the wait: of a thread that is ready since a wakeup, or blocked up to one.
    pub waker: Option<Waker>,
    /// The steps that follow, with a greater depth, are what its waker did in this time: it counts there.
    pub is_explained: bool,
    /// Who ran meanwhile where it waited for a CPU, ns each, the longest first.
    pub behind: Vec<(TraceTask, u64)>,
    /// Number of slices that were read for `behind`.
    pub slices: usize,
}

impl PathStep {
    pub fn ns(&self) -> u64 {
        self.until_ns - self.from_ns
    }
}

/// The thread to which the path returns at the begin of a wait.
struct PathFrame {
    slot: u32,
    task: TraceTask,
    from_ns: u64,
}

struct PathWalk<'h> {
    history: &'h TraceHistory,
    slot: u32,
    task: TraceTask,
    at_ns: u64,
    /// Who ended the wait before `at_ns`.
    waker: Option<Waker>,
    frames: Vec<PathFrame>,
}

impl Iterator for PathWalk<'_> {
    type Item = PathStep;

    fn next(&mut self) -> Option<PathStep> {
        (self.at_ns > self.history.begin_ns()).then(|| self.step())
    }
}

impl PathWalk<'_> {
    /// The begin of the wait that is being explained, or of all.
    fn floor_ns(&self) -> u64 {
        self.frames.last().map_or(self.history.begin_ns(), |frame| frame.from_ns)
    }

    fn step(&mut self) -> PathStep {
        let held = self.history.before(self.slot, self.at_ns).copied();
        if let Some(held) = held.filter(|held| held.until_ns >= self.at_ns) {
            return self.pass(&held);
        }
        // Up to its first event, and behind its end.
        let from_ns = held.map_or(0, |held| held.until_ns).max(self.floor_ns());
        let step = self.made(ThreadState::Unknown, from_ns, 0, None);
        self.go_to(from_ns);
        step
    }

    fn pass(&mut self, held: &HeldState) -> PathStep {
        let from_ns = held.from_ns.max(self.floor_ns());
        let waker = match held.state {
            ThreadState::Blocked(_) => self.waker.take(),
            ThreadState::ReadyWoken => {
                self.waker = self.waker_of(held);
                self.waker
            }
            _ => {
                self.waker = None;
                None
            }
        };
        let step = self.made(held.state, from_ns, held.cpu, waker);
        let is_blocked = matches!(held.state, ThreadState::Blocked(_));
        if let Some((slot, task)) = waker.filter(|_| is_blocked).and_then(|waker| self.followed(waker)) {
            self.frames.push(PathFrame { slot: self.slot, task: self.task, from_ns });
            (self.slot, self.task) = (slot, task);
            return PathStep { is_explained: true, ..step };
        }
        self.go_to(from_ns);
        step
    }

    /// Who woke the thread; the idle task if only a timer can have ended its sleep.
    fn waker_of(&self, held: &HeldState) -> Option<Waker> {
        let waker = self.history.waker(held)?;
        let before = self.history.before(self.slot, held.from_ns).map(|before| before.state);
        let slept = matches!(before, Some(ThreadState::Blocked(reason)) if SLEEPS.contains(&&*reason.name()));
        let is_timer = slept && !self.history.has_interrupts;
        Some(if is_timer { Waker::Task(TraceTask::IDLE) } else { waker })
    }

    /// The thread that ended the wait, if its own path explains the wait.
    fn followed(&self, waker: Waker) -> Option<(u32, TraceTask)> {
        let Waker::Task(task) = waker else { return None };
        if !task.is_thread() || task == self.task || self.frames.len() >= MAX_DEPTH {
            return None;
        }
        let slot = self.history.slot(task)?;
        let held = self.history.before(slot, self.at_ns)?;
        (held.until_ns >= self.at_ns && held.state == ThreadState::Running).then_some((slot, task))
    }

    fn go_to(&mut self, at_ns: u64) {
        self.at_ns = at_ns;
        while let Some(frame) = self.frames.pop_if(|frame| at_ns <= frame.from_ns) {
            (self.slot, self.task, self.waker) = (frame.slot, frame.task, None);
        }
    }

    fn made(&self, state: ThreadState, from_ns: u64, cpu: u16, waker: Option<Waker>) -> PathStep {
        let (behind, slices) = if state.is_ready() { self.behind(cpu, from_ns) } else { (Vec::new(), 0) };
        PathStep {
            task: self.task,
            state,
            from_ns,
            until_ns: self.at_ns,
            cpu,
            depth: self.frames.len(),
            waker,
            is_explained: false,
            behind,
            slices,
        }
    }

    fn behind(&self, cpu: u16, from_ns: u64) -> (Vec<(TraceTask, u64)>, usize) {
        let (mut culprits, mut memory, mut slices) = (Culprits::default(), Memory::default(), 0);
        for slice in self.history.slices(cpu, from_ns, self.at_ns) {
            slices += 1;
            let ns = slice.until_ns.min(self.at_ns).saturating_sub(slice.from_ns.max(from_ns));
            if slice.task != self.task && ns > 0 {
                culprits.add(slice.task, ns, &mut memory);
            }
        }
        (culprits.sorted(), slices)
    }
}

/// Whose time the steps of paths are. A step that the steps of its waker explain counts there.
pub struct PathSums<'t> {
    tasks: &'t Tasks,
    of_tasks: HashMap<TraceTask, TaskTimes, RandomState>,
    memory: Memory,
}

#[derive(Default)]
struct TaskTimes {
    totals: ThreadTotals,
    blocked: Waits,
    /// The tasks behind which it was ready.
    behind: Culprits,
}

impl<'t> PathSums<'t> {
    /// No time yet; `tasks` names the rows.
    pub fn new(tasks: &'t Tasks) -> Self {
        Self { tasks, of_tasks: HashMap::default(), memory: Memory::default() }
    }

    pub fn add(&mut self, step: &PathStep) {
        if step.is_explained {
            return;
        }
        let TaskTimes { totals, blocked, behind } = self.of_tasks.entry(step.task).or_default();
        let sum = match step.state {
            ThreadState::Running => &mut totals.run_ns,
            ThreadState::ReadyWoken => &mut totals.ready_woken_ns,
            ThreadState::ReadyPreempted => &mut totals.ready_preempted_ns,
            ThreadState::Blocked(reason) => {
                blocked.add(reason, step.ns());
                &mut totals.blocked_ns
            }
            ThreadState::Unknown | ThreadState::Dead => &mut totals.unknown_ns,
        };
        *sum = sum.saturating_add(step.ns());
        for (task, ns) in &step.behind {
            behind.add(*task, *ns, &mut self.memory);
        }
    }

    /// The rows, most time first.
    pub fn rows(&self, by: ReportBy) -> Vec<GroupRow> {
        self.rows_of(by, self.of_tasks.keys().copied())
    }

    /// The tasks of each row.
    pub fn tasks_of_rows(&self, by: ReportBy) -> HashMap<GroupKey, Vec<TraceTask>> {
        let mut all: HashMap<GroupKey, Vec<TraceTask>> = HashMap::new();
        for task in self.of_tasks.keys() {
            all.entry(group_of(*task, by, self.tasks).0).or_default().push(*task);
        }
        all
    }

    /// The threads that some tasks are, most time first.
    pub fn threads(&self, tasks: &[TraceTask]) -> Vec<GroupRow> {
        self.rows_of(ReportBy::Thread, tasks.iter().copied())
    }

    fn rows_of(&self, by: ReportBy, tasks: impl Iterator<Item = TraceTask>) -> Vec<GroupRow> {
        let mut rows: HashMap<GroupKey, (GroupRow, HashMap<Box<str>, u64>)> = HashMap::new();
        // The first thread names a row.
        let mut of_tasks: Vec<_> = tasks.filter_map(|task| Some((task, self.of_tasks.get(&task)?))).collect();
        of_tasks.sort_unstable_by_key(|(task, _)| *task);
        for (task, times) in of_tasks {
            let (key, name) = group_of(task, by, self.tasks);
            let new = || (GroupRow::new(key.clone(), name), HashMap::new());
            let (row, behind) = rows.entry(key.clone()).or_insert_with(new);
            row.threads += 1;
            row.totals.merge(&times.totals);
            row.blocked += &times.blocked;
            for (task, ns) in times.behind.iter() {
                let sum = behind.entry(group_of(task, by.of_culprits(), self.tasks).1).or_insert(0_u64);
                *sum = sum.saturating_add(ns);
            }
        }
        let with_behind = |(mut row, behind): (GroupRow, HashMap<Box<str>, u64>)| {
            row.behind = behind.into_iter().collect();
            row.behind.sort_unstable_by(|(a, a_ns), (b, b_ns)| b_ns.cmp(a_ns).then_with(|| a.cmp(b)));
            row.behind.truncate(SHOWN_CULPRITS);
            row
        };
        let mut rows: Vec<_> = rows.into_values().map(with_behind).collect();
        rows.sort_unstable_by(|a, b| {
            b.totals.all_ns().cmp(&a.totals.all_ns()).then_with(|| a.key.cmp(&b.key))
        });
        rows
    }
}
