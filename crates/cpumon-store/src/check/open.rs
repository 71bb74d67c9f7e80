//! Opens a store that may be damaged, for reading only.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

use crate::error::{At, Result, StoreError};
use crate::reader::open_to_read;
use crate::schema::{self, APPLICATION_ID, VERSION};

/// How many steps of SQLite's machine pass between two checks whether to stop: about a millisecond.
const STEPS: std::ffi::c_int = 10_000;
/// With a schema that may be written (which a file that is open for reading only still cannot be), SQLite reads a file that is
/// shorter than its header says. Pages are checked before they are used.
const READ_DAMAGED: &str = "PRAGMA writable_schema = ON; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;";

/// A connection that reads what it can, until `stop` is set.
pub(super) fn open(path: &Path, stop: &Arc<AtomicBool>) -> Result<Connection> {
    open_with(path, stop, &|connection, version| schema::compare_damaged(connection, path, version))
}

/// [`open`] of a copy whose list of tables was made here.
pub(super) fn open_repaired(path: &Path, stop: &Arc<AtomicBool>) -> Result<Connection> {
    open_with(path, stop, &|_, _| Ok(()))
}

fn open_with(
    path: &Path,
    stop: &Arc<AtomicBool>,
    check: &dyn Fn(&Connection, i32) -> Result<()>,
) -> Result<Connection> {
    if std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() == 0) {
        return Err(StoreError::Corrupt { path: path.into(), detail: "the file is empty".to_owned() });
    }
    let mut source = open_to_read(path, &mut |connection| {
        connection.execute_batch(READ_DAMAGED).at("open", path)?;
        let version = version(connection, path)?;
        check(connection, version)
    })?;
    interrupt_on(&mut source, stop, path)?;
    Ok(source)
}

/// The error of a check that the user stopped.
pub(super) fn stopped(path: &Path) -> StoreError {
    let source =
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT), None);
    StoreError::sqlite("check", path, source)
}

/// Ends what a connection is doing when `stop` is set.
pub(super) fn interrupt_on(connection: &mut Connection, stop: &Arc<AtomicBool>, path: &Path) -> Result<()> {
    let stop = Arc::clone(stop);
    connection.progress_handler(STEPS, Some(move || stop.load(Ordering::Relaxed))).at("open", path)
}

/// The schema version, of a file that is a store and whose list of tables can be read.
pub(super) fn version(source: &Connection, path: &Path) -> Result<i32> {
    let number = |text: &str| -> Result<i32> {
        source.query_row(text, [], |row| row.get(0)).at("read the header of", path)
    };
    let application_id = number("PRAGMA application_id")?;
    if application_id != APPLICATION_ID {
        return Err(StoreError::NotAStore { path: path.into(), application_id });
    }
    let found = number("PRAGMA user_version")?;
    if found > VERSION {
        return Err(StoreError::NewerSchema { path: path.into(), found, known: VERSION });
    }
    number("SELECT count(*) FROM sqlite_schema")?;
    Ok(found)
}
