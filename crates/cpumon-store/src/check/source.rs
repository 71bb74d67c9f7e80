//! A connection to a damaged file, whose queries end although pages lead to the same rows again and again.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rusqlite::{Connection, Result as Sql};

use crate::steps::STEPS;

/// How often a walk's query may take [`STEPS`] without a row. It needs some dozens of steps, and more only where damaged pages lead to rows
/// in front of its key, which SQLite passes over: 200,000 rows, or any number of times the same ones.
const MAX_ROWLESS: u32 = 200;

/// No walk is under way: SQLite's own check takes as many steps as it needs.
const NO_WALK: u32 = u32::MAX;

/// A connection that reads a damaged file.
#[derive(Debug)]
pub(super) struct Source {
    connection: Connection,
    /// How often a walk's query took [`STEPS`] since its last row, or [`NO_WALK`].
    rowless: Arc<AtomicU32>,
}

impl Deref for Source {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Source {
    /// A connection whose statements end once `stop` is set.
    pub(super) fn of(mut connection: Connection, stop: &Arc<AtomicBool>) -> Sql<Self> {
        let (stop, rowless) = (Arc::clone(stop), Arc::new(AtomicU32::new(NO_WALK)));
        let counted = Arc::clone(&rowless);
        let count_up =
            move || counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_add(1));
        let is_over =
            move || stop.load(Ordering::Relaxed) || count_up().is_ok_and(|count| count >= MAX_ROWLESS);
        connection.progress_handler(STEPS, Some(is_over))?;
        Ok(Self { connection, rowless })
    }

    /// To be called before each query of a walk, and at each of its rows.
    pub(super) fn note_row(&self) {
        self.rowless.store(0, Ordering::Relaxed);
    }

    /// Ends a walk. Whether `error` was made because its query went on without a row.
    pub(super) fn end_walk(&self, error: Option<&rusqlite::Error>) -> bool {
        let rowless = self.rowless.swap(NO_WALK, Ordering::Relaxed);
        let code = error.and_then(rusqlite::Error::sqlite_error_code);
        let is_over = rowless > MAX_ROWLESS && rowless < NO_WALK;
        is_over && code == Some(rusqlite::ErrorCode::OperationInterrupted)
    }
}

/// Ends what a connection is doing when `stop` is set.
pub(super) fn interrupt_on(connection: &mut Connection, stop: &Arc<AtomicBool>) -> Sql<()> {
    let stop = Arc::clone(stop);
    connection.progress_handler(STEPS, Some(move || stop.load(Ordering::Relaxed)))
}
