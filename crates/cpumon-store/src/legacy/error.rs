//! Why an import fails.

use std::path::PathBuf;

/// Why a file could not be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file could not be opened.
    #[error("cannot open {path} for import", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Not a SQLite database.
    #[error("{path} is not a SQLite database", path = path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The program that wrote the database did not close it.
    #[error(
        "{journal} is beside {path}: its writer did not finish. Close the original receiver, or open and close the \
         file once with sqlite3, then import again",
        path = path.display(),
        journal = journal.display()
    )]
    Journal {
        /// The file.
        path: PathBuf,
        /// The journal beside it.
        journal: PathBuf,
    },
    /// A database, but not one of the original receiver.
    #[error("{path} is no database of the original receiver: {reason}", path = path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// What is missing or wrong.
        reason: String,
    },
    /// The file is damaged or cannot be read further.
    #[error("cannot read {table} of {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The table, or `the schema`.
        table: &'static str,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// More than the importer holds in memory at once.
    #[error("{path} holds more than {limit} {what}: refused to keep memory bounded", path = path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// What there is too much of, in the plural.
        what: &'static str,
        /// How many are accepted.
        limit: usize,
    },
    /// One name for several devices.
    #[error("{path} holds {count} devices; a host name can be given for a file with one device only", path = path.display())]
    HostForMany {
        /// The file.
        path: PathBuf,
        /// Number of devices in it.
        count: u64,
    },
    /// The text names no time zone.
    #[error("{text:?} is no time zone: expected auto, an offset like +02:00 or a name like Europe/Berlin")]
    Zone {
        /// The text that was given.
        text: String,
    },
    /// The receiving side failed.
    #[error("cannot store an imported interval")]
    Sink(#[source] Box<dyn std::error::Error + Send + Sync>),
}
