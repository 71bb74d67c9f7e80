//! What a [`TraceRecorder`](crate::TraceRecorder) needs from its user, and what it hands out.

use cpumon_model::{SchedEvent, TraceGroup, TraceIdentity};

/// One thing that a [`TraceRecorder`](crate::TraceRecorder) has read.
#[derive(Clone, Debug)]
pub enum TraceItem {
    /// Those of one CPU come in the order of their time, except that one may be some µs early or late.
    Event(SchedEvent),
    /// Who a task is, before its first event, and when it changes.
    Identity(TraceIdentity),
    /// The name of a control group, before the first identity in it.
    Group(TraceGroup),
}

#[derive(Copy, Clone, Debug)]
pub struct TraceRecorderOptions {
    /// Memory in the kernel for unread records, bytes a CPU. Rounded to a power of two, and less where the sum would
    /// exceed 512 MiB on all CPUs. Three quarters are for events of 24 bytes each, the rest is for the names of tasks.
    pub buffer_bytes: u32,
    /// Whether interrupts are recorded, too: an event for each.
    pub has_interrupts: bool,
}

impl Default for TraceRecorderOptions {
    fn default() -> Self {
        Self { buffer_bytes: 8 << 20, has_interrupts: false }
    }
}
