//! One pass over a trace: its events through the tracker into an analysis.

use cpumon_events::{SpanSink, Tracker};

use crate::file::ReadError;
use crate::file::reader::Ending;
use crate::source::TraceSource;

/// A part of a trace, ns since its start.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TraceRange {
    /// From here.
    pub from_ns: u64,
    /// To here.
    pub until_ns: u64,
}

impl Default for TraceRange {
    /// All of it.
    fn default() -> Self {
        Self { from_ns: 0, until_ns: u64::MAX }
    }
}

impl TraceRange {
    /// On the clock of a trace that began at this time.
    pub(crate) fn on_clock(self, began_ns: u64) -> Self {
        Self {
            from_ns: began_ns.saturating_add(self.from_ns),
            until_ns: began_ns.saturating_add(self.until_ns),
        }
    }

    pub(crate) fn has(self, at_ns: u64) -> bool {
        (self.from_ns..=self.until_ns).contains(&at_ns)
    }
}

/// An analysis that has seen all of a trace.
pub(crate) struct Tracked<S> {
    pub(crate) sink: S,
    /// Whether the trace is whole.
    pub(crate) ending: Ending,
    pub(crate) events: u64,
}

/// Reads a trace to its end.
pub(crate) fn track<S: SpanSink>(reader: &mut impl TraceSource, sink: S) -> Result<Tracked<S>, ReadError> {
    let mut tracker = Tracker::new(reader.header().began.mono_ns, sink);
    if !reader.is_watched_from_begin() {
        tracker = tracker.with_unknown_begin();
    }
    let mut events = 0;
    let mut ending = reader.read(&mut |event| {
        events += 1;
        tracker.event(&event);
    })?;
    ending.unfollowed = tracker.unfollowed();
    Ok(Tracked { sink: tracker.finish(ending.known_until_ns), ending, events })
}
