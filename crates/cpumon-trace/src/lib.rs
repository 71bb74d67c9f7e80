//! Context-switch traces: what ran where and when, exactly, and why each thread waited.
//!
//! # Overview
//! [`TraceWriter`] makes a trace file of events (docs/trace-format.md has the layout), [`TraceReader`] hands them out again
//! sorted by time over all CPUs.
//!
//! Memory is bounded by the number of threads, not by the length of the trace; every size in a file is checked before it is
//! used.

mod file;
mod tasks;

#[doc(hidden)]
pub use file::chunk::chunk_of;
pub use file::header::{FileHeader, VERSION};
pub use file::reader::{Ending, TraceReader};
pub use file::writer::{Compression, TraceWriter, WrittenCounts};
pub use file::{ReadError, WriteError};
pub use tasks::{TaskNames, Tasks};
