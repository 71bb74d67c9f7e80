//! [`KnownThreads`] and [`KnownProcesses`]: the tasks and names that the receivers were sent, to choose the rows that are due. Names
//! are sent when they are new, when they change, and when it is the task's turn.

use std::sync::Arc;

use cpumon_model::{Comm, ProcessKey, ProcessSample, ThreadKey, ThreadSample, empty_list, trim_list};

/// Which tasks are due in a snapshot.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Turn {
    /// A full snapshot: every task is due, with its name.
    pub(crate) everything: bool,
    /// That of the tasks whose number modulo `slots` is this.
    pub(crate) slot: u32,
    /// 0: no task has a turn, nothing is repeated.
    pub(crate) slots: u32,
    /// A new or changed name is sent this many times.
    pub(crate) name_sends: u8,
}

impl Turn {
    /// Whether what describes the host is due: once in a full snapshot, and once every refresh.
    pub(crate) fn is_of_host(self) -> bool {
        self.everything || (self.slots > 0 && self.slot == 0)
    }

    /// Whether it is the turn of the task with this number.
    pub(crate) fn is_of(self, number: u32) -> bool {
        self.everything || (self.slots > 0 && number % self.slots == self.slot)
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct KnownThread {
    key: ThreadKey,
    process: ProcessKey,
    comm: Comm,
    sends_left: u8,
}

/// Threads of the snapshot before, with the name that was sent.
#[derive(Debug, Default)]
pub(crate) struct KnownThreads {
    /// Ascending by key. Up to `kept` those of this snapshot, from `at` on those of the one before: most stay as they are and
    /// are not written again.
    list: Vec<KnownThread>,
    at: usize,
    kept: usize,
    /// Threads that begin with this snapshot.
    new: Vec<KnownThread>,
    /// Threads of the snapshot before that are not in this one, by process.
    pub(crate) gone: Vec<(ProcessKey, ThreadKey)>,
}

impl KnownThreads {
    pub(crate) fn begin(&mut self) {
        empty_list(&mut self.gone);
        (self.at, self.kept) = (0, 0);
    }

    /// Ends the snapshot: the threads not come to are gone.
    pub(crate) fn finish(&mut self) {
        let rest = self.list.get(self.at..).unwrap_or_default();
        self.gone.extend(rest.iter().map(|known| (known.process, known.key)));
        self.list.truncate(self.kept);
        trim_list(&mut self.list);
        if self.list.is_empty() {
            // The first snapshot: every thread is new.
            std::mem::swap(&mut self.list, &mut self.new);
        } else if !self.new.is_empty() {
            self.list.extend_from_slice(&self.new);
            self.list.sort_unstable_by_key(|known| known.key);
        }
        empty_list(&mut self.new);
    }

    /// Whether this thread is to be sent with its name. If not, it is to be sent without if it changed.
    pub(crate) fn next(&mut self, thread: &ThreadSample, changed: bool, turn: Turn) -> bool {
        while let Some(known) = self.list.get(self.at).filter(|known| known.key < thread.key) {
            self.gone.push((known.process, known.key));
            self.at += 1;
        }
        let known = self.list.get(self.at).filter(|known| known.key == thread.key).copied();
        let sends_left =
            known.filter(|known| known.comm == thread.comm).map_or(turn.name_sends, |known| known.sends_left);
        // The second time can wait for the next row that is sent anyway, but not for longer than its turn.
        let is_first = sends_left == turn.name_sends;
        let with_name = is_first || (sends_left > 0 && changed) || turn.is_of(thread.key.tid);
        let sends_left = sends_left - u8::from(with_name && sends_left > 0);
        let (key, process, comm) = (thread.key, thread.process, thread.comm);
        let now = KnownThread { key, process, comm, sends_left };
        if known.is_none() {
            self.new.push(now);
            return with_name;
        }
        if known != Some(now) || self.kept != self.at {
            self.list[self.kept] = now;
        }
        self.at += 1;
        self.kept += 1;
        with_name
    }
}

#[derive(Debug)]
struct KnownProcess {
    sample: ProcessSample,
    sends_left: u8,
}

/// Which data of a process is due.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Due {
    /// Its row with names: they are new, changed, or it is its turn.
    pub(crate) with_names: bool,
    /// Its counters of ended threads changed, or it is new.
    pub(crate) changed: bool,
}

/// Processes of the snapshot before, with the info that was sent.
#[derive(Debug, Default)]
pub(crate) struct KnownProcesses {
    before: Vec<KnownProcess>,
    now: Vec<KnownProcess>,
    at: usize,
}

impl KnownProcesses {
    pub(crate) fn begin(&mut self) {
        std::mem::swap(&mut self.before, &mut self.now);
        empty_list(&mut self.now);
        self.at = 0;
    }

    /// Whether the info of a process of the snapshot before was sent as often as a name is.
    pub(crate) fn was_sent(&self, key: ProcessKey) -> bool {
        // Exits are written before `begin`, so `now` still holds the snapshot before.
        self.now
            .binary_search_by_key(&key, |known| known.sample.key)
            .is_ok_and(|at| self.now.get(at).is_some_and(|known| known.sends_left == 0))
    }

    pub(crate) fn next(&mut self, process: &ProcessSample, turn: Turn) -> Due {
        while self.before.get(self.at).is_some_and(|known| known.sample.key < process.key) {
            self.at += 1;
        }
        let known = self.before.get(self.at).filter(|known| known.sample.key == process.key);
        let same = |KnownProcess { sample, .. }: &&KnownProcess| {
            sample.parent_pid == process.parent_pid
                && (Arc::ptr_eq(&sample.info, &process.info) || sample.info == process.info)
        };
        let sends_left = known.filter(same).map_or(turn.name_sends, |known| known.sends_left);
        let due = Due {
            with_names: sends_left > 0 || turn.is_of(process.key.pid),
            changed: known.is_none_or(|known| known.sample.ended_threads != process.ended_threads),
        };
        self.now.push(KnownProcess { sample: process.clone(), sends_left: sends_left.saturating_sub(1) });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_first_snapshot_are_in_one_list() {
        let turn = Turn { everything: false, slot: 0, slots: 0, name_sends: 2 };
        let threads: Vec<_> = (1..20_000)
            .map(|tid| ThreadSample { key: ThreadKey { tid, start_ns: 1 }, ..ThreadSample::default() })
            .collect();
        let mut known = KnownThreads::default();
        for _ in 0..2 {
            known.begin();
            assert!(threads.iter().all(|thread| known.next(thread, true, turn)), "a name is sent twice");
            known.finish();
            assert_eq!((known.list.len(), known.new.capacity()), (threads.len(), 0));
        }
    }
}
