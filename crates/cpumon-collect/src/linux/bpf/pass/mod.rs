//! [`PassRecords`]: the records of one pass, and for how many passes each has been unchanged at its index. Most threads are idle; one that
//! stays at the same index for some passes has its record and its sample there already, and neither is written or read again.

pub(crate) mod iterator;
pub(crate) mod watch;

use std::ops::Deref;

use super::records::TaskRecord;

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

    pub(crate) fn parts_mut(&mut self) -> (&mut Vec<TaskRecord>, &mut Vec<RecordPlace>) {
        (&mut self.records, &mut self.places)
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

#[cfg(test)]
mod tests {
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
}
