//! The active rows of an interval, those of tasks to which something happened: only they are stored. [`ActiveCopy`] copies them into reused
//! memory, because an interval that waits in the queue takes the memory of active rows, not of every thread of a host.
//!
//! [`IntervalPacker`] packs them into a blob, with row ids instead of keys. Rows are grouped by process so that a thread need not name its
//! own. Each is read once and nothing is sorted: both lists come in order.

use std::collections::HashMap;
use std::sync::Arc;

use cpumon_model::{
    DelayOf, Delays, Delta, Fields, Flags, Interval, Life, ProcessInterval, ProcessKey, Resting, SchedDelta,
    SourceKind, ThreadInterval, WaitReason, empty_list,
};

use super::naming::{Naming, Seeded};
use crate::codec::blob::BlobEncoder;
use crate::codec::{Coding, PackedProcess, PackedThread, bytes_of, sched, sum};

/// A v1 device lists some processes and not others: a row of zeros there means *known to be idle*, no row means *no data*.
fn stores_idle(interval: &Interval) -> bool {
    matches!(interval.source, SourceKind::V1 | SourceKind::Legacy)
}

/// Whether the thread gets a row: something happened to it, or one of its run delays ended that its counters do not show yet.
#[inline]
pub(super) fn is_stored_thread(interval: &Interval, row: &ThreadInterval) -> bool {
    // Delays are in order of their owner, threads last: without one at the end there is nothing to search
    // for.
    is_active(&row.delta, row.life, row.flags)
        || (matches!(interval.delays.last(), Some(Delays { of: DelayOf::Thread(..), .. }))
            && interval.delays_of(DelayOf::Thread(row.process, row.key)).is_some())
}

/// The process whose run delays these are; none of a thread, which has a row of its own.
fn process_of(of: DelayOf) -> Option<ProcessKey> {
    if let DelayOf::Process(key) = of { Some(key) } else { None }
}

/// Whether something happened to the process itself; one with an active thread is stored too.
#[inline]
fn is_active_process(row: &ProcessInterval) -> bool {
    is_active(&row.delta, row.life, row.flags)
}

#[inline]
fn is_active(delta: &Delta, life: Life, flags: Flags) -> bool {
    // One number of all counters, without a branch.
    let all = delta.to_array().iter().fold(0, |all, count| all | count);
    all != 0 || life != Life::Alive || !flags.is_empty()
}

/// Whether the threads that are there all have rows.
pub(super) fn has_all_threads(interval: &Interval) -> bool {
    let alive = interval.threads.iter().filter(|row| !row.life.has_ended()).count();
    alive >= usize::try_from(interval.thread_count).unwrap_or(usize::MAX)
}

/// The threads that wait without a row that is stored; `None`: not known.
pub(super) fn resting_of(interval: &Interval) -> Option<Arc<[Resting]>> {
    if !interval.fields.contains(Fields::SCHED | Fields::WAITS) {
        return None;
    }
    let listed = match &interval.resting {
        Some(listed) => &**listed,
        None if has_all_threads(interval) => &[],
        None => return None,
    };
    let idle = interval.threads.iter().filter(|row| !is_stored_thread(interval, row));
    Some(idle.filter_map(ThreadInterval::resting).chain(listed.iter().copied()).collect())
}

#[derive(Debug, Default)]
pub(crate) struct ActiveCopy {
    pub(crate) interval: Interval,
    /// Processes of the active threads, sorted.
    keys: Vec<ProcessKey>,
}

impl ActiveCopy {
    /// Forgets the rows, and the texts that they share. Their places stay for the next interval, unless there were far fewer rows.
    pub(crate) fn clear(&mut self) {
        let Self { interval, keys } = self;
        empty_list(&mut interval.cpus);
        empty_list(&mut interval.processes);
        empty_list(&mut interval.threads);
        empty_list(&mut interval.irqs);
        interval.resting = None;
        interval.idle_processes = None;
        empty_list(&mut interval.delays);
        empty_list(&mut interval.cgroups);
        empty_list(&mut interval.waits_for);
        empty_list(keys);
    }

    /// Memory that the lists have reserved, whatever is in them, bytes.
    pub(crate) fn capacity_bytes(&self) -> usize {
        let Self { interval, keys } = self;
        bytes_of(&interval.cpus)
            + bytes_of(&interval.processes)
            + bytes_of(&interval.threads)
            + bytes_of(&interval.irqs)
            + bytes_of(&interval.delays)
            + bytes_of(&interval.cgroups)
            + bytes_of(&interval.waits_for)
            + bytes_of(keys)
    }

    /// Copies everything of `from` but its idle rows; `with_idle`: those of processes too, and the threads that wait, for the list of
    /// all that are there.
    pub(crate) fn fill(&mut self, from: &Interval, with_idle: bool) {
        let Interval {
            mut cpus,
            mut processes,
            mut threads,
            mut irqs,
            mut delays,
            mut cgroups,
            mut waits_for,
            ..
        } = std::mem::take(&mut self.interval);
        from.cpus.clone_into(&mut cpus);
        from.irqs.clone_into(&mut irqs);
        from.delays.clone_into(&mut delays);
        from.cgroups.clone_into(&mut cgroups);
        from.waits_for.clone_into(&mut waits_for);
        threads.clear();
        let stores_all = stores_idle(from);
        let stored = || from.threads.iter().filter(|row| stores_all || is_stored_thread(from, row));
        // Counted first: a list that grows by itself has up to twice the space that it needs.
        threads.reserve_exact(stored().count());
        threads.extend(stored().copied());
        self.keys.clear();
        self.keys.extend(threads.iter().map(|row| row.process));
        // A process needs a row for its histogram even if none of its counters moved.
        self.keys.extend(delays.iter().filter_map(|row| process_of(row.of)));
        self.keys.sort_unstable();
        processes.clear();
        let is_stored = |row: &&_| {
            stores_all || with_idle || is_active_process(row) || self.keys.binary_search(&row.key).is_ok()
        };
        processes.extend(from.processes.iter().filter(is_stored).cloned());
        self.interval = Interval {
            cpus,
            processes,
            threads,
            resting: if with_idle { resting_of(from) } else { None },
            idle_processes: from.idle_processes.clone().filter(|_| with_idle),
            irqs,
            delays,
            cgroups,
            waits_for,
            ..*from
        };
    }
}

/// Numbers of the rows that `wanted` picks. Which ones it picks changes from second to second, so that a branch would mostly
/// be mispredicted.
fn pick<T>(rows: &[T], wanted: impl Fn(&T) -> bool, into: &mut Vec<u32>) {
    into.resize(rows.len(), 0);
    let mut count = 0;
    for (at, row) in (0_u32..).zip(rows) {
        // Written for every row; it stays only where `count` moves on.
        into[count] = at;
        count += usize::from(wanted(row));
    }
    into.truncate(count);
}

/// Index that means no row or no slot.
const NONE: u32 = u32::MAX;

#[derive(Copy, Clone, Debug)]
struct ProcessSlot {
    key: ProcessKey,
    id: u64,
    /// Index into the interval's processes; [`NONE`] if it has no row there.
    row: u32,
    threads: u32,
    /// Sum over its active threads.
    sum: Delta,
}

#[derive(Copy, Clone, Debug, Default)]
struct Active {
    id: u64,
    /// Index into the interval's threads.
    row: u32,
    slot: u32,
}

#[derive(Debug, Default)]
pub(super) struct IntervalPacker {
    picked: Vec<u32>,
    /// Slot of each of the interval's processes, or [`NONE`].
    slot_of: Vec<u32>,
    /// Slots of processes that have no row in the interval.
    absent: HashMap<ProcessKey, u32, Seeded>,
    slots: Vec<ProcessSlot>,
    /// In the order of the interval.
    active: Vec<Active>,
    /// The same, grouped by slot.
    grouped: Vec<Active>,
    /// Where the next thread of each slot goes in `grouped`.
    next: Vec<u32>,
    coding: Coding,
    has_ends: bool,
    encoder: BlobEncoder,
    sched: sched::SchedEncoder,
}

impl IntervalPacker {
    /// Packs `interval`. Tasks that ended are forgotten afterwards.
    pub(super) fn pack(&mut self, naming: &mut Naming<'_>, interval: &Interval) -> rusqlite::Result<()> {
        // Agents sort. Others may send any order, or a process twice: sorted here, so that the search in a sorted list below
        // stays right.
        if interval.processes.is_sorted_by(|a, b| a.key < b.key) {
            self.pack_sorted(naming, interval)?;
        } else {
            let mut sorted = interval.clone();
            sorted.processes.sort_by_key(|row| row.key);
            sorted.processes.dedup_by_key(|row| row.key);
            self.pack_sorted(naming, &sorted)?;
        }
        Ok(())
    }

    pub(super) fn samples(&self) -> &[u8] {
        self.encoder.as_bytes()
    }

    /// The scheduler events packed last; empty where none were measured.
    pub(super) fn sched(&self) -> &[u8] {
        self.sched.as_bytes()
    }

    fn pack_sorted(&mut self, naming: &mut Naming<'_>, interval: &Interval) -> rusqlite::Result<()> {
        self.coding = Coding::TIGHTEST;
        self.has_ends = false;
        self.name_processes(naming, interval)?;
        self.name_threads(naming, interval)?;
        // A process can have run delays that ended while none of its counters moved: it needs a row for its histogram.
        for key in interval.delays.iter().filter_map(|row| process_of(row.of)) {
            self.find_slot(naming, interval, key)?;
        }
        self.group();
        self.encode(interval);
        // After packing, not before: the rows of this interval still name them.
        if self.has_ends {
            naming.forget_ended(interval);
        }
        Ok(())
    }

    fn name_processes(&mut self, naming: &mut Naming<'_>, interval: &Interval) -> rusqlite::Result<()> {
        self.slots.clear();
        self.absent.clear();
        self.slot_of.clear();
        self.slot_of.resize(interval.processes.len(), NONE);
        let stores_all = stores_idle(interval);
        pick(&interval.processes, |row| stores_all || is_active_process(row), &mut self.picked);
        for picked in 0..self.picked.len() {
            let at = self.picked[picked] as usize;
            self.add_row_slot(naming, interval, at)?;
            let row = &interval.processes[at];
            self.coding.widen(&row.delta);
            self.has_ends |= row.life.has_ended();
        }
        Ok(())
    }

    /// Finds the ids of the active threads and sums them up by process.
    fn name_threads(&mut self, naming: &mut Naming<'_>, interval: &Interval) -> rusqlite::Result<()> {
        self.active.clear();
        let stores_all = stores_idle(interval);
        pick(&interval.threads, |row| stores_all || is_stored_thread(interval, row), &mut self.picked);
        // Neighbouring rows mostly share a process, so most threads need no search for their slot.
        let mut near = 0;
        for picked in 0..self.picked.len() {
            let at = self.picked[picked];
            let row = &interval.threads[at as usize];
            // Threads of a process mostly follow each other, and then come those of the next one.
            near += usize::from(self.slots.get(near).is_some_and(|slot| slot.key != row.process));
            if self.slots.get(near).is_none_or(|slot| slot.key != row.process) {
                near = self.find_slot(naming, interval, row.process)?;
            }
            let slot = &mut self.slots[near];
            slot.threads += 1;
            slot.sum = sum(&slot.sum, &row.delta);
            let id = naming.thread(slot.id, row)?;
            self.active.push(Active { id, row: at, slot: number(near) });
            self.coding.widen(&row.delta);
            self.has_ends |= row.life.has_ended();
        }
        Ok(())
    }

    /// The slot of any process, made if there is none yet.
    fn find_slot(
        &mut self,
        naming: &mut Naming<'_>,
        interval: &Interval,
        key: ProcessKey,
    ) -> rusqlite::Result<usize> {
        if let Ok(at) = interval.processes.binary_search_by_key(&key, |row| row.key) {
            return match self.slot_of[at] {
                NONE => self.add_row_slot(naming, interval, at),
                slot => Ok(slot as usize),
            };
        }
        if let Some(&slot) = self.absent.get(&key) {
            return Ok(slot as usize);
        }
        let slot = self.add_slot(key, naming.process(key, None)?, NONE);
        self.absent.insert(key, number(slot));
        Ok(slot)
    }

    /// Makes the slot of a process of the interval.
    fn add_row_slot(
        &mut self,
        naming: &mut Naming<'_>,
        interval: &Interval,
        at: usize,
    ) -> rusqlite::Result<usize> {
        let row = &interval.processes[at];
        let slot = self.add_slot(row.key, naming.process(row.key, Some(row))?, number(at));
        self.slot_of[at] = number(slot);
        Ok(slot)
    }

    fn add_slot(&mut self, key: ProcessKey, id: u64, row: u32) -> usize {
        self.slots.push(ProcessSlot { key, id, row, threads: 0, sum: Delta::default() });
        self.slots.len() - 1
    }

    /// Orders the active threads by slot: counted, not compared.
    fn group(&mut self) {
        self.next.clear();
        let mut end = 0;
        for slot in &self.slots {
            self.next.push(end);
            end += slot.threads;
        }
        self.grouped.resize(self.active.len(), Active::default());
        for active in &self.active {
            let next = &mut self.next[active.slot as usize];
            self.grouped[*next as usize] = *active;
            *next += 1;
        }
    }

    fn encode(&mut self, interval: &Interval) {
        // Histograms can be measured without scheduler events: then no rows come before them.
        let has_sched = interval.fields.contains(Fields::SCHED);
        let has_histograms = interval.fields.contains(Fields::HISTOGRAMS);
        self.encoder.begin(self.coding, self.slots.len());
        self.sched.clear();
        if has_sched || has_histograms {
            self.sched.begin(if has_sched { self.slots.len() } else { 0 });
        }
        let mut rest = self.grouped.as_slice();
        for slot in &self.slots {
            let (own, later) = rest.split_at(slot.threads as usize);
            rest = later;
            // NONE is beyond the end of any list.
            let row = interval.processes.get(slot.row as usize);
            self.encoder.process(&packed_process(slot, row), &slot.sum);
            if has_sched {
                self.sched.process(slot.id, slot.threads);
            }
            for active in own {
                let row = &interval.threads[active.row as usize];
                self.encoder.thread(&packed_thread(active.id, row));
                if has_sched {
                    // Readers take a thread to wait on until its next row: for one that ended there is none.
                    let open_wait = row.resting().map_or(WaitReason::NONE, |resting| resting.reason);
                    self.sched.thread(active.id, &SchedDelta { open_wait, ..row.sched });
                }
            }
        }
        if has_histograms {
            self.encode_delays(interval);
        }
    }

    fn encode_delays(&mut self, interval: &Interval) {
        let of_slot = |slot: &ProcessSlot| Some((slot.id, interval.delays_of(DelayOf::Process(slot.key))?));
        let processes: Vec<_> = self.slots.iter().filter_map(of_slot).collect();
        self.sched.delays(processes.into_iter());
        let of_thread = |active: &Active| {
            let row = interval.threads.get(active.row as usize)?;
            Some((active.id, interval.delays_of(DelayOf::Thread(row.process, row.key))?))
        };
        let threads: Vec<_> = self.active.iter().filter_map(of_thread).collect();
        self.sched.delays(threads.into_iter());
    }
}

/// An index as a small number; lists of intervals are far shorter than 2^32.
#[inline]
fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NONE)
}

#[inline]
fn packed_thread(id: u64, row: &ThreadInterval) -> PackedThread {
    PackedThread {
        id,
        state: row.state,
        last_cpu: row.last_cpu,
        life: row.life,
        flags: row.flags,
        delta: row.delta,
    }
}

#[inline]
fn packed_process(slot: &ProcessSlot, row: Option<&ProcessInterval>) -> PackedProcess {
    let (id, stored_rows) = (slot.id, slot.threads);
    match row {
        Some(row) => PackedProcess {
            id,
            thread_rows: row.thread_rows,
            life: row.life,
            flags: row.flags,
            is_absent: false,
            delta: row.delta,
            stored_rows,
        },
        None => PackedProcess {
            id,
            thread_rows: stored_rows,
            is_absent: true,
            // The sum of its threads: then it has no values of its own to write.
            delta: slot.sum,
            stored_rows,
            ..PackedProcess::default()
        },
    }
}
