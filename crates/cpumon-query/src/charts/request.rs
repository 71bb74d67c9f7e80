//! A chart's query with all that is needed to answer it, and the limits of queries.

use cpumon_model::HostStatus;

use super::query::ChartQuery;
use crate::QueryError;
use crate::history::History;
use crate::time::{Available, PlotRange, TimeRange, now_ns};

const HOUR_NS: i64 = 3_600_000_000_000;
/// Threads are read one by one: their ranges are no longer than this.
pub const MAX_THREAD_RANGE_NS: i64 = 24 * HOUR_NS;
/// Intervals are read of no more than this where sums would do.
pub const MAX_FINEST_RANGE_NS: i64 = 48 * HOUR_NS;
/// Rows of a picture at most: more are too low to be seen.
pub(super) const MAX_ROWS: usize = 200;

/// The range that is asked for: without an end it ends with the data, without a start it is an hour.
pub(super) fn range_of(query: &ChartQuery, last_ns: Option<i64>) -> Result<TimeRange, QueryError> {
    let until_ns = query.until_ns.or(last_ns).unwrap_or_else(now_ns);
    let since_ns = query.since_ns.unwrap_or_else(|| until_ns.saturating_sub(HOUR_NS));
    if since_ns >= until_ns || until_ns.checked_sub(since_ns).is_none() {
        return Err(QueryError::InvalidRange { since_ns, until_ns });
    }
    Ok(TimeRange { since_ns, until_ns })
}

/// Intervals in place of sums are not read of any range.
pub(super) fn check_finest(query: &ChartQuery, range: TimeRange) -> Result<(), QueryError> {
    if query.is_finest && range.length_ns() > MAX_FINEST_RANGE_NS {
        return Err(QueryError::FinestRangeTooLong);
    }
    Ok(())
}

/// Refuses ranges over which single CPUs cannot be read in reasonable time.
pub(super) fn check_cpu_range(range: TimeRange) -> Result<(), QueryError> {
    if range.length_ns() > MAX_FINEST_RANGE_NS { Err(QueryError::CpuRangeTooLong) } else { Ok(()) }
}

/// Refuses ranges over which threads cannot be read in reasonable time.
pub fn check_thread_range(range: TimeRange) -> Result<(), QueryError> {
    if range.length_ns() > MAX_THREAD_RANGE_NS { Err(QueryError::ThreadRangeTooLong) } else { Ok(()) }
}

pub(super) fn rows_of(query: &ChartQuery, usual: usize) -> Result<usize, QueryError> {
    match query.rows.unwrap_or(usual) {
        rows if (1..=MAX_ROWS).contains(&rows) => Ok(rows),
        rows => Err(QueryError::RowCount { rows, most: MAX_ROWS }),
    }
}

/// A query about one host with all that is needed to answer it.
pub(super) struct ChartRequest<'a> {
    pub(super) history: &'a History,
    pub(super) host: &'a HostStatus,
    pub(super) query: &'a ChartQuery,
    pub(super) range: TimeRange,
    pub(super) available: Option<Available>,
}

impl<'a> ChartRequest<'a> {
    pub(super) fn new(
        history: &'a History,
        host: &'a HostStatus,
        query: &'a ChartQuery,
    ) -> Result<Self, QueryError> {
        let available = history.available(host.info.host)?;
        let range = range_of(query, available.map(|known| known.last_ns))?;
        Ok(Self { history, host, query, range, available })
    }

    /// The range in so many points.
    pub(super) fn plot(&self, points: usize) -> PlotRange {
        PlotRange { since_ns: self.range.since_ns, until_ns: self.range.until_ns, points }
    }

    /// The same, if threads can be read over it.
    pub(super) fn thread_plot(&self, points: usize) -> Result<PlotRange, QueryError> {
        check_thread_range(self.range)?;
        Ok(self.plot(points))
    }
}
