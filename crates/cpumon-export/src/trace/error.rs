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
