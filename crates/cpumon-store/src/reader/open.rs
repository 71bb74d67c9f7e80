//! Opens a store for reading: beside a writer, and also on a file or medium that cannot be written at all.

use std::cell::RefCell;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cpumon_model::HostId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::cursor::IntervalCursor;
use super::damage::DamageReport;
use super::dims;
use super::error::ReadError;
use crate::error::{At, Result, StoreError, check_is_there};
use crate::rows::HostRow;
use crate::schema;

/// A store opened for reading.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    pub(crate) connection: Connection,
    /// Reused buffers and names; taken out while a query runs, so that its callback may start another query.
    pub(super) cursor: RefCell<IntervalCursor>,
}

impl Reader {
    /// Path that the store was opened with.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the store at `path` for reading only; a writer may run at the same time. Where the file's directory cannot be
    /// written (SQLite needs a file for readers' locks there) and no writer left a log, it is read without locks.
    pub fn open(path: &Path) -> Result<Self> {
        let connection = open_to_read(path, &mut |connection| schema::prepare_reader(connection, path))?;
        Ok(Self { path: path.into(), connection, cursor: RefCell::new(IntervalCursor::default()) })
    }

    /// What could not be read since this reader was opened. Answers were given without it.
    #[must_use]
    pub fn damage(&self) -> DamageReport {
        self.cursor.borrow().damage_report()
    }

    /// The buffers for a query. They are taken, so that its callback may start another one.
    pub(super) fn take_cursor(&self) -> IntervalCursor {
        self.cursor.take()
    }

    /// Gives the buffers of a query back.
    pub(super) fn give_back(&self, cursor: IntervalCursor) {
        let of_callback = self.cursor.replace(cursor);
        self.cursor.borrow_mut().merge_damage(of_callback);
    }

    pub(super) fn host_row(&self, host: HostId) -> Result<Option<HostRow>> {
        dims::host_row(&self.connection, host).at("find a host", &self.path)
    }

    pub(super) fn read_error(&self, error: ReadError) -> StoreError {
        match error {
            ReadError::Sql(source) => StoreError::sqlite("read intervals", &self.path, source),
            ReadError::Malformed(malformed) => {
                StoreError::Corrupt { path: self.path.clone(), detail: malformed.to_string() }
            }
            ReadError::Inconsistent(what) => {
                StoreError::Corrupt { path: self.path.clone(), detail: what.to_owned() }
            }
        }
    }
}

/// A connection for reading only, on which `prepare` worked.
pub(crate) fn open_to_read(
    path: &Path,
    prepare: &mut dyn FnMut(&Connection) -> Result<()>,
) -> Result<Connection> {
    check_is_there(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut open_with = |name: &Path, flags| -> Result<Connection> {
        let connection = Connection::open_with_flags(name, flags).at("open", path)?;
        connection.set_prepared_statement_cache_capacity(64);
        // Plans do not depend on bound values: else each use of a statement with a bound LIMIT prepares it again.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).at("set up", path)?;
        connection.busy_timeout(Duration::from_secs(5)).at("set up", path)?;
        prepare(&connection)?;
        Ok(connection)
    };
    // An immutable file has no locks, so it must not be used where a writer may be: only after an ordinary open failed for
    // lack of write access, and with an empty log.
    match open_with(path, flags) {
        // SQLite's errors there are READONLY and CANTOPEN, which `is_no_space` includes.
        Err(error) if error.is_no_space() && is_log_empty(path) => {
            let uri = format!("file:{}?immutable=1", escaped(path));
            open_with(Path::new(&uri), flags | OpenFlags::SQLITE_OPEN_URI)
        }
        opened => opened,
    }
}

/// Whether the write-ahead log is empty: then the database file alone has all data, and may be opened as immutable.
fn is_log_empty(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(&log).map_or(true, |log| log.len() == 0)
}

/// A path inside an SQLite URI (RFC 3986: everything but unreserved characters and `/` escaped).
fn escaped(path: &Path) -> String {
    let mut out = String::new();
    for &byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
