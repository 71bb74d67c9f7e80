//! Where the events of a trace come from: one trait for the reader of our own files and all importers, so that every analysis
//! takes any of them.

use cpumon_events::{SpanSink, Tracker};
use cpumon_model::SchedEvent;

use crate::file::ReadError;
use crate::file::ending::Ending;
use crate::file::format::FileHeader;
use crate::tasks::Tasks;

/// A CPU that went offline and did not come back.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StoppedCpu {
    pub cpu: u16,
    /// Time of its last event.
    pub since_ns: u64,
}

/// A trace that is read once, from its start to its end.
pub trait TraceSource {
    fn header(&self) -> &FileHeader;

    /// Who the tasks are, as far as the trace has been read.
    fn tasks(&self) -> &Tasks;

    fn tasks_mut(&mut self) -> &mut Tasks;

    /// Whether every CPU was watched from the start of the trace on. Else what a CPU did before its first switch is unknown.
    fn is_watched_from_begin(&self) -> bool;

    /// Hands out every event in the order of their time, up to the end of the trace or its first damage.
    fn read(&mut self, out: &mut impl FnMut(SchedEvent)) -> Result<Ending, ReadError>;

    /// CPUs that went offline, once the trace has been read. None where its events say so themselves.
    fn stopped(&self) -> &[StoppedCpu] {
        &[]
    }

    fn tracker<S: SpanSink>(&self, sink: S) -> Tracker<S> {
        let mut tracker = Tracker::new(self.header().began.mono_ns, sink);
        tracker.is_watched_from_begin = self.is_watched_from_begin();
        tracker
    }

    /// Ends a tracker that took all events up to this time.
    fn finish<S: SpanSink>(&self, mut tracker: Tracker<S>, end_ns: u64) -> S {
        for StoppedCpu { cpu, since_ns } in self.stopped().iter().filter(|stopped| stopped.since_ns < end_ns)
        {
            tracker.stop(*cpu, *since_ns);
        }
        tracker.finish(end_ns)
    }
}
