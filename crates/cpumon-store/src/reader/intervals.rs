//! Intervals of a host, in order of time.

use std::ops::ControlFlow;

use cpumon_model::{HostId, Interval};

use super::cursor;
use super::open::Reader;
use super::query::{Query, StoredInterval};
use crate::error::Result;

impl Reader {
    /// Calls `visit` for each interval of the query in order of its end, until it breaks. Memory is bounded for any
    /// range, because one buffer is reused. Rows are the active ones; `thread_rows` of a process counts its idle threads too.
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
        let mut cursor = self.take_cursor();
        let done = cursor.run(&self.connection, host_id, query, visit);
        self.give_back(cursor);
        done.map_err(|error| self.read_error(error))
    }

    /// The interval of a host that covers `wall_ns` (begin < `wall_ns` ≤ end); `None` in a gap.
    pub fn interval_at(&self, host: HostId, wall_ns: i64) -> Result<Option<Interval>> {
        Ok(self.stored_at(host, wall_ns)?.map(|stored| stored.interval))
    }

    /// [`Reader::interval_at`] with receipt time and losses.
    pub fn stored_at(&self, host: HostId, wall_ns: i64) -> Result<Option<StoredInterval>> {
        // One nanosecond earlier, because a range does not include its start.
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

    fn first_in(&self, query: &Query) -> Result<Option<StoredInterval>> {
        let mut found = None;
        self.for_each_stored(query, &mut |stored| {
            found = Some(stored.clone());
            ControlFlow::Break(())
        })?;
        Ok(found)
    }
}
