//! The writer's connection with its options ([`StoreOptions`]), the transaction that is open on it, and the lock that makes it the only
//! writer. The parts of the writer take a [`Transaction`], so none can write outside of one.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cpumon_files::{LockError, LockFile};
use rusqlite::{Connection, OpenFlags, Result as Sql};

use crate::error::{At, Result, StoreError, check_is_there, sibling};
use crate::rows::signed;
use crate::steps::StepLimit;
use crate::{schema, sums};

/// SQLite makes no database file, which would have the mode of the umask, and follows no link: [`file_of`] has followed those that may be.
const WRITE: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE
    .union(OpenFlags::SQLITE_OPEN_NO_MUTEX)
    .union(OpenFlags::SQLITE_OPEN_NOFOLLOW);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// How long samples are stored, counted from their receipt; `None`: no limit by age.
    pub max_age: Option<Duration>,
    /// How long sums per minute are stored; `None`: no limit.
    pub minute_max_age: Option<Duration>,
    /// How long sums per hour are stored; `None`: no limit.
    pub hour_max_age: Option<Duration>,
    /// How large the file may grow, bytes; the oldest samples go first. `None`: no limit.
    pub max_bytes: Option<u64>,
    /// Age at which an interval may be compacted into a chunk, counted from its receipt.
    pub compact_after: Duration,
    pub compact_intervals: u32,
    /// Age at which intervals are compacted although they do not fill a chunk.
    pub compact_partial_after: Duration,
    pub zstd_level: i32,
    /// Each commit waits for the disk (fsync). Otherwise a power cut can cost what came after the last checkpoint;
    /// killing the process never costs more than the open transaction.
    pub sync_each_commit: bool,
    /// Memory for pages of the database, bytes; at most 1 TiB.
    pub cache_bytes: u64,
    /// Largest number of database pages; a full disk for tests. `None`: SQLite's own limit.
    pub max_page_count: Option<u32>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            max_age: Some(Duration::from_hours(30 * 24)),
            minute_max_age: Some(Duration::from_hours(366 * 24)),
            hour_max_age: None,
            max_bytes: Some(20 << 30),
            compact_after: Duration::from_mins(3),
            compact_intervals: 100,
            compact_partial_after: Duration::from_hours(1),
            zstd_level: 3,
            sync_each_commit: false,
            // The hot pages of a thousand hosts; with 32 MiB their receiver took 4 % more CPU.
            cache_bytes: 8 << 20,
            max_page_count: None,
        }
    }
}

/// The only connection that writes to a store.
#[derive(Debug)]
pub(super) struct WriterSession {
    path: PathBuf,
    connection: Connection,
    is_open: bool,
}

#[derive(Debug)]
pub(crate) struct Transaction<'a> {
    connection: &'a Connection,
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl WriterSession {
    /// Opens or creates the database file and brings its schema up to date.
    pub(super) fn open(path: &Path, options: &StoreOptions) -> Result<Self> {
        let file = file_of(path)?;
        // SQLite gives the log and the index of the log the mode of the database file, which it would make by the umask.
        let is_new = cpumon_files::create_empty(&file).at("create", path)?;
        let opened = Self::open_file(path, &file, options);
        if is_new && opened.is_err() {
            // It holds nothing, and a later start on a full disk would find a store without tables. A failure to remove it
            // is not worth more than the error that is reported.
            let _ = std::fs::remove_file(&file);
        }
        opened
    }

    fn open_file(path: &Path, file: &Path, options: &StoreOptions) -> Result<Self> {
        cpumon_files::check_to_write(file).at("write", path)?;
        if let Some(mode) = cpumon_files::readable_by_others(file) {
            log::warn!(
                "other users can open the store {} (mode {mode:03o}): chmod 600 it unless that is wanted",
                path.display()
            );
        }
        let mut connection = Connection::open_with_flags(file, WRITE).at("open", path)?;
        connection.set_prepared_statement_cache_capacity(64);
        // A reader that recovers the log of a killed writer holds a lock for a moment.
        connection.busy_timeout(Duration::from_secs(5)).at("set up", path)?;
        schema::prepare_writer(&mut connection, path, options.sync_each_commit)?;
        // Negative: in KiB.
        let cache_kib = signed(options.cache_bytes >> 10).min(1 << 30);
        connection.pragma_update(None, "cache_size", -cache_kib).at("set up", path)?;
        sums::register(&connection).at("set up", path)?;
        // What is read while it is opened; what is read later is asked for by keys.
        StepLimit::set(&mut connection, path).at("set up", path)?;
        if let Some(pages) = options.max_page_count {
            let set = format!("PRAGMA max_page_count = {pages}");
            connection.query_row(&set, [], |_| Ok(())).at("set up", path)?;
        }
        Ok(Self { path: path.into(), connection, is_open: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// For reading outside of a transaction.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Ends the limit of steps that it was opened with.
    pub(super) fn lift_limit(&mut self) -> Result<()> {
        StepLimit::lift(&mut self.connection).at("set up", &self.path)
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The open transaction; begins one if there is none.
    pub(super) fn transaction(&mut self) -> Sql<Transaction<'_>> {
        if !self.is_open {
            // IMMEDIATE takes the write lock now: a deferred transaction could fail at its first write instead, after reads
            // that it has already acted upon.
            self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            self.is_open = true;
        }
        Ok(Transaction { connection: &self.connection })
    }

    /// Ends the transaction. On an error it is still open, and is to be rolled back.
    pub(super) fn commit(&mut self) -> Sql<()> {
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        self.is_open = false;
        Ok(())
    }

    /// Ends the transaction without its changes. Errors are logged: there is nothing else to be done about them.
    pub(super) fn roll_back(&mut self) {
        // After some errors, a full disk among them, SQLite has rolled back by itself; a second ROLLBACK would be an error.
        if !self.connection.is_autocommit()
            && let Err(again) = self.connection.execute_batch("ROLLBACK")
        {
            log::warn!("cannot roll back in store {}: {again}", self.path.display());
        }
        self.is_open = false;
    }
}

/// The file that is to be written where a user named a store, without a link in its path: where it leads through a link of another user it
/// is refused, whether there is a file or not.
fn file_of(path: &Path) -> Result<PathBuf> {
    let file = cpumon_files::resolve(path).at("write", path)?;
    let Some(name) = file.file_name() else { return Ok(file) };
    let directory = cpumon_files::directory_of(&file).canonicalize().at("open the directory of", path)?;
    Ok(directory.join(name))
}

/// The lock file is beside the store: closing any handle of the database file itself would drop SQLite's own locks on it
/// (fcntl(2), "Record locks").
fn lock_path(store: &Path) -> PathBuf {
    sibling(store, "-writer")
}

pub(super) fn lock_store(store: &Path) -> Result<LockFile> {
    let path = lock_path(store);
    match LockFile::take(&path) {
        Ok(lock) => Ok(lock),
        Err(LockError::Held { holder }) => Err(StoreError::Locked { path: store.into(), holder }),
        Err(LockError::Io { operation, error }) => Err(error).at(operation, &path),
    }
}

/// Attempts to take the lock of the database, one each millisecond: a receiver holds the lock most of the time, and releases it for a
/// moment at each commit.
const MAX_TRIES: i32 = 20_000;

/// A connection that writes to the store at `path` in transactions of its own, beside a writer.
pub(crate) fn open_beside_writer(path: &Path) -> Result<Connection> {
    check_is_there(path)?;
    let file = file_of(path)?;
    cpumon_files::check_to_write(&file).at("write", path)?;
    let mut connection = Connection::open_with_flags(&file, WRITE).at("open", path)?;
    let try_again = |tries| {
        std::thread::sleep(Duration::from_millis(1));
        tries < MAX_TRIES
    };
    connection.busy_handler(Some(try_again)).at("set up", path)?;
    schema::distrust(&mut connection).at("set up", path)?;
    schema::prepare_reader(&connection, path)?;
    schema::lift_limits(&mut connection).at("set up", path)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_writer_learns_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("s.sqlite");
        let first = lock_store(&store).unwrap();
        let error = lock_store(&store).unwrap_err().to_string();
        assert!(error.ends_with(&format!("is being written by pid {}", std::process::id())), "{error}");
        drop(first);
        assert!(lock_store(&store).is_ok());
    }

    /// What a writer and a request beside it report.
    fn refusals(store: &Path) -> Vec<String> {
        let errors = [
            crate::Writer::open(store, &StoreOptions::default()).err(),
            open_beside_writer(store).err().filter(|_| store.exists()),
        ];
        errors.into_iter().flatten().map(|error| error.with_causes()).collect()
    }

    #[test]
    fn a_link_without_a_target_makes_a_store_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (store, target) = (dir.path().join("s.db"), dir.path().join("disk/t.db"));
        std::fs::create_dir(dir.path().join("disk")).unwrap();
        // A directory may be a link, too: SQLite is given the path without it.
        std::os::unix::fs::symlink("disk", dir.path().join("mount")).unwrap();
        std::os::unix::fs::symlink("mount/t.db", &store).unwrap();
        let _writer = crate::Writer::open(&store, &StoreOptions::default()).unwrap();
        for ending in ["", "-wal", "-shm"] {
            let meta = sibling(&target, ending).metadata().unwrap();
            assert_eq!(meta.permissions().mode() & 0o777, 0o600, "{ending}");
        }
        assert!(store.is_symlink());
        open_beside_writer(&store).unwrap();
    }

    #[test]
    fn a_store_behind_a_link_of_another_user_is_neither_made_nor_written() {
        use std::os::unix::fs::{chown, lchown, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (store, target) = (dir.path().join("s.db"), dir.path().join("t.db"));
        symlink(&target, &store).unwrap();
        if lchown(&store, Some(65_534), None).is_err() {
            assert!(std::env::var_os("CI").is_none(), "this test must run as root in CI");
            println!("skipped: needs root to give a link to another user");
            return;
        }
        let refused = refusals(&store);
        assert!(
            refused.len() == 1 && refused[0].contains("it is a symbolic link of user 65534"),
            "{refused:?}"
        );
        assert!(!target.exists());
        drop(crate::Writer::open(&target, &StoreOptions::default()).unwrap());
        let (written, refused) = (std::fs::read(&target).unwrap(), refusals(&store));
        let is_named = |words: &String| words.contains("it is a symbolic link of user 65534");
        assert!(refused.len() == 2 && refused.iter().all(is_named), "{refused:?}");
        assert_eq!(std::fs::read(&target).unwrap(), written);
        // A file that another user left there, to read the data stored in it, is refused too.
        chown(&target, Some(65_534), None).unwrap();
        let refused = refusals(&target);
        let is_named = |words: &String| words.contains("it belongs to user 65534");
        assert!(refused.len() == 2 && refused.iter().all(is_named), "{refused:?}");
    }

    #[test]
    fn a_link_planted_as_the_writers_lock_keeps_its_target_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let (store, victim) = (dir.path().join("i.db"), dir.path().join("victim"));
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, lock_path(&store)).unwrap();
        let error = crate::Writer::open(&store, &StoreOptions::default()).unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        assert!(!store.exists());
    }
}
