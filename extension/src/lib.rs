//! The store's virtual tables (`hosts`, `processes`, `threads` and the `*_interval` ones) inside another program's SQLite: the
//! sqlite3 shell, Python or `DBeaver` can read a store without cpumon. The connection's main database must be a store.
//!
//! ```text
//! sqlite3 cpumon.sqlite ".load ./libcpumon_sqlite" "SELECT * FROM process_interval LIMIT 3"
//! ```

mod api;

use std::ffi::{c_char, c_int};
use std::path::Path;

use rusqlite::{Connection, Error, Result, ffi};

/// Called by SQLite when the extension is loaded (<https://sqlite.org/loadext.html>).
///
/// # Safety
/// Only SQLite calls it, with a valid connection and its API table.
#[expect(unsafe_code, reason = "the entry point that SQLite looks up by name")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    db: *mut ffi::sqlite3,
    message: *mut *mut c_char,
    routines: *mut ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: `routines` is the table that SQLite passed.
    let Some(mut usable) = (unsafe { api::usable(routines) }) else {
        // SAFETY: as above, and `message` is where SQLite wants an allocated text.
        unsafe { api::complain(routines, message) };
        return ffi::SQLITE_ERROR;
    };
    // SAFETY: `db` and `message` are what SQLite passed; the table is read during the call only.
    unsafe { Connection::extension_init2(db, message, &raw mut usable, init) }
}

/// Returns `true`: the library stays loaded, because closing it while its threads' storage lives is not safe.
#[expect(clippy::needless_pass_by_value, reason = "the signature that rusqlite calls")]
fn init(connection: Connection) -> Result<bool> {
    let path = connection.path().filter(|path| !path.is_empty()).map(str::to_owned);
    let path =
        path.ok_or_else(|| Error::ModuleError("open a cpumon store first: sqlite3 STORE".to_owned()))?;
    cpumon_store::sql::register(&connection, Path::new(&path))?;
    Ok(true)
}
