//! Which of a host's time is missing, as far as the store knows.

use std::ops::ControlFlow;

use cpumon_model::HostId;
use rusqlite::params;

use super::damage::Damage;
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
        let mut gaps = finder.finish();
        let cursor = self.cursor.borrow();
        for hole in cursor.damage_of(host).filter(|hole| range.contains(hole.last_end_wall_ns)) {
            name_damage(&mut gaps, hole);
        }
        gaps.sort_by_key(|gap| gap.begin_wall_ns);
        gaps.truncate(limit);
        Ok(gaps)
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

/// Gives the gap that a hole leaves its reason; without intervals on both sides there is no gap yet.
fn name_damage(gaps: &mut Vec<Gap>, hole: &Damage) {
    const REASON: &str = "damaged";
    let intervals = hole.intervals.unwrap_or(0);
    let is_it = |gap: &&mut Gap| {
        // What the receiver did not store is missing for a reason of its own.
        ["no data", "restart", REASON].contains(&&*gap.reason)
            && gap.begin_wall_ns < hole.last_end_wall_ns
            && hole.first_end_wall_ns <= gap.end_wall_ns
    };
    if let Some(gap) = gaps.iter_mut().find(is_it) {
        gap.intervals = gap.intervals.saturating_add(intervals);
        REASON.clone_into(&mut gap.reason);
    } else {
        gaps.push(Gap {
            begin_wall_ns: hole.first_end_wall_ns,
            end_wall_ns: hole.last_end_wall_ns,
            intervals,
            reason: REASON.to_owned(),
            ..Gap::default()
        });
    }
}
