//! Trace files: their bytes, by the layout in docs/trace-format.md.
//!
//! This file has the errors, those of reading for the readers of all formats.

mod columns;
pub(crate) mod events;
pub(crate) mod format;
pub(crate) mod reader;
pub mod segments;
mod sorter;
pub(crate) mod window;
pub(crate) mod writer;

use std::io;

#[derive(Debug, thiserror::Error)]
#[error("cannot {operation}")]
pub struct WriteError {
    /// What was tried, as an infinitive.
    pub operation: &'static str,
    #[source]
    pub error: io::Error,
}

/// A file cannot be read as a trace at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read the trace")]
    Io(#[from] io::Error),
    /// The file has another format.
    #[error("this is no trace file of cpumon, perf.data, trace.dat, Perfetto or .etl")]
    Foreign,
    /// The whole file is compressed.
    #[error("this is no trace file: it is packed with {with}; unpack it first, as with `{unpack}`")]
    Packed {
        /// Name of the compression, such as `gzip`.
        with: &'static str,
        /// Command that unpacks the file into another one.
        unpack: &'static str,
    },
    /// It ends within its header, or that is damaged.
    #[error("the header of the trace is damaged or incomplete")]
    Header,
    /// A file of another recorder that has no trace of the scheduler, or lacks data that reading it needs.
    #[error("the file has no trace that can be read: {0}")]
    Unusable(&'static str),
    #[error("the trace has format version {found}; this cpumon reads version {known}")]
    Version {
        found: u16,
        /// The newest known version.
        known: u16,
    },
    /// Each snapshot reads all threads and CPUs again.
    #[error(
        "{snapshots} snapshots of {threads} threads and CPUs take too long; choose a longer interval, or a part of the trace"
    )]
    TooManySnapshots { snapshots: usize, threads: usize },
}
