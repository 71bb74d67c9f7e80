//! Chunks: up to a hundred intervals of one boot, sorted by task, in columns, compressed. They take half the space of fresh
//! rows. Each of the three sections (meta, processes, threads) is read on its own, so a query about processes reads no
//! threads. Layout: docs/store.md, "Chunks".

mod read;

use cpumon_model::Delta;

pub(crate) use self::read::Chunk;
use crate::codec::meta::{MetaRow, write_meta, write_optional};
use crate::codec::values::write_values;
use crate::codec::varint::{self, write_section};
use crate::codec::{
    Coding, PackedInterval, PackedProcess, PackedThread, life_code, odd_code, place_code, sum, zip,
};

/// First byte of each section.
const FORMAT: u8 = 1;

/// Longest time between the first and the last end in a chunk. Compaction begins another chunk beyond it, and readers find
/// the chunks of a range by their last end plus this.
pub(crate) const MAX_CHUNK_SPAN_NS: i64 = 6 * 3_600_000_000_000;

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
        varint::write(&mut odd, odd_code(row.life, row.flags));
    }
    for column in [process, place, odd] {
        write_section(&mut out, &column);
    }
    // The reader computes these rows: the process's values less its other rows.
    let values: Vec<Delta> = rows.iter().filter(|at| !at.is_rest).map(|at| at.row.delta).collect();
    write_values(&values, Coding::of(values.iter()), &mut out);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::blob::tests::any_packed;
    use crate::codec::meta::COUNT;
    use crate::codec::varint::Malformed;
    use crate::codec::{groups, unzip};

    fn any_fresh() -> impl Strategy<Value = FreshInterval> {
        let cpus = proptest::collection::vec(any::<u8>(), 0..9);
        let sched = proptest::collection::vec(any::<u8>(), 0..5);
        (any_packed(), any::<[i64; 8]>(), cpus, sched).prop_map(|(mut rows, some, cpus, sched)| {
            // What a row holds beyond its threads is kept as such; make that rare, as it is.
            if some[0] % 3 != 0 {
                let total = |(_, own): (_, &[PackedThread])| {
                    own.iter().fold(Delta::default(), |total, row| sum(&total, &row.delta))
                };
                let totals: Vec<Delta> = rows.groups().map(total).collect();
                for (process, total) in rows.processes.iter_mut().zip(totals) {
                    process.delta = total;
                }
            }
            let meta = std::array::from_fn(|at| some[at % 8]);
            FreshInterval { meta, cpus, sched, rows }
        })
    }

    /// Each process's threads in the order that a chunk gives back.
    fn threads_by_id(rows: &PackedInterval) -> Vec<PackedThread> {
        let mut threads = rows.threads.clone();
        let mut rest = threads.as_mut_slice();
        for process in &rows.processes {
            let (own, later) = rest.split_at_mut(process.stored_rows as usize);
            own.sort_by_key(|row| row.id);
            rest = later;
        }
        threads
    }

    proptest! {
        #[test]
        fn intervals_come_back(intervals in proptest::collection::vec(any_fresh(), 0..7)) {
            let sections = encode(&intervals, 3).unwrap();
            let mut chunk = Chunk::default();
            chunk.read_meta(&sections.meta).unwrap();
            chunk.read_processes(&sections.processes, |ids| Ok::<_, Malformed>(vec![true; ids.len()])).unwrap();
            chunk.read_sched(&sections.sched).unwrap();
            chunk.read_threads(&sections.threads).unwrap();
            prop_assert_eq!(sections.sched.is_empty(), intervals.iter().all(|interval| interval.sched.is_empty()));
            prop_assert_eq!(chunk.metas.len(), intervals.len());
            for (at, interval) in intervals.iter().enumerate() {
                prop_assert_eq!(chunk.metas[at], interval.meta);
                prop_assert_eq!(chunk.cpus.of(at), &interval.cpus[..]);
                prop_assert_eq!(chunk.sched.of(at), &interval.sched[..]);
                prop_assert_eq!(chunk.processes.of(at), &interval.rows.processes[..]);
                prop_assert_eq!(chunk.threads.of(at), &threads_by_id(&interval.rows)[..]);
            }
        }

        #[test]
        fn wanted_processes_come_back_alone(
            intervals in proptest::collection::vec(any_fresh(), 0..7),
            wanted in any::<u64>(),
        ) {
            let sections = encode(&intervals, 3).unwrap();
            let is_wanted = |id: u64| wanted >> (id % 64) & 1 == 1;
            let (mut whole, mut part) = (Chunk::default(), Chunk::default());
            for (chunk, pick) in [(&mut whole, false), (&mut part, true)] {
                chunk.read_meta(&sections.meta).unwrap();
                let pick = |ids: &[u64]| {
                    Ok::<_, Malformed>(ids.iter().map(|&id| !pick || is_wanted(id)).collect())
                };
                chunk.read_processes(&sections.processes, pick).unwrap();
                chunk.read_threads(&sections.threads).unwrap();
            }
            for at in 0..intervals.len() {
                let (mut processes, mut threads) = (Vec::new(), Vec::new());
                for (row, own) in groups(whole.processes.of(at), whole.threads.of(at)) {
                    if is_wanted(row.id) {
                        processes.push(*row);
                        threads.extend_from_slice(own);
                    }
                }
                prop_assert_eq!(part.processes.of(at), &processes[..]);
                prop_assert_eq!(part.threads.of(at), &threads[..]);
            }
        }

        #[test]
        fn damaged_chunks_do_not_panic(
            intervals in proptest::collection::vec(any_fresh(), 1..4),
            flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        ) {
            let sections = encode(&intervals, 3).unwrap();
            let damaged = |section: &[u8]| {
                let mut plain = Vec::new();
                unzip(section, &mut plain, section.len() * 100 + 1_000).unwrap();
                for (at, flip) in &flips {
                    let at = at % plain.len();
                    plain[at] ^= flip;
                }
                zip(&plain, 3).unwrap()
            };
            let mut chunk = Chunk::default();
            for (meta, processes, threads) in [
                (damaged(&sections.meta), sections.processes.clone(), sections.threads.clone()),
                (sections.meta.clone(), damaged(&sections.processes), sections.threads.clone()),
                (sections.meta.clone(), sections.processes.clone(), damaged(&sections.threads)),
            ] {
                let read = chunk.read_meta(&meta)
                    .and_then(|()| chunk.read_processes(&processes, |ids| Ok::<_, Malformed>(ids.iter().map(|id| id % 5 != flips.len() as u64 % 5).collect())))
                    .and_then(|()| chunk.read_threads(&threads));
                if read.is_ok() {
                    prop_assert!(chunk.threads.of(0).len() <= sections.thread_rows * 300);
                }
            }
        }
    }

    #[test]
    fn damaged_compression_is_an_error() {
        let sections = encode(
            &[FreshInterval {
                meta: [0; COUNT],
                cpus: Vec::new(),
                sched: Vec::new(),
                rows: PackedInterval::default(),
            }],
            3,
        )
        .unwrap();
        let mut chunk = Chunk::default();
        assert!(chunk.read_meta(&sections.meta[..sections.meta.len() - 2]).is_err());
        assert!(chunk.read_meta(&[0xff; 40]).is_err());
        assert!(chunk.read_meta(&[]).is_err());
    }
}
