//! What the tracker knows of each CPU, and [`Threads`]: those that it follows, each at its place, within bounds of number and memory.

use std::ops::{Index, IndexMut};

use crate::event::TraceTask;
use crate::slots::{Numbers, reserve_some};
use crate::spans::{CpuState, ThreadState};

/// Threads that are followed. What further ones do is unknown.
const MAX_THREADS: usize = 1 << 22;
/// Limit on the memory of followed threads in the tracker and its sink, bytes: a compressed file of 3 MB can name 4 million threads.
const MAX_BYTES: usize = 1 << 30;
/// Memory of a thread in the tracker: its state, its place by number, and that it has entered a state. Lists have space to grow.
const THREAD_BYTES: usize =
    (size_of::<TrackedThread>() + size_of::<(u32, u32)>() * 2 + size_of::<u32>()) / 8 * 9;

#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct TrackedCpu {
    /// Task that the CPU last switched to; `None` if unknown.
    pub(crate) current: Option<TraceTask>,
    pub(crate) at_ns: u64,
    /// Interrupts of this CPU were handed out up to this time.
    pub(crate) settled_ns: u64,
    /// Events of this CPU were lost up to this time.
    pub(crate) lossy_until_ns: Option<u64>,
    pub(crate) is_seen: bool,
    /// A switch away from the idle task was seen.
    pub(crate) left_idle: bool,
}

impl TrackedCpu {
    /// What the CPU does, as far as is known.
    #[inline]
    pub(crate) fn state(&self) -> CpuState {
        match self.current {
            None | Some(TraceTask::UNKNOWN) => CpuState::Unknown,
            Some(TraceTask::IDLE) => CpuState::Idle,
            Some(task) => CpuState::Run(task),
        }
    }
}

#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct TrackedThread {
    pub(crate) task: TraceTask,
    pub(crate) state: ThreadState,
    pub(crate) at_ns: u64,
    pub(crate) since_ns: u64,
    /// Whether it was woken while it was still on its CPU, on its way to sleep.
    pub(crate) woken_early: bool,
    /// An event has shown the thread leaving a CPU.
    pub(crate) has_left: bool,
    /// It is in the tracker's list of those that entered a state.
    pub(crate) has_entered: bool,
    pub(crate) cpu: u16,
}

impl TrackedThread {
    pub(crate) fn new(task: TraceTask, at_ns: u64) -> Self {
        Self { task, at_ns, since_ns: at_ns, ..Self::default() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Threads {
    list: Vec<TrackedThread>,
    slots: Numbers,
    unfollowed: u64,
}

impl Threads {
    pub(crate) fn bytes(threads: usize) -> usize {
        threads * THREAD_BYTES
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// How often an event's thread got no place because a limit was reached.
    pub(crate) fn unfollowed(&self) -> u64 {
        self.unfollowed
    }

    /// The place of a thread, if it has one.
    #[inline]
    pub(crate) fn find(&self, task: TraceTask) -> Option<usize> {
        if task.is_thread() { self.slots.get(task.0) } else { None }
    }

    /// The place of a thread; a new thread gets one. `None` for a task that is no thread, or once a limit is reached. `sink_bytes`: memory
    /// of the sink by number of threads, bytes.
    #[inline]
    pub(crate) fn slot(
        &mut self,
        task: TraceTask,
        at_ns: u64,
        sink_bytes: impl FnOnce(usize) -> usize,
    ) -> Option<usize> {
        if !task.is_thread() {
            return None;
        }
        if let Some(slot) = self.slots.get(task.0) {
            return Some(slot);
        }
        self.begin(task, at_ns, sink_bytes)
    }

    #[cold]
    fn begin(
        &mut self,
        task: TraceTask,
        at_ns: u64,
        sink_bytes: impl FnOnce(usize) -> usize,
    ) -> Option<usize> {
        let slot = self.list.len();
        if slot >= MAX_THREADS || Self::bytes(slot + 1) + sink_bytes(slot + 1) > MAX_BYTES {
            self.unfollowed += 1;
            return None;
        }
        reserve_some(&mut self.list, slot);
        self.list.push(TrackedThread::new(task, at_ns));
        self.slots.set(task.0, slot);
        Some(slot)
    }
}

impl Index<usize> for Threads {
    type Output = TrackedThread;

    #[inline]
    fn index(&self, slot: usize) -> &TrackedThread {
        &self.list[slot]
    }
}

impl IndexMut<usize> for Threads {
    #[inline]
    fn index_mut(&mut self, slot: usize) -> &mut TrackedThread {
        &mut self.list[slot]
    }
}
