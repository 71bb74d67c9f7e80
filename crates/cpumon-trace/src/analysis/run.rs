//! How long threads ran, and how long no event says what they did.

use cpumon_events::{ThreadSpan, ThreadState};

/// Of one thread.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct RunTimes {
    pub(super) run_ns: u64,
    pub(super) unknown_ns: u64,
}

impl RunTimes {
    #[inline]
    pub(super) fn add(&mut self, span: &ThreadSpan) {
        let ns = span.until_ns - span.from_ns;
        match span.state {
            ThreadState::Running => self.run_ns += ns,
            ThreadState::Unknown => self.unknown_ns += ns,
            _ => {}
        }
    }
}
