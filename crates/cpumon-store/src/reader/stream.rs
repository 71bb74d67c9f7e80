//! Intervals of a host in order of time. In: a [`Query`]. Out: each interval, in one kept buffer. Why: any range is read with
//! bounded memory. The range is walked in windows; each window is read in one short transaction, so that sealing at the same
//! time neither hides nor doubles an interval, and a slow reader does not keep the writer's log from being reused.

use std::ops::ControlFlow;

use rusqlite::Connection;

use super::build::{self, Rows};
use super::dims::Names;
use super::fresh::{self, FreshRow};
use super::query::{Query, StoredInterval, What};
use crate::codec::varint::Malformed;
use crate::codec::{PackedInterval, blob, cpus};

/// Fresh intervals in one window.
const WINDOW_INTERVALS: u32 = 64;

/// Why a stream ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error("{0}")]
    Malformed(#[from] Malformed),
}

/// Takes an interval, says whether to go on.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&StoredInterval) -> ControlFlow<()>;

/// Kept buffers of a stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) names: Names,
    fresh: Vec<FreshRow>,
    packed: PackedInterval,
    stored: StoredInterval,
}

impl Stream {
    /// Calls `visit` for each interval of the query, in order of its end.
    pub(crate) fn run(
        &mut self,
        connection: &Connection,
        host_id: i64,
        query: &Query,
        visit: Visit<'_>,
    ) -> Result<(), StreamError> {
        let mut after_ns = query.since_ns;
        while let Some(window_end) = self.load_window(connection, host_id, query, after_ns)? {
            if self.emit(connection, query, visit)?.is_break() {
                break;
            }
            after_ns = window_end;
        }
        Ok(())
    }

    /// Reads the next window after `after_ns`; gives its end, or `None` if there is nothing more.
    fn load_window(
        &mut self,
        connection: &Connection,
        host_id: i64,
        query: &Query,
        after_ns: i64,
    ) -> Result<Option<i64>, StreamError> {
        let transaction = connection.unchecked_transaction()?;
        let fresh_end = fresh::end_of_some(connection, host_id, after_ns, WINDOW_INTERVALS)?;
        let Some(window_end) = fresh_end.map(|end| end.min(query.until_ns)).filter(|&end| end > after_ns)
        else {
            return Ok(None);
        };
        let with_samples = query.what > What::Meta;
        fresh::in_span(connection, host_id, (after_ns, window_end), with_samples, &mut self.fresh)?;
        transaction.commit()?;
        Ok(Some(window_end))
    }

    fn emit(
        &mut self,
        connection: &Connection,
        query: &Query,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, StreamError> {
        for row in &self.fresh {
            if query.what > What::Meta {
                blob::decode(&row.samples, &mut self.packed)?;
            }
            let boot = self.names.boot(connection, row.boot_id)?;
            let rows = Rows { processes: &self.packed.processes, threads: &self.packed.threads };
            let stored = &mut self.stored;
            build::fill(connection, &mut self.names, query, (query.host, boot), &row.meta, rows, stored)?;
            cpus::decode(&row.cpus, &mut stored.interval.cpus)?;
            if visit(stored).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
