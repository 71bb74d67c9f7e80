//! What the scheduler does, event by event: the unit of a context-switch trace. Recorders produce [`SchedEvent`]s, trace
//! files store them, and the analyses compute times from them.

use crate::{Comm, ProcessKey, ThreadKey, WaitReason};

/// A task of one trace. Recorders number tasks as they first see them: unlike a thread id the number is never reused.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceTask(pub u32);

impl TraceTask {
    /// The idle task, of every CPU.
    pub const IDLE: Self = Self(0);
    /// A thread that the recorder could not number.
    pub const UNKNOWN: Self = Self(u32::MAX);

    /// Whether it is a thread that has an account of its own.
    #[must_use]
    pub const fn is_thread(self) -> bool {
        self.0 != Self::IDLE.0 && self.0 != Self::UNKNOWN.0
    }
}

/// How a task leaves its CPU.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// Runnable: pushed off, or it yielded.
    Ready,
    /// To wait.
    Asleep(WaitReason),
    /// For good.
    Dead,
}

/// Which interrupt.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// A hard one, with its line as in /proc/interrupts; from 1,024 on those without one: local timer, reschedule, function call,
    /// single function call, irq work, inter-processor.
    Hard(u16),
    /// A soft one, with its place in [`SOFTIRQ_KINDS`](crate::SOFTIRQ_KINDS).
    Soft(u16),
}

/// What happened.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SchedEventKind {
    /// `next` gets the CPU of `prev`.
    Switch {
        /// Who leaves.
        prev: TraceTask,
        /// Who comes.
        next: TraceTask,
        /// How `prev` leaves.
        leaves: Leaves,
    },
    /// A task becomes runnable.
    Waking {
        /// Who.
        task: TraceTask,
        /// Who was on the CPU of the event: the waker, or whom the waking interrupt interrupted.
        waker: TraceTask,
        /// The CPU in whose queue it is, unless a migration follows.
        cpu: u16,
    },
    /// A task moves to another CPU's queue.
    Migrate {
        /// Who.
        task: TraceTask,
        /// The CPU it moves to.
        to_cpu: u16,
    },
    /// A task begins. It is not runnable yet.
    Born {
        /// Who.
        task: TraceTask,
        /// Who called fork or clone.
        parent: TraceTask,
    },
    /// A task begins to end; its last switch follows.
    Exit {
        /// Who.
        task: TraceTask,
    },
    /// An interrupt ends. It was recorded as a whole: what happened in it came before.
    Interrupt {
        /// Which.
        interrupt: Interrupt,
        /// It began so long ago, ns.
        ran_ns: u64,
    },
    /// Events of this CPU did not fit the recorder's buffer, from the event's time on.
    Lost {
        /// How many.
        count: u64,
        /// When the last of them happened, ns of the monotonic clock.
        until_ns: u64,
    },
}

/// An event of one CPU.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SchedEvent {
    /// Monotonic clock, ns.
    pub at_ns: u64,
    /// Where.
    pub cpu: u16,
    /// What.
    pub kind: SchedEventKind,
}

/// Who a task is. Recorders send it before the first event of the task, and again when it changes (rename, exec).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceIdentity {
    /// The number in events.
    pub task: TraceTask,
    /// Since when it is called so, ns on the trace's clock. Each CPU's buffer is read by itself, so an older name may arrive later.
    pub at_ns: u64,
    /// Thread id and start.
    pub thread: ThreadKey,
    /// Process id and start.
    pub process: ProcessKey,
    /// Number of its control group; 0: not known.
    pub group: u64,
    /// Name of the thread.
    pub comm: Comm,
    /// Name of the executable, or of the process's first thread. Bytes from the device: hostile.
    pub program: Box<[u8]>,
    /// `program` is the executable's: it holds until the next exec.
    pub is_executable: bool,
    /// It works for the kernel only.
    pub is_kernel: bool,
}

/// How a control group is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceGroup {
    /// Its number in identities.
    pub group: u64,
    /// That of the group which it is in; 0: none, it is a root.
    pub parent: u64,
    /// Its last part. Bytes from the device: hostile.
    pub name: Box<[u8]>,
}
