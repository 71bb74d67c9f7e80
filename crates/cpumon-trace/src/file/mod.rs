//! Trace files: bytes and nothing else. docs/trace-format.md has the layout.

mod columns;
pub(crate) mod ending;
pub(crate) mod events;
pub(crate) mod format;
pub(crate) mod reader;
pub mod segments;
mod sorter;
pub(crate) mod window;
pub(crate) mod writer;

use std::io;

/// A trace file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation}: {error}")]
pub struct WriteError {
    /// What was tried, as an infinitive.
    pub operation: &'static str,
    /// Why it failed.
    pub error: io::Error,
}

/// A file cannot be read as a trace at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file itself cannot be read.
    #[error("cannot read the trace: {0}")]
    Io(#[from] io::Error),
    /// It begins with something else.
    #[error("this is no trace file of cpumon, perf.data, trace.dat, Perfetto or .etl")]
    Foreign,
    /// It is packed as a whole.
    #[error("this is no trace file: it is packed with {with}; unpack it first, as with `{unpack}`")]
    Packed {
        /// What packed it.
        with: &'static str,
        /// What unpacks it into another file.
        unpack: &'static str,
    },
    /// It ends within its header, or that is damaged.
    #[error("the header of the trace is damaged or incomplete")]
    Header,
    /// A file of another recorder that has no trace of the scheduler, or lacks what is needed to read it.
    #[error("the file has no trace that can be read: {0}")]
    Unusable(&'static str),
    /// A newer cpumon wrote it.
    #[error("the trace has format version {found}; this cpumon reads version {known}")]
    Version {
        /// Version of the file.
        found: u16,
        /// The newest known version.
        known: u16,
    },
}
