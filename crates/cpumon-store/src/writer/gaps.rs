//! Time of a host that is known to be missing: what was put but not stored, until it is recorded, and rows of table `gap` with the
//! reason.

use std::collections::HashMap;

use cpumon_model::{HostId, Interval, Trust};
use rusqlite::{Connection, params};

use super::dims::insert_host;
use super::naming::Seeded;
use super::session::Transaction;
use crate::Gap;
use crate::codec::meta::{self, MetaRow};
use crate::rows::{HostRow, execute, find_host, signed};

/// Time of one host that was not stored.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct LostRange {
    trust: Trust,
    begin_wall_ns: i64,
    end_wall_ns: i64,
    /// The device's own clock minus the receiver's time line, ns.
    wall_shift_ns: i64,
    intervals: u64,
    reason: &'static str,
}

impl LostRange {
    fn of(trust: Trust, interval: &Interval, reason: &'static str) -> Self {
        Self {
            trust,
            begin_wall_ns: interval.begin.wall_ns,
            end_wall_ns: interval.end.wall_ns,
            wall_shift_ns: interval.wall_shift_ns,
            intervals: 1,
            reason,
        }
    }

    /// Extends the range over `more`, which is newer.
    fn extend(&mut self, more: &Self) {
        *self = Self {
            trust: self.trust,
            begin_wall_ns: self.begin_wall_ns.min(more.begin_wall_ns),
            end_wall_ns: self.end_wall_ns.max(more.end_wall_ns),
            intervals: self.intervals + more.intervals,
            ..*more
        };
    }
}

/// The row of a host, inserted if there is none yet: a first loss may be all that ever came from the host.
fn host_row(connection: &Connection, host: HostId) -> rusqlite::Result<HostRow> {
    match find_host(connection, host)? {
        Some(known) => Ok(known),
        None => insert_host(connection, host, &host.to_string(), Trust::Unauthenticated),
    }
}

/// Inserts lost time as a row of `gap`. An untrusted host that the store does not know gets no row.
fn record_lost(connection: &Connection, host: HostId, lost: &LostRange) -> rusqlite::Result<()> {
    let LostRange { trust, begin_wall_ns, end_wall_ns, wall_shift_ns, intervals, reason } = *lost;
    let known =
        if trust.is_trusted() { Some(host_row(connection, host)?) } else { find_host(connection, host)? };
    let Some(host_row) = known else { return Ok(()) };
    insert(
        connection,
        params![host_row, begin_wall_ns, end_wall_ns, signed(intervals), reason, wall_shift_ns],
    )
}

/// Inserts one damaged interval as a row of `gap`.
pub(super) fn record_damage(connection: &Connection, host: HostRow, row: &MetaRow) -> rusqlite::Result<()> {
    insert(
        connection,
        params![host, row[meta::BEGIN_WALL], row[meta::END_WALL], 1, "damaged", row[meta::SHIFT]],
    )
}

/// Inserts a reported hole, or extends the row it was reported with before.
pub(super) fn record_reported(connection: &Connection, host: HostId, gap: &Gap) -> rusqlite::Result<()> {
    let host_row = host_row(connection, host)?;
    let Gap { begin_wall_ns, end_wall_ns, wall_shift_ns, reason, .. } = gap;
    let values = params![host_row, begin_wall_ns, end_wall_ns, signed(gap.intervals), reason, wall_shift_ns];
    // A device reports a hole again after each connection that broke before the acknowledgement, and by then the hole may be
    // larger. It is recognised by its start on the device's own clock: the receiver may place it elsewhere after a restart.
    let text = "UPDATE gap SET end_wall_ns = max(end_wall_ns, ?3 + ?6 - wall_shift_ns), intervals = max(intervals, ?4)
                WHERE host_id = ?1 AND begin_wall_ns + wall_shift_ns = ?2 + ?6 AND reason = ?5";
    if execute(connection, text, values)? == 0 { insert(connection, values) } else { Ok(()) }
}

fn insert(connection: &Connection, values: &[&dyn rusqlite::ToSql]) -> rusqlite::Result<()> {
    let text = "INSERT INTO gap (host_id, begin_wall_ns, end_wall_ns, intervals, reason, wall_shift_ns)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    execute(connection, text, values).map(drop)
}

/// Inserts a hole of an imported recording unless the same one is there: a recording may be imported again.
pub(super) fn record_imported(connection: &Connection, host: HostId, gap: &Gap) -> rusqlite::Result<()> {
    let host_row = host_row(connection, host)?;
    let text = "INSERT INTO gap (host_id, begin_wall_ns, end_wall_ns, intervals, reason)
        SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS
            (SELECT 1 FROM gap WHERE (host_id, begin_wall_ns, end_wall_ns, intervals, reason) = (?1, ?2, ?3, ?4, ?5))";
    let values = params![host_row, gap.begin_wall_ns, gap.end_wall_ns, signed(gap.intervals), gap.reason];
    execute(connection, text, values).map(drop)
}

/// Hosts whose losses are recorded at a time; the losses of others are only counted.
const MAX_HOSTS: usize = 8_192;
/// The same for hosts that are not trusted: they can be as many as they like, and each is a row of `gap` a commit.
const MAX_STRANGERS: usize = 32;

/// Lost time of several hosts, one range each.
#[derive(Debug, Default)]
pub(crate) struct LostByHost(HashMap<HostId, LostRange, Seeded>);

impl LostByHost {
    #[cfg(test)]
    pub(crate) fn hosts(&self) -> usize {
        self.0.len()
    }

    /// Adds an interval to the lost range of its host.
    pub(crate) fn add(&mut self, trust: Trust, interval: &Interval, reason: &'static str) {
        self.merge(interval.host, LostRange::of(trust, interval, reason));
    }

    /// One range a host, from the first to the last, with the newest reason: a full disk loses an interval a second for
    /// hours, and as many rows of `gap` would be as large as what was lost.
    fn merge(&mut self, host: HostId, lost: LostRange) {
        let max = if lost.trust.is_trusted() { MAX_HOSTS } else { MAX_STRANGERS };
        let has_space = self.0.len() < max;
        match self.0.get_mut(&host) {
            Some(known) => known.extend(&lost),
            None if has_space => drop(self.0.insert(host, lost)),
            None => {}
        }
    }
}

/// Intervals of a host that were put, then rolled back.
#[derive(Copy, Clone, Debug)]
pub(crate) struct RolledBack {
    pub(crate) host: HostId,
    pub(crate) trust: Trust,
    pub(crate) intervals: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// What the open transaction holds: it is lost if the transaction fails. As many hosts as the transaction has.
    at_risk: HashMap<HostId, LostRange, Seeded>,
    /// Losses rolled back since the worker last took them.
    pub(crate) rolled_back: Vec<RolledBack>,
    /// Lost, and not yet rows of `gap`.
    pub(crate) unrecorded: LostByHost,
}

impl Losses {
    /// An interval is about to be put into the open transaction, and will not come again.
    pub(crate) fn put_at_risk(&mut self, trust: Trust, interval: &Interval) {
        let lost = LostRange::of(trust, interval, "not stored");
        self.at_risk.entry(interval.host).and_modify(|known| known.extend(&lost)).or_insert(lost);
    }

    /// Adds what a queue counted.
    pub(crate) fn add_all(&mut self, lost: LostByHost) {
        for (host, lost) in lost.0 {
            self.unrecorded.merge(host, lost);
        }
    }

    pub(super) fn has_unrecorded(&self) -> bool {
        !self.unrecorded.0.is_empty()
    }

    /// Writes what was lost as rows of `gap`. It stays unrecorded until [`Losses::committed`].
    pub(super) fn record(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut hosts = self.unrecorded.0.iter();
        hosts.try_for_each(|(host, lost)| record_lost(transaction, *host, lost))
    }

    pub(super) fn committed(&mut self) {
        // Not before the commit: the rows of `gap` are in the same transaction, and can be rolled back with it.
        self.at_risk.clear();
        self.unrecorded.0.clear();
    }

    /// Counts what the transaction held as lost.
    pub(super) fn roll_back(&mut self) {
        // What was unrecorded before stays so: its rows of `gap` were rolled back too.
        for (host, lost) in std::mem::take(&mut self.at_risk) {
            let LostRange { trust, intervals, .. } = lost;
            self.rolled_back.push(RolledBack { host, trust, intervals });
            self.unrecorded.merge(host, lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_fill_no_table_of_gaps_and_leave_space_for_the_others() {
        let mut losses = Losses::default();
        let interval = |number: u32| {
            let id = HostId(u128::from(number).to_le_bytes());
            Interval { host: id, ..Interval::default() }
        };
        for number in 0..100_000 {
            losses.unrecorded.add(Trust::Unauthenticated, &interval(number), "store full");
        }
        assert_eq!(losses.unrecorded.0.len(), MAX_STRANGERS);
        losses.unrecorded.add(Trust::Unauthenticated, &interval(0), "store full");
        losses.unrecorded.add(Trust::Authenticated, &interval(200_000), "store full");
        assert_eq!(losses.unrecorded.0.len(), MAX_STRANGERS + 1);
        assert_eq!(losses.unrecorded.0[&interval(0).host].intervals, 2);
    }

    #[test]
    fn each_interval_that_is_rolled_back_is_counted() {
        let mut losses = Losses::default();
        for number in 0..1_000_u32 {
            let host = HostId(u128::from(number % 500).to_le_bytes());
            losses.put_at_risk(Trust::Unauthenticated, &Interval { host, ..Interval::default() });
        }
        losses.roll_back();
        let counts = losses.rolled_back;
        assert_eq!(counts.iter().map(|one| one.intervals).sum::<u64>(), 1_000);
    }
}
