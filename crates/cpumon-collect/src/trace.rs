//! [`TraceRecorder`]: every context switch, wakeup and migration of a machine, as events.

use std::cell::RefCell;
use std::rc::Rc;

use crate::source::platform;
use crate::{CollectError, TraceRecorderOptions, TraceSink};

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
