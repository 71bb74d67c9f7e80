//! The store's virtual tables (`hosts`, `processes`, `threads` and the `*_interval` ones) inside another program's SQLite: the
//! sqlite3 shell, Python or `DBeaver` can read a store without cpumon. The connection's main database must be a store.
//!
//! ```text
//! sqlite3 cpumon.sqlite ".load ./libcpumon_sqlite" "SELECT * FROM process_interval LIMIT 3"
//! ```
//!
//! rusqlite refuses a SQLite older than its bindings (3.45.3), and Debian 12 has 3.40. `usable` makes the API table of the host program
//! acceptable: all functions that are used here but one, for which a replacement is given, were in the table by 3.40. The table only
//! ever grew at its end (sqlite3ext.h), so its older part can be taken over.
#![expect(unsafe_code, reason = "SQLite's extension interface")]

use std::ffi::{c_char, c_int, c_void};
use std::mem::{MaybeUninit, offset_of};
use std::path::Path;

use rusqlite::ffi::{SQLITE_ERROR, SQLITE_OK, SQLITE_VERSION_NUMBER, sqlite3, sqlite3_api_routines};
use rusqlite::{Connection, Error, Result};

/// 3.40.0: the oldest that was tried.
const OLDEST: c_int = 3_040_000;
const TOO_OLD: &[u8] = b"cpumon needs SQLite 3.40 or newer\0";

/// Called by SQLite when the extension is loaded (<https://sqlite.org/loadext.html>).
///
/// # Safety
/// Only SQLite calls it, with a valid connection and its API table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    db: *mut sqlite3,
    message: *mut *mut c_char,
    routines: *mut sqlite3_api_routines,
) -> c_int {
    // SAFETY: `routines` is the table that SQLite passed.
    let Some(mut table) = (unsafe { usable(routines) }) else {
        // SAFETY: as above, and `message` is where SQLite wants an allocated text.
        unsafe { complain(routines, message) };
        return SQLITE_ERROR;
    };
    // SAFETY: `db` and `message` are what SQLite passed; the table is read during the call only.
    unsafe { Connection::extension_init2(db, message, &raw mut table, init) }
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

extern "C" fn version_of_bindings() -> c_int {
    SQLITE_VERSION_NUMBER
}

/// Replaces `sqlite3_set_clientdata` (3.44). rusqlite stores a closure there so that SQLite frees it with the connection;
/// only its pointer is used meanwhile. Not freeing it costs its few bytes once a connection.
unsafe extern "C" fn keep_forever(
    _db: *mut sqlite3,
    _name: *const c_char,
    _data: *mut c_void,
    _free: Option<unsafe extern "C" fn(*mut c_void)>,
) -> c_int {
    SQLITE_OK
}

/// The functions of `routines` that both sides know; `None` if SQLite is too old.
///
/// # Safety
/// `routines` is null or the table that SQLite passed to the extension's entry point.
unsafe fn usable(routines: *const sqlite3_api_routines) -> Option<sqlite3_api_routines> {
    if routines.is_null() {
        return None;
    }
    // SAFETY: the field is in the table since 3.5; the pointer is SQLite's own function.
    let version = unsafe { (&raw const (*routines).libversion_number).read()?() };
    if version < OLDEST {
        return None;
    }
    let is_whole = version >= SQLITE_VERSION_NUMBER;
    // `is_interrupted` came with 3.41 and is the first field that an older table may not have.
    let known_bytes = if is_whole {
        size_of::<sqlite3_api_routines>()
    } else {
        offset_of!(sqlite3_api_routines, is_interrupted)
    };
    let mut table = MaybeUninit::<sqlite3_api_routines>::zeroed();
    // SAFETY: the host's table is at least `known_bytes` long by its version, ours by its type.
    unsafe { routines.cast::<u8>().copy_to_nonoverlapping(table.as_mut_ptr().cast(), known_bytes) };
    // SAFETY: all fields are optional function pointers, for which zero is none.
    let mut table = unsafe { table.assume_init() };
    if !is_whole {
        table.libversion_number = Some(version_of_bindings);
        table.set_clientdata = Some(keep_forever);
    }
    Some(table)
}

/// Gives SQLite the reason why loading fails.
///
/// # Safety
/// As for [`usable`]; `message` is null or where SQLite wants a text from its own allocator.
unsafe fn complain(routines: *const sqlite3_api_routines, message: *mut *mut c_char) {
    if routines.is_null() || message.is_null() {
        return;
    }
    let Ok(length) = c_int::try_from(TOO_OLD.len()) else { return };
    // SAFETY: the field is in every table; the pointer is SQLite's own function.
    let Some(allocate) = (unsafe { (&raw const (*routines).malloc).read() }) else { return };
    // SAFETY: SQLite's allocator returns null or memory for the text, which SQLite frees.
    unsafe {
        let text = allocate(length).cast::<u8>();
        if !text.is_null() {
            text.copy_from_nonoverlapping(TOO_OLD.as_ptr(), TOO_OLD.len());
            *message = text.cast();
        }
    }
}
