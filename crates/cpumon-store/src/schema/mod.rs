//! The store's tables. A store of a newer version is refused rather than misread.

mod objects;
mod steps;

use std::path::Path;

use rusqlite::Connection;

use self::objects::compare;
#[cfg(feature = "bundled")]
pub(crate) use self::objects::compare_damaged;
pub(crate) use self::steps::{APPLICATION_ID, VERSION};
use self::steps::{AUTO_VACUUM, PAGE_SIZE, Steps, migrate, number, pragma};
#[cfg(feature = "bundled")]
pub(crate) use self::steps::{bring_up_to_date, create};
use crate::error::{Result, StoreError};

/// Readers and the writer do not wait for each other, and a commit is one append.
const JOURNAL_MODE: &str = "PRAGMA journal_mode = WAL";
/// No fsync at commit, one at each checkpoint: a killed process loses nothing that is committed, a power cut loses at most
/// what came after the last checkpoint, and neither damages the file.
const SYNCHRONOUS_NORMAL: &str = "PRAGMA synchronous = NORMAL";
/// fsync at each commit.
const SYNCHRONOUS_FULL: &str = "PRAGMA synchronous = FULL";
/// Pages (8 KB) of log that start a checkpoint: 16 MB, so that a page written each second is copied once per checkpoint.
const WAL_AUTOCHECKPOINT: &str = "PRAGMA wal_autocheckpoint = 2000";
/// The log file is cut to this size (64 MB) after a checkpoint, should a slow reader have let it grow.
const JOURNAL_SIZE_LIMIT: &str = "PRAGMA journal_size_limit = 67108864";
/// Page cache of a reader: 8 MB; it mostly reads each page once.
const READER_CACHE_SIZE: &str = "PRAGMA cache_size = -8192";
/// A damaged file cannot call functions or write shadow tables through its own schema.
const TRUSTED_SCHEMA: &str = "PRAGMA trusted_schema = OFF";
/// Sorting and temporary tables stay in memory: what little there is of them.
const TEMP_STORE: &str = "PRAGMA temp_store = MEMORY";

/// Makes a new database a store, or brings an old store up to date; sets what a writer needs.
pub(crate) fn prepare_writer(connection: &mut Connection, path: &Path, sync_each_commit: bool) -> Result<()> {
    let tables = number(connection, path, "SELECT count(*) FROM sqlite_schema")?;
    let application_id = number(connection, path, "PRAGMA application_id")?;
    let found = number(connection, path, "PRAGMA user_version")?;
    // A file without tables has no id yet: it is a new store.
    if tables > 0 && application_id != APPLICATION_ID {
        return Err(StoreError::NotAStore { path: path.into(), application_id });
    }
    if found > VERSION {
        return Err(StoreError::NewerSchema { path: path.into(), found, known: VERSION });
    }
    if tables > 0 {
        compare(connection, path, found)?;
    }
    // These two can be set only before the first table.
    if tables == 0 {
        pragma(connection, path, PAGE_SIZE)?;
        pragma(connection, path, AUTO_VACUUM)?;
    }
    let sync = if sync_each_commit { SYNCHRONOUS_FULL } else { SYNCHRONOUS_NORMAL };
    for text in [JOURNAL_MODE, sync, WAL_AUTOCHECKPOINT, JOURNAL_SIZE_LIMIT, TRUSTED_SCHEMA, TEMP_STORE] {
        pragma(connection, path, text)?;
    }
    migrate(connection, path, Steps { from: found, to: VERSION })
}

/// Each commit of this connection waits for the disk.
pub(crate) fn sync_each_commit(connection: &Connection, path: &Path) -> Result<()> {
    pragma(connection, path, SYNCHRONOUS_FULL)
}

/// Checks that an open database is a store that this build can read; sets what a reader needs.
pub(crate) fn prepare_reader(connection: &Connection, path: &Path) -> Result<()> {
    let application_id = number(connection, path, "PRAGMA application_id")?;
    if application_id != APPLICATION_ID {
        return Err(StoreError::NotAStore { path: path.into(), application_id });
    }
    let found = number(connection, path, "PRAGMA user_version")?;
    if found > VERSION {
        return Err(StoreError::NewerSchema { path: path.into(), found, known: VERSION });
    }
    if found < VERSION {
        return Err(StoreError::OlderSchema { path: path.into(), found, known: VERSION });
    }
    for text in [READER_CACHE_SIZE, TRUSTED_SCHEMA, TEMP_STORE] {
        pragma(connection, path, text)?;
    }
    compare(connection, path, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::meta;

    #[test]
    fn the_interval_table_has_the_columns_of_the_codec_in_order() {
        let mut connection = Connection::open_in_memory().unwrap();
        prepare_writer(&mut connection, Path::new(":memory:"), false).unwrap();
        let mut statement = connection.prepare("SELECT name FROM pragma_table_info('interval')").unwrap();
        let names: Vec<String> =
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let expected: Vec<&str> = ["id", "host_id", "boot_id"]
            .into_iter()
            .chain(meta::COLUMNS.iter().take(meta::IN_EVERY_CHUNK).map(|column| column.0))
            .chain(["cpus", "samples", "sched"])
            .chain(meta::COLUMNS.iter().skip(meta::IN_EVERY_CHUNK).map(|column| column.0))
            .collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn the_newest_interval_of_a_boot_is_found_without_a_walk() {
        let mut connection = Connection::open_in_memory().unwrap();
        prepare_writer(&mut connection, Path::new(":memory:"), false).unwrap();
        let text =
            "EXPLAIN QUERY PLAN SELECT max(end_wall_ns) FROM interval WHERE host_id = 1 AND boot_id = 2";
        let plan: String = connection.query_row(text, [], |row| row.get("detail")).unwrap();
        let expected = "SEARCH interval USING COVERING INDEX interval_boot (host_id=? AND boot_id=?)";
        assert_eq!(plan, expected);
    }

    #[test]
    fn scripts_of_older_stores_show_their_comm() {
        let mut connection = Connection::open_in_memory().unwrap();
        create(&mut connection, Path::new(":memory:"), 14).unwrap();
        let rows = [
            ("python3.11", "nightly-report", ("nightly-report", "python3.11")),
            ("python3.11", "python3", ("python3.11", "")),
            ("dash", "sh", ("dash", "")),
            ("node", "MainThread", ("node", "")),
            ("nginx", "worker", ("nginx", "")),
            ("pythonista", "x", ("pythonista", "")),
            ("bash", "rotate-logs.sh", ("rotate-logs.sh", "bash")),
        ];
        for (name, comm, _) in rows {
            let text =
                "INSERT INTO process_info (hash, name, comm, cmdline, cgroup, container, uid, is_kernel)
                VALUES (1, ?1, ?2, '', '', '', 0, 0)";
            connection.execute(text, [name, comm]).unwrap();
        }
        bring_up_to_date(&mut connection, Path::new(":memory:")).unwrap();
        let text = "SELECT name, interpreter, user FROM process_info ORDER BY id";
        let mut statement = connection.prepare(text).unwrap();
        let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        let found: Vec<(String, String, String)> = found.map(Result::unwrap).collect();
        let expected =
            rows.map(|(_, _, (name, interpreter))| (name.into(), interpreter.into(), String::new()));
        assert_eq!(found, expected);
    }

    #[test]
    fn the_version_is_the_number_of_steps() {
        assert_eq!(usize::try_from(VERSION).unwrap(), steps::MIGRATIONS.len());
    }
}
