//! Errors of measuring. Each variant names the operation and its object.

use std::io;
use std::path::{Path, PathBuf};

use crate::nt::NtError;

/// A source could not be opened or a pass could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// A file that every pass needs could not be used. A task's file never ends a pass: tasks come and go.
    #[error("cannot {operation} {}: {error}", path.display())]
    File {
        /// Operation that failed: `open`, `read`, `list`.
        operation: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    /// A file that every pass needs holds something else than proc(5) says.
    #[error("cannot understand {}: {what}", path.display())]
    Malformed { path: PathBuf, what: &'static str },
    #[error("BPF source: {reason}")]
    BpfUnavailable {
        /// Reason in one line, with the failed operation and its requirement.
        reason: String,
    },
    /// A running BPF source failed.
    #[error("BPF source: cannot {operation}: {error}")]
    Bpf {
        /// The step that failed, as an infinitive: `read the task iterator`.
        operation: &'static str,
        error: io::Error,
    },
    /// A call of the Windows API failed.
    #[error("cannot {operation}: {error}")]
    System {
        /// Operation that failed, as an infinitive.
        operation: &'static str,
        error: io::Error,
    },
    /// An answer of Windows has an unexpected layout.
    #[error("cannot understand what Windows answered: {0}")]
    Nt(NtError),
    /// A session of the Windows kernel's events cannot run here, or was ended.
    #[error("events of the kernel (ETW session): {reason}")]
    EtwUnavailable {
        /// Reason in one line, with its requirement.
        reason: String,
    },
    /// An option that this operating system does not support.
    #[error("{what}: not available on this operating system")]
    NotHere { what: &'static str },
    #[error("measuring is not supported on this operating system; receiving and showing are")]
    Unsupported,
}

impl CollectError {
    /// A closure for `map_err` on file operations.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only a source that reads files needs it"))]
    pub(crate) fn file<'p, E: Into<io::Error>>(
        operation: &'static str,
        path: &'p Path,
    ) -> impl FnOnce(E) -> Self + use<'p, E> {
        move |error| Self::File { operation, path: path.to_owned(), error: error.into() }
    }
}
