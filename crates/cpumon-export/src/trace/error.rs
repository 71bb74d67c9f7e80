//! [`TraceExportError`]: why a trace could not be exported.

use cpumon_trace::ReadError;

use crate::ExportError;

/// Why a trace could not be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceExportError {
    /// The trace could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The export could not be written.
    #[error(transparent)]
    Write(#[from] ExportError),
    /// No row: the range lies before the first event, in a hole, or only CPUs without a thread are in it.
    #[error(
        "the trace has no thread whose state is known in this range; `cpumon trace report` shows what it has"
    )]
    NoThread,
}

impl From<TraceExportError> for ExportError {
    fn from(error: TraceExportError) -> Self {
        match error {
            TraceExportError::Read(error) => Self::Trace(error),
            TraceExportError::Write(error) => error,
            nothing @ TraceExportError::NoThread => Self::Write(std::io::Error::other(nothing)),
        }
    }
}
