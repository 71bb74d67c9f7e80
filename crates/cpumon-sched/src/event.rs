//! What the scheduler does, event by event: the unit of a context-switch trace. Recorders produce [`SchedEvent`]s, trace
//! files store them, and the analyses compute times from them.

use cpumon_model::{Comm, ProcessKey, ThreadKey, WaitReason};

/// A task of one trace. Recorders number tasks as they first see them: unlike a thread id the number is never reused.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceTask(pub u32);

impl TraceTask {
    /// The idle task of any CPU.
    pub const IDLE: Self = Self(0);
    /// A thread that the recorder could not number.
    pub const UNKNOWN: Self = Self(u32::MAX);

    /// Whether it is a thread that has an account of its own.
    pub const fn is_thread(self) -> bool {
        self.0 != Self::IDLE.0 && self.0 != Self::UNKNOWN.0
    }
}

/// How a task leaves its CPU.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// Still runnable: preempted, or it yielded.
    Ready,
    /// Blocked, for this reason.
    Asleep(WaitReason),
    /// Exited: it never runs again.
    Dead,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// A hard one, with its line as in /proc/interrupts; from 1,024 on those without one: local timer, reschedule, function call,
    /// single function call, irq work, inter-processor.
    Hard(u16),
    /// Soft interrupt: index into [`SOFTIRQ_KINDS`](cpumon_model::SOFTIRQ_KINDS).
    Soft(u16),
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SchedEventKind {
    /// `next` gets the CPU of `prev`.
    Switch { prev: TraceTask, next: TraceTask, leaves: Leaves },
    /// A task becomes runnable.
    Waking {
        task: TraceTask,
        /// The task on the CPU of the event: the waker, or the task that the waking interrupt interrupted.
        waker: TraceTask,
        /// The CPU in whose queue it is, unless a migration follows.
        cpu: u16,
    },
    /// A task moves to another CPU's queue.
    Migrate { task: TraceTask, to_cpu: u16 },
    /// A task is created; it is not runnable yet.
    Born {
        task: TraceTask,
        /// The task that called fork or clone.
        parent: TraceTask,
    },
    /// A task begins to end; its last switch follows.
    Exit { task: TraceTask },
    /// An interrupt ends. It was recorded as a whole: what happened in it came before.
    Interrupt {
        interrupt: Interrupt,
        /// Duration of the interrupt, ns.
        ran_ns: u64,
    },
    /// Events of this CPU did not fit the recorder's buffer, from the event's time on.
    Lost {
        count: u64,
        /// Time of the last lost event, ns of the monotonic clock.
        until_ns: u64,
    },
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SchedEvent {
    /// Time of the event, ns of the monotonic clock.
    pub at_ns: u64,
    pub cpu: u16,
    pub kind: SchedEventKind,
}

/// Who a task is. Recorders send it before the first event of the task, and again when it changes (rename, exec).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceIdentity {
    pub task: TraceTask,
    /// Since when it is called so, ns on the trace's clock. Each CPU's buffer is read by itself, so an older name may arrive later.
    pub at_ns: u64,
    pub thread: ThreadKey,
    pub process: ProcessKey,
    /// Number of the task's control group; 0 if not known.
    pub group: u64,
    pub comm: Comm,
    /// Name of the executable, or of the process's first thread. Bytes from the device: hostile.
    pub program: Box<[u8]>,
    /// `program` is the executable's: it holds until the next exec.
    pub is_executable: bool,
    pub is_kernel: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceGroup {
    /// Number of the group, as in [`TraceIdentity::group`].
    pub group: u64,
    /// That of the group which it is in; 0: none, it is a root.
    pub parent: u64,
    /// Last component of its path. Bytes from the device: hostile.
    pub name: Box<[u8]>,
}
