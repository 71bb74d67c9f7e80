//! Removes a host from a store, also beside a receiver that writes it: the removal is requested in the file, and the process that has
//! the lock of the writer carries it out.

use std::path::Path;
use std::time::{Duration, Instant};

use cpumon_model::HostId;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::error::{At, Result, StoreError, check_is_there};
use crate::options::StoreOptions;
use crate::schema;
use crate::writer::Writer;

/// Time between two checks whether it is done.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// How often the lock of the database is tried, once a millisecond: a receiver holds it most of the time, and lets go of it for a
/// moment at each commit.
const MAX_TRIES: i32 = 20_000;

/// Removes `host` with all of its data and names from the store at `path`. A receiver that writes the store does it, at most about
/// half a second later; a host that goes on sending starts from nothing. `false`: that took longer than `timeout`, and is still to be done.
///
/// # Errors
/// The store cannot be written, or there is none.
pub fn forget_host(path: &Path, host: HostId, timeout: Duration) -> Result<bool> {
    check_is_there(path)?;
    let deadline = Instant::now() + timeout;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).at("open", path)?;
    connection.busy_handler(Some(try_again)).at("set up", path)?;
    schema::prepare_reader(&connection, path)?;
    connection
        .execute("INSERT OR IGNORE INTO forget SELECT id FROM host WHERE key = ?1", [host.0])
        .at("request the removal of a host", path)?;
    loop {
        // No limits: nothing but the host goes.
        let options =
            StoreOptions { max_age: None, minute_max_age: None, max_bytes: None, ..StoreOptions::default() };
        match Writer::open(path, &options) {
            Ok(mut writer) => return writer.forget_requested().map(|()| true),
            Err(StoreError::Locked { .. }) => {}
            Err(error) => return Err(error),
        }
        let is_pending = connection
            .query_row("SELECT 1 FROM forget LIMIT 1", [], |_| Ok(()))
            .optional()
            .at("check the removal of a host", path)?;
        if is_pending.is_none() || Instant::now() >= deadline {
            return Ok(is_pending.is_none());
        }
        std::thread::sleep(CHECK_EVERY);
    }
}

fn try_again(tries: i32) -> bool {
    std::thread::sleep(Duration::from_millis(1));
    tries < MAX_TRIES
}
