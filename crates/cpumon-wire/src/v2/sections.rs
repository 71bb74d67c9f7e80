//! Run-delay histograms, limits and pressure of control groups, the host's pressure, and waits by who ended them as columns, in both
//! directions. They have sections of their own, which receivers of earlier releases skip. All but the waits are cumulative, so a lost frame
//! costs resolution and no delay.
//!
//! A histogram has one row per bucket. It is sent whole when it is new and when it is its turn, else only its buckets that changed: a
//! receiver that does not have the rest leaves it out until its turn. Those of processes that ended are sent whole in two snapshots, as
//! exits are.
//!
//! A group is sent with its path and its limit in two snapshots when it is new or its limit changes, and once every refresh, else only if
//! its counters moved. One that ended is sent once as ended, and forgotten anyway when its turns are missing.
//!
//! Waits are those that ended since the snapshot before. They are sent once: those of a lost frame are missing.

use cpumon_model::{
    CgroupSample, CpuLimit, DelayHistogram, DelayOf, Delays, Interval, Pressure, ProcessKey, Snapshot,
    ThreadKey, Throttle, WaitFor, WaitKind, WaitedOn, find_delays,
};

#[allow(clippy::wildcard_imports)] // One name for each column.
use super::columns::*;
use super::known::Turn;
use super::read::{TableReader, TextSpan};
use super::table::{Spec, TableWriter, TextBudget};
use super::{Frames, MAX_TEXT_BYTES};
use crate::DecodeError;

const BUCKET: &[u8] = &[DELAY_WHOLE, DELAY_BUCKET, DELAY_COUNT];
const CPU_DELAYS: Spec = Spec { section: section::DELAYS, group: &[DELAY_CPU], row: &[BUCKET] };
const PROCESS_DELAYS: Spec = Spec::by_process(section::DELAYS, &[BUCKET]);
const THREAD_DELAYS: Spec = Spec::by_process(section::DELAYS, &[&[TID, START], BUCKET]);

/// The row of a histogram's bucket in a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DelayRow {
    /// The CPU, process or thread that the delays are of.
    pub of: DelayOf,
    /// The snapshot has all buckets of the histogram.
    pub is_whole: bool,
    /// Number of the bucket, 0 to 255 (docs/probes.md).
    pub bucket: u8,
    /// Number of delays in the bucket, cumulative.
    pub count: u64,
}

/// Remembers histograms from snapshot to snapshot.
#[derive(Debug, Default)]
pub(crate) struct DelayWriter {
    /// Owners of histograms in the previous snapshot, ascending.
    known: Vec<DelayOf>,
    /// Histograms of owners that ended with the previous snapshot.
    ended: Vec<Delays>,
}

impl DelayWriter {
    /// Writes the histograms that are due. Returns how many rows did not fit.
    pub(crate) fn write(
        &mut self,
        snapshot: &Snapshot,
        interval: &Interval,
        turn: Turn,
        tables: [&mut TableWriter; 3],
        frames: &mut Frames<'_>,
    ) -> u64 {
        let [cpus, processes, threads] = tables;
        let mut put = |delays: &Delays, changed: Option<&DelayHistogram>| {
            let is_whole = changed.is_none();
            let buckets = delays.histogram.iter();
            for (bucket, count) in
                buckets.filter(|row| changed.is_none_or(|changed| changed.count(row.0) > 0))
            {
                let cells = [u64::from(is_whole), u64::from(bucket), count];
                match delays.of {
                    DelayOf::Cpu(cpu) => {
                        // Plus 1: a column of nothing but zeros is not written, and CPU 0 alone would have no
                        // owner column.
                        cpus.push(&[u64::from(cpu) + 1]);
                        cpus.push(&cells);
                    }
                    DelayOf::Process(key) => {
                        processes.push(&[u64::from(key.pid), key.start_ns]);
                        processes.push(&cells);
                    }
                    DelayOf::Thread(process, key) => {
                        threads.push(&[u64::from(process.pid), process.start_ns]);
                        threads.push(&[u64::from(key.tid), key.start_ns]);
                        threads.push(&cells);
                    }
                }
            }
        };
        let is_gone = |delays: &&Delays| find_delays(&snapshot.delays, delays.of).is_none();
        self.ended.iter().filter(is_gone).for_each(|delays| put(delays, None));
        for delays in &snapshot.delays {
            let is_new = self.known.binary_search(&delays.of).is_err();
            if is_new || is_turn(turn, delays.of) || has_ended(snapshot, delays.of) {
                put(delays, None);
            } else if let Some(changed) = find_delays(&interval.delays, delays.of) {
                put(delays, Some(changed));
            }
        }
        self.remember(snapshot, turn);
        cpus.write(CPU_DELAYS, frames)
            + processes.write(PROCESS_DELAYS, frames)
            + threads.write(THREAD_DELAYS, frames)
    }

    fn remember(&mut self, snapshot: &Snapshot, turn: Turn) {
        self.known.clear();
        self.known.extend(snapshot.delays.iter().map(|delays| delays.of));
        self.ended.clear();
        // Where nothing is lost once is enough.
        if turn.name_sends > 1 {
            let ended = snapshot.delays.iter().filter(|delays| has_ended(snapshot, delays.of));
            self.ended.extend(ended.cloned());
        }
    }
}

fn is_turn(turn: Turn, of: DelayOf) -> bool {
    turn.is_of(match of {
        DelayOf::Cpu(cpu) => cpu,
        DelayOf::Process(key) => key.pid,
        DelayOf::Thread(_, key) => key.tid,
    })
}

fn has_ended(snapshot: &Snapshot, of: DelayOf) -> bool {
    match of {
        DelayOf::Cpu(_) => false,
        DelayOf::Process(key) => snapshot.processes.binary_search_by_key(&key, |row| row.key).is_err(),
        DelayOf::Thread(_, key) => snapshot.threads.binary_search_by_key(&key, |row| row.key).is_err(),
    }
}

pub(crate) fn delay(table: &TableReader<'_>) -> Result<DelayRow, DecodeError> {
    let process = ProcessKey { pid: table.narrow(PID)?, start_ns: table.value(PROCESS_START) };
    let of = if table.has(DELAY_CPU) {
        let number = u32::try_from(table.value(DELAY_CPU).saturating_sub(1));
        DelayOf::Cpu(number.map_err(|_| table.out_of_range(DELAY_CPU))?)
    } else if table.has(TID) {
        DelayOf::Thread(process, ThreadKey { tid: table.narrow(TID)?, start_ns: table.value(START) })
    } else {
        DelayOf::Process(process)
    };
    Ok(DelayRow {
        of,
        is_whole: table.value(DELAY_WHOLE) != 0,
        bucket: table.narrow(DELAY_BUCKET)?,
        count: table.value(DELAY_COUNT),
    })
}

const GROUP: &[u8] =
    &[CGROUP_ID, CGROUP_KNOWN, PERIODS, THROTTLED_PERIODS, THROTTLED_TIME, PRESSURE_SOME, PRESSURE_FULL];
const NAMED_CGROUPS: Spec = Spec::alone(section::CGROUPS, &[GROUP, &[CGROUP_LIMIT, CGROUP_LIMITER, CGROUP]]);
/// Groups whose path and limit the receiver has.
const PLAIN_CGROUPS: Spec = Spec::alone(section::CGROUPS, &[GROUP]);

/// Bits of [`CGROUP_KNOWN`].
const HAS_THROTTLE: u64 = 1;
const HAS_PRESSURE: u64 = 2;
const HAS_ENDED: u64 = 4;

/// A control group's row in a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CgroupRow {
    /// Number of the group.
    pub id: u64,
    /// It is gone, or no process is in it.
    pub has_ended: bool,
    /// Counters of the group that has the limit.
    pub throttle: Option<Throttle>,
    /// Pressure of the group itself.
    pub pressure: Option<Pressure>,
    /// Limit and path of the group, if sent.
    pub about: Option<AboutCgroup>,
}

/// Properties of a control group that rarely change.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AboutCgroup {
    /// Tightest limit on the group's path.
    pub limit: CpuLimit,
    /// Length in bytes of the path prefix that names the limiting group.
    pub limiter_bytes: u16,
    /// Path of the group, in the frame's text buffer.
    pub(crate) path: TextSpan,
}

/// What was sent of a group in the snapshot before.
#[derive(Debug)]
struct SentCgroup {
    row: CgroupSample,
    /// How many of the next snapshots will have the path.
    sends_left: u8,
}

/// Remembers control groups from snapshot to snapshot.
#[derive(Debug, Default)]
pub(crate) struct CgroupWriter {
    /// Groups of the previous snapshot, ascending by id.
    sent: Vec<SentCgroup>,
    /// Groups of the current snapshot.
    next: Vec<SentCgroup>,
}

impl CgroupWriter {
    /// Writes the groups that are due, with paths within this budget. Returns how many rows did not fit.
    pub(crate) fn write(
        &mut self,
        snapshot: &Snapshot,
        turn: Turn,
        [named, plain]: [&mut TableWriter; 2],
        texts: &mut TextBudget,
        frames: &mut Frames<'_>,
    ) -> u64 {
        for row in &snapshot.cgroups {
            let before = self.sent.binary_search_by_key(&row.id, |sent| sent.row.id).ok();
            let before = before.map(|at| &self.sent[at]).filter(|SentCgroup { row: sent, .. }| {
                (sent.limit, sent.limiter_bytes) == (row.limit, row.limiter_bytes)
            });
            let sends_left = before.map_or(turn.name_sends, |sent| sent.sends_left);
            self.next.push(SentCgroup { row: row.clone(), sends_left: sends_left.saturating_sub(1) });
            if sends_left > 0 || turn.is_of_host() {
                push_cgroup(named, row.id, known_bits(row), row);
                named.push(&[row.limit.code(), u64::from(row.limiter_bytes)]);
                let path = texts.put([(&row.path, MAX_TEXT_BYTES)], named);
                named.push(&path);
            } else if before.is_some_and(|SentCgroup { row: sent, .. }| {
                (sent.throttle, sent.pressure) != (row.throttle, row.pressure)
            }) {
                push_cgroup(plain, row.id, known_bits(row), row);
            }
        }
        let is_listed = |id: u64| snapshot.cgroups.binary_search_by_key(&id, |row| row.id).is_ok();
        let lost = named.write(NAMED_CGROUPS, frames) + plain.write(PLAIN_CGROUPS, frames);
        for ended in self.sent.iter().map(|sent| sent.row.id).filter(|id| !is_listed(*id)) {
            push_cgroup(plain, ended, HAS_ENDED, &CgroupSample::default());
        }
        std::mem::swap(&mut self.sent, &mut self.next);
        self.next.clear();
        lost + plain.write(PLAIN_CGROUPS, frames)
    }
}

fn known_bits(row: &CgroupSample) -> u64 {
    let bit = |is_known: bool, bit: u64| if is_known { bit } else { 0 };
    bit(row.throttle.is_some(), HAS_THROTTLE) | bit(row.pressure.is_some(), HAS_PRESSURE)
}

fn push_cgroup(table: &mut TableWriter, id: u64, known: u64, row: &CgroupSample) {
    let throttle = row.throttle.unwrap_or_default();
    let pressure = row.pressure.unwrap_or_default();
    table.push(&[id, known, throttle.periods, throttle.throttled_periods, throttle.throttled_ns]);
    table.push(&[pressure.some_ns, pressure.full_ns]);
}

/// Adds the host's pressure to the row of totals.
pub(crate) fn push_pressure(table: &mut TableWriter, snapshot: &Snapshot) {
    let pressure = snapshot.pressure.unwrap_or_default();
    let known = if snapshot.pressure.is_some() { HAS_PRESSURE } else { 0 };
    table.push(&[known, pressure.some_ns, pressure.full_ns, u64::from(snapshot.cgroups_left_out)]);
}

/// Pressure of a row; `None` where it was not sent.
pub(crate) fn pressure(table: &TableReader<'_>) -> Option<Pressure> {
    let pressure = Pressure { some_ns: table.value(PRESSURE_SOME), full_ns: table.value(PRESSURE_FULL) };
    (table.value(CGROUP_KNOWN) & HAS_PRESSURE != 0).then_some(pressure)
}

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

pub(crate) const WAITS_FOR: Spec =
    Spec::by_process(section::WAITS_FOR, &[&[TID, START, WAIT_KIND, WAITED_ON, WAITED_TIME, WAITED_COUNT]]);

/// Adds waits by who ended them, which come by process.
pub(crate) fn push_waits_for(table: &mut TableWriter, rows: &[WaitFor]) {
    let (mut waiter, mut id, mut start_ns) = (ProcessKey::default(), 0, 0);
    for row in rows {
        let (on, on_id, on_start_ns) = row.on.code();
        if matches!(row.on, WaitedOn::Process(_) | WaitedOn::Thread(_)) {
            (id, start_ns) = (on_id, on_start_ns);
        } else if row.waiter != waiter {
            // Both are sent less those of the waiter, then less those of the row before. Where no task was waited on they may be any: no
            // difference takes the fewest bits.
            (id, start_ns) = (row.waiter.pid, row.waiter.start_ns);
        }
        waiter = row.waiter;
        table.push(&[u64::from(waiter.pid), waiter.start_ns, u64::from(id), start_ns]);
        table.push(&[row.kind.code(), on, whole_us(row.ns), row.count]);
    }
}

pub(crate) fn wait_for(table: &TableReader<'_>) -> Result<WaitFor, DecodeError> {
    Ok(WaitFor {
        waiter: ProcessKey { pid: table.narrow(PID)?, start_ns: table.value(PROCESS_START) },
        kind: WaitKind::from_code(table.value(WAIT_KIND)),
        on: WaitedOn::from_code(table.value(WAITED_ON), table.narrow(TID)?, table.value(START)),
        ns: table.value(WAITED_TIME),
        count: table.value(WAITED_COUNT),
    })
}
