//! One pass over all threads of the host, inside the kernel: [`TaskIterator`] reads one [`TaskRecord`] for each thread, at a twentieth of
//! the cost of reading a file for each.
//!
//! [`PassRecords`] has the records of one pass, and for how many passes each has been unchanged at its index. Most threads are idle: one
//! that stays at the same index for some passes has its record and its sample there already, and neither is written or read again.

pub(crate) mod watch;

use std::io::{ErrorKind, Read};
use std::ops::Deref;

use cpumon_model::{Counters, trim_list};
use libbpf_rs::{Iter, Link};

use super::records::{PLAIN_RECORD_BYTES, SentHeader, TaskRecord, read_plain};
use super::sched::SentKind;
use crate::CollectError;

/// Bytes asked for in one read. The kernel hands out at most the 8 pages of its own buffer (`bpf_seq_read`), so more than
/// that brings no fewer reads.
const READ_BYTES: usize = 64 << 10;

/// Ids of the record at this index, and how long it has not changed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    pub(crate) tid: u32,
    pub(crate) pid: u32,
    /// Passes before this one in which the same record was here, up to [`RecordPlace::SETTLED`].
    pub(crate) age: u32,
}

impl RecordPlace {
    /// The record was the same in the two passes before, whose buffers alternate.
    pub(crate) const SETTLED: u32 = 2;
}

/// Records in ascending order, and their places: all, or none where they are unknown.
#[derive(Default)]
pub(crate) struct PassRecords {
    records: Vec<TaskRecord>,
    places: Vec<RecordPlace>,
}

impl Deref for PassRecords {
    type Target = [TaskRecord];

    fn deref(&self) -> &[TaskRecord] {
        &self.records
    }
}

impl From<Vec<TaskRecord>> for PassRecords {
    fn from(records: Vec<TaskRecord>) -> Self {
        Self { records, places: Vec::new() }
    }
}

impl PassRecords {
    /// Places of the records; empty if unknown.
    pub(crate) fn places(&self) -> &[RecordPlace] {
        &self.places
    }

    /// The list, to do anything with: nothing is known of its places any more.
    pub(crate) fn records_mut(&mut self) -> &mut Vec<TaskRecord> {
        self.places.clear();
        &mut self.records
    }

    /// A record to change, except for its identity.
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut TaskRecord> {
        self.records.get_mut(at)
    }

    /// The records to change, except for their identities.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TaskRecord> {
        self.records.iter_mut()
    }

    /// Moves the record at `from` to an earlier index, in exchange for the record there.
    pub(crate) fn move_up(&mut self, from: usize, to: usize) {
        self.records.swap(from, to);
        if let Some(&place) = self.places.get(from) {
            // The buffers of the passes before have another record at this index, so it must be written
            // again.
            self.places[to] = RecordPlace { age: 0, ..place };
        }
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.records.truncate(len);
        self.places.truncate(len);
    }

    /// Puts it in order, if it is not, each thread once: one that takes over an id while the iterator reads it may come under both.
    pub(crate) fn sort(&mut self) {
        // The kernel hands them out in this order, unless ids are those of a pid namespace.
        let is_sorted = if self.places.is_empty() {
            self.records.is_sorted_by(|a, b| a.id() < b.id())
        } else {
            self.places.is_sorted_by(|a, b| a.tid < b.tid)
        };
        if !is_sorted {
            let records = self.records_mut();
            records.sort_unstable_by_key(TaskRecord::id);
            records.dedup_by_key(|task| task.id());
        }
    }

    pub(crate) fn leaders(&self) -> impl Iterator<Item = &TaskRecord> {
        self.records_where(|tid, pid| tid == pid)
    }

    /// Threads that are not the leader; with known places, one for each process.
    pub(crate) fn followers(&self) -> impl Iterator<Item = &TaskRecord> {
        let (mut last, is_known) = (None, !self.places.is_empty());
        // Where the places are known none is on its way out: one for each process is enough.
        self.records_where(move |tid, pid| tid != pid && (last.replace(pid) != Some(pid) || !is_known))
    }

    fn records_where(
        &self,
        mut is_wanted: impl FnMut(u32, u32) -> bool,
    ) -> impl Iterator<Item = &TaskRecord> {
        let count = self.records.len();
        (0..count).filter_map(move |at| {
            // A place has 12 bytes, a record 256, and most threads are passed over here.
            let (tid, pid) = match self.places.get(at) {
                Some(place) => (place.tid, place.pid),
                None => self.records.get(at).map(|task| (task.tid, task.pid))?,
            };
            is_wanted(tid, pid).then(|| self.records.get(at)).flatten()
        })
    }
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oddities {
    /// Bytes that made no record, or a thread reported as unchanged that was not known.
    pub(crate) malformed: usize,
    /// Threads whose times could not be read.
    pub(crate) torn: u64,
    /// Threads that were thought to be hidden, and are not.
    pub(crate) shown: usize,
}

pub(crate) struct TaskIterator {
    link: Link,
    has_times: bool,
    buffer: Box<[u8]>,
}

impl TaskIterator {
    /// Nothing runs until [`TaskIterator::read`]. `has_times`: the switches are watched.
    pub(crate) fn new(link: Link, has_times: bool) -> Self {
        Self { link, has_times, buffer: vec![0; READ_BYTES].into() }
    }

    /// Replaces `into` by a record for each live thread, in the kernel's order (ascending by tid). `before`: the last pass; a
    /// thread that rested since is taken from there. `hidden`: threads that the iterator does not show, ascending. A thread that began
    /// after `until_ns` (since boot) is left out. `into` holds the pass before that, or, if one failed meanwhile, anything: then this
    /// pass sends all in full.
    pub(crate) fn read(
        &mut self,
        before: &PassRecords,
        hidden: &[TaskRecord],
        until_ns: u64,
        into: &mut PassRecords,
    ) -> Result<Oddities, CollectError> {
        let failed = |operation| move |error| CollectError::Bpf { operation, error };
        let mut iterator = Iter::new(&self.link)
            .map_err(|error| std::io::Error::other(error.to_string()))
            .map_err(failed("start the task iterator"))?;
        let mut take = Take::new(before, hidden, self.has_times, into);
        take.until_ns = until_ns;
        loop {
            match iterator.read(&mut self.buffer) {
                Ok(0) => return Ok(take.end()),
                Ok(bytes) => take.all(self.buffer.get(..bytes).unwrap_or_default()),
                // A signal is no failure: the next read continues where it was interrupted.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("read the task iterator")(error)),
            }
        }
    }
}

pub(crate) struct Take<'a> {
    before: &'a PassRecords,
    /// Records of `before` that were passed.
    passed: usize,
    /// Hidden threads that were not inserted yet.
    hidden: &'a [TaskRecord],
    has_times: bool,
    /// Threads that began later are left out.
    until_ns: u64,
    into: &'a mut Vec<TaskRecord>,
    /// Places of the records taken; none where the switches are watched, because the times of a blocked thread advance.
    places: &'a mut Vec<RecordPlace>,
    /// Number of records in `into` from this pass; the rest is left from an earlier one.
    taken: usize,
    oddities: Oddities,
}

impl<'a> Take<'a> {
    pub(crate) fn new(
        before: &'a PassRecords,
        hidden: &'a [TaskRecord],
        has_times: bool,
        into: &'a mut PassRecords,
    ) -> Self {
        let PassRecords { records: into, places } = into;
        // Ages go on from `before`: those that `into` still has are two passes old.
        places.clear();
        let oddities = Oddities::default();
        Self { before, passed: 0, hidden, has_times, until_ns: u64::MAX, into, places, taken: 0, oddities }
    }

    pub(crate) fn end(mut self) -> Oddities {
        // Hidden threads with ids above the last one that the iterator showed.
        self.push_hidden_before(u32::MAX);
        // Removes the rest of an earlier pass with more threads.
        self.into.truncate(self.taken);
        trim_list(self.into);
        trim_list(self.places);
        self.oddities
    }

    fn push(&mut self, task: TaskRecord) {
        match self.into.get_mut(self.taken) {
            Some(place) => *place = task,
            None => self.into.push(task),
        }
        self.taken += 1;
    }

    /// Adds a thread without times. Where times are not watched, the slot has none either, so more than half of the slot
    /// need not be written: with 10,000 threads that memory is in no cache.
    fn push_plain(&mut self, task: TaskRecord) {
        match self.into.get_mut(self.taken) {
            Some(place) if !self.has_times => {
                *place = TaskRecord { times: place.times, ..task };
                self.taken += 1;
            }
            _ => self.push(task),
        }
    }

    /// The hidden threads up to this one, which the iterator shows.
    fn push_hidden_before(&mut self, tid: u32) {
        while let Some((&task, rest)) = self.hidden.split_first().filter(|(task, _)| task.tid <= tid) {
            self.hidden = rest;
            // BPF shows it after all: its own record counts, or its time would be there twice.
            if task.tid == tid {
                self.oddities.shown += 1;
            } else if !self.has_times && self.is_as_before(&task) {
                self.push_same(task.tid);
            } else {
                self.push_fresh(task);
            }
        }
    }

    fn is_as_before(&mut self, task: &TaskRecord) -> bool {
        let Some(before) = self.known(task.tid).map(|at| &self.before[at]) else { return false };
        // The record of the last pass is settled and this one is not, so the split differs although nothing
        // ran.
        let Counters { user_ns, system_ns, .. } = before.counters;
        let counters = Counters { user_ns, system_ns, ..task.counters };
        *before == TaskRecord { counters, times: before.times, ..*task }
    }

    fn push_fresh(&mut self, task: TaskRecord) {
        // Its birth would lie after the snapshot's end.
        if task.start_ns <= self.until_ns {
            // Where the switches are watched every record is settled in each pass, so ids beside them spare nothing.
            if !self.has_times {
                self.places.push(RecordPlace { tid: task.tid, pid: task.pid, age: 0 });
            }
            self.push_plain(task);
        }
    }

    /// Repeats the record of a thread that was idle since the last pass.
    fn push_same(&mut self, tid: u32) {
        let Some(at) = self.known(tid) else {
            // The probe and this program disagree on the records that were sent: this pass is incomplete, and the next
            // one sends all in full.
            self.oddities.malformed += 1;
            return;
        };
        // Its counters are unchanged, but its open wait lasts: the record is closed at the new cut.
        if self.has_times {
            self.push_fresh(self.before[at]);
            return;
        }
        let place = self.before.places().get(at).copied();
        let age = place.map_or(0, |place| place.age);
        // At another index than in the last pass nothing can be skipped: buffers are matched by index.
        let grown = if at == self.taken { RecordPlace::SETTLED.min(age + 1) } else { 0 };
        // `into` is the pass before `before`: with an age above 0 it has the same record at this index
        // already.
        let is_there = at == self.taken && age > 0 && at < self.into.len();
        let pid = place.map_or_else(|| self.before[at].pid, |place| place.pid);
        self.places.push(RecordPlace { tid, pid, age: grown });
        if is_there {
            self.taken += 1;
        } else {
            self.push_plain(self.before[at]);
        }
    }

    pub(crate) fn all(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Some(rest) = self.one(bytes).and_then(|length| bytes.get(length..)) else {
                // Records differ in length and have no mark to resume at: the rest of this read is lost.
                self.oddities.malformed += bytes.len();
                return;
            };
            bytes = rest;
        }
    }

    /// Takes one record; returns its length in bytes.
    fn one(&mut self, bytes: &[u8]) -> Option<usize> {
        let head: SentHeader = read_plain(bytes)?;
        let rest = bytes.get(size_of::<SentHeader>()..)?;
        // Keeps the list ascending: hidden threads come from a list of their own.
        self.push_hidden_before(head.tid);
        let length = match SentKind::from_code(head.kind)? {
            SentKind::Same => {
                self.push_same(head.tid);
                0
            }
            SentKind::Times => {
                self.push_fresh(read_plain(rest)?);
                size_of::<TaskRecord>()
            }
            kind @ (SentKind::Task | SentKind::Torn) => {
                let mut task = TaskRecord::from_plain_bytes(rest)?;
                if kind == SentKind::Torn {
                    self.oddities.torn += 1;
                    self.take_last_known(head.tid, &mut task);
                }
                self.push_fresh(task);
                PLAIN_RECORD_BYTES
            }
        };
        Some(size_of::<SentHeader>() + length)
    }

    /// Index of the thread's record in the last pass.
    fn known(&mut self, tid: u32) -> Option<usize> {
        let places = self.before.places();
        if places.is_empty() {
            // Both sides ascend, so each search starts where the last one ended.
            let rest = self.before.get(self.passed..)?;
            self.passed += rest.iter().take_while(|task| task.tid < tid).count();
            let same = self.before.get(self.passed..)?.iter().take_while(|task| task.tid == tid);
            // The iterator did not send a record that was missed, so its "same" means another one of this id.
            return same.enumerate().find(|(_, task)| task.missed == 0).map(|(at, _)| self.passed + at);
        }
        self.passed += places.get(self.passed..)?.iter().take_while(|place| place.tid < tid).count();
        places.get(self.passed).filter(|place| place.tid == tid).map(|_| self.passed)
    }

    /// A thread whose times changed at every attempt to read them keeps those of the last pass.
    fn take_last_known(&mut self, tid: u32, task: &mut TaskRecord) {
        let known = self.known(tid).map(|at| &self.before[at]);
        // A reused id must not inherit the times of the thread before.
        if let Some(known) = known.filter(|known| known.start_ns == task.start_ns) {
            task.times = known.times;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::bytes_of;
    use super::*;

    #[test]
    fn a_list_is_put_in_order_with_each_thread_once() {
        let task = |tid, start_ns| TaskRecord { start_ns, tid, ..TaskRecord::default() };
        let mut pass =
            PassRecords::from(vec![task(10, 1), task(12, 5), task(11, 1), task(10, 1), task(10, 2)]);
        pass.sort();
        let ids: Vec<_> = pass.iter().map(TaskRecord::id).collect();
        assert_eq!(ids, [(10, 1), (10, 2), (11, 1), (12, 5)]);
    }

    fn head(kind: u32, tid: u32) -> Vec<u8> {
        bytes_of(&SentHeader { kind, tid }).to_vec()
    }

    fn plain(tid: u32) -> Vec<u8> {
        bytes_of(&TaskRecord { tid, ..TaskRecord::default() })[..PLAIN_RECORD_BYTES].to_vec()
    }

    fn take(before: &[TaskRecord], bytes: &[u8]) -> (Vec<u32>, Oddities) {
        let (before, mut into) = (PassRecords::from(before.to_vec()), PassRecords::default());
        let mut take = Take::new(&before, &[], true, &mut into);
        take.all(bytes);
        let oddities = take.end();
        (into.iter().map(|task| task.tid).collect(), oddities)
    }

    fn known(tid: u32, missed: u16) -> TaskRecord {
        let counters = Counters { run_ns: 7, ..Counters::default() };
        TaskRecord { counters, tid, missed, ..TaskRecord::default() }
    }

    #[test]
    fn a_thread_that_did_not_move_is_taken_from_the_last_pass() {
        let before = [known(3, 0), known(5, 1), known(5, 0), known(9, 0)];
        let bytes = [head(2, 4), plain(4), head(1, 5), head(1, 9)].concat();
        assert_eq!(take(&before, &bytes), (vec![4, 5, 9], Oddities::default()));
    }

    #[test]
    fn hidden_threads_are_merged_with_those_of_the_iterator_which_win() {
        let hidden = [known(2, 0), known(4, 0), known(9, 0)];
        let (before, mut into) = (PassRecords::default(), PassRecords::default());
        let mut take = Take::new(&before, &hidden, true, &mut into);
        let bytes = [head(2, 3), plain(3), head(2, 4), plain(4)].concat();
        take.all(&bytes[..8 + PLAIN_RECORD_BYTES]);
        take.all(&bytes[8 + PLAIN_RECORD_BYTES..]);
        let oddities = take.end();
        let kind: Vec<(u32, u64)> = into.iter().map(|task| (task.tid, task.counters.run_ns)).collect();
        assert_eq!((kind, oddities.shown), (vec![(2, 7), (3, 0), (4, 0), (9, 7)], 1));
    }

    #[test]
    fn what_an_earlier_pass_left_is_overwritten_or_cut() {
        let left = || {
            let mut task = known(1, 3);
            task.times.run_ns = 5;
            vec![task; 3]
        };
        let bytes = [head(2, 4), plain(4), head(2, 6), plain(6)].concat();
        let whole = TaskRecord::from_plain_bytes(&plain(4)).unwrap();
        for has_times in [true, false] {
            let (before, mut into) = (PassRecords::default(), PassRecords::from(left()));
            let mut take = Take::new(&before, &[], has_times, &mut into);
            take.all(&bytes);
            take.end();
            assert_eq!(into.len(), 2);
            // Without times they are not read.
            assert_eq!(TaskRecord { times: whole.times, ..into[0] }, whole);
            assert_eq!(into[0].times.run_ns, if has_times { 0 } else { 5 });
        }
    }

    #[test]
    fn what_makes_no_sense_is_counted() {
        let (tids, oddities) = take(&[], &[head(1, 5), head(2, 4), plain(4)].concat());
        assert_eq!((tids, oddities.malformed), (vec![4], 1));
        let (tids, oddities) = take(&[], &[head(2, 4), plain(4), head(77, 5), plain(5)].concat());
        assert_eq!((tids, oddities.malformed), (vec![4], 8 + PLAIN_RECORD_BYTES));
        let (tids, oddities) = take(&[], &head(2, 4));
        assert_eq!((tids, oddities.malformed), (vec![], 8));
        let (tids, oddities) = take(&[], &[head(4, 6), plain(6)].concat());
        assert_eq!((tids, oddities.torn), (vec![6], 1));
    }
}
