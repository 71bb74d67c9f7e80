//! All states of all threads in a range, held in memory ([`TraceHistory`]), so that an analysis can go back in time. It finds the critical
//! path to a moment of a thread: the thread's states, the threads that it waited behind, and, while it was blocked, the path of its waker.
//! Each ns of the path is in one step, and the steps add up to its length.

use std::collections::{HashMap, VecDeque};

use cpumon_sched::{CpuSpan, InterruptSpan, Slots, SpanSink, ThreadSpan, ThreadState, TraceTask, Wakeup};
use foldhash::fast::FixedState;

use super::ready::Culprits;
use super::wakers::{WakeSource, WakeSources, Waker};
use super::{Memory, TraceRange, Tracked, track};
use crate::file::ReadError;
use crate::source::{Ending, TraceSource};

/// States that are held, 40 bytes each; and wakeups, 8 each. Of more the oldest are dropped.
const MAX_STATES: usize = 1 << 21;
const MAX_WAKEUPS: usize = 1 << 22;

#[derive(Copy, Clone, Debug)]
struct HeldState {
    task: TraceTask,
    slot: u32,
    cpu: u16,
    state: ThreadState,
    from_ns: u64,
    until_ns: u64,
    /// Number of the wakeup in [`ThreadState::ReadyWoken`]; 0 if there is none.
    wakeup: u64,
}

#[derive(Default)]
pub struct TraceHistory {
    range: TraceRange,
    /// In the end by thread and time.
    states: VecDeque<HeldState>,
    /// States before this time may be missing, because the oldest were dropped; 0 if all are held.
    pub dropped_until_ns: u64,
    wakers: VecDeque<Waker>,
    /// Number of the wakeup of `wakers[0]`.
    first_wakeup: u64,
    sources: WakeSources,
    last_wakeup: Slots<u64>,
    has_interrupts: bool,
    /// Places in `states` of those that run, by CPU and time.
    by_cpu: Vec<u32>,
    slots: HashMap<TraceTask, u32, FixedState>,
}

/// Reads a trace and holds what lies in the range.
pub fn history(
    reader: &mut impl TraceSource,
    range: TraceRange,
) -> Result<(TraceHistory, Ending), ReadError> {
    let Tracked { sink: mut history, ending, .. } = track(reader, range, TraceHistory::new)?;
    while let Some(settled) = history.sources.next() {
        history.settle(settled);
    }
    history.index();
    Ok((history, ending))
}

impl TraceHistory {
    pub(super) fn new(range: TraceRange) -> Self {
        Self { range, first_wakeup: 1, ..Self::default() }
    }

    /// Each thread with any state in the range, and until when the last of these lasted.
    pub fn threads(&self) -> impl Iterator<Item = (TraceTask, u64)> {
        let threads = self.states.as_slices().0.chunk_by(|a, b| a.slot == b.slot);
        threads.filter_map(<[HeldState]>::last).map(|held| (held.task, held.until_ns))
    }

    /// The path of a thread back from a time to the begin of the range, the latest step first; at most `most` steps.
    pub fn path(&self, task: TraceTask, at_ns: u64, most: usize) -> Vec<PathStep> {
        let Some(slot) = self.slot(task) else { return Vec::new() };
        let mut walk =
            PathWalk { history: self, slot, task, at_ns, waker: None, frames: Vec::new(), steps: Vec::new() };
        while walk.steps.len() < most && walk.at_ns > self.begin_ns() {
            walk.step();
        }
        walk.steps
    }

    fn begin_ns(&self) -> u64 {
        self.range.from_ns.max(self.dropped_until_ns)
    }

    fn held(&self, place: u32) -> &HeldState {
        &self.states[place as usize]
    }

    fn index(&mut self) {
        let states = self.states.make_contiguous();
        states.sort_unstable_by_key(|held| (held.slot, held.from_ns));
        let of = |place: &u32| &states[*place as usize];
        let all = 0..u32::try_from(states.len()).unwrap_or(u32::MAX);
        self.by_cpu = all.filter(|place| of(place).state == ThreadState::Running).collect();
        self.by_cpu.sort_unstable_by_key(|place| (of(place).cpu, of(place).from_ns));
        self.slots = states.iter().map(|held| (held.task, held.slot)).collect();
    }

    /// Number of the thread in `states`.
    fn slot(&self, task: TraceTask) -> Option<u32> {
        self.slots.get(&task).copied()
    }

    /// The last state of a thread that began before this time.
    fn before(&self, slot: u32, at_ns: u64) -> Option<&HeldState> {
        let after = self.states.partition_point(|held| (held.slot, held.from_ns) < (slot, at_ns));
        self.states.get(after.checked_sub(1)?).filter(|held| held.slot == slot)
    }

    fn waker(&self, held: &HeldState) -> Option<Waker> {
        let at = held.wakeup.checked_sub(self.first_wakeup)?;
        self.wakers.get(usize::try_from(at).ok()?).copied()
    }

    /// Who had a CPU in a time, each slice, in order.
    fn slices(&self, cpu: u16, from_ns: u64, until_ns: u64) -> impl Iterator<Item = &HeldState> {
        // Slices of a CPU do not overlap, so only one that began earlier can reach into the time.
        let first = self
            .by_cpu
            .partition_point(|&place| (self.held(place).cpu, self.held(place).from_ns) < (cpu, from_ns));
        let places = self.by_cpu.get(first.saturating_sub(1)..).unwrap_or_default();
        let slices = places.iter().map(|&place| self.held(place));
        slices
            .skip_while(move |held| held.cpu < cpu || held.until_ns <= from_ns && held.cpu == cpu)
            .take_while(move |held| held.cpu == cpu && held.from_ns < until_ns)
    }

    fn settle(&mut self, settled: WakeSource) {
        let at = settled.id.checked_sub(self.first_wakeup).and_then(|at| usize::try_from(at).ok());
        if let Some(waker) = at.and_then(|at| self.wakers.get_mut(at)) {
            *waker = settled.waker;
        }
    }
}

impl SpanSink for TraceHistory {
    fn thread(&mut self, span: &ThreadSpan) {
        let (from_ns, until_ns) = self.range.cut(span.from_ns, span.until_ns);
        if from_ns >= until_ns || span.state == ThreadState::Dead {
            return;
        }
        let wakeup = self.last_wakeup.get(span.slot).copied().unwrap_or(0);
        let is_woken = span.state == ThreadState::ReadyWoken;
        if self.states.len() == MAX_STATES
            && let Some(oldest) = self.states.pop_front()
        {
            self.dropped_until_ns = self.dropped_until_ns.max(oldest.until_ns);
        }
        self.states.push_back(HeldState {
            task: span.task,
            slot: u32::try_from(span.slot).unwrap_or(u32::MAX),
            cpu: span.cpu,
            state: span.state,
            from_ns,
            until_ns,
            wakeup: if is_woken { wakeup } else { 0 },
        });
    }

    fn woken(&mut self, wakeup: &Wakeup) {
        if wakeup.at_ns > self.range.until_ns {
            return;
        }
        if self.wakers.len() == MAX_WAKEUPS {
            self.wakers.pop_front();
            self.first_wakeup += 1;
        }
        self.wakers.push_back(Waker::Task(wakeup.waker));
        let number = self.first_wakeup + self.wakers.len() as u64 - 1;
        *self.last_wakeup.at(wakeup.slot) = number;
        if let Some(settled) = self.sources.add(wakeup, number) {
            self.settle(settled);
        }
    }

    fn cpu(&mut self, span: &CpuSpan) {
        while let Some(settled) = self.sources.next_before(span.cpu, span.from_ns) {
            self.settle(settled);
        }
    }

    fn interrupt(&mut self, span: &InterruptSpan) {
        self.has_interrupts = true;
        self.sources.interrupt(span);
    }

    fn bytes(&self, threads: usize) -> usize {
        let states = self.states.capacity() * size_of::<HeldState>();
        let wakers = self.wakers.capacity() * size_of::<Waker>();
        self.last_wakeup.bytes(threads) + states + wakers + self.sources.bytes()
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
}

impl PathStep {
    /// Length of the step, ns.
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
    steps: Vec<PathStep>,
}

impl PathWalk<'_> {
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

    fn pass(&mut self, held: &HeldState) {
        let from_ns = held.from_ns.max(self.floor_ns());
        match held.state {
            ThreadState::Blocked(_) => {
                let waker = self.waker.take();
                let follows = waker.and_then(|waker| self.followed(waker));
                self.push(held.state, from_ns, held.cpu, waker);
                if let (Some((slot, task)), Some(step)) = (follows, self.steps.last_mut()) {
                    step.is_explained = true;
                    self.frames.push(PathFrame { slot: self.slot, task: self.task, from_ns });
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
