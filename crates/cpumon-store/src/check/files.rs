//! The files of a check: a store that may be damaged, opened for reading only, and the new store that it is copied into, which has its
//! name when it is complete.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params, params_from_iter};

use super::walk::CheckedTable;
use crate::error::{At, Result, StoreError, sibling};
use crate::reader::{Damage, open_to_read};
use crate::rows::{HostRow, signed};
use crate::schema;

/// How many steps of SQLite's machine pass between two checks whether to stop: about a millisecond.
const STEPS: std::ffi::c_int = 10_000;
/// With a schema that may be written (which a file that is open for reading only still cannot be), SQLite reads a file that is
/// shorter than its header says. Pages are checked before they are used.
const READ_DAMAGED: &str = "PRAGMA writable_schema = ON; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;";

/// A connection that reads what it can, until `stop` is set. `is_repaired`: it is a copy whose list of tables was made here.
pub(super) fn open(path: &Path, stop: &Arc<AtomicBool>, is_repaired: bool) -> Result<Connection> {
    if std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() == 0) {
        return Err(StoreError::Corrupt { path: path.into(), detail: "the file is empty".to_owned() });
    }
    let mut source = open_to_read(path, &mut |connection| {
        // It compares each name with the definition beside it, but not in a schema that may be written.
        let is_readable = read_list(connection).is_ok();
        connection.execute_batch(READ_DAMAGED).at("open", path)?;
        let version = version(connection, path)?;
        if is_repaired { Ok(()) } else { schema::compare_damaged(connection, path, version, is_readable) }
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
    let found = schema::version_of(source, path)?;
    read_list(source).at("read the header", path)?;
    Ok(found)
}

fn read_list(source: &Connection) -> rusqlite::Result<()> {
    source.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

/// No journal: a copy that is not complete is removed.
const COPY_FAST: &str = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA trusted_schema = OFF;";

#[derive(Debug)]
pub(super) struct Out {
    connection: Connection,
    path: PathBuf,
    temporary: Temporary,
}

impl Out {
    /// A new store of a schema version, under a temporary name beside `path`.
    pub(super) fn create(path: &Path, version: i32, stop: &Arc<AtomicBool>) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(std::io::Error::from(std::io::ErrorKind::AlreadyExists)).at("salvage into", path);
        }
        let temporary = Temporary::create(path, "part")?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(temporary.path(), flags).at("create", path)?;
        schema::create(&mut connection, path, version)?;
        connection.execute_batch(COPY_FAST).at("create", path)?;
        connection.execute_batch("BEGIN").at("write", path)?;
        interrupt_on(&mut connection, stop, path)?;
        Ok(Self { connection, path: path.into(), temporary })
    }

    /// Inserts a row; false if it breaks a rule of the table, as only a damaged one does.
    pub(super) fn insert(&mut self, table: &CheckedTable, row: &[Value]) -> Result<bool> {
        let (columns, places) = (table.columns.join(", "), vec!["?"; row.len()].join(", "));
        let text = format!("INSERT OR IGNORE INTO {} ({columns}) VALUES ({places})", table.name);
        let inserted = self
            .connection
            .prepare_cached(&text)
            .and_then(|mut insert| insert.execute(params_from_iter(row)));
        match inserted {
            Ok(rows) => Ok(rows > 0),
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) => {
                Ok(false)
            }
            Err(error) => Err(error).at("write", &self.path),
        }
    }

    /// Inserts a row of the table's first columns unless it is there.
    pub(super) fn insert_missing(&mut self, table: &CheckedTable, row: &[Value]) -> Result<()> {
        let columns = table.columns.iter().take(row.len()).cloned().collect();
        let table = CheckedTable { columns, ..table.clone() };
        self.insert(&table, row).map(|_| ())
    }

    /// Adds the hosts and boots of samples that have none: where their table and its index are lost, a reader finds the samples only
    /// under an id of ours. Gives the number of hosts and of boots.
    pub(super) fn add_missing_owners(&mut self) -> Result<[usize; 2]> {
        // The first digits are "lost" and "boot".
        let host = "INSERT OR IGNORE INTO host (id, key, name, trust)
             SELECT host_id, unhex('6c6f7374' || printf('%024x', host_id)), 'host ' || host_id, 'unauthenticated'
             FROM (SELECT DISTINCT host_id FROM chunk UNION SELECT host_id FROM interval)
             WHERE host_id NOT IN (SELECT id FROM host)";
        let boot = "INSERT OR IGNORE INTO boot (id, host_id, key)
             SELECT boot_id, host_id, unhex('626f6f74' || printf('%024x', boot_id))
             FROM (SELECT DISTINCT host_id, boot_id FROM chunk UNION SELECT host_id, boot_id FROM interval)
             WHERE boot_id NOT IN (SELECT id FROM boot)";
        let mut added = [0; 2];
        for (text, added) in [host, boot].into_iter().zip(&mut added) {
            *added = self.connection.execute(text, []).at("write", &self.path)?;
        }
        Ok(added)
    }

    /// Records a hole as a gap; of a host that is not known there is nothing to show.
    pub(super) fn add_gap(&mut self, host: Option<HostRow>, hole: &Damage) -> Result<()> {
        let Some(host) = host else { return Ok(()) };
        let intervals = signed(hole.intervals.unwrap_or(0));
        self.connection
            .prepare_cached(
                "INSERT INTO gap (host_id, begin_wall_ns, end_wall_ns, intervals, reason)
                 VALUES (?1, ?2, ?3, ?4, 'damaged')",
            )
            .and_then(|mut insert| {
                insert.execute(params![host, hole.first_end_wall_ns, hole.last_end_wall_ns, intervals])
            })
            .at("write", &self.path)?;
        Ok(())
    }

    /// Brings the store up to date and gives it its name.
    pub(super) fn finish(self) -> Result<()> {
        let Self { mut connection, path, temporary } = self;
        connection.execute_batch("COMMIT").at("write", &path)?;
        schema::bring_up_to_date(&mut connection, &path)?;
        connection.close().map_err(|(_, error)| error).at("write", &path)?;
        let file = std::fs::File::open(temporary.path()).at("write", &path)?;
        // Before it gets its name: after a crash that must not be an incomplete file.
        file.sync_all().at("write", &path)?;
        // A link refuses a file that came into being meanwhile; a rename would replace it.
        match std::fs::hard_link(temporary.path(), &path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists && !path.exists() => {
                std::fs::rename(temporary.path(), &path).at("put in place", &path)
            }
            linked => linked.at("put in place", &path),
        }
    }
}

/// A file and those that SQLite puts beside it; removed when dropped.
#[derive(Debug)]
pub(super) struct Temporary(PathBuf);

impl Temporary {
    /// An empty file of mode 0600 beside `path`; `what` is another word for each of a process.
    pub(super) fn create(path: &Path, what: &str) -> Result<Self> {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.{what}", std::process::id()));
        let file = Self(path.with_file_name(name));
        // One that was left by a process of the same number goes.
        file.remove();
        cpumon_files::create_empty(&file.0).at("create a file beside", path)?;
        Ok(file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    fn remove(&self) {
        for ending in ["", "-wal", "-shm"] {
            let _gone_if_renamed = std::fs::remove_file(sibling(&self.0, ending));
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.remove();
    }
}
