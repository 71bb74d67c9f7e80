//! Limits and pressure of control groups as columns, and the host's pressure. They have a section of their own, which receivers of
//! earlier releases skip.
//!
//! Counters are cumulative. A group is sent with its path and its limit in two snapshots when it is new or its limit changes, and once
//! every refresh, else only if its counters moved. One that ended is sent once as ended, and forgotten anyway when its turns are
//! missing.

use cpumon_model::{CgroupSample, CpuLimit, Pressure, Snapshot, Throttle};

use super::columns::{
    CGROUP, CGROUP_ID, CGROUP_KNOWN, CGROUP_LIMIT, CGROUP_LIMITER, PERIODS, PRESSURE_FULL, PRESSURE_SOME,
    THROTTLED_PERIODS, THROTTLED_TIME, section,
};
use super::format::MAX_TEXT_BYTES;
use super::frames::Frames;
use super::known::Turn;
use super::read::{Span, TableReader};
use super::table::{Spec, Table};
use super::text_budget::TextBudget;
use crate::DecodeError;

const NAMED: Spec = Spec {
    section: section::CGROUPS,
    group: &[],
    row: &[
        CGROUP_ID,
        CGROUP_KNOWN,
        PERIODS,
        THROTTLED_PERIODS,
        THROTTLED_TIME,
        PRESSURE_SOME,
        PRESSURE_FULL,
        CGROUP_LIMIT,
        CGROUP_LIMITER,
        CGROUP,
    ],
};
/// Groups whose path and limit the receiver has.
const PLAIN: Spec = Spec {
    section: section::CGROUPS,
    group: &[],
    row: &[CGROUP_ID, CGROUP_KNOWN, PERIODS, THROTTLED_PERIODS, THROTTLED_TIME, PRESSURE_SOME, PRESSURE_FULL],
};

/// Bits of [`CGROUP_KNOWN`].
const HAS_THROTTLE: u64 = 1;
const HAS_PRESSURE: u64 = 2;
const HAS_ENDED: u64 = 4;

/// A group as a frame has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CgroupRow {
    /// Number of the group.
    pub id: u64,
    /// It is gone, or no process is in it.
    pub has_ended: bool,
    /// Counters of the group that has the limit.
    pub throttle: Option<Throttle>,
    /// Its own pressure.
    pub pressure: Option<Pressure>,
    /// Its limit and path, if sent.
    pub about: Option<AboutCgroup>,
}

/// What changes rarely of a group.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AboutCgroup {
    /// The tightest limit on its path.
    pub limit: CpuLimit,
    /// So many bytes of the path name the group that has it.
    pub limiter_bytes: u16,
    /// Its path, in the frame's text buffer.
    pub(crate) path: Span,
}

/// What was sent of a group in the snapshot before.
#[derive(Copy, Clone, Debug)]
struct Sent {
    id: u64,
    limit: CpuLimit,
    limiter_bytes: u16,
    throttle: Option<Throttle>,
    pressure: Option<Pressure>,
    /// Snapshots to come that will have its path.
    sends_left: u8,
}

/// What is remembered from snapshot to snapshot.
#[derive(Debug, Default)]
pub(crate) struct CgroupWriter {
    /// Ascending by id, as the rows of snapshots.
    sent: Vec<Sent>,
    /// Those of this snapshot.
    next: Vec<Sent>,
}

impl Sent {
    fn of(row: &CgroupSample, sends_left: u8) -> Self {
        Self {
            id: row.id,
            limit: row.limit,
            limiter_bytes: row.limiter_bytes,
            throttle: row.throttle,
            pressure: row.pressure,
            sends_left,
        }
    }

    fn has_same_limit(&self, row: &CgroupSample) -> bool {
        (self.limit, self.limiter_bytes) == (row.limit, row.limiter_bytes)
    }

    fn has_same_counters(&self, row: &CgroupSample) -> bool {
        (self.throttle, self.pressure) == (row.throttle, row.pressure)
    }
}

impl CgroupWriter {
    /// Writes what is due, with paths within this budget. Returns how many rows did not fit.
    pub(crate) fn write(
        &mut self,
        snapshot: &Snapshot,
        turn: Turn,
        [named, plain]: [&mut Table; 2],
        texts: &mut TextBudget,
        frames: &mut Frames<'_>,
    ) -> u64 {
        for row in &snapshot.cgroups {
            let before = self.sent.binary_search_by_key(&row.id, |sent| sent.id).ok().map(|at| self.sent[at]);
            let before = before.filter(|sent| sent.has_same_limit(row));
            let sends_left = before.map_or(turn.name_sends, |sent| sent.sends_left);
            self.next.push(Sent::of(row, sends_left.saturating_sub(1)));
            if sends_left > 0 || turn.everything || (turn.slot == 0 && turn.slots > 0) {
                push(named, row.id, known_bits(row), row);
                named.push(&[row.limit.code(), u64::from(row.limiter_bytes)]);
                let path = texts.put([(&row.path, MAX_TEXT_BYTES)], named);
                named.push(&path);
            } else if before.is_some_and(|sent| !sent.has_same_counters(row)) {
                push(plain, row.id, known_bits(row), row);
            }
        }
        let is_listed = |id: u64| snapshot.cgroups.binary_search_by_key(&id, |row| row.id).is_ok();
        let lost = named.write(NAMED, frames) + plain.write(PLAIN, frames);
        plain.clear();
        for ended in self.sent.iter().filter(|sent| !is_listed(sent.id)) {
            push(plain, ended.id, HAS_ENDED, &CgroupSample::default());
        }
        std::mem::swap(&mut self.sent, &mut self.next);
        self.next.clear();
        lost + plain.write(PLAIN, frames)
    }
}

fn known_bits(row: &CgroupSample) -> u64 {
    let bit = |is_known: bool, bit: u64| if is_known { bit } else { 0 };
    bit(row.throttle.is_some(), HAS_THROTTLE) | bit(row.pressure.is_some(), HAS_PRESSURE)
}

fn push(table: &mut Table, id: u64, known: u64, row: &CgroupSample) {
    let throttle = row.throttle.unwrap_or_default();
    let pressure = row.pressure.unwrap_or_default();
    table.push(&[id, known, throttle.periods, throttle.throttled_periods, throttle.throttled_ns]);
    table.push(&[pressure.some_ns, pressure.full_ns]);
}

/// The columns of the totals' row.
pub(crate) fn push_totals(table: &mut Table, snapshot: &Snapshot) {
    let pressure = snapshot.pressure.unwrap_or_default();
    let known = if snapshot.pressure.is_some() { HAS_PRESSURE } else { 0 };
    table.push(&[known, pressure.some_ns, pressure.full_ns, u64::from(snapshot.cgroups_left_out)]);
}

/// Pressure of a row; `None` where it was not sent.
pub(crate) fn pressure(table: &TableReader<'_>) -> Option<Pressure> {
    let pressure = Pressure { some_ns: table.value(PRESSURE_SOME), full_ns: table.value(PRESSURE_FULL) };
    (table.value(CGROUP_KNOWN) & HAS_PRESSURE != 0).then_some(pressure)
}

/// A group from its row.
pub(crate) fn cgroup(table: &TableReader<'_>) -> Result<CgroupRow, DecodeError> {
    let throttle = Throttle {
        periods: table.value(PERIODS),
        throttled_periods: table.value(THROTTLED_PERIODS),
        throttled_ns: table.value(THROTTLED_TIME),
    };
    let about = AboutCgroup {
        limit: CpuLimit::from_code(table.value(CGROUP_LIMIT)),
        limiter_bytes: table.narrow(CGROUP_LIMITER)?,
        path: table.span(CGROUP),
    };
    let known = table.value(CGROUP_KNOWN);
    Ok(CgroupRow {
        id: table.value(CGROUP_ID),
        has_ended: known & HAS_ENDED != 0,
        throttle: (known & HAS_THROTTLE != 0).then_some(throttle),
        pressure: pressure(table),
        about: table.has(CGROUP).then_some(about),
    })
}
