//! Run-delay histograms of each CPU, each process and the selected threads, from the slots in which the probe counts (`delays.h`); frees
//! slots of owners that ended. The probe's counts have 32 bits, so they are added up here to cumulative ones that never fall.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cpumon_model::{DELAY_BUCKETS, DelayHistogram, DelayOf, Delays, ProcessKey, Snapshot, ThreadKey};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::super::records::task::whole_us;
use super::super::records::{DelayEntry, DelayKey, DelayPage, TaskRecord, bytes_of};
use super::{MappedArray, Programs};
use crate::CollectError;
use crate::options::ThreadPattern;

/// Threads that can be selected at the same time.
const MAX_THREADS: usize = 256;

/// Name of the BPF map that has the slots.
const SLOTS: &str = "delays";

const FIRST_SLOTS: usize = 64;

/// delays.h: `DELAYS_*`.
const FREE: u32 = 0;
const THREAD: u32 = 2;

/// State of a slot in use that user space keeps.
#[derive(Debug)]
struct SlotTotals {
    of: DelayOf,
    histogram: Arc<DelayHistogram>,
}

impl SlotTotals {
    /// Slots of threads are remembered from when they are selected.
    fn process(entry: &DelayEntry) -> Self {
        let key = ProcessKey { pid: entry.owner, start_ns: whole_us(entry.start_ns) };
        Self { of: DelayOf::Process(key), histogram: Arc::default() }
    }
}

pub(crate) struct DelayAccounts {
    /// Slots that were ever in use, rounded up to a power of two.
    slots: MappedArray<DelayEntry>,
    all_slots: MapHandle,
    cpus: MappedArray<DelayEntry>,
    page: MappedArray<DelayPage>,
    owners: MapHandle,
    free: MapHandle,
    patterns: Vec<ThreadPattern>,
    /// Index: slot. `None` if it is free or was not read yet.
    kept: Vec<Option<SlotTotals>>,
    /// Index: CPU, including CPUs that may come online.
    kept_cpus: Vec<Arc<DelayHistogram>>,
    /// Selected threads with their slots, ascending.
    selected: Vec<(ThreadKey, usize)>,
    round: u64,
    drops_before: u64,
    /// Drops that the probe counted before it had free slots.
    first_drops: u64,
    /// A warning was logged that a selected thread found no slot.
    has_warned: bool,
}

impl DelayAccounts {
    /// Fills the stack of free slots; from here on processes take them.
    pub(crate) fn open(programs: &Programs, patterns: &[ThreadPattern]) -> Result<Self, CollectError> {
        let handle = |name| {
            let map = programs.map(name)?;
            MapHandle::try_from(&map).map_err(|error| failed("keep a map of the histograms", &error))
        };
        let all_slots = handle(SLOTS)?;
        let slots: MappedArray<DelayEntry> = MappedArray::map_first(&all_slots, SLOTS, true, FIRST_SLOTS)?;
        let cpus: MappedArray<DelayEntry> = MappedArray::map(programs, "cpu_delays", false)?;
        let mut accounts = Self {
            kept: (0..slots.len()).map(|_| None).collect(),
            kept_cpus: vec![Arc::default(); cpus.len()],
            slots,
            all_slots,
            cpus,
            page: MappedArray::map(programs, ".bss.delays", true)?,
            owners: handle("delay_owners")?,
            free: handle("free_delays")?,
            patterns: patterns.to_vec(),
            selected: Vec::new(),
            round: 0,
            drops_before: 0,
            first_drops: 0,
            has_warned: false,
        };
        // Slot 0 is never in use: to the probe 0 means that a thread has no slot. The first ones come to lie on top.
        for slot in (1..accounts.all_slots.max_entries() as usize).rev() {
            accounts.give_back(slot)?;
        }
        // Threads that found no slot before the stack was filled search again.
        accounts.begin_round();
        accounts.first_drops = accounts.drops();
        accounts.drops_before = accounts.first_drops;
        Ok(accounts)
    }

    /// Fills `into.delays`. `into` has its processes already; `live`: the live threads, ascending. Slots of those who are not
    /// among them and began before `observed_from_ns` are given back.
    pub(crate) fn read(
        &mut self,
        observed_from_ns: u64,
        live: &[TaskRecord],
        into: &mut Snapshot,
    ) -> Result<(), CollectError> {
        self.read_cpus(into);
        let taken = self.page.read(0).map_or(0, |page| page.taken);
        self.map_up_to(usize::try_from(taken).unwrap_or(usize::MAX))?;
        let mut has_freed = false;
        for at in 1..self.slots.len() {
            let Some(entry) = self.slots.read(at).filter(|entry| entry.kind != FREE) else { continue };
            let kept = self.kept[at].get_or_insert_with(|| SlotTotals::process(&entry));
            // Before the slot may be freed: it has the delays that ended since the last pass.
            count_up(&mut kept.histogram, &entry.counts);
            into.delays.push(Delays { of: kept.of, histogram: Arc::clone(&kept.histogram) });
            // A process that began after the pass is in no list yet: its slot must not be taken away.
            if entry.start_ns < observed_from_ns && !is_alive(kept.of, live, into) {
                self.free(at, &entry)?;
                has_freed = true;
            }
        }
        into.delays.retain(|row| !row.histogram.is_empty());
        into.delays.sort_unstable_by_key(|row| row.of);
        into.delays.dedup_by_key(|row| row.of);
        let drops = self.drops();
        // Threads remember that they found no slot. Only when one became free and some were refused is it worth a new search.
        let is_wanted = has_freed && drops != self.drops_before;
        self.drops_before = drops;
        into.health.histogram_drops = drops.saturating_sub(self.first_drops);
        if self.select(live)? || is_wanted {
            self.begin_round();
        }
        Ok(())
    }

    /// Maps the slots up to `slot`, rounded up to a power of two.
    fn map_up_to(&mut self, slot: usize) -> Result<(), CollectError> {
        let all = self.all_slots.max_entries() as usize;
        let wanted = slot.saturating_add(1).checked_next_power_of_two().map_or(all, |slots| slots.min(all));
        if wanted > self.slots.len() {
            // The kernel lets no mapping of a map grow, so this is a new one; the old one is unmapped here.
            self.slots = MappedArray::map_first(&self.all_slots, SLOTS, true, wanted)?;
            self.kept.resize_with(wanted, || None);
        }
        Ok(())
    }

    fn read_cpus(&mut self, into: &mut Snapshot) {
        into.delays.clear();
        for (at, kept) in self.kept_cpus.iter_mut().enumerate() {
            let (Some(entry), Ok(cpu)) = (self.cpus.read(at), u32::try_from(at)) else { continue };
            count_up(kept, &entry.counts);
            into.delays.push(Delays { of: DelayOf::Cpu(cpu), histogram: Arc::clone(kept) });
        }
    }

    /// Gives a slot to each thread that a pattern names and that has none. Returns whether any is new.
    fn select(&mut self, live: &[TaskRecord]) -> Result<bool, CollectError> {
        if self.patterns.is_empty() {
            return Ok(false);
        }
        let mut is_new = false;
        for task in live {
            if !self.patterns.iter().any(|pattern| pattern.matches(task.tid, &task.comm())) {
                continue;
            }
            let Err(at) = self.selected.binary_search_by_key(&task.key(), |row| row.0) else { continue };
            let Some(slot) = self.slot_for(task)? else {
                if !std::mem::replace(&mut self.has_warned, true) {
                    log::warn!("there is no space for histograms of more threads; {MAX_THREADS} at most");
                }
                break;
            };
            self.selected.insert(at, (task.key(), slot));
            is_new = true;
        }
        Ok(is_new)
    }

    /// `None`: there is no slot, or too many threads are selected.
    fn slot_for(&mut self, task: &TaskRecord) -> Result<Option<usize>, CollectError> {
        if self.selected.len() >= MAX_THREADS {
            return Ok(None);
        }
        let taken = self.free.lookup_and_delete(&[]);
        let Some(bytes) = taken.map_err(|error| failed("take a slot for a histogram", &error))? else {
            return Ok(None);
        };
        let number = u32::from_ne_bytes(bytes.first_chunk().copied().unwrap_or_default());
        let slot = number as usize;
        self.map_up_to(slot)?;
        let entry =
            DelayEntry { kind: THREAD, owner: task.tid, start_ns: task.start_ns, ..DelayEntry::default() };
        // Before `owners` leads to it: the probe counts only into a slot that names the right owner.
        self.slots.write(slot, &entry);
        let of = DelayOf::Thread(task.process_key(), task.key());
        if let Some(kept) = self.kept.get_mut(slot) {
            *kept = Some(SlotTotals { of, histogram: Arc::default() });
        }
        let done = self.owners.update(bytes_of(&key_of(&entry)), &number.to_ne_bytes(), MapFlags::ANY);
        done.map_err(|error| failed("select a thread", &error))?;
        Ok(Some(slot))
    }

    fn free(&mut self, at: usize, entry: &DelayEntry) -> Result<(), CollectError> {
        if let Err(error) = self.owners.delete(bytes_of(&key_of(entry))) {
            log::debug!("a histogram's owner was not known: {error}");
        }
        self.kept[at] = None;
        self.selected.retain(|(_, slot)| *slot != at);
        self.slots.write(at, &DelayEntry::default());
        // Last: once it is on the stack, the probe may give the slot to another process.
        self.give_back(at)
    }

    fn give_back(&self, slot: usize) -> Result<(), CollectError> {
        let slot = u32::try_from(slot).unwrap_or(u32::MAX).to_ne_bytes();
        self.free.update(&[], &slot, MapFlags::ANY).map_err(|error| failed("give back a histogram", &error))
    }

    /// Makes every thread find its slots again.
    fn begin_round(&mut self) {
        self.round += 1;
        self.page.head().store(self.round, Ordering::SeqCst);
    }

    fn drops(&self) -> u64 {
        self.page.read(0).map_or(0, |page| page.drops)
    }
}

fn failed(operation: &'static str, error: &libbpf_rs::Error) -> CollectError {
    CollectError::Bpf { operation, error: std::io::Error::other(error.to_string()) }
}

fn key_of(entry: &DelayEntry) -> DelayKey {
    DelayKey { kind: entry.kind, owner: entry.owner, start_ns: entry.start_ns }
}

fn is_alive(of: DelayOf, live: &[TaskRecord], snapshot: &Snapshot) -> bool {
    match of {
        DelayOf::Cpu(_) => true,
        DelayOf::Process(key) => snapshot.processes.binary_search_by_key(&key, |process| process.key).is_ok(),
        DelayOf::Thread(_, key) => live.binary_search_by_key(&key, TaskRecord::key).is_ok(),
    }
}

/// Adds the growth of the probe's counts to the 64-bit ones. The probe's may have wrapped, once at most between two passes.
fn count_up(histogram: &mut Arc<DelayHistogram>, counts: &[u32; DELAY_BUCKETS]) {
    let mut known = histogram.iter().peekable();
    let mut grown: Vec<(u8, u64)> = Vec::new();
    for (bucket, &count) in (0..=u8::MAX).zip(counts) {
        let before = known.next_if(|(known, _)| *known == bucket).map_or(0, |(_, count)| count);
        if count != lower_half(before) {
            grown.push((bucket, u64::from(count.wrapping_sub(lower_half(before)))));
        }
    }
    drop(known);
    if !grown.is_empty() {
        // Copied only when it grew: an unchanged histogram stays shared with the snapshots before.
        let histogram = Arc::make_mut(histogram);
        for (bucket, count) in grown {
            histogram.add(bucket, count);
        }
    }
}

/// The part that the probe stores.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
fn lower_half(count: u64) -> u32 {
    count as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_on_when_those_of_the_probe_come_round() {
        let mut histogram = Arc::default();
        let mut counts = [0_u32; DELAY_BUCKETS];
        counts[9] = u32::MAX - 1;
        count_up(&mut histogram, &counts);
        let before = Arc::clone(&histogram);
        count_up(&mut histogram, &counts);
        assert!(Arc::ptr_eq(&before, &histogram), "what did not change is shared");
        counts[9] = 3;
        counts[255] = 1;
        count_up(&mut histogram, &counts);
        assert_eq!(histogram.iter().collect::<Vec<_>>(), [(9, (1 << 32) + 3), (255, 1)]);
        assert_eq!(before.total(), u64::from(u32::MAX) - 1, "the snapshot before keeps its own");
    }
}
