//! Context-switch traces: what ran where and when, exactly, and why each thread waited.
//!
//! # Overview
//! [`TraceWriter`] makes a trace file of events (docs/trace-format.md has the layout), [`TraceReader`] hands them out again
//! sorted by time over all CPUs; the crate `cpumon-trace-import` does the same for the files of other recorders, as another [`TraceSource`].
//! A [`Tracker`] turns events into spans of states of threads and CPUs. From these spans, [`Report`] computes run time, run delay, blocked
//! time by reason and the ledger.
//!
//! Memory is bounded by the number of threads, not by the length of the trace; every size in a file is checked before it is
//! used.

mod analysis;
mod file;
#[cfg(test)]
#[path = "../../../testing/held_memory.rs"]
mod held_memory;
pub mod limits;
mod source;
mod tasks;
mod timeline;

pub use analysis::durations::{DurationOf, DurationRow, Durations, LongWait, durations, longest_waits};
pub use analysis::history::{HeldThread, TraceHistory, history};
pub use analysis::path::{PathStep, PathSums};
pub use analysis::ready::LongestDelay;
pub use analysis::report::{GroupKey, GroupRow, Groups, Report, ReportBy, Totals, analyse, group_of};
pub use analysis::series::{CpuCell, Series, SeriesCell, SeriesError, SeriesRow, series};
pub use analysis::snapshots::snapshots;
pub use analysis::wakers::{WakeCounts, Waker, WakerKey, WakerRow, Wakers, wakers};
pub use analysis::{CpuAccount, ThreadTotals, TraceRange};
pub use cpumon_sched::{
    CpuSpan, CpuState, Interrupt, InterruptSpan, Leaves, RecentWakers, SchedEvent, SchedEventKind, SpanSink,
    ThreadSpan, ThreadState, TraceGroup, TraceIdentity, TraceTask, Tracker, Wakeup,
};
#[doc(hidden)]
pub use file::format::chunk_of;
pub use file::format::{FileHeader, VERSION};
pub use file::reader::{TraceReader, TraceSummary, summarise};
pub use file::segments::{self, Segment, TraceInput};
pub use file::window::{TraceWindow, WindowCopy, WindowLimits};
pub use file::writer::{Compression, TraceWriter, WrittenCounts};
pub use file::{ReadError, WriteError};
pub use source::{Ending, StoppedCpu, TraceFacts, TraceSource};
pub use tasks::{TaskNames, Tasks};
pub use timeline::{
    Behind, Buckets, CpuWho, Delay, Delays, Overload, ThreadRow, Timeline, TimelineLimits, TraceBehind,
    TraceCpuTrack, TraceOverview, TraceReason, TraceShare, TraceSlice, TraceThread, TraceThreadTrack,
    TraceTracks, TraceWait, TraceWoken, WindowSums,
};
