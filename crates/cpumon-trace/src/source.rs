//! [`TraceSource`] gives the events of a trace: one trait for the reader of our own files and all importers, so that every analysis takes
//! any source. [`Ending`] says how the reading ended and what the trace lacks.

use cpumon_sched::{SchedEvent, SpanSink, Tracker};

use crate::file::ReadError;
use crate::file::format::FileHeader;
use crate::tasks::Tasks;

/// A CPU that went offline and did not come back.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StoppedCpu {
    pub cpu: u16,
    /// Time of its last event.
    pub since_ns: u64,
}

/// What a trace says beside its events.
#[derive(Debug, Default)]
pub struct TraceFacts {
    pub header: FileHeader,
    /// Who the tasks are, as far as the trace has been read.
    pub tasks: Tasks,
    /// Whether every CPU was watched from the start of the trace on. Else what a CPU did before its first switch is unknown.
    pub is_watched_from_begin: bool,
    /// CPUs that went offline, once the trace has been read. None where its events say so themselves.
    pub stopped: Vec<StoppedCpu>,
}

/// A trace that is read once, from its start to its end.
pub trait TraceSource {
    fn facts(&self) -> &TraceFacts;

    fn facts_mut(&mut self) -> &mut TraceFacts;

    /// Hands out every event in the order of their time, up to the end of the trace or its first damage.
    fn read(&mut self, out: &mut impl FnMut(SchedEvent)) -> Result<Ending, ReadError>;

    fn header(&self) -> &FileHeader {
        &self.facts().header
    }

    fn tasks(&self) -> &Tasks {
        &self.facts().tasks
    }

    fn tasks_mut(&mut self) -> &mut Tasks {
        &mut self.facts_mut().tasks
    }

    fn tracker<S: SpanSink>(&self, sink: S) -> Tracker<S> {
        let mut tracker = Tracker::new(self.header().began.mono_ns, sink);
        tracker.is_watched_from_begin = self.facts().is_watched_from_begin;
        tracker
    }

    /// Ends a tracker that took all events up to this time.
    fn finish<S: SpanSink>(&self, mut tracker: Tracker<S>, end_ns: u64) -> S {
        let stopped = &self.facts().stopped;
        for StoppedCpu { cpu, since_ns } in stopped.iter().filter(|stopped| stopped.since_ns < end_ns) {
            tracker.stop(*cpu, *since_ns);
        }
        tracker.finish(end_ns)
    }
}

/// How the reading of a file ended, and what was wrong on the way.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// The recording ended in order at this time, and the file says so.
    pub ended_ns: Option<u64>,
    /// The file ends inside a chunk, or is damaged, here first (byte).
    pub damaged_at: Option<u64>,
    /// Places where it is damaged and whole chunks follow. What every CPU did there is unknown.
    pub gaps: u64,
    /// Bytes that could not be read, those of a torn end among them.
    pub unreadable_bytes: u64,
    /// Chunks whose events cannot be read though their checksum is right.
    pub malformed: u64,
    /// Events out of order.
    pub late: u64,
    /// Events that the recorder lost, by its own count at the end.
    pub lost: u64,
    /// Identities and names that were left out, because there are too many.
    pub unnamed: u64,
    /// Events that name threads for which there is no memory, and waits that are held only in part. The CPUs' times include both all the
    /// same.
    pub unfollowed: u64,
    /// Times between two parts of a recording that no part has.
    pub holes: u64,
    /// From this byte on the file has another recording, which is not read.
    pub other_at: Option<u64>,
    /// All events up to this time are known, ns.
    pub known_until_ns: u64,
}

impl Ending {
    pub fn is_whole(&self) -> bool {
        self.ended_ns.is_some()
            && self.damaged_at.is_none()
            && self.malformed == 0
            && self.unnamed == 0
            && self.unfollowed == 0
            && self.holes == 0
            && self.other_at.is_none()
    }

    /// What the trace lacks, a clause each. `marked`: lost events whose span is known.
    pub fn problems(&self, marked: u64) -> Vec<String> {
        let mut all = Vec::new();
        let damaged_at = self.damaged_at.unwrap_or(0);
        if self.gaps > 0 {
            all.push(format!(
                "the trace is damaged, first at byte {damaged_at}: {} bytes at {} places cannot be read, and what the CPUs did then is unknown",
                self.unreadable_bytes, self.gaps
            ));
        } else if self.damaged_at.is_some() {
            all.push(format!(
                "the trace is damaged or ends early at byte {damaged_at}; what comes behind it is left out"
            ));
        }
        if self.ended_ns.is_none() && (self.damaged_at.is_none() || self.gaps > 0) {
            let text = "the trace has no end mark: it is still being recorded, or its recorder was killed";
            all.push(text.to_owned());
        }
        let lost = marked.max(self.lost);
        let counted = [
            (self.holes, "segments are missing at", "places; what the CPUs did then is unknown"),
            (self.malformed, "", "chunks or records are malformed"),
            (
                self.unfollowed,
                "the trace has more threads than memory is for:",
                "events and waits of further ones are left out; the times of the CPUs have them",
            ),
            (
                lost,
                "the recorder lost",
                "events; their time is unknown. Record with larger buffers (--buffer)",
            ),
            (self.late, "", "events are out of order; times around them can be wrong"),
            (self.unnamed, "", "names of tasks and control groups were left out: there are too many"),
        ];
        for (count, before, behind) in counted.into_iter().filter(|(count, ..)| *count > 0) {
            all.push(format!("{before} {count} {behind}").trim_start().to_owned());
        }
        if let Some(at) = self.other_at {
            all.push(format!("from byte {at} on the file has another recording, which is left out"));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page once omitted three of the problems.
    #[test]
    fn all_that_a_trace_lacks_is_named() {
        let whole = Ending { ended_ns: Some(1), ..Ending::default() };
        assert!(whole.is_whole() && whole.problems(0).is_empty());
        let named = |ending: Ending| ending.problems(0).join("\n");
        for (ending, words) in [
            (Ending { ended_ns: None, ..whole }, "the trace has no end mark"),
            (Ending { damaged_at: Some(7), ..whole }, "the trace is damaged or ends early at byte 7;"),
            (Ending { damaged_at: Some(7), gaps: 2, ..whole }, "first at byte 7: 0 bytes at 2 places"),
            (Ending { holes: 2, ..whole }, "segments are missing at 2 places;"),
            (Ending { other_at: Some(9), ..whole }, "from byte 9 on the file has another recording"),
            (Ending { malformed: 3, ..whole }, "3 chunks or records are malformed"),
            (Ending { unfollowed: 4, ..whole }, "memory is for: 4 events and waits"),
            (Ending { lost: 5, ..whole }, "the recorder lost 5 events;"),
            (Ending { late: 6, ..whole }, "6 events are out of order;"),
            (Ending { unnamed: 8, ..whole }, "8 names of tasks and control groups"),
        ] {
            assert!(named(ending).contains(words), "{ending:?}: {}", named(ending));
        }
        assert!(whole.problems(11)[0].contains("lost 11 events"));
    }
}
