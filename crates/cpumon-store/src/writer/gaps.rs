//! Rows of table `gap`: time of a host that is known to be missing, with the reason.

use std::borrow::Cow;

use cpumon_model::{HostId, Interval, Trust};
use rusqlite::{Connection, params};

use super::ids::{find_host, next_id};
use crate::Gap;
use crate::codec::meta::{self, MetaRow};
use crate::rows::HostRow;

/// Time of one host that was not stored.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct LostRange {
    begin_wall_ns: i64,
    end_wall_ns: i64,
    /// The device's own clock less that, ns.
    wall_shift_ns: i64,
    pub(super) intervals: u64,
    reason: &'static str,
}

impl LostRange {
    /// The time of one interval.
    pub(super) fn of(interval: &Interval, reason: &'static str) -> Self {
        Self {
            begin_wall_ns: interval.begin.wall_ns,
            end_wall_ns: interval.end.wall_ns,
            wall_shift_ns: interval.wall_shift_ns,
            intervals: 1,
            reason,
        }
    }

    /// Extends the range over `more`, which is newer.
    pub(super) fn extend(&mut self, more: &Self) {
        *self = Self {
            begin_wall_ns: self.begin_wall_ns.min(more.begin_wall_ns),
            end_wall_ns: self.end_wall_ns.max(more.end_wall_ns),
            intervals: self.intervals + more.intervals,
            ..*more
        };
    }
}

/// The row of a host, inserted if there is none yet: what is lost first may be all that ever came from it.
fn host_row(connection: &Connection, host: HostId) -> rusqlite::Result<HostRow> {
    if let Some(known) = find_host(connection, host)? {
        return Ok(known);
    }
    let id = next_id(connection, "host")?;
    connection
        .prepare_cached("INSERT INTO host (id, key, name, trust) VALUES (?1, ?2, ?3, 'unauthenticated')")?
        .execute(params![id, host.0, host.to_string()])?;
    Ok(HostRow(id))
}

/// Inserts lost time as a row of `gap`. A host that is not trusted must be known: what was never stored of it gets no row.
pub(super) fn record_lost(
    connection: &Connection,
    host: HostId,
    trust: Trust,
    lost: &LostRange,
) -> rusqlite::Result<()> {
    let known =
        if trust.is_trusted() { Some(host_row(connection, host)?) } else { find_host(connection, host)? };
    let Some(host_row) = known else { return Ok(()) };
    let LostRange { begin_wall_ns, end_wall_ns, wall_shift_ns, intervals, reason } = *lost;
    insert(connection, params![host_row, begin_wall_ns, end_wall_ns, count(intervals), reason, wall_shift_ns])
}

/// Inserts one damaged interval as a row of `gap`.
pub(super) fn record_damage(connection: &Connection, host: HostRow, row: &MetaRow) -> rusqlite::Result<()> {
    insert(
        connection,
        params![host, row[meta::BEGIN_WALL], row[meta::END_WALL], 1, "damaged", row[meta::SHIFT]],
    )
}

/// A hole that a device itself reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedGap {
    /// When it begins, ns since the epoch on the receiver's time line.
    pub begin_wall_ns: i64,
    /// When it ends.
    pub end_wall_ns: i64,
    /// The device's own clock less that, ns.
    pub wall_shift_ns: i64,
    /// Intervals that are missing.
    pub intervals: u64,
    /// Why they are missing, as exports name it.
    pub reason: Cow<'static, str>,
}

/// Inserts a reported hole, or extends the row it was reported with before.
pub(super) fn record_reported(
    connection: &Connection,
    host: HostId,
    gap: &ReportedGap,
) -> rusqlite::Result<()> {
    let host_row = host_row(connection, host)?;
    let ReportedGap { begin_wall_ns, end_wall_ns, wall_shift_ns, reason, .. } = gap;
    let values = params![host_row, begin_wall_ns, end_wall_ns, count(gap.intervals), reason, wall_shift_ns];
    // A device reports a hole again after each connection that broke before the acknowledgement, and by then the hole may be
    // larger. It is recognised by its start on the device's own clock: the receiver may place it elsewhere after a restart.
    let known = connection
        .prepare_cached(
            "UPDATE gap SET end_wall_ns = max(end_wall_ns, ?3 + ?6 - wall_shift_ns), intervals = max(intervals, ?4)
             WHERE host_id = ?1 AND begin_wall_ns + wall_shift_ns = ?2 + ?6 AND reason = ?5",
        )?
        .execute(values)?;
    if known == 0 { insert(connection, values) } else { Ok(()) }
}

fn insert(connection: &Connection, values: &[&dyn rusqlite::ToSql]) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO gap (host_id, begin_wall_ns, end_wall_ns, intervals, reason, wall_shift_ns)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(values)?;
    Ok(())
}

/// Inserts a hole of an imported recording unless the same one is there: a recording may be imported again.
pub(super) fn record_imported(connection: &Connection, host: HostId, gap: &Gap) -> rusqlite::Result<()> {
    let host_row = host_row(connection, host)?;
    connection
        .prepare_cached(
            "INSERT INTO gap (host_id, begin_wall_ns, end_wall_ns, intervals, reason)
             SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS
                 (SELECT 1 FROM gap WHERE (host_id, begin_wall_ns, end_wall_ns, intervals, reason) = (?1, ?2, ?3, ?4, ?5))",
        )?
        .execute(params![host_row, gap.begin_wall_ns, gap.end_wall_ns, count(gap.intervals), gap.reason])?;
    Ok(())
}

fn count(intervals: u64) -> i64 {
    i64::try_from(intervals).unwrap_or(i64::MAX)
}
