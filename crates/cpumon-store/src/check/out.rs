//! The new store that a damaged one is copied into. It has its name when it is complete.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params, params_from_iter};

use super::open::interrupt_on;
use super::tables::Table;
use super::temporary::Temporary;
use crate::error::{At, Result, StoreError};
use crate::reader::Damage;
use crate::rows::HostRow;
use crate::schema;

/// No journal: a copy that is not complete is removed.
const COPY_FAST: &str = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA trusted_schema = OFF;";

/// A store that is being written.
#[derive(Debug)]
pub(super) struct Out {
    connection: Connection,
    path: PathBuf,
    temporary: Temporary,
}

impl Out {
    /// A new store of a schema version, under a temporary name beside `path`.
    pub(super) fn create(path: &Path, version: i32, stop: &Arc<AtomicBool>) -> Result<Self> {
        let io = |operation, path: &Path, source| StoreError::Io { operation, path: path.into(), source };
        if path.symlink_metadata().is_ok() {
            let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(io("salvage into", path, source));
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
    pub(super) fn insert(&mut self, table: &Table, row: &[Value]) -> Result<bool> {
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
    pub(super) fn insert_missing(&mut self, table: &Table, row: &[Value]) -> Result<()> {
        let columns = table.columns.iter().take(row.len()).cloned().collect();
        let table = Table { columns, ..table.clone() };
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
        let intervals = i64::try_from(hole.intervals.unwrap_or(0)).unwrap_or(i64::MAX);
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
