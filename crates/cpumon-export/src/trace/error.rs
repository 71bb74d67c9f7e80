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
}

impl From<TraceExportError> for ExportError {
    fn from(error: TraceExportError) -> Self {
        match error {
            TraceExportError::Read(error) => Self::Trace(error),
            TraceExportError::Write(error) => error,
        }
    }
}
