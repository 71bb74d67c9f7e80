//! Run-delay histograms as columns, one row per bucket. They have a section of their own, which receivers of
//! earlier releases skip.
//!
//! Counts are cumulative, so a lost frame costs resolution and no delay. A histogram is sent whole when it is new and when it is
//! its turn, else only its buckets that changed: a receiver that does not have the rest leaves it out until its turn. Those of
//! processes that ended are sent whole in two snapshots, as exits are.

use cpumon_model::{DelayOf, Delays, Interval, ProcessKey, Snapshot, ThreadKey, find_delays};

use super::columns::{
    DELAY_BUCKET, DELAY_COUNT, DELAY_CPU, DELAY_WHOLE, PID, PROCESS_START, START, TID, section,
};
use super::frames::Frames;
use super::known::Turn;
use super::read::TableReader;
use super::table::{Spec, Table};
use crate::DecodeError;

const CPUS: Spec =
    Spec { section: section::DELAYS, group: &[DELAY_CPU], row: &[DELAY_WHOLE, DELAY_BUCKET, DELAY_COUNT] };
const PROCESSES: Spec = Spec {
    section: section::DELAYS,
    group: &[PID, PROCESS_START],
    row: &[DELAY_WHOLE, DELAY_BUCKET, DELAY_COUNT],
};
const THREADS: Spec = Spec {
    section: section::DELAYS,
    group: &[PID, PROCESS_START],
    row: &[TID, START, DELAY_WHOLE, DELAY_BUCKET, DELAY_COUNT],
};

/// One bucket as a frame has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DelayRow {
    /// The CPU, process or thread that the delays are of.
    pub of: DelayOf,
    /// The snapshot has all buckets of this histogram.
    pub is_whole: bool,
    /// Number of the bucket, 0 to 255 (docs/probes.md).
    pub bucket: u8,
    /// Delays counted in it, cumulative.
    pub count: u64,
}

/// What is remembered from snapshot to snapshot.
#[derive(Debug, Default)]
pub(crate) struct DelayWriter {
    /// Owners of the snapshot before, ascending.
    known: Vec<DelayOf>,
    /// Of those that ended with the snapshot before.
    ended: Vec<Delays>,
}

impl DelayWriter {
    /// Writes what is due. Returns how many rows did not fit.
    pub(crate) fn write(
        &mut self,
        snapshot: &Snapshot,
        interval: &Interval,
        turn: Turn,
        tables: [&mut Table; 3],
        frames: &mut Frames<'_>,
    ) -> u64 {
        let [cpus, processes, threads] = tables;
        let mut put = |delays: &Delays, changed: Option<&cpumon_model::DelayHistogram>| {
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
        cpus.write(CPUS, frames) + processes.write(PROCESSES, frames) + threads.write(THREADS, frames)
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

/// A bucket from its row.
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
