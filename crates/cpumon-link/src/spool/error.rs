//! Errors of opening and reading a spool. Writing has no errors, only counts: see [`super::SpoolStatus`].

use std::io;
use std::path::{Path, PathBuf};

/// A spool could not be opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// The file system refused an operation.
    #[error("cannot {operation} {}: {error}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// Another program writes this spool.
    #[error("{} is being written by {holder}", path.display())]
    Locked {
        /// The spool's directory.
        path: PathBuf,
        /// `pid N`, or `another process` if its number could not be read.
        holder: String,
    },
    /// A directory without any segment.
    #[error("{} holds no recording: there is no *.segment file in it", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds snapshots of another machine, which must not be sent as this one's.
    #[error("{} holds snapshots of another machine: choose another directory, or `cpumon import` it first", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// The size is too small to store anything.
    #[error("a spool of {bytes} bytes is too small: it needs at least {least}")]
    TooSmall {
        /// What was asked for.
        bytes: u64,
        /// The least.
        least: u64,
    },
}

/// Adds operation and path to an I/O result.
pub(super) trait At<T> {
    /// Names what was tried, on what.
    fn at(self, operation: &'static str, path: &Path) -> Result<T, SpoolError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, operation: &'static str, path: &Path) -> Result<T, SpoolError> {
        self.map_err(|error| SpoolError::Io { operation, path: path.into(), error })
    }
}

/// The disk, the quota or the file-size limit is exhausted, in contrast to a disk that fails.
pub(super) fn is_no_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
