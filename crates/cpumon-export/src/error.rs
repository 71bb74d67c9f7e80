//! [`ExportError`]: why an export failed.

use std::io;
use std::path::PathBuf;

use cpumon_query::{ChoiceError, QueryError};
use cpumon_store::StoreError;
use cpumon_trace::ReadError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The store could not be read, or it has no such host.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The receiver that was asked does not answer, or refuses.
    #[error(transparent)]
    Receiver(Box<dyn std::error::Error + Send + Sync>),
    /// The pivot of 2012 has no column for the device, so it can hold only one.
    #[error(
        "the 2012 layout can hold only one device because it has no column for it; choose one with --host: {known}"
    )]
    ManyHosts {
        /// Some hosts of the store.
        known: String,
    },
    #[error("no legacy layout for {kind}: the original had processes, threads and pivot")]
    NoLegacyLayout { kind: &'static str },
    #[error("a comparison needs two ranges of time, before and after")]
    NoRanges,
    /// The output could not be written. The command line finds a closed pipe by the kind of `source`.
    #[error("cannot write the output")]
    Write(#[from] io::Error),
    #[error("cannot {operation} {path}", path = path.display())]
    File {
        /// Operation that failed: `open`, `write`, `put in place`.
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The SVG of a chart could not be rendered.
    #[error("cannot draw the chart as PNG: {reason}")]
    Picture { reason: String },
    /// A trace has no row: the range lies before the first event, in a hole, or only CPUs without a thread are in it.
    #[error(
        "the trace has no thread whose state is known in this range; `cpumon trace report` shows what it has"
    )]
    NoThread,
    #[error(transparent)]
    Trace(#[from] ReadError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// Intervals cannot be added up.
    #[error(transparent)]
    Sum(#[from] QueryError),
}

impl ExportError {
    /// Whether the reader of the output closed its pipe (as `head` does), which should end a program without a message.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write(source) | Self::File { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}
