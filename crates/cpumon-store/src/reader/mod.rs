//! Reads a store. In: a file, questions. Out: hosts, intervals in order of time, lines. Why: every face reads the past here,
//! while the writer writes.

mod begin;
mod build;
mod chunks;
mod clock;
mod cursor;
mod dims;
mod fresh;
mod hosts;
#[cfg(feature = "import")]
mod legacy;
mod line;
mod open;
mod query;
mod span;
mod stats;
mod tasks;

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use cpumon_model::{HostId, Interval};
use rusqlite::Connection;

pub(crate) use self::chunks::MAX_CHUNK_SPAN_NS;
use self::cursor::{IntervalCursor, ReadError};
pub(crate) use self::fresh::{FreshRow, columns as fresh_columns, read as read_fresh};
pub use self::line::Point;
pub use self::query::{HostRecord, ProcessFilter, Query, StoredInterval, What};
pub use self::span::{Plan, Resolution, RunQueue, Segment};
pub use self::stats::{Gap, GapFinder, StoreStatistics};
use crate::error::{At, Result, StoreError};

/// A store opened for reading.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    connection: Connection,
    /// Reused buffers and names; taken out while a query runs, so that a callback may ask too.
    cursor: RefCell<IntervalCursor>,
}

impl Reader {
    /// The store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `visit` for each interval of the query in order of its end, until it breaks off. One buffer is reused; memory is
    /// bounded for any range. Rows are the active ones; `thread_rows` of a process counts all threads it was put with.
    ///
    /// # Errors
    /// If the store cannot be read or a row of it is damaged.
    pub fn for_each_interval(
        &self,
        query: &Query,
        visit: &mut dyn FnMut(&Interval) -> ControlFlow<()>,
    ) -> Result<()> {
        self.for_each_stored(query, &mut |stored| visit(&stored.interval))
    }

    /// [`Reader::for_each_interval`] with receipt times and losses.
    pub fn for_each_stored(
        &self,
        query: &Query,
        visit: &mut dyn FnMut(&StoredInterval) -> ControlFlow<()>,
    ) -> Result<()> {
        let Some(host_id) = self.host_row(query.host)? else { return Ok(()) };
        let mut cursor = self.cursor.take();
        let done = cursor.run(&self.connection, host_id, query, visit);
        self.cursor.replace(cursor);
        done.map_err(|error| self.read_error(error))
    }

    /// The interval of a host that covers `wall_ns` (begin < `wall_ns` ≤ end); `None` in a gap.
    pub fn interval_at(&self, host: HostId, wall_ns: i64) -> Result<Option<Interval>> {
        Ok(self.stored_at(host, wall_ns)?.map(|stored| stored.interval))
    }

    /// [`Reader::interval_at`] with receipt time and losses.
    pub fn stored_at(&self, host: HostId, wall_ns: i64) -> Result<Option<StoredInterval>> {
        let next = self.first_in(&Query::new(host).range(wall_ns.saturating_sub(1), i64::MAX))?;
        Ok(next.filter(|next| next.interval.begin.wall_ns < wall_ns))
    }

    /// The first interval of a host that ends after `wall_ns`.
    pub fn next_interval(&self, host: HostId, wall_ns: i64) -> Result<Option<Interval>> {
        Ok(self.first_in(&Query::new(host).range(wall_ns, i64::MAX))?.map(|stored| stored.interval))
    }

    /// The last interval of a host that ends before `wall_ns`.
    pub fn previous_interval(&self, host: HostId, wall_ns: i64) -> Result<Option<Interval>> {
        let Some(host_id) = self.host_row(host)? else { return Ok(None) };
        let end =
            cursor::last_end_before(&self.connection, host_id, wall_ns).map_err(|e| self.read_error(e))?;
        let Some(end) = end else { return Ok(None) };
        Ok(self.first_in(&Query::new(host).range(end.saturating_sub(1), end))?.map(|stored| stored.interval))
    }

    /// The first interval of a query.
    fn first_in(&self, query: &Query) -> Result<Option<StoredInterval>> {
        let mut found = None;
        self.for_each_stored(query, &mut |stored| {
            found = Some(stored.clone());
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    fn host_row(&self, host: HostId) -> Result<Option<i64>> {
        dims::host_id(&self.connection, host).at("find a host", &self.path)
    }

    fn read_error(&self, error: ReadError) -> StoreError {
        match error {
            ReadError::Sql(source) => StoreError::sqlite("read intervals", &self.path, source),
            ReadError::Malformed(malformed) => {
                StoreError::Corrupt { path: self.path.clone(), detail: malformed.to_string() }
            }
        }
    }
}
