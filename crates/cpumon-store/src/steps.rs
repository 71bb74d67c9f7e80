//! Ends questions to a file whose pages lead to the same rows again and again. SQLite follows pages wherever they lead: where somebody let
//! the pages of a table share their children, some kilobytes have more rows than anybody can wait for, or hold.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, Result as Sql};

use crate::error::{interrupted, sibling};

/// How many steps of SQLite's machine pass between two checks: about a millisecond.
pub(crate) const STEPS: std::ffi::c_int = 10_000;
/// Steps that a question may take of any file: less than a second.
const MIN_STEPS: u64 = 1_000_000;
/// And for each byte of the file and its log. Reading all of a store takes at most 0.2.
const STEPS_PER_BYTE: u64 = 4;

/// Bytes of rows that a question may hold of any file.
const MIN_HELD_BYTES: u64 = 16 << 20;
/// And for each byte of the file and its log.
const HELD_PER_BYTE: u64 = 16;

/// Bytes of a store and of its log that are on the disk: a file of some kilobytes may claim to have terabytes, all of them a hole.
fn bytes_of(path: &Path) -> u64 {
    let bytes = |file: &PathBuf| {
        let Ok(found) = file.metadata() else { return 0 };
        // Some file systems do not count blocks (of 512 bytes, stat(2)).
        match found.blocks().saturating_mul(512) {
            0 => found.len(),
            on_disk => found.len().min(on_disk),
        }
    };
    [path.to_owned(), sibling(path, "-wal")].iter().map(bytes).fold(0, u64::saturating_add)
}

/// Limits the steps of a connection's questions. The statement that goes beyond it is interrupted.
#[derive(Debug)]
pub(crate) struct StepLimit {
    /// Of this question so far.
    taken: Arc<AtomicU64>,
}

impl StepLimit {
    pub(crate) fn set(connection: &mut Connection, path: &Path) -> Sql<Self> {
        let (path, taken) = (path.to_owned(), Arc::<AtomicU64>::default());
        let counted = Arc::clone(&taken);
        let more = u64::from(STEPS.unsigned_abs());
        let is_over = move || {
            let taken = counted.fetch_add(more, Ordering::Relaxed).saturating_add(more);
            taken > MIN_STEPS && (taken - MIN_STEPS) / STEPS_PER_BYTE > bytes_of(&path)
        };
        connection.progress_handler(STEPS, Some(is_over))?;
        Ok(Self { taken })
    }

    /// Ends it.
    pub(crate) fn lift(connection: &mut Connection) -> Sql<()> {
        connection.progress_handler(0, None::<fn() -> bool>)
    }

    /// To be called at the begin of each question.
    pub(crate) fn begin(&self) {
        self.taken.store(0, Ordering::Relaxed);
    }
}

/// Counts the rows that are held of a file.
pub(crate) struct HeldRows<'c> {
    connection: &'c Connection,
    bytes: u64,
    limit: u64,
}

impl<'c> HeldRows<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self { connection, bytes: 0, limit: MIN_HELD_BYTES }
    }

    /// Counts one more row.
    ///
    /// # Errors
    /// There are more than the file can have; as of a statement that was interrupted.
    pub(crate) fn add(&mut self, bytes: usize) -> Sql<()> {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        if self.bytes <= self.limit {
            return Ok(());
        }
        let file = self.connection.path().map(PathBuf::from).unwrap_or_default();
        self.limit = bytes_of(&file).saturating_mul(HELD_PER_BYTE).saturating_add(MIN_HELD_BYTES);
        if self.bytes <= self.limit {
            return Ok(());
        }
        Err(interrupted())
    }
}

/// Checks that the key of a row is above that of the row before, as SQLite returns them in order.
///
/// # Errors
/// It is not; as of a statement that was interrupted.
pub(crate) fn check_follows<K: Ord + Copy>(last: &mut Option<K>, key: K) -> Sql<()> {
    if last.replace(key).is_some_and(|last| last >= key) { Err(interrupted()) } else { Ok(()) }
}
