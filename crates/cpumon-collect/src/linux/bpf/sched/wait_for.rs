//! Who made threads wait: reads the table that the probe filled since the last pass (`wait_for.h`).

use std::sync::atomic::Ordering;

use cpumon_model::{ProcessKey, Snapshot, ThreadKey, ThreadSample, WaitFor, WaitKind, WaitedOn, empty_list};

use super::super::records::{WaitForEntry, WaitForPage};
use super::programs::WAIT_FOR_SLOTS;
use super::{MappedArray, Programs, reason_of};
use crate::CollectError;

const ID: u64 = (1 << 22) - 1;

/// The numbers in the key of a `struct wait_for`.
struct Numbers {
    pid: u32,
    on_id: u32,
    reason: u16,
    kind: u8,
    on: u8,
}

#[expect(clippy::cast_possible_truncation, reason = "parts of a number, masked to their width")]
fn numbers_of(key: u64) -> Numbers {
    Numbers {
        pid: (key >> 42 & ID) as u32,
        on_id: (key >> 20 & ID) as u32,
        reason: (key >> 4) as u16,
        kind: (key >> 2 & 3) as u8,
        on: (key & 3) as u8,
    }
}

pub(crate) struct WaitAccounts {
    tables: MappedArray<WaitForEntry>,
    page: MappedArray<WaitForPage>,
    /// The table that the probe fills.
    filled: u32,
    rows: Vec<WaitFor>,
    /// Waits of processes that ended without a record, and those of rows that were too many.
    in_no_row: u64,
}

impl WaitAccounts {
    pub(crate) fn open(programs: &Programs) -> Result<Self, CollectError> {
        let mut page: MappedArray<WaitForPage> = MappedArray::map(programs, ".bss.waits", true)?;
        let preempt_count_at = programs.preempt_count_at;
        page.write(0, &WaitForPage { preempt_count_at, ..WaitForPage::default() });
        Ok(Self {
            tables: MappedArray::map(programs, "waits_for", true)?,
            page,
            filled: 0,
            rows: Vec::with_capacity(WAIT_FOR_SLOTS as usize),
            in_no_row: 0,
        })
    }

    /// From here on the probe fills the other table. The one that is read comes to rest while the pass goes on.
    pub(crate) fn turn(&mut self) {
        self.filled ^= 1;
        self.page.head().store(self.filled.into(), Ordering::SeqCst);
    }

    /// Fills `into.waits_for` and empties the table. `into` has its processes, threads and exits already.
    pub(crate) fn read(&mut self, into: &mut Snapshot) {
        empty_list(&mut self.rows);
        let first = (self.filled ^ 1) * WAIT_FOR_SLOTS;
        for at in first..first + WAIT_FOR_SLOTS {
            let Some(entry) = self.tables.read(at as usize).filter(|entry| entry.key != 0) else { continue };
            self.tables.write(at as usize, &WaitForEntry::default());
            let row = row(&entry, into);
            self.in_no_row += if row.is_some() { 0 } else { entry.count };
            self.rows.extend(row);
        }
        self.in_no_row += WaitFor::tidy(&mut self.rows, WaitFor::MAX_ROWS);
        let without_place = self.page.read(0).map_or(0, |page| page.lost);
        into.health.wakers_unknown = without_place.saturating_add(self.in_no_row);
        into.waits_for.extend_from_slice(&self.rows);
    }
}

/// `None`: it is not known any more which process it was.
fn row(entry: &WaitForEntry, of: &Snapshot) -> Option<WaitFor> {
    let numbers = numbers_of(entry.key);
    let kind = match numbers.kind {
        0 => WaitKind::Ready,
        1 => WaitKind::Throttled,
        _ => WaitKind::Blocked(reason_of(numbers.reason)),
    };
    let on = match numbers.on {
        1 => Some(WaitedOn::Interrupt),
        2 => process(of, numbers.on_id).map(WaitedOn::Process),
        3 => thread(of, numbers.on_id).map(WaitedOn::Thread),
        _ => None,
    };
    let waiter = process(of, numbers.pid)?;
    Some(WaitFor { waiter, kind, on: on.unwrap_or_default(), ns: entry.ns, count: entry.count })
}

/// The newest process with this id, alive or ended.
fn process(of: &Snapshot, pid: u32) -> Option<ProcessKey> {
    let after = of.processes.partition_point(|row| row.key.pid <= pid);
    let listed = of.processes.get(..after).and_then(<[_]>::last).map(|row| row.key);
    // Of one that has ended the first thread has, too.
    listed.filter(|key| key.pid == pid).or_else(|| Some(newest_exit(of, pid)?.process))
}

fn thread(of: &Snapshot, tid: u32) -> Option<ThreadKey> {
    let after = of.threads.partition_point(|row| row.key.tid <= tid);
    let listed = of.threads.get(..after).and_then(<[_]>::last).map(|row| row.key);
    listed.filter(|key| key.tid == tid).or_else(|| Some(newest_exit(of, tid)?.key))
}

/// The newest thread with this id that ended; exits are in ascending order of their keys.
fn newest_exit(of: &Snapshot, tid: u32) -> Option<&ThreadSample> {
    let after = of.exits.partition_point(|exit| exit.thread.key.tid <= tid);
    let last = of.exits.get(..after).and_then(<[_]>::last)?;
    (last.thread.key.tid == tid).then_some(&last.thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_numbers_that_the_probe_packs() {
        let key = 4_194_303 << 42 | 77 << 20 | 0x10ca << 4 | 2 << 2 | 3;
        let numbers = numbers_of(key);
        assert_eq!((numbers.pid, numbers.on_id, numbers.reason), (4_194_303, 77, 0x10ca));
        assert_eq!((numbers.kind, numbers.on), (2, 3));
    }
}
