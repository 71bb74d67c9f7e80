//! What a [`TraceRecorder`](crate::TraceRecorder) needs from its caller: options, and a sink for every context switch,
//! wakeup and migration of the machine.

use cpumon_model::{SchedEvent, TraceGroup, TraceIdentity};

/// Receives the records that a [`TraceRecorder`](crate::TraceRecorder) reads.
pub trait TraceSink {
    /// An event. Those of one CPU come in the order of their time, except that one may be some µs early or late.
    fn event(&mut self, event: SchedEvent);
    /// The identity of a task, before its first event, and when it changes.
    fn identity(&mut self, identity: &TraceIdentity);
    /// How a control group is called, before the first identity in it.
    fn group(&mut self, group: &TraceGroup);
}

/// Options of a [`TraceRecorder`](crate::TraceRecorder).
#[derive(Copy, Clone, Debug)]
pub struct TraceRecorderOptions {
    /// Memory in the kernel for unread records, bytes a CPU. Rounded to a power of two, and less where the sum would
    /// exceed 512 MiB on all CPUs. Three quarters are for events of 24 bytes each, the rest is for the names of tasks.
    pub buffer_bytes: u32,
    /// Interrupts as well: an event for each.
    pub has_interrupts: bool,
}

impl Default for TraceRecorderOptions {
    fn default() -> Self {
        Self { buffer_bytes: 8 << 20, has_interrupts: false }
    }
}
