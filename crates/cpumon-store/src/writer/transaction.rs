//! The writer's connection and the transaction that is open on it. The parts of the writer take a [`Transaction`], so none of
//! them can write outside of one.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Result as Sql};

use super::{cgroup_sums, merged};
use crate::error::{At, Result};
use crate::options::StoreOptions;
use crate::schema;

/// The only connection that writes to a store.
#[derive(Debug)]
pub(super) struct Session {
    path: PathBuf,
    connection: Connection,
    is_open: bool,
}

/// The open transaction of a [`Session`].
#[derive(Debug)]
pub(super) struct Transaction<'a> {
    connection: &'a Connection,
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Session {
    /// Opens or creates the database file and brings its schema up to date.
    pub(super) fn open(path: &Path, options: &StoreOptions) -> Result<Self> {
        // SQLite gives the log and the index of the log the mode of the database file, which it would make by the umask.
        let is_new = cpumon_files::create_empty(path).at("create", path)?;
        let opened = Self::open_file(path, options);
        if is_new && opened.is_err() {
            // It holds nothing, and a later start on a full disk would find a store without tables. A failure to remove it
            // is not worth more than the error that is reported.
            let _ = std::fs::remove_file(path);
        }
        opened
    }

    fn open_file(path: &Path, options: &StoreOptions) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if let Some(mode) = cpumon_files::readable_by_others(path) {
            log::warn!(
                "other users can open the store {} (mode {mode:03o}): chmod 600 it unless that is wanted",
                path.display()
            );
        }
        let mut connection = Connection::open_with_flags(path, flags).at("open", path)?;
        connection.set_prepared_statement_cache_capacity(64);
        // A reader that recovers the log of a killed writer holds a lock for a moment.
        connection.busy_timeout(Duration::from_secs(5)).at("set up", path)?;
        schema::prepare_writer(&mut connection, path, options.sync_each_commit)?;
        // Negative: in KiB.
        let cache_kib = i64::try_from(options.cache_bytes >> 10).unwrap_or(i64::MAX).min(1 << 30);
        connection.pragma_update(None, "cache_size", -cache_kib).at("set up", path)?;
        merged::register(&connection).at("set up", path)?;
        cgroup_sums::register(&connection).at("set up", path)?;
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
