//! Decodes chunks, interval by interval. A query for one process does not wait for the rows of others: they are stepped over,
//! not decoded.

use cpumon_model::{Delta, Flags};

use super::FORMAT;
use crate::codec::meta::{COUNT, IN_EVERY_CHUNK, MetaRow, read_meta, read_optional};
use crate::codec::values::DeltaReader;
use crate::codec::varint::{Malformed, VarintCursor};
use crate::codec::{
    MAX_INTERVALS, MAX_ROWS, MAX_SECTION_BYTES, PackedProcess, PackedThread, bytes_of, difference, life_of,
    odd_of, place_of, unzip,
};

/// A buffer or a list of more bytes is freed when it was used: chunks stay in memory, and few are that large.
const KEPT_BYTES: usize = 4 << 20;

/// What [`write_directory`] wrote: the rows of one task behind those of another.
#[derive(Debug)]
struct Directory {
    /// Id of each task, in order.
    ids: Vec<u64>,
    /// Where the rows of each task begin, and where the last ones end.
    begins: Vec<usize>,
    /// Number of the interval that each row belongs to.
    intervals: Vec<u32>,
}

impl Directory {
    /// Reads a directory of at most `most` rows.
    fn read(cursor: &mut VarintCursor<'_>, intervals: usize, most: usize) -> Result<Self, Malformed> {
        let tasks = cursor.count(2)?;
        let (mut ids, mut counts, mut numbers) = (cursor.section()?, cursor.section()?, cursor.section()?);
        // Each row has one number there. It is a byte, and zstd makes a thousand of one: they are counted before memory is reserved for rows.
        let len = numbers.numbers();
        if len > most {
            return Err(numbers.malformed("more than 524,288 rows"));
        }
        // No writer makes one, and names are read for each.
        let without_rows = |counts: &VarintCursor<'_>| Err(counts.malformed("a task without rows"));
        if tasks > len {
            return without_rows(&counts);
        }
        let mut read = Self {
            ids: Vec::with_capacity(tasks),
            begins: Vec::with_capacity(tasks + 1),
            intervals: Vec::with_capacity(len),
        };
        let mut id = 0_u64;
        for _ in 0..tasks {
            id = id.wrapping_add(ids.u64()?);
            let count: usize = counts.narrow()?;
            if count == 0 {
                return without_rows(&counts);
            }
            read.ids.push(id);
            read.begins.push(read.intervals.len());
            let mut interval = -1_i64;
            // A count that is too large ends with an error where the section ends.
            for at in 0..count {
                let step = numbers.i64()?;
                interval = if at == 0 { step } else { interval.wrapping_add(step).wrapping_add(1) };
                let number = u32::try_from(interval).ok().filter(|&number| (number as usize) < intervals);
                let number = number.ok_or_else(|| numbers.malformed("interval number out of range"))?;
                read.intervals.push(number);
            }
        }
        read.begins.push(read.intervals.len());
        Ok(read)
    }

    /// The number of the task and of the interval of each row.
    fn rows(&self) -> impl Iterator<Item = (usize, usize)> {
        let of = |task: usize, rows: &[usize]| {
            let intervals = &self.intervals[rows[0]..rows[1]];
            intervals.iter().map(move |&interval| (task, interval as usize))
        };
        self.begins.windows(2).enumerate().flat_map(move |(task, rows)| of(task, rows))
    }
}

/// What intervals have, one behind the other, and where that of each ends.
#[derive(Debug, Default)]
pub(crate) struct ByInterval<T> {
    all: Vec<T>,
    ends: Vec<usize>,
}

impl<T> ByInterval<T> {
    fn held_bytes(&self) -> usize {
        bytes_of(&self.all) + bytes_of(&self.ends)
    }

    fn clear(&mut self) {
        self.all.clear();
        self.ends.clear();
    }

    pub(crate) fn of(&self, interval: usize) -> &[T] {
        let begin = interval.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(interval).copied().unwrap_or(begin);
        self.all.get(begin..end).unwrap_or_default()
    }
}

/// A decoded chunk: the sections that were read, in memory that the next chunk uses again.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) metas: Vec<MetaRow>,
    pub(crate) cpus: ByInterval<u8>,
    /// Scheduler events; empty where there are none, or they were not read.
    pub(crate) sched: ByInterval<u8>,
    pub(crate) processes: ByInterval<PackedProcess>,
    /// Grouped by process.
    pub(crate) threads: ByInterval<PackedThread>,
    /// Each process row, sorted by id and interval, wanted or not.
    order: Vec<ProcessPlace>,
    /// Where the rows of each process begin in `order`, and where the last ones end.
    groups: Vec<usize>,
    plain: Vec<u8>,
}

/// A process row in chunk order.
#[derive(Copy, Clone, Debug)]
struct ProcessPlace {
    interval: usize,
    /// Index into [`Chunk::processes`]; `None`: not wanted.
    at: Option<usize>,
    /// The values of all threads are written; none is derived.
    has_own: bool,
    /// Index of the process's next thread in [`Chunk::threads`].
    next_thread: usize,
    /// The process's values less those of its threads read so far.
    rest: Delta,
    rows_left: u32,
}

impl Chunk {
    /// Reads the meta section; the other rows are emptied.
    pub(crate) fn read_meta(&mut self, section: &[u8]) -> Result<(), Malformed> {
        self.clear();
        // Taken out while a cursor borrows it and the lists of `self` are filled; an error costs only the
        // buffer.
        let mut plain = std::mem::take(&mut self.plain);
        unzip(section, &mut plain, MAX_SECTION_BYTES)?;
        let mut cursor = VarintCursor::open(&plain, FORMAT)?;
        // Each interval has at least one byte in each of these columns.
        let count = cursor.count_to(IN_EVERY_CHUNK, MAX_INTERVALS, "more than 128 intervals")?;
        self.metas.resize(count, [0; COUNT]);
        read_meta(&mut cursor, &mut self.metas)?;
        // Little else follows.
        self.cpus.all.reserve_exact(cursor.remaining());
        for _ in 0..count {
            self.cpus.all.extend_from_slice(cursor.section_bytes()?);
            self.cpus.ends.push(self.cpus.all.len());
        }
        read_optional(&mut cursor, &mut self.metas)?;
        // Ends of 0 make every interval read as one without rows, until the other sections are read.
        self.processes.ends.resize(count, 0);
        self.threads.ends.resize(count, 0);
        self.keep(plain);
        Ok(())
    }

    fn keep(&mut self, plain: Vec<u8>) {
        if plain.capacity() <= KEPT_BYTES {
            self.plain = plain;
        }
    }

    /// Frees what only reading needs, if it is much: all sections that are wanted were read.
    pub(crate) fn trim(&mut self) {
        if bytes_of(&self.order) + bytes_of(&self.groups) > KEPT_BYTES {
            (self.order, self.groups) = (Vec::new(), Vec::new());
        }
    }

    pub(crate) fn held_bytes(&self) -> usize {
        bytes_of(&self.metas)
            + self.cpus.held_bytes()
            + self.sched.held_bytes()
            + self.processes.held_bytes()
            + self.threads.held_bytes()
            + bytes_of(&self.order)
            + bytes_of(&self.groups)
            + bytes_of(&self.plain)
    }

    fn clear(&mut self) {
        self.metas.clear();
        self.cpus.clear();
        self.sched.clear();
        self.processes.clear();
        self.threads.clear();
        self.order.clear();
        self.groups.clear();
    }

    /// Reads the processes section: the rows of the ids that `pick` selects from all ids. The meta section comes first.
    pub(crate) fn read_processes<E: From<Malformed>>(
        &mut self,
        section: &[u8],
        pick: impl FnOnce(&[u64]) -> Result<Vec<bool>, E>,
    ) -> Result<(), E> {
        let mut plain = std::mem::take(&mut self.plain);
        unzip(section, &mut plain, MAX_SECTION_BYTES)?;
        let mut cursor = VarintCursor::open(&plain, FORMAT)?;
        // A writer of before limited threads only. Rows of processes that did something take two bytes each at least, packed.
        let most = MAX_ROWS.max(section.len());
        let directory = Directory::read(&mut cursor, self.metas.len(), most)?;
        let picked = pick(&directory.ids)?;
        self.read_process_rows(&mut cursor, &directory, &picked)?;
        self.groups = directory.begins;
        self.keep(plain);
        Ok(())
    }

    fn read_process_rows(
        &mut self,
        cursor: &mut VarintCursor<'_>,
        directory: &Directory,
        picked: &[bool],
    ) -> Result<(), Malformed> {
        let is_picked = |task: usize| picked.get(task).copied().unwrap_or(false);
        let wanted = || directory.rows().filter(|&(task, _)| is_picked(task)).map(|(_, interval)| interval);
        // Rows come by process but are stored by interval: they are counted first, so that each has its
        // place.
        let mut next = starts(&mut self.processes.ends, wanted());
        fill(&mut self.processes.all, wanted().count());
        self.order.reserve_exact(directory.intervals.len());
        let (mut odd, mut live, mut stored) = (cursor.section()?, cursor.section()?, cursor.section()?);
        let mut values = DeltaReader::open(cursor)?;
        // Unwanted rows are only counted until a wanted one comes: many are skipped faster than one by one.
        let mut passed = 0;
        for (task, interval) in directory.rows() {
            let bits = odd.u64()?;
            // Also of unwanted processes: with it, `read_threads` knows which of their thread rows have
            // values.
            let rows_left = stored.narrow()?;
            let mut place = ProcessPlace {
                interval,
                at: None,
                has_own: bits & 8 != 0,
                next_thread: 0,
                rest: Delta::default(),
                rows_left,
            };
            if is_picked(task) {
                values.skip(passed)?;
                live.skip(std::mem::take(&mut passed))?;
                let flags = u16::try_from(bits >> 4).map_err(|_| odd.malformed("flags out of range"))?;
                let row = PackedProcess {
                    id: directory.ids[task],
                    thread_rows: live.narrow()?,
                    life: life_of((bits & 3) as u8),
                    flags: Flags::from_bits_retain(flags),
                    is_absent: bits & 4 != 0,
                    delta: values.next()?,
                    stored_rows: rows_left,
                };
                let at = next[interval];
                next[interval] += 1;
                self.processes.all[at] = row;
                (place.at, place.rest) = (Some(at), row.delta);
            } else {
                passed += 1;
            }
            self.order.push(place);
        }
        Ok(())
    }

    /// Reads the section of scheduler events, empty where none were measured; the meta section comes first.
    pub(crate) fn read_sched(&mut self, section: &[u8]) -> Result<(), Malformed> {
        self.sched.clear();
        self.sched.ends.resize(self.metas.len(), 0);
        if section.is_empty() {
            return Ok(());
        }
        let mut plain = std::mem::take(&mut self.plain);
        unzip(section, &mut plain, MAX_SECTION_BYTES)?;
        let mut cursor = VarintCursor::open(&plain, FORMAT)?;
        self.sched.all.reserve_exact(cursor.remaining());
        for end in &mut self.sched.ends {
            self.sched.all.extend_from_slice(cursor.section_bytes()?);
            *end = self.sched.all.len();
        }
        self.keep(plain);
        Ok(())
    }

    /// Reads the threads section, the rows of the processes that were wanted; the processes section comes first. Gives the ids of all threads.
    pub(crate) fn read_threads(&mut self, section: &[u8]) -> Result<Vec<u64>, Malformed> {
        let mut plain = std::mem::take(&mut self.plain);
        unzip(section, &mut plain, MAX_SECTION_BYTES)?;
        let mut cursor = VarintCursor::open(&plain, FORMAT)?;
        let most = MAX_ROWS.saturating_sub(self.order.len()).max(section.len());
        let directory = Directory::read(&mut cursor, self.metas.len(), most)?;
        self.place_threads(directory.intervals.len())
            .ok_or_else(|| cursor.malformed("threads are missing"))?;
        let (mut process, mut place, mut odd) = (cursor.section()?, cursor.section()?, cursor.section()?);
        let mut values = DeltaReader::open(&mut cursor)?;
        let mut group = 0_i64;
        // Skipped rows and skipped values: they are only counted until a wanted row comes.
        let (mut passed, mut passed_values) = (0, 0);
        let mut hint = 0;
        for (task, interval) in directory.rows() {
            group = group.wrapping_add(process.i64()?);
            let found = self.owner(group, interval, hint);
            let at = found.ok_or_else(|| process.malformed("a thread without its process"))?;
            hint = at + 1;
            let owner = &mut self.order[at];
            // The last row of a process is not written where it is what the other rows leave of the process's
            // values.
            let is_rest = owner.rows_left == 1 && !owner.has_own;
            // Not below 0: `owner` finds only rows that still lack threads.
            owner.rows_left -= 1;
            if owner.at.is_none() {
                passed += 1;
                passed_values += usize::from(!is_rest);
                continue;
            }
            if passed > 0 {
                values.skip(std::mem::take(&mut passed_values))?;
                place.skip(passed)?;
                odd.skip(std::mem::take(&mut passed))?;
            }
            let delta = if is_rest { owner.rest } else { values.next()? };
            owner.rest = difference(&owner.rest, &delta);
            let slot = self.threads.all.get_mut(owner.next_thread);
            owner.next_thread += 1;
            let (last_cpu, state) =
                place_of(place.u64()?).ok_or_else(|| place.malformed("CPU number out of range"))?;
            let (life, flags) = odd_of(odd.u64()?).ok_or_else(|| odd.malformed("flags out of range"))?;
            let id = directory.ids[task];
            *slot.ok_or_else(|| odd.malformed("too many threads"))? =
                PackedThread { id, state, last_cpu, life, flags, delta };
        }
        self.keep(plain);
        Ok(directory.ids)
    }

    /// Index in `order` of a process's row of an interval that still lacks threads. `hint`: the index after the one found last.
    /// Rows of a thread come in order of intervals, so it is nearly always that one.
    #[inline]
    fn owner(&self, group: i64, interval: usize, hint: usize) -> Option<usize> {
        let group = usize::try_from(group).ok()?;
        let (begin, end) = (*self.groups.get(group)?, *self.groups.get(group + 1)?);
        let is_it = |at: usize| self.order.get(at).is_some_and(|place| place.interval == interval);
        let at = if (begin..end).contains(&hint) && is_it(hint) {
            hint
        } else {
            let rows = self.order.get(begin..end)?;
            begin + rows.binary_search_by_key(&interval, |place| place.interval).ok()?
        };
        (self.order[at].rows_left > 0).then_some(at)
    }

    /// Gives each process row the index of its first thread. `None` if there are fewer `rows` than the processes say.
    fn place_threads(&mut self, rows: usize) -> Option<()> {
        let mut first = Vec::with_capacity(self.processes.all.len());
        let (mut begin, mut next) = (0, 0_usize);
        for (&end, threads) in self.processes.ends.iter().zip(&mut self.threads.ends) {
            for row in self.processes.all.get(begin..end).unwrap_or_default() {
                first.push(next);
                next = next.saturating_add(row.stored_rows as usize);
            }
            (begin, *threads) = (end, next);
        }
        for place in &mut self.order {
            place.next_thread = place.at.and_then(|at| first.get(at).copied()).unwrap_or(usize::MAX);
        }
        // Counts of a damaged chunk can add up to anything: the number of rows in the directory bounds the
        // memory.
        fill(&mut self.threads.all, (next <= rows).then_some(next)?);
        Some(())
    }
}

/// Fills an empty list with `len` defaults, and reserves no more memory than they take.
fn fill<T: Clone + Default>(list: &mut Vec<T>, len: usize) {
    list.reserve_exact(len);
    list.resize(len, T::default());
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
