//! [`TraceRecorder`]: every context switch, wakeup and migration of a machine, as events.

use std::cell::RefCell;
use std::rc::Rc;

use cpumon_model::{SchedEvent, TraceGroup, TraceIdentity};

use crate::CollectError;
use crate::source::platform;

/// A recording under way. It needs the rights of the BPF source.
pub struct TraceRecorder {
    recorder: platform::Recorder,
}

impl TraceRecorder {
    /// Begins to record.
    ///
    /// Errors: [`CollectError::BpfUnavailable`] says which step was refused and what to grant.
    pub fn open(
        options: TraceRecorderOptions,
        sink: Rc<RefCell<dyn TraceSink>>,
    ) -> Result<Self, CollectError> {
        Ok(Self { recorder: platform::Recorder::open(options, sink)? })
    }

    /// Hands everything recorded so far to the sink. Returns how full the fullest buffer was, 0 to 1: nothing wakes the
    /// reader, so it must come back before that reaches 1.
    pub fn drain(&mut self) -> Result<f64, CollectError> {
        self.recorder.drain()
    }

    /// Ends the recording, with what was recorded since the last [`TraceRecorder::drain`].
    pub fn stop(&mut self) -> Result<(), CollectError> {
        self.recorder.stop()
    }

    /// Events that did not fit the buffers, since the recording began. Each is part of a
    /// [`Lost`](cpumon_model::SchedEventKind::Lost) event, too.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.recorder.lost()
    }

    /// Records that could not be read: always 0, unless program and loader do not belong together.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.recorder.malformed()
    }
}

/// Takes what a [`TraceRecorder`](crate::TraceRecorder) reads.
pub trait TraceSink {
    /// An event. Those of one CPU come in the order of their time, except that one may be some µs early or late.
    fn event(&mut self, event: SchedEvent);
    /// Who a task is, before its first event, and when it changes.
    fn identity(&mut self, identity: &TraceIdentity);
    /// How a control group is called, before the first identity in it.
    fn group(&mut self, group: &TraceGroup);
}

/// Options of a [`TraceRecorder`](crate::TraceRecorder).
#[derive(Copy, Clone, Debug)]
pub struct TraceRecorderOptions {
    /// Memory in the kernel for what has not been read yet, bytes a CPU. Rounded to a power of two, and less where that would come
    /// to more than 512 MiB on all CPUs. Three quarters are for events of 24 bytes each, the rest is for the names of tasks.
    pub buffer_bytes: u32,
    /// Interrupts as well: an event for each.
    pub has_interrupts: bool,
}

impl Default for TraceRecorderOptions {
    fn default() -> Self {
        Self { buffer_bytes: 8 << 20, has_interrupts: false }
    }
}
