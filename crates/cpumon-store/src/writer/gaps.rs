//! What was not stored, as rows. In: spans of lost intervals. Out: rows of table `gap`. Why: a hole that is known is shown
//! with its reason.

use std::collections::HashMap;
use std::hash::BuildHasher;

use cpumon_model::{HostId, Interval};
use rusqlite::{Connection, params};

use crate::codec::meta::{self, MetaRow};

/// A span of a host's time that was not stored.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    begin_wall_ns: i64,
    end_wall_ns: i64,
    /// The device's own clock less that, ns.
    wall_shift_ns: i64,
    pub(crate) intervals: u64,
    reason: &'static str,
}

impl Lost {
    /// One interval.
    pub(crate) fn of(interval: &Interval, reason: &'static str) -> Self {
        Self {
            begin_wall_ns: interval.begin.wall_ns,
            end_wall_ns: interval.end.wall_ns,
            wall_shift_ns: interval.wall_shift_ns,
            intervals: 1,
            reason,
        }
    }
}

/// Adds `lost` to what is known of that host: one span from the first to the last, with the newest reason.
pub(crate) fn merge_lost<S: BuildHasher>(into: &mut HashMap<HostId, Lost, S>, host: HostId, lost: Lost) {
    into.entry(host)
        .and_modify(|known| {
            known.begin_wall_ns = known.begin_wall_ns.min(lost.begin_wall_ns);
            known.end_wall_ns = known.end_wall_ns.max(lost.end_wall_ns);
            known.wall_shift_ns = lost.wall_shift_ns;
            known.intervals += lost.intervals;
            known.reason = lost.reason;
        })
        .or_insert(lost);
}

/// The row of a host, made if there is none yet.
pub(crate) fn host_row(connection: &Connection, host: HostId) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(
            "INSERT INTO host (key, name, trust) VALUES (?1, ?2, 'unauthenticated')
             ON CONFLICT (key) DO UPDATE SET key = excluded.key RETURNING id",
        )?
        .query_row(params![host.0, host.to_string()], |row| row.get(0))
}

/// Writes what was lost as rows of `gap`. A host that never got a row of its own gets one.
pub(crate) fn record_gaps<S: BuildHasher>(
    connection: &Connection,
    lost: &HashMap<HostId, Lost, S>,
) -> rusqlite::Result<()> {
    for (host, lost) in lost {
        let host_id = host_row(connection, *host)?;
        let intervals = i64::try_from(lost.intervals).unwrap_or(i64::MAX);
        connection
            .prepare_cached(
                "INSERT INTO gap (host_id, begin_wall_ns, end_wall_ns, intervals, reason, wall_shift_ns)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                host_id,
                lost.begin_wall_ns,
                lost.end_wall_ns,
                intervals,
                lost.reason,
                lost.wall_shift_ns
            ])?;
    }
    Ok(())
}

/// Writes one damaged interval as a row of `gap`.
pub(crate) fn record_damage(connection: &Connection, host_id: i64, row: &MetaRow) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO gap (host_id, begin_wall_ns, end_wall_ns, intervals, reason, wall_shift_ns)
             VALUES (?1, ?2, ?3, 1, 'damaged', ?4)",
        )?
        .execute(params![host_id, row[meta::BEGIN_WALL], row[meta::END_WALL], row[meta::SHIFT]])?;
    Ok(())
}

/// A hole that a device itself reports.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ReportedGap {
    /// When it begins, ns since the epoch on the receiver's time line.
    pub begin_wall_ns: i64,
    /// When it ends.
    pub end_wall_ns: i64,
    /// The device's own clock less that, ns.
    pub wall_shift_ns: i64,
    /// Intervals that are missing.
    pub intervals: u64,
    /// Why.
    pub reason: &'static str,
}

/// Writes a reported hole as a row of `gap`. One with the same begin (on the device's clock) and reason is the same: the larger one
/// stays.
pub(super) fn record_reported(
    connection: &Connection,
    host: HostId,
    gap: &ReportedGap,
) -> rusqlite::Result<()> {
    let host_id = host_row(connection, host)?;
    let intervals = i64::try_from(gap.intervals).unwrap_or(i64::MAX);
    let shift_ns = gap.wall_shift_ns;
    let values = params![host_id, gap.begin_wall_ns, gap.end_wall_ns, intervals, gap.reason, shift_ns];
    let known = connection
        .prepare_cached(
            "UPDATE gap SET end_wall_ns = max(end_wall_ns, ?3 + ?6 - wall_shift_ns), intervals = max(intervals, ?4)
             WHERE host_id = ?1 AND begin_wall_ns + wall_shift_ns = ?2 + ?6 AND reason = ?5",
        )?
        .execute(values)?;
    if known == 0 {
        connection
            .prepare_cached(
                "INSERT INTO gap (host_id, begin_wall_ns, end_wall_ns, intervals, reason, wall_shift_ns)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(values)?;
    }
    Ok(())
}
