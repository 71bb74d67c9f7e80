//! Why an export failed. In: errors of the store and of the writer. Out: [`ExportError`]. Why: the caller tells a full
//! disk from a closed pipe from a wrong name.

use std::io;
use std::path::PathBuf;

use cpumon_store::StoreError;

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The store could not be read, or it has no such host.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The 2012 layout names no device, so it can hold one only.
    #[error("the 2012 layout names no device, so it can hold one only: choose with --host: {known}")]
    ManyHosts {
        /// Some names that are there.
        known: String,
    },
    /// The original had no such export.
    #[error("the original had no {kind} export: processes, threads and pivot have a legacy layout")]
    NoLegacyLayout {
        /// What was asked for.
        kind: &'static str,
    },
    /// A comparison of nothing.
    #[error("a comparison needs two spans, before and after")]
    NoSpans,
    /// Writing failed.
    #[error("cannot write the export: {0}")]
    Write(io::Error),
    /// Reading ended early at the writer's wish: whoever reads our output went away.
    #[error("the reader of the export went away")]
    BrokenPipe,
    /// The file could not be written.
    #[error("cannot {operation} {path}: {source}", path = path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A picture could not be made of a chart.
    #[error("cannot draw the chart as PNG: {reason}")]
    Picture {
        /// What the drawing library said.
        reason: String,
    },
    /// A word that is none of the choices.
    #[error("unknown {what} {text:?}: expected one of {choices}")]
    Choice {
        /// Of what.
        what: &'static str,
        /// What was given.
        text: String,
        /// What is possible.
        choices: String,
    },
}

impl ExportError {
    /// Whether the only trouble is that nobody reads any more, which ends a program quietly.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::BrokenPipe)
            || matches!(self, Self::File { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::BrokenPipe } else { Self::Write(error) }
    }
}
