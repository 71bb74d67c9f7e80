//! Takes a chunk apart again, interval by interval. In: its sections. Out: packed rows in the order they had.
//! Why: whoever asks sees intervals, sealed or not.

use cpumon_model::{Delta, Flags};

use super::FORMAT;
use crate::codec::columns::{Values, read_meta};
use crate::codec::meta::{COUNT, MetaRow};
use crate::codec::values::difference;
use crate::codec::varint::{Cursor, Malformed};
use crate::codec::zip::unzip;
use crate::codec::{PackedProcess, PackedThread, life_of, place_of};

/// Most intervals in a chunk; more is damage.
const MAX_INTERVALS: usize = 1 << 16;

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

/// A chunk taken apart again, interval by interval.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) metas: Vec<MetaRow>,
    cpus: Vec<u8>,
    cpu_ends: Vec<usize>,
    sched: Vec<u8>,
    sched_ends: Vec<usize>,
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
        self.sched.clear();
        self.sched_ends.clear();
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

    /// Reads the section of scheduler events, empty where none were measured; the meta section comes first.
    pub(crate) fn read_sched(&mut self, section: &[u8]) -> Result<(), Malformed> {
        self.sched.clear();
        self.sched_ends.clear();
        self.sched_ends.resize(self.metas.len(), 0);
        if section.is_empty() {
            return Ok(());
        }
        let mut plain = std::mem::take(&mut self.plain);
        unzip(section, &mut plain)?;
        let mut cursor = opened(&plain)?;
        for end in &mut self.sched_ends {
            let len = cursor.count(1)?;
            self.sched.extend_from_slice(cursor.bytes(len)?);
            *end = self.sched.len();
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

    /// The scheduler events of one interval; empty if there are none, or they were not read.
    pub(crate) fn sched(&self, interval: usize) -> &[u8] {
        slice(&self.sched, &self.sched_ends, interval)
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
