//! What is remembered of a thread.

use cpumon_model::TraceTask;
use cpumon_trace::ThreadState;

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) task: TraceTask,
    pub(super) state: Option<ThreadState>,
    /// Where and when it entered that.
    pub(super) cpu: u16,
    pub(super) since_ns: u64,
    pub(super) waker: TraceTask,
    /// Perfetto takes it to be in some state.
    pub(super) is_known: bool,
    /// It is ready since its last wakeup, which may wait to be written.
    pub(super) is_waking: bool,
}

impl Default for Thread {
    fn default() -> Self {
        let (task, waker) = (TraceTask::UNKNOWN, TraceTask::UNKNOWN);
        Self { task, state: None, cpu: 0, since_ns: 0, waker, is_known: false, is_waking: false }
    }
}
