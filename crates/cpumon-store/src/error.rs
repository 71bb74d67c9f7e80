//! Errors of a store, each with the operation and the file, and the checks of a path before it is opened. Callers distinguish a full
//! disk from a damaged file by variant, not by text.

use std::path::{Path, PathBuf};

use rusqlite::ffi;

/// SQLite's error. It has no cause: SQLite's own one repeats the text with a number.
#[derive(Debug)]
pub struct SqliteError(rusqlite::Error);

impl std::fmt::Display for SqliteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SqliteError {}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error("cannot {operation} in store {}", path.display())]
    Sqlite {
        /// What failed, as in "cannot …".
        operation: &'static str,
        path: PathBuf,
        source: SqliteError,
    },
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What failed, as in "cannot …".
        operation: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// Another process (or another writer in this one) holds the store.
    #[error("store {} is being written by {holder}", path.display())]
    Locked {
        path: PathBuf,
        /// `pid N`, or `another process` if its number could not be read.
        holder: String,
    },
    /// A log beside the file has changes that a connection for reading only cannot take over.
    #[error(
        "store {} cannot be read without its log {}, which only a writer can take over: as the owner, start the receiver, or open the \
         store once with sqlite3, then try again",
        path.display(),
        log.display()
    )]
    Log { path: PathBuf, log: PathBuf, source: SqliteError },
    #[error("{} is an SQLite database, but not a cpumon store (application id {application_id:#x})", path.display())]
    NotAStore {
        path: PathBuf,
        /// `PRAGMA application_id` of the file; 0 where none was set.
        application_id: i32,
    },
    /// The file is not an SQLite database, or is damaged.
    #[error("{} is damaged or not a cpumon store: {detail}", path.display())]
    Corrupt { path: PathBuf, detail: String },
    #[error(
        "store {} has schema version {found}, this cpumon knows up to {known}: use a newer cpumon",
        path.display()
    )]
    NewerSchema {
        path: PathBuf,
        /// `PRAGMA user_version` of the file.
        found: i32,
        known: i32,
    },
    /// An older cpumon wrote it, and it is open for reading only.
    #[error(
        "store {} has schema version {found}; it is brought up to version {known} when a receiver opens it",
        path.display()
    )]
    OlderSchema {
        path: PathBuf,
        /// `PRAGMA user_version` of the file.
        found: i32,
        known: i32,
    },
    #[error("{path} is a directory, and a store is a file: name the file in it, e.g. {example}", path = path.display(), example = path.join("cpumon.db").display())]
    Directory { path: PathBuf },
    /// The path is a pipe, a socket or a device. Opening a pipe would wait for a writer.
    #[error("{} is no regular file, and a store is one", path.display())]
    NoFile { path: PathBuf },
    #[error("there is no store at {}", path.display())]
    Missing { path: PathBuf },
    #[error("no host {wanted:?} in the store; it has: {}", if known.is_empty() { "none" } else { known })]
    UnknownHost {
        wanted: String,
        /// The names there are, comma separated.
        known: String,
    },
    #[error("{wanted:?} means more than one host, name one by its id: {known}")]
    AmbiguousHost {
        wanted: String,
        /// Names and ids of the hosts that it may mean.
        known: String,
    },
    #[error("refused: {what}; a query may only read the store")]
    Refused { what: String },
    #[error("one statement at a time: the text after the first ';' is another one")]
    SeveralStatements,
}

pub type Result<T, E = StoreError> = std::result::Result<T, E>;

impl StoreError {
    /// Whether there is no space: the disk is full, a quota or `max_page_count` is reached, or it cannot be written (an I/O
    /// error). Such an error ends when space is freed.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::Sqlite { source, .. } => matches!(
                source.0.sqlite_error_code(),
                Some(
                    rusqlite::ErrorCode::DiskFull
                        | rusqlite::ErrorCode::SystemIoFailure
                        | rusqlite::ErrorCode::ReadOnly
                        | rusqlite::ErrorCode::CannotOpen
                )
            ),
            Self::Io { .. } => true,
            _ => false,
        }
    }

    /// The error of opening a store that has a log beside it, which SQLite does not name where it needs to write.
    pub(crate) fn with_log(self, log: PathBuf) -> Self {
        match self {
            Self::Sqlite { path, source, .. }
                if matches!(
                    source.0.sqlite_error_code(),
                    Some(rusqlite::ErrorCode::ReadOnly | rusqlite::ErrorCode::CannotOpen)
                ) =>
            {
                Self::Log { path, log, source }
            }
            error => error,
        }
    }

    /// The error and its causes on one line, for logs and for texts that are stored.
    pub fn with_causes(&self) -> String {
        cpumon_model::with_causes(self)
    }

    /// What the user has stopped.
    #[cfg(feature = "bundled")]
    pub(crate) fn stopped(operation: &'static str, path: &Path) -> Self {
        Self::Sqlite { operation, path: path.into(), source: SqliteError(interrupted()) }
    }

    /// Wraps SQLite's error; a damaged file becomes [`StoreError::Corrupt`].
    pub(crate) fn sqlite(operation: &'static str, path: &Path, source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            // SQLite uses the first for a file that never was a database and for one whose header is overwritten.
            Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
                Self::Corrupt { path: path.into(), detail: source.to_string() }
            }
            // Nothing else interrupts a statement, but for `stopped`.
            Some(rusqlite::ErrorCode::OperationInterrupted) => {
                Self::Corrupt { path: path.into(), detail: endless(path) }
            }
            _ => Self::Sqlite { operation, path: path.into(), source: SqliteError(source) },
        }
    }
}

/// The error of a question that goes beyond a limit of steps or of rows: as of a statement that was interrupted.
pub(crate) fn interrupted() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_INTERRUPT), None)
}

/// The words for what these limits end.
fn endless(path: &Path) -> String {
    format!(
        "its pages lead to the same rows again and again, or it has over a thousand tables; `cpumon store check {}` reports more",
        path.display()
    )
}

/// Whether an error means that the data is wrong: a page that does not fit, a value of another type, a row that an index has and
/// the table does not.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::QueryReturnedNoRows => true,
        error => error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt),
    }
}

/// Whether there may be a store at a path. What the system refuses to say is its error, not a missing file.
pub(crate) fn check_is_there(path: &Path) -> Result<()> {
    match path.try_exists() {
        Ok(true) => check_is_file(path).and_then(|()| check_length(path)),
        Ok(false) => Err(StoreError::Missing { path: path.into() }),
        Err(error) => Err(error).at("open", path),
    }
}

/// Refuses directories (SQLite reports only that it cannot open the file) and pipes (SQLite waits). A missing path passes.
pub(crate) fn check_is_file(path: &Path) -> Result<()> {
    match path.metadata() {
        Ok(found) if found.is_dir() => Err(StoreError::Directory { path: path.into() }),
        Ok(found) if !found.is_file() => Err(StoreError::NoFile { path: path.into() }),
        _ => Ok(()),
    }
}

/// Smallest page of a database, bytes (SQLite's file format, section 1.3.2).
const MIN_BYTES: u64 = 512;

/// Refuses a file without a page: SQLite takes it for a database without tables.
fn check_length(path: &Path) -> Result<()> {
    let detail = match path.metadata().map(|found| found.len()) {
        Ok(0) => "the file is empty".to_owned(),
        Ok(bytes) if bytes < MIN_BYTES => {
            format!("the file has {bytes} bytes, fewer than a page of a database")
        }
        _ => return Ok(()),
    };
    Err(StoreError::Corrupt { path: path.into(), detail })
}

/// The path of a file beside another one, whose name it has with an ending.
pub(crate) fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// What cannot be compressed cannot be bound to a statement.
pub(crate) fn unpackable(error: std::io::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

/// Adds operation and path to an error of SQLite or of the file system.
pub(crate) trait At<T> {
    fn at(self, operation: &'static str, path: &Path) -> Result<T>;
}

impl<T> At<T> for std::result::Result<T, rusqlite::Error> {
    fn at(self, operation: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| StoreError::sqlite(operation, path, source))
    }
}

impl<T> At<T> for std::result::Result<T, std::io::Error> {
    fn at(self, operation: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| StoreError::Io { operation, path: path.into(), source })
    }
}
