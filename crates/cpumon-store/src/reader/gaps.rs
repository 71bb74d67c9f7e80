//! Which of a host's time is missing: the holes that are recorded, and those between intervals that nothing explains.

#[cfg(feature = "json")]
use cpumon_model::nanos;
use cpumon_model::{Flags, HostId, Interval};
use rusqlite::params;

use super::Reader;
use super::damage::Damage;
use super::query::{Query, TimeRange, What};
use crate::error::{At, Result};
use crate::rows::{HostRow, all_rows, signed};

/// A known hole in a host's time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema))]
pub struct Gap {
    /// Start, ns since the epoch, on the time line of the host's intervals.
    #[cfg_attr(
        feature = "json",
        serde(rename = "begin_ns", with = "nanos"),
        schema(value_type = nanos::Nanos)
    )]
    pub begin_wall_ns: i64,
    /// End, on the same time line.
    #[cfg_attr(feature = "json", serde(rename = "end_ns", with = "nanos"), schema(value_type = nanos::Nanos))]
    pub end_wall_ns: i64,
    /// The device's own clock minus the receiver's time line, ns.
    #[cfg_attr(feature = "json", serde(with = "nanos"), schema(value_type = nanos::Nanos))]
    pub wall_shift_ns: i64,
    /// Intervals that are known to be missing; 0 if they were not counted.
    pub intervals: u64,
    /// Why: `queue full`, `store full`, `not stored`, `damaged`; of an imported log what its device says; `restart` for another boot or agent start; `no data`.
    pub reason: String,
}

/// Finds holes between intervals while they are read for another purpose. It is given the recorded holes, then intervals in
/// order.
#[derive(Clone, Debug)]
pub struct GapFinder {
    recorded: Vec<Gap>,
    found: Vec<Gap>,
    limit: usize,
    first: Option<Begin>,
    last_end_ns: Option<i64>,
}

/// Where an interval begins, and what a hole before it would be.
#[derive(Copy, Clone, Debug)]
struct Begin {
    wall_ns: i64,
    slack_ns: i64,
    is_restart: bool,
}

impl GapFinder {
    /// `recorded`: what [`Reader::losses`](crate::Reader::losses) returns for the same range. At most `limit` holes are returned.
    pub fn new(recorded: Vec<Gap>, limit: usize) -> Self {
        Self { recorded, found: Vec::new(), limit, first: None, last_end_ns: None }
    }

    /// Whether as many holes were found as are returned.
    pub fn is_full(&self) -> bool {
        self.recorded.len() + self.found.len() >= self.limit
    }

    /// Takes the next interval.
    pub fn see(&mut self, interval: &Interval) {
        // Neighbours share a moment. Less than half an interval between two neighbours cannot be a missing one.
        let begin = Begin {
            wall_ns: interval.begin.wall_ns,
            slack_ns: signed(interval.duration_ns() / 2),
            is_restart: interval.flags.contains(Flags::RESTART),
        };
        self.first.get_or_insert(begin);
        self.check_before(begin);
        // The latest end, not the last one: intervals of a clock that was set back overlap earlier ones.
        self.last_end_ns = self.last_end_ns.max(Some(interval.end.wall_ns));
    }

    /// Adds what another finder found in the time behind this one's.
    pub fn append(&mut self, later: Self) {
        let Some(first) = later.first else { return };
        // A hole between the two parts is in neither part.
        self.first.get_or_insert(first);
        self.check_before(first);
        let space = self.limit.saturating_sub(self.recorded.len() + self.found.len());
        self.found.extend(later.found.into_iter().take(space));
        self.last_end_ns = self.last_end_ns.max(later.last_end_ns);
    }

    /// Adds a hole if the next interval begins later than the last one ended, except for recorded parts: these have the better reason.
    fn check_before(&mut self, next: Begin) {
        let Some(mut begin_ns) = self.last_end_ns else { return };
        let end_ns = next.wall_ns;
        if end_ns <= begin_ns.saturating_add(next.slack_ns) {
            return;
        }
        let mut slack_ns = next.slack_ns;
        for at in 0..self.recorded.len() {
            let gap = &self.recorded[at];
            if gap.begin_wall_ns >= end_ns || gap.end_wall_ns <= begin_ns {
                continue;
            }
            // A recorded hole may begin and end with the snapshots that are missing: the intervals beside them are missing too.
            slack_ns = next.slack_ns.saturating_mul(3);
            let (until_ns, next_ns) = (gap.begin_wall_ns, gap.end_wall_ns);
            self.add_unexplained(begin_ns, until_ns, slack_ns, next.is_restart);
            begin_ns = begin_ns.max(next_ns);
        }
        self.add_unexplained(begin_ns, end_ns, slack_ns, next.is_restart);
    }

    /// Adds a hole that is not recorded, if it is longer than `slack_ns`.
    fn add_unexplained(&mut self, begin_wall_ns: i64, end_wall_ns: i64, slack_ns: i64, is_restart: bool) {
        if end_wall_ns <= begin_wall_ns.saturating_add(slack_ns) || self.is_full() {
            return;
        }
        let reason = if is_restart { "restart" } else { "no data" }.to_owned();
        self.found.push(Gap { begin_wall_ns, end_wall_ns, reason, ..Gap::default() });
    }

    /// All holes, in order.
    pub fn finish(self) -> Vec<Gap> {
        let mut gaps = self.recorded;
        gaps.extend(self.found);
        gaps.sort_by_key(|gap| gap.begin_wall_ns);
        gaps.truncate(self.limit);
        gaps
    }
}

impl Reader {
    /// Holes in a host's time, in order: the recorded ones with their reasons, and times between intervals that nothing
    /// explains. At most `limit`. Reads the metadata of every interval in the range.
    pub fn gaps(&self, host: HostId, range: TimeRange, limit: usize) -> Result<Vec<Gap>> {
        let Some(host_row) = self.host_row(host)? else { return Ok(Vec::new()) };
        let recorded = self.recorded_gaps(host_row, range, limit).at("list gaps", self.path())?;
        let mut finder = GapFinder::new(recorded, limit);
        let query = Query::new(host).range(range.since_ns, range.until_ns).what(What::Meta);
        let mut intervals = self.intervals(&query)?;
        while !finder.is_full()
            && let Some(stored) = intervals.read()?
        {
            finder.see(&stored.interval);
        }
        drop(intervals);
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
        let text = "SELECT begin_wall_ns, end_wall_ns, intervals, reason, wall_shift_ns FROM gap
             WHERE host_id = ?1 AND end_wall_ns > ?2 AND begin_wall_ns <= ?3 ORDER BY begin_wall_ns LIMIT ?4";
        let values = params![host, range.since_ns, range.until_ns, signed(limit)];
        all_rows(self.question(), text, values, |row| {
            Ok(Gap {
                begin_wall_ns: row.get(0)?,
                end_wall_ns: row.get(1)?,
                intervals: row.get::<_, i64>(2)?.cast_unsigned(),
                reason: row.get(3)?,
                wall_shift_ns: row.get(4)?,
            })
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use cpumon_model::Moment;

    fn interval(end_s: i64) -> Interval {
        let at = |s: i64| Moment {
            wall_ns: s * 1_000_000_000,
            mono_ns: s.unsigned_abs() * 1_000_000_000,
            ..Moment::default()
        };
        Interval { begin: at(end_s - 1), end: at(end_s), ..Interval::default() }
    }

    #[test]
    fn a_hole_that_is_recorded_in_part_has_its_other_parts() {
        let recorded = |begin_s: i64, end_s: i64| Gap {
            begin_wall_ns: begin_s * 1_000_000_000,
            end_wall_ns: end_s * 1_000_000_000,
            reason: "queue full".to_owned(),
            ..Gap::default()
        };
        // No data from 10 s to 100 s.
        for (gaps, expected) in [
            (vec![], vec![(10, 100, "no data")]),
            (vec![recorded(5, 10)], vec![(5, 10, "queue full"), (10, 100, "no data")]),
            (vec![recorded(5, 12)], vec![(5, 12, "queue full"), (12, 100, "no data")]),
            (vec![recorded(40, 50)], vec![(10, 40, "no data"), (40, 50, "queue full"), (50, 100, "no data")]),
            (vec![recorded(10, 100)], vec![(10, 100, "queue full")]),
            // From the end of the first missing interval to that of the last one.
            (vec![recorded(11, 99)], vec![(11, 99, "queue full")]),
            (
                vec![recorded(8, 60), recorded(20, 30), recorded(90, 120)],
                vec![
                    (8, 60, "queue full"),
                    (20, 30, "queue full"),
                    (60, 90, "no data"),
                    (90, 120, "queue full"),
                ],
            ),
        ] {
            let mut finder = GapFinder::new(gaps, 100);
            for end_s in [9, 10, 101, 102] {
                finder.see(&interval(end_s));
            }
            let found = finder.finish();
            let seconds = |ns: i64| ns / 1_000_000_000;
            let found: Vec<_> = found
                .iter()
                .map(|gap| (seconds(gap.begin_wall_ns), seconds(gap.end_wall_ns), &*gap.reason))
                .collect();
            assert_eq!(found, expected);
        }
    }
}
