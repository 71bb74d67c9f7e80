//! The critical path: from a moment of a thread back in time, through what it did, what it waited behind, and who woke it. While it
//! was blocked, the path goes on with its waker. So each ns of the path is one step, and the steps add up to its length.

use cpumon_events::ThreadState;
use cpumon_model::TraceTask;

use super::behind::Culprits;
use super::history::{Held, TraceHistory};
use super::memory::Memory;
use super::wake_sources::Waker;

/// Wakers of wakers that are followed.
const MAX_DEPTH: usize = 256;
/// Calls that end when a timer does: who was on the CPU then was only interrupted.
const SLEEPS: [&str; 2] = ["nanosleep", "clock_nanosleep"];

/// A part of the path.
#[derive(Clone, Debug)]
pub struct PathStep {
    /// Who.
    pub task: TraceTask,
    /// What it was in; [`ThreadState::Dead`] never.
    pub state: ThreadState,
    /// From here, ns.
    pub from_ns: u64,
    /// To here, ns.
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
}

impl PathStep {
    /// Its length, ns.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.until_ns - self.from_ns
    }
}

/// Where the path goes on when it comes to the begin of a wait.
struct Frame {
    slot: u32,
    task: TraceTask,
    from_ns: u64,
}

struct Walk<'h> {
    history: &'h TraceHistory,
    slot: u32,
    task: TraceTask,
    at_ns: u64,
    /// Who ended the wait that lies before `at_ns`.
    waker: Option<Waker>,
    frames: Vec<Frame>,
    steps: Vec<PathStep>,
}

impl TraceHistory {
    /// The path of a thread back from a time to the begin of the range, the latest step first; at most so many steps.
    #[must_use]
    pub fn path(&self, task: TraceTask, at_ns: u64, most: usize) -> Vec<PathStep> {
        let Some(slot) = self.slot(task) else { return Vec::new() };
        let mut walk =
            Walk { history: self, slot, task, at_ns, waker: None, frames: Vec::new(), steps: Vec::new() };
        while walk.steps.len() < most && walk.at_ns > self.begin_ns() {
            walk.step();
        }
        walk.steps
    }
}

impl Walk<'_> {
    /// The begin of the wait that is being explained, or of all.
    fn floor_ns(&self) -> u64 {
        self.frames.last().map_or(self.history.begin_ns(), |frame| frame.from_ns)
    }

    fn step(&mut self) {
        let held = self.history.before(self.slot, self.at_ns).copied();
        if let Some(held) = held.filter(|held| held.until_ns >= self.at_ns) {
            self.pass(&held);
            return;
        }
        // Up to its first event, and behind its end.
        let from_ns = held.map_or(0, |held| held.until_ns).max(self.floor_ns());
        self.push(ThreadState::Unknown, from_ns, 0, None);
        self.go_to(from_ns);
    }

    fn pass(&mut self, held: &Held) {
        let from_ns = held.from_ns.max(self.floor_ns());
        match held.state {
            ThreadState::Blocked(_) => {
                let waker = self.waker.take();
                let follows = waker.and_then(|waker| self.followed(waker));
                self.push(held.state, from_ns, held.cpu, waker);
                if let (Some((slot, task)), Some(step)) = (follows, self.steps.last_mut()) {
                    step.is_explained = true;
                    self.frames.push(Frame { slot: self.slot, task: self.task, from_ns });
                    (self.slot, self.task) = (slot, task);
                    return;
                }
            }
            ThreadState::ReadyWoken => {
                self.waker = self.waker_of(held);
                self.push(held.state, from_ns, held.cpu, self.waker);
            }
            _ => {
                self.waker = None;
                self.push(held.state, from_ns, held.cpu, None);
            }
        }
        self.go_to(from_ns);
    }

    /// Who woke it into this state.
    fn waker_of(&self, held: &Held) -> Option<Waker> {
        let waker = self.history.waker(held)?;
        let before = self.history.before(self.slot, held.from_ns).map(|before| before.state);
        let slept = matches!(before, Some(ThreadState::Blocked(reason)) if SLEEPS.contains(&&*reason.name()));
        let is_timer = slept && !self.history.has_interrupts();
        Some(if is_timer { Waker::Task(TraceTask::IDLE) } else { waker })
    }

    /// The thread that ended the wait, if what it did explains it.
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

    fn push(&mut self, state: ThreadState, from_ns: u64, cpu: u16, waker: Option<Waker>) {
        let behind = if state.is_ready() { self.behind(cpu, from_ns) } else { Vec::new() };
        self.steps.push(PathStep {
            task: self.task,
            state,
            from_ns,
            until_ns: self.at_ns,
            cpu,
            depth: self.frames.len(),
            waker,
            is_explained: false,
            behind,
        });
    }

    fn behind(&self, cpu: u16, from_ns: u64) -> Vec<(TraceTask, u64)> {
        let (mut culprits, mut memory) = (Culprits::default(), Memory::default());
        for slice in self.history.slices(cpu, from_ns, self.at_ns) {
            let ns = slice.until_ns.min(self.at_ns).saturating_sub(slice.from_ns.max(from_ns));
            if slice.task != self.task && ns > 0 {
                culprits.add(slice.task, ns, &mut memory);
            }
        }
        culprits.sorted()
    }
}
