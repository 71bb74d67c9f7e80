//! What threads and CPUs are in, and for how long; and [`SpanSink`]: what an analysis takes from the tracker.

use cpumon_model::WaitReason;

use crate::event::{Interrupt, Leaves, TraceTask};
use crate::slots::Slots;

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ThreadState {
    #[default]
    Unknown,
    Running,
    /// Runnable since a wakeup.
    ReadyWoken,
    /// Runnable since it was pushed off its CPU, or yielded.
    ReadyPreempted,
    Blocked(WaitReason),
    /// The thread has made its last switch.
    Dead,
}

impl ThreadState {
    pub const fn is_ready(self) -> bool {
        matches!(self, Self::ReadyWoken | Self::ReadyPreempted)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Running => "running",
            Self::ReadyWoken => "ready",
            Self::ReadyPreempted => "preempted",
            Self::Blocked(_) => "blocked",
            Self::Dead => "ended",
        }
    }

    /// The wait reason of a blocked thread; `None` in any other state.
    pub const fn reason(self) -> Option<WaitReason> {
        if let Self::Blocked(reason) = self { Some(reason) } else { None }
    }
}

/// A period that a thread spent in one state.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ThreadSpan {
    pub task: TraceTask,
    /// Its place in the tracker, from 0 up: analyses index by it.
    pub slot: usize,
    pub state: ThreadState,
    pub from_ns: u64,
    pub until_ns: u64,
    /// Start of the state: earlier than `from_ns` if a part was handed out before, as when a ready thread moved to another CPU.
    pub since_ns: u64,
    /// The CPU it was on, or in whose queue it waited.
    pub cpu: u16,
    /// The state ended: the thread neither moved nor did the trace end.
    pub is_over: bool,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CpuState {
    Unknown,
    Idle,
    Run(TraceTask),
}

impl CpuState {
    /// That of these which belongs to the state.
    pub fn pick<T>(self, unknown: T, idle: T, run: T) -> T {
        match self {
            Self::Unknown => unknown,
            Self::Idle => idle,
            Self::Run(_) => run,
        }
    }
}

/// A period that a CPU spent in one state.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CpuSpan {
    pub cpu: u16,
    pub state: CpuState,
    pub from_ns: u64,
    pub until_ns: u64,
    /// The span ended with a switch. Otherwise it was handed out early, for example for a thread that waited for this CPU, and the state
    /// may continue.
    pub is_over: bool,
}

/// A period that a CPU spent in one interrupt.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct InterruptSpan {
    pub cpu: u16,
    pub interrupt: Interrupt,
    pub state: CpuState,
    /// Place of the interrupted thread in the tracker.
    pub slot: Option<usize>,
    pub from_ns: u64,
    pub until_ns: u64,
    /// It is the first part of this interrupt: one that was interrupted itself has several.
    pub is_first: bool,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Wakeup {
    pub task: TraceTask,
    /// Place of the woken thread in the tracker.
    pub slot: usize,
    /// Task on the CPU of the wakeup: the waker, or the task that the waking interrupt interrupted.
    pub waker: TraceTask,
    /// CPU on which the wakeup was made.
    pub from_cpu: u16,
    /// CPU whose run queue the woken thread is in.
    pub cpu: u16,
    pub at_ns: u64,
}

/// Takes what a [`Tracker`](crate::Tracker) finds. CPU spans come in front of the thread spans that end with the same switch. What an
/// analysis does not need is passed over.
pub trait SpanSink {
    fn thread(&mut self, span: &ThreadSpan);
    fn cpu(&mut self, _span: &CpuSpan) {}
    /// A thread was woken: it is ready from then on, or from when it has left its CPU on its way to sleep.
    fn woken(&mut self, _wakeup: &Wakeup) {}
    /// A thread is in a state from here on, or in another CPU's queue. Its span comes later.
    fn entered(&mut self, _slot: usize, _state: ThreadState, _cpu: u16, _at_ns: u64) {}
    fn left(&mut self, _slot: usize, _leaves: Leaves, _at_ns: u64) {}
    fn moved(&mut self, _slot: usize, _at_ns: u64) {}
    /// A CPU switched from another task than it had switched to: events are missing.
    fn hole(&mut self, _cpu: u16, _at_ns: u64) {}
    /// A thread came to a CPU, and it is not known when it was woken: its whole wait counts as blocked.
    fn unknown_wakeup(&mut self, _slot: usize, _at_ns: u64) {}
    /// An interrupt had a CPU in a span that was handed out before, and so had less of that.
    fn interrupt(&mut self, _span: &InterruptSpan) {}
    fn lost(&mut self, _cpu: u16, _count: u64, _at_ns: u64) {}
    /// Memory of the sink with `threads` threads, bytes. The tracker asks before it follows another thread, and follows none beyond its
    /// limit.
    fn bytes(&self, threads: usize) -> usize;
}

/// Wakeups of a thread that are remembered: it may be woken again before it runs.
const WAKEUPS: usize = 4;

/// The last wakeups of a thread and their wakers, the latest first.
#[derive(Debug)]
struct LatestWakeups([(u64, TraceTask); WAKEUPS]);

impl Default for LatestWakeups {
    fn default() -> Self {
        Self([(u64::MAX, TraceTask::UNKNOWN); WAKEUPS])
    }
}

/// Who woke each thread: its spans come without that.
#[derive(Debug, Default)]
pub struct RecentWakers(Slots<LatestWakeups>);

impl RecentWakers {
    pub fn add(&mut self, wakeup: &Wakeup) {
        let LatestWakeups(wakeups) = self.0.at(wakeup.slot);
        wakeups.rotate_right(1);
        wakeups[0] = (wakeup.at_ns, wakeup.waker);
    }

    /// Who woke the thread that has been ready since then; `None` in any other state. A wakeup on the way to sleep comes before.
    pub fn of(&self, span: &ThreadSpan) -> Option<TraceTask> {
        let LatestWakeups(wakeups) =
            self.0.get(span.slot).filter(|_| span.state == ThreadState::ReadyWoken)?;
        wakeups.iter().find(|(at_ns, _)| *at_ns <= span.since_ns).map(|(_, waker)| *waker)
    }

    /// Memory, bytes, if there are this many threads.
    pub fn bytes(&self, threads: usize) -> usize {
        self.0.bytes(threads)
    }
}
