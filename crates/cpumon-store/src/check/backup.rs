//! A copy of a store that a writer may be writing: as it was at one moment, page by page.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, Result as Sql};

use super::files::{Temporary, WRITE, refuse_existing, stopped};
use super::{CheckReport, check};
use crate::error::{At, Result};
use crate::reader::open_to_read;
use crate::schema;

/// Pages (8 KB) that are copied between two checks whether to stop.
const PAGES: std::ffi::c_int = 4_096;
/// Time until the next attempt where a page is locked.
const RETRY: Duration = Duration::from_millis(10);

/// Copies the store at `path`, of whatever schema version, to the new file `to` (mode 0600), and checks the copy. A writer may run at the
/// same time, and is not held up. What is damaged in the store is damaged in the copy.
///
/// # Errors
/// The file is no store, or of a newer version; `to` exists or cannot be written, or `stop` was set. Then there is no copy.
pub fn back_up(path: &Path, to: &Path, stop: &Arc<AtomicBool>) -> Result<CheckReport> {
    refuse_existing(to, "back up to")?;
    let source = open_to_read(path, &mut |connection| {
        let version = schema::version_of(connection, path)?;
        schema::compare(connection, path, version)
    })?;
    let temporary = Temporary::create(to, "part")?.0;
    let mut copy = Connection::open_with_flags(temporary.path(), WRITE).at("create", to)?;
    // One snapshot: in a transaction that has read, the pages stay as they are, whatever a writer does.
    source.execute_batch("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1").at("read", path)?;
    let copied = copy_pages(&source, &mut copy, stop);
    let is_full = copied.as_ref().is_err_and(|error| error.sqlite_error_code() == Some(ErrorCode::DiskFull));
    let (operation, file) = if is_full { ("write", to) } else { ("copy pages", path) };
    if !copied.at(operation, file)? {
        return Err(stopped(path));
    }
    // From here on a writer can empty its log again.
    drop(source);
    copy.close().map_err(|(_, error)| error).at("write", to)?;
    let report = check(temporary.path(), None, stop)?;
    temporary.put_in_place(to)?;
    Ok(report)
}

/// Returns `false` where it was stopped.
fn copy_pages(source: &Connection, copy: &mut Connection, stop: &AtomicBool) -> Sql<bool> {
    let backup = Backup::new(source, copy)?;
    while !stop.load(Ordering::Relaxed) {
        match backup.step(PAGES)? {
            StepResult::Done => return Ok(true),
            StepResult::Busy | StepResult::Locked => std::thread::sleep(RETRY),
            _ => {}
        }
    }
    Ok(false)
}
