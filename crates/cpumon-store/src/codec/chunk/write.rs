//! Encodes chunks: intervals in order of time become three sections (meta, processes, threads) that are compressed one by one.

use cpumon_model::Delta;

use super::FORMAT;
use crate::codec::meta::{MetaRow, write_meta, write_optional};
use crate::codec::values::write_values;
use crate::codec::varint::{self, write_section};
use crate::codec::{Coding, PackedInterval, PackedProcess, PackedThread, life_code, place_code, sum, zip};

/// One interval that is not in a chunk yet.
#[derive(Clone, Debug)]
pub(crate) struct FreshInterval {
    pub(crate) meta: MetaRow,
    pub(crate) cpus: Vec<u8>,
    /// Scheduler events ([`crate::codec::sched`]); empty where none were measured.
    pub(crate) sched: Vec<u8>,
    pub(crate) rows: PackedInterval,
}

#[derive(Debug)]
pub(crate) struct Sections {
    pub(crate) meta: Vec<u8>,
    pub(crate) processes: Vec<u8>,
    pub(crate) threads: Vec<u8>,
    /// Empty if no interval has scheduler events.
    pub(crate) sched: Vec<u8>,
    pub(crate) process_rows: usize,
    pub(crate) thread_rows: usize,
}

/// Encodes intervals that are in order of time.
pub(crate) fn encode(intervals: &[FreshInterval], level: i32) -> std::io::Result<Sections> {
    let mut meta = vec![FORMAT];
    varint::write(&mut meta, intervals.len() as u64);
    let numbers: Vec<MetaRow> = intervals.iter().map(|interval| interval.meta).collect();
    write_meta(&numbers, &mut meta);
    for interval in intervals {
        write_section(&mut meta, &interval.cpus);
    }
    // Last: chunks of older versions end here.
    write_optional(&numbers, &mut meta);
    let (processes, threads) = sorted(intervals);
    Ok(Sections {
        meta: zip(&meta, level)?,
        processes: zip(&encode_processes(&processes), level)?,
        threads: zip(&encode_threads(&threads, &processes), level)?,
        sched: encode_sched(intervals, level)?,
        process_rows: processes.len(),
        thread_rows: threads.len(),
    })
}

fn encode_sched(intervals: &[FreshInterval], level: i32) -> std::io::Result<Vec<u8>> {
    if intervals.iter().all(|interval| interval.sched.is_empty()) {
        return Ok(Vec::new());
    }
    let mut plain = vec![FORMAT];
    for interval in intervals {
        write_section(&mut plain, &interval.sched);
    }
    zip(&plain, level)
}

#[derive(Copy, Clone, Debug)]
struct ProcessAt {
    interval: usize,
    row: PackedProcess,
    /// Some of its time belongs to threads without a row.
    has_own: bool,
}

#[derive(Copy, Clone, Debug)]
struct ThreadAt {
    interval: usize,
    row: PackedThread,
    process_id: u64,
    /// Its values are not written: a reader derives them from the process's.
    is_rest: bool,
}

fn sorted(intervals: &[FreshInterval]) -> (Vec<ProcessAt>, Vec<ThreadAt>) {
    let (mut processes, mut threads) = (Vec::new(), Vec::new());
    for (interval, fresh) in intervals.iter().enumerate() {
        for (process, own) in fresh.rows.groups() {
            let total = own.iter().fold(Delta::default(), |total, thread| sum(&total, &thread.delta));
            let has_own = total != process.delta;
            processes.push(ProcessAt { interval, row: *process, has_own });
            // Rows are read back in order of id: the one that comes last there.
            let last = own.iter().enumerate().max_by_key(|(_, row)| row.id).map(|(at, _)| at);
            threads.extend(own.iter().enumerate().map(|(at, row)| ThreadAt {
                interval,
                row: *row,
                process_id: process.id,
                is_rest: !has_own && Some(at) == last,
            }));
        }
    }
    processes.sort_by_key(|at| (at.row.id, at.interval));
    threads.sort_by_key(|at| (at.row.id, at.interval));
    (processes, threads)
}

/// `to − from` of two numbers that count rows of a chunk.
fn step(from: usize, to: usize) -> i64 {
    (to as u64).wrapping_sub(from as u64).cast_signed()
}

/// Writes ids, row counts and interval numbers of rows that are sorted by id, then interval.
fn write_directory(rows: impl Iterator<Item = (u64, usize)> + Clone, out: &mut Vec<u8>) {
    let (mut ids, mut counts, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    let (mut groups, mut count) = (0_u64, 0_u64);
    let mut last: Option<(u64, usize)> = None;
    for (id, interval) in rows {
        match last {
            Some((same, before)) if same == id => {
                count += 1;
                // Twice in one interval (a hostile sender) gives −1.
                varint::write_signed(&mut numbers, step(before, interval) - 1);
            }
            _ => {
                if last.is_some() {
                    varint::write(&mut counts, count);
                }
                varint::write(&mut ids, id.wrapping_sub(last.map_or(0, |(before, _)| before)));
                varint::write_signed(&mut numbers, step(0, interval));
                (groups, count) = (groups + 1, 1);
            }
        }
        last = Some((id, interval));
    }
    if last.is_some() {
        varint::write(&mut counts, count);
    }
    varint::write(out, groups);
    write_section(out, &ids);
    write_section(out, &counts);
    write_section(out, &numbers);
}

fn encode_processes(rows: &[ProcessAt]) -> Vec<u8> {
    let mut out = vec![FORMAT];
    write_directory(rows.iter().map(|at| (at.row.id, at.interval)), &mut out);
    let (mut odd, mut live, mut stored) = (Vec::new(), Vec::new(), Vec::new());
    for ProcessAt { row, has_own, .. } in rows {
        let bits =
            u64::from(row.flags.bits()) << 4 | u64::from(*has_own) << 3 | u64::from(row.is_absent) << 2;
        varint::write(&mut odd, bits | u64::from(life_code(row.life)));
        varint::write(&mut live, u64::from(row.thread_rows));
        varint::write(&mut stored, u64::from(row.stored_rows));
    }
    for column in [odd, live, stored] {
        write_section(&mut out, &column);
    }
    let values: Vec<Delta> = rows.iter().map(|at| at.row.delta).collect();
    write_values(&values, Coding::of(values.iter()), &mut out);
    out
}

fn encode_threads(rows: &[ThreadAt], processes: &[ProcessAt]) -> Vec<u8> {
    let mut ids: Vec<u64> = processes.iter().map(|at| at.row.id).collect();
    ids.dedup();
    let mut out = vec![FORMAT];
    write_directory(rows.iter().map(|at| (at.row.id, at.interval)), &mut out);
    let (mut process, mut place, mut odd) = (Vec::new(), Vec::new(), Vec::new());
    let mut before = 0_usize;
    for ThreadAt { row, process_id, .. } in rows {
        // Always found. The rows of one thread follow each other, so most steps are 0.
        let number = ids.binary_search(process_id).unwrap_or(0);
        varint::write_signed(&mut process, step(before, number));
        before = number;
        varint::write(&mut place, place_code(row.last_cpu, row.state));
        varint::write(&mut odd, u64::from(row.flags.bits()) << 2 | u64::from(life_code(row.life)));
    }
    for column in [process, place, odd] {
        write_section(&mut out, &column);
    }
    // The reader computes these rows: the process's values less its other rows.
    let values: Vec<Delta> = rows.iter().filter(|at| !at.is_rest).map(|at| at.row.delta).collect();
    write_values(&values, Coding::of(values.iter()), &mut out);
    out
}
