//! Which of a host's time is missing, as far as the store knows.

use std::ops::ControlFlow;

use cpumon_model::HostId;
use rusqlite::params;

use super::open::Reader;
use super::query::{Query, What};
use crate::error::{At, Result};
use crate::gap::{Gap, GapFinder};
use crate::rows::HostRow;
use crate::time::TimeRange;

impl Reader {
    /// Holes in a host's time, in order: the recorded ones with their reasons, and times between intervals that nothing
    /// explains. At most `limit`. Reads the metadata of every interval in the range.
    pub fn gaps(&self, host: HostId, range: TimeRange, limit: usize) -> Result<Vec<Gap>> {
        let Some(host_row) = self.host_row(host)? else { return Ok(Vec::new()) };
        let recorded = self.recorded_gaps(host_row, range, limit).at("list gaps", self.path())?;
        let mut finder = GapFinder::new(recorded, limit);
        let query = Query::new(host).range(range.since_ns, range.until_ns).what(What::Meta);
        self.for_each_interval(&query, &mut |interval| {
            finder.see(interval);
            if finder.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(finder.finish())
    }

    /// The recorded holes alone, with the number of intervals that are known to be missing, at most `limit`. Reads no
    /// intervals.
    pub fn losses(&self, host: HostId, range: TimeRange, limit: usize) -> Result<Vec<Gap>> {
        let Some(host_row) = self.host_row(host)? else { return Ok(Vec::new()) };
        self.recorded_gaps(host_row, range, limit).at("list losses", self.path())
    }

    fn recorded_gaps(&self, host: HostRow, range: TimeRange, limit: usize) -> rusqlite::Result<Vec<Gap>> {
        let mut select = self.connection.prepare_cached(
            "SELECT begin_wall_ns, end_wall_ns, intervals, reason, wall_shift_ns FROM gap
             WHERE host_id = ?1 AND end_wall_ns > ?2 AND begin_wall_ns <= ?3 ORDER BY begin_wall_ns LIMIT ?4",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = select.query_map(params![host, range.since_ns, range.until_ns, limit], |row| {
            Ok(Gap {
                begin_wall_ns: row.get(0)?,
                end_wall_ns: row.get(1)?,
                intervals: row.get::<_, i64>(2)?.cast_unsigned(),
                reason: row.get(3)?,
                wall_shift_ns: row.get(4)?,
            })
        })?;
        rows.collect()
    }
}
