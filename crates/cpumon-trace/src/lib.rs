//! Context-switch traces: what ran where and when, exactly, and why each thread waited.
//!
//! # Overview
//! [`TraceWriter`] makes a trace file of events (docs/trace-format.md has the layout), [`TraceReader`] hands them out again
//! sorted by time over all CPUs; [`AnyTrace`] does the same for the files of other recorders. A [`Tracker`] makes of them spans of states of threads and CPUs, of which [`Report`] computes
//! run time, run delay, blocked time by reason and the ledger.
//!
//! Memory is bounded by the number of threads, not by the length of the trace; every size in a file is checked before it is
//! used.

mod analysis;
mod cost;
mod file;
#[cfg(test)]
#[path = "../../../testing/held_memory.rs"]
mod held_memory;
mod import;
mod source;
mod tasks;
mod timeline;

pub use analysis::cpu::CpuAccount;
pub use analysis::durations::{DurationOf, DurationRow, Durations, durations};
pub use analysis::group::{GroupKey, GroupRow, Groups, ReportBy, group_of};
pub use analysis::history::{TraceHistory, history};
pub use analysis::interrupts::InterruptTimes;
pub use analysis::longest::{LongWait, longest_waits};
pub use analysis::pass::TraceRange;
pub use analysis::path::PathStep;
pub use analysis::ready::LongestDelay;
pub use analysis::report::{Report, Totals, analyse};
pub use analysis::series::{CpuCell, Series, SeriesCell, SeriesError, SeriesRow, series};
pub use analysis::snapshots::snapshots;
pub use analysis::wake_sources::Waker;
pub use analysis::wakers::{WakeCounts, WakerKey, WakerRow, Wakers, wakers};
pub use cpumon_events::{
    CpuSpan, CpuState, InterruptSpan, Slots, SpanSink, ThreadSpan, ThreadState, Tracker, Wakeup,
};
#[doc(hidden)]
pub use file::chunk::chunk_of;
pub use file::header::{FileHeader, VERSION};
pub use file::reader::{Ending, TraceReader};
pub use file::segments::{self, Segment, TraceInput};
pub use file::summary::{TraceSummary, summarise};
#[doc(hidden)]
pub use file::varint::push as push_varint;
pub use file::window::{TraceWindow, WindowCopy, WindowLimits};
pub use file::writer::{Compression, TraceWriter, WrittenCounts};
pub use file::{ReadError, WriteError};
pub use import::UNKNOWN_TID;
pub use import::any::AnyTrace;
#[doc(hidden)]
pub use import::etl::counts::etl_counts;
pub use source::TraceSource;
pub use tasks::{TaskNames, Tasks};
pub use timeline::{
    Behind, Buckets, CpuTrack, CpuWho, Delay, Delays, Overload, RunPart, Slice, StatePart, ThreadNames,
    ThreadRow, ThreadTotals, ThreadTrack, Timeline, TimelineLimits, Wait, WindowSums, Woken,
};
