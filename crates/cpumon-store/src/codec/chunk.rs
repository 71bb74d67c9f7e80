//! Sealed chunks: up to a hundred intervals of one boot, sorted by task, in columns, compressed. In: packed intervals.
//! Out: three sections (meta, processes, threads), and back, interval by interval. Why: half the room of fresh rows, and a
//! question about processes never touches the threads.
//! Layout: docs/store.md, "Sealed chunks".

use cpumon_model::{Delta, Flags};

use super::columns::{Values, read_meta, write_meta, write_values};
use super::meta::{COUNT, MetaRow};
use super::values::{Coding, difference, sum};
use super::varint::{self, Cursor, Malformed, write_section};
use super::zip::{unzip, zip};
use super::{PackedInterval, PackedProcess, PackedThread, life_code, life_of, place_code, place_of};

/// First byte of each section.
const FORMAT: u8 = 1;
/// Most intervals in a chunk; more is damage.
const MAX_INTERVALS: usize = 1 << 16;

/// One interval to be sealed.
#[derive(Clone, Debug)]
pub(crate) struct Unsealed {
    pub(crate) meta: MetaRow,
    pub(crate) cpus: Vec<u8>,
    pub(crate) rows: PackedInterval,
}

/// The three sections as they are kept.
#[derive(Debug)]
pub(crate) struct Sections {
    pub(crate) meta: Vec<u8>,
    pub(crate) processes: Vec<u8>,
    pub(crate) threads: Vec<u8>,
    pub(crate) process_rows: usize,
    pub(crate) thread_rows: usize,
}

/// Seals intervals, given in order of time.
pub(crate) fn encode(intervals: &[Unsealed], level: i32) -> std::io::Result<Sections> {
    let mut meta = vec![FORMAT];
    varint::write(&mut meta, intervals.len() as u64);
    let numbers: Vec<MetaRow> = intervals.iter().map(|interval| interval.meta).collect();
    write_meta(&numbers, &mut meta);
    for interval in intervals {
        write_section(&mut meta, &interval.cpus);
    }
    let processes = sorted_processes(intervals);
    let threads = sorted_threads(intervals, &processes);
    Ok(Sections {
        meta: zip(&meta, level)?,
        processes: zip(&encode_processes(&processes), level)?,
        threads: zip(&encode_threads(&threads), level)?,
        process_rows: processes.len(),
        thread_rows: threads.len(),
    })
}

/// A process's row with what sealing needs to know.
#[derive(Copy, Clone, Debug)]
struct ProcessAt {
    interval: usize,
    row: PackedProcess,
    /// Some of its time belongs to threads without a row.
    has_own: bool,
}

/// A thread's row with what sealing needs to know.
#[derive(Copy, Clone, Debug)]
struct ThreadAt {
    interval: usize,
    row: PackedThread,
    /// Number of its process among the chunk's processes.
    process: usize,
    /// Its values are what remains of its process's.
    is_rest: bool,
}

fn sorted_processes(intervals: &[Unsealed]) -> Vec<ProcessAt> {
    let mut all = Vec::new();
    for (interval, unsealed) in intervals.iter().enumerate() {
        let mut rest = unsealed.rows.threads.as_slice();
        for row in &unsealed.rows.processes {
            let (own, later) = rest.split_at(rest.len().min(row.stored_rows as usize));
            rest = later;
            let threads = own.iter().fold(Delta::default(), |total, thread| sum(&total, &thread.delta));
            all.push(ProcessAt { interval, row: *row, has_own: threads != row.delta });
        }
    }
    all.sort_by_key(|at| (at.row.id, at.interval));
    all
}

fn sorted_threads(intervals: &[Unsealed], processes: &[ProcessAt]) -> Vec<ThreadAt> {
    let mut ids: Vec<u64> = processes.iter().map(|at| at.row.id).collect();
    ids.dedup();
    let owns: std::collections::HashSet<(u64, usize)> =
        processes.iter().filter(|at| at.has_own).map(|at| (at.row.id, at.interval)).collect();
    let mut all = Vec::new();
    for (interval, unsealed) in intervals.iter().enumerate() {
        let mut rest = unsealed.rows.threads.as_slice();
        for process_row in &unsealed.rows.processes {
            let (own, later) = rest.split_at(rest.len().min(process_row.stored_rows as usize));
            rest = later;
            let process = ids.binary_search(&process_row.id).unwrap_or(0);
            let has_own = owns.contains(&(process_row.id, interval));
            all.extend(own.iter().enumerate().map(|(at, row)| ThreadAt {
                interval,
                row: *row,
                process,
                is_rest: !has_own && at + 1 == own.len(),
            }));
        }
    }
    all.sort_by_key(|at| (at.row.id, at.interval));
    all
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

/// What [`write_directory`] wrote: (id, number of its group, interval) of each row.
fn read_directory(cursor: &mut Cursor<'_>, intervals: usize) -> Result<Vec<(u64, usize, usize)>, Malformed> {
    let groups = cursor.count(2)?;
    let (mut ids, mut counts, mut numbers) = (cursor.section()?, cursor.section()?, cursor.section()?);
    let mut rows = Vec::with_capacity(numbers.remaining());
    let mut id = 0_u64;
    for group in 0..groups {
        id = id.wrapping_add(ids.u64()?);
        let count: usize = counts.narrow()?;
        let mut interval = -1_i64;
        for at in 0..count {
            let step = numbers.i64()?;
            interval = if at == 0 { step } else { interval.wrapping_add(step).wrapping_add(1) };
            let number = usize::try_from(interval).ok().filter(|&number| number < intervals);
            rows.push((id, group, number.ok_or_else(|| numbers.malformed("interval number out of range"))?));
        }
    }
    Ok(rows)
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

fn encode_threads(rows: &[ThreadAt]) -> Vec<u8> {
    let mut out = vec![FORMAT];
    write_directory(rows.iter().map(|at| (at.row.id, at.interval)), &mut out);
    let (mut process, mut place, mut odd) = (Vec::new(), Vec::new(), Vec::new());
    let mut before = 0_usize;
    for ThreadAt { row, process: number, .. } in rows {
        varint::write_signed(&mut process, step(before, *number));
        before = *number;
        varint::write(&mut place, place_code(row.last_cpu, row.state));
        varint::write(&mut odd, u64::from(row.flags.bits()) << 2 | u64::from(life_code(row.life)));
    }
    for column in [process, place, odd] {
        write_section(&mut out, &column);
    }
    let values: Vec<Delta> = rows.iter().filter(|at| !at.is_rest).map(|at| at.row.delta).collect();
    write_values(&values, Coding::of(values.iter()), &mut out);
    out
}

/// A chunk taken apart again, interval by interval.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) metas: Vec<MetaRow>,
    cpus: Vec<u8>,
    cpu_ends: Vec<usize>,
    processes: Vec<PackedProcess>,
    process_ends: Vec<usize>,
    threads: Vec<PackedThread>,
    thread_ends: Vec<usize>,
    /// Where each process row, sorted by id and interval, stands in `processes`.
    order: Vec<ProcessPlace>,
    plain: Vec<u8>,
}

/// A process row in chunk order.
#[derive(Copy, Clone, Debug)]
struct ProcessPlace {
    group: usize,
    interval: usize,
    /// Index into [`Chunk::processes`].
    at: usize,
    /// All of its threads' values are written.
    has_own: bool,
    /// Where its next thread goes.
    next_thread: usize,
    /// What its threads have not yet taken.
    rest: Delta,
    rows_left: u32,
}

impl Chunk {
    /// Reads the meta section; the other rows are emptied.
    pub(crate) fn read_meta(&mut self, section: &[u8]) -> Result<(), Malformed> {
        self.clear();
        let mut plain = std::mem::take(&mut self.plain);
        unzip(section, &mut plain)?;
        let mut cursor = opened(&plain)?;
        let count = cursor.count(COUNT)?.min(MAX_INTERVALS);
        self.metas.resize(count, [0; COUNT]);
        read_meta(&mut cursor, &mut self.metas)?;
        for _ in 0..count {
            let len = cursor.count(1)?;
            self.cpus.extend_from_slice(cursor.bytes(len)?);
            self.cpu_ends.push(self.cpus.len());
        }
        self.process_ends.resize(count, 0);
        self.thread_ends.resize(count, 0);
        self.plain = plain;
        Ok(())
    }

    fn clear(&mut self) {
        self.metas.clear();
        self.cpus.clear();
        self.cpu_ends.clear();
        self.processes.clear();
        self.process_ends.clear();
        self.threads.clear();
        self.thread_ends.clear();
        self.order.clear();
    }

    /// Reads the processes section; the meta section comes first.
    pub(crate) fn read_processes(&mut self, section: &[u8]) -> Result<(), Malformed> {
        let mut plain = std::mem::take(&mut self.plain);
        unzip(section, &mut plain)?;
        let mut cursor = opened(&plain)?;
        let directory = read_directory(&mut cursor, self.metas.len())?;
        let mut next = starts(&mut self.process_ends, directory.iter().map(|row| row.2));
        let (mut odd, mut live, mut stored) = (cursor.section()?, cursor.section()?, cursor.section()?);
        let mut values = Values::open(&mut cursor)?;
        self.processes.resize(directory.len(), PackedProcess::default());
        for (id, group, interval) in directory {
            let bits = odd.u64()?;
            let flags = u16::try_from(bits >> 4).map_err(|_| odd.malformed("flags out of range"))?;
            let row = PackedProcess {
                id,
                thread_rows: live.narrow()?,
                life: life_of((bits & 3) as u8),
                flags: Flags::from_bits_retain(flags),
                is_absent: bits & 4 != 0,
                delta: values.next()?,
                stored_rows: stored.narrow()?,
            };
            let at = next[interval];
            next[interval] += 1;
            self.processes[at] = row;
            self.order.push(ProcessPlace {
                group,
                interval,
                at,
                has_own: bits & 8 != 0,
                next_thread: 0,
                rest: row.delta,
                rows_left: row.stored_rows,
            });
        }
        self.plain = plain;
        Ok(())
    }

    /// Reads the threads section; the processes section comes first.
    pub(crate) fn read_threads(&mut self, section: &[u8]) -> Result<(), Malformed> {
        let mut plain = std::mem::take(&mut self.plain);
        unzip(section, &mut plain)?;
        let mut cursor = opened(&plain)?;
        let directory = read_directory(&mut cursor, self.metas.len())?;
        let mut own = starts(&mut self.thread_ends, directory.iter().map(|row| row.2));
        self.place_threads(&mut own);
        let (mut process, mut place, mut odd) = (cursor.section()?, cursor.section()?, cursor.section()?);
        let mut values = Values::open(&mut cursor)?;
        self.threads.resize(directory.len(), PackedThread::default());
        let mut group = 0_i64;
        for (id, _, interval) in directory {
            group = group.wrapping_add(process.i64()?);
            let found = usize::try_from(group).ok().and_then(|group| {
                self.order.binary_search_by_key(&(group, interval), |at| (at.group, at.interval)).ok()
            });
            let owner = found.and_then(|found| self.order.get_mut(found)).filter(|owner| owner.rows_left > 0);
            let owner = owner.ok_or_else(|| process.malformed("a thread without its process"))?;
            let delta = if owner.rows_left == 1 && !owner.has_own { owner.rest } else { values.next()? };
            owner.rest = difference(&owner.rest, &delta);
            owner.rows_left -= 1;
            let slot = self.threads.get_mut(owner.next_thread);
            owner.next_thread += 1;
            let (last_cpu, state) =
                place_of(place.u64()?).ok_or_else(|| place.malformed("CPU number out of range"))?;
            let bits = odd.u64()?;
            let flags = u16::try_from(bits >> 2).map_err(|_| odd.malformed("flags out of range"))?;
            *slot.ok_or_else(|| odd.malformed("too many threads"))? = PackedThread {
                id,
                state,
                last_cpu,
                life: life_of((bits & 3) as u8),
                flags: Flags::from_bits_retain(flags),
                delta,
            };
        }
        self.plain = plain;
        Ok(())
    }

    /// Gives each process row the place of its first thread.
    fn place_threads(&mut self, own: &mut [usize]) {
        let mut first = vec![0_usize; self.processes.len()];
        let mut begin = 0;
        for (&end, next) in self.process_ends.iter().zip(own) {
            for (row, first) in self.processes[begin..end].iter().zip(&mut first[begin..end]) {
                *first = *next;
                *next = next.saturating_add(row.stored_rows as usize);
            }
            begin = end;
        }
        for place in &mut self.order {
            place.next_thread = first.get(place.at).copied().unwrap_or(usize::MAX);
        }
    }

    /// The modes per CPU of one interval.
    pub(crate) fn cpus(&self, interval: usize) -> &[u8] {
        slice(&self.cpus, &self.cpu_ends, interval)
    }

    /// The process rows of one interval.
    pub(crate) fn processes(&self, interval: usize) -> &[PackedProcess] {
        slice(&self.processes, &self.process_ends, interval)
    }

    /// The thread rows of one interval, grouped by process.
    pub(crate) fn threads(&self, interval: usize) -> &[PackedThread] {
        slice(&self.threads, &self.thread_ends, interval)
    }
}

fn opened(plain: &[u8]) -> Result<Cursor<'_>, Malformed> {
    let mut cursor = Cursor::new(plain);
    if cursor.u8()? == FORMAT { Ok(cursor) } else { Err(cursor.malformed("unknown format")) }
}

/// Counts rows per interval into `ends` (as running ends), gives where each interval's rows begin.
fn starts(ends: &mut [usize], intervals: impl Iterator<Item = usize>) -> Vec<usize> {
    ends.fill(0);
    for interval in intervals {
        ends[interval] += 1;
    }
    let mut total = 0;
    let mut begins = Vec::with_capacity(ends.len());
    for end in ends {
        begins.push(total);
        total += *end;
        *end = total;
    }
    begins
}

fn slice<'a, T>(all: &'a [T], ends: &[usize], interval: usize) -> &'a [T] {
    let begin = interval.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    let end = ends.get(interval).copied().unwrap_or(begin);
    all.get(begin..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::blob::tests::any_packed;
    use super::*;

    fn any_unsealed() -> impl Strategy<Value = Unsealed> {
        let cpus = proptest::collection::vec(any::<u8>(), 0..9);
        (any_packed(), any::<[i64; 8]>(), cpus).prop_map(|(mut rows, some, cpus)| {
            // What a row holds beyond its threads is kept as such; make that rare, as it is.
            if some[0] % 3 != 0 {
                let mut rest = rows.threads.as_slice();
                for process in &mut rows.processes {
                    let (own, later) = rest.split_at(process.stored_rows as usize);
                    rest = later;
                    process.delta = own.iter().fold(Delta::default(), |total, row| sum(&total, &row.delta));
                }
            }
            let meta = std::array::from_fn(|at| some[at % 8]);
            Unsealed { meta, cpus, rows }
        })
    }

    proptest! {
        #[test]
        fn intervals_come_back(intervals in proptest::collection::vec(any_unsealed(), 0..7)) {
            let sections = encode(&intervals, 3).unwrap();
            let mut chunk = Chunk::default();
            chunk.read_meta(&sections.meta).unwrap();
            chunk.read_processes(&sections.processes).unwrap();
            chunk.read_threads(&sections.threads).unwrap();
            prop_assert_eq!(chunk.metas.len(), intervals.len());
            for (at, interval) in intervals.iter().enumerate() {
                prop_assert_eq!(chunk.metas[at], interval.meta);
                prop_assert_eq!(chunk.cpus(at), &interval.cpus[..]);
                prop_assert_eq!(chunk.processes(at), &interval.rows.processes[..]);
                prop_assert_eq!(chunk.threads(at), &interval.rows.threads[..]);
            }
        }

        #[test]
        fn damaged_chunks_do_not_panic(
            intervals in proptest::collection::vec(any_unsealed(), 1..4),
            flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        ) {
            let sections = encode(&intervals, 3).unwrap();
            let damaged = |section: &[u8]| {
                let mut plain = Vec::new();
                unzip(section, &mut plain).unwrap();
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
                    .and_then(|()| chunk.read_processes(&processes))
                    .and_then(|()| chunk.read_threads(&threads));
                if read.is_ok() {
                    prop_assert!(chunk.threads(0).len() <= sections.thread_rows * 300);
                }
            }
        }
    }

    #[test]
    fn damaged_compression_is_an_error() {
        let sections =
            encode(&[Unsealed { meta: [0; COUNT], cpus: Vec::new(), rows: PackedInterval::default() }], 3)
                .unwrap();
        let mut chunk = Chunk::default();
        assert!(chunk.read_meta(&sections.meta[..sections.meta.len() - 2]).is_err());
        assert!(chunk.read_meta(&[0xff; 40]).is_err());
        assert!(chunk.read_meta(&[]).is_err());
    }
}
