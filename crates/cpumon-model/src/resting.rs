//! [`Resting`]: a thread that waits, without what it did.

use crate::{Comm, ProcessKey, TaskState, ThreadKey, ThreadSample, WaitReason};

/// A thread that waits, and what for. [`WaitReason::UNWATCHED`]: what it does is not known.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Resting {
    /// Id and start; unique within a boot.
    pub key: ThreadKey,
    /// The process it belongs to.
    pub process: ProcessKey,
    /// Its name.
    pub comm: Comm,
    /// Its state.
    pub state: TaskState,
    /// Nice value, −20 to 19.
    pub nice: i8,
    /// Kernel priority, as in [`ThreadSample::priority`].
    pub priority: i16,
    /// The CPU it last ran on.
    pub last_cpu: u16,
    /// What it waits for.
    pub reason: WaitReason,
}

impl Resting {
    /// The thread of a sample; `None` if it does not wait.
    #[must_use]
    pub fn of_sample(thread: &ThreadSample) -> Option<Self> {
        let reason = thread.sched.open_wait;
        reason.is_some().then_some(Self {
            key: thread.key,
            process: thread.process,
            comm: thread.comm,
            state: thread.state,
            nice: thread.nice,
            priority: thread.priority,
            last_cpu: thread.last_cpu,
            reason,
        })
    }
}
