//! [`PassMerger`] makes a snapshot's threads, processes and exits from one pass's records and events. Both overlap in time;
//! here each thread ends up in exactly one place. Pure but for the names of new processes.

use cpumon_model::{Counters, ProcessSample, Snapshot, ThreadSample, born_from_ns, empty_list};

use super::super::procinfo::{About, InfoCache};
use super::exits::Exits;
use super::groups::ControlGroups;
use super::pass::{PassRecords, RecordPlace};
use super::records::{
    ENDED_LEADER, ExecEvent, ExitEvent, HIDDEN, KERNEL_THREAD, LostExits, STALE, TaskRecord,
};
use super::renames::{ExecNames, Rename, Renames};
use super::ring::Event;
use crate::split::settle;

/// Passes for which a thread that is neither seen nor reported as ended is kept. It is on its way out: between leaving
/// the task list and its last switch lie some microseconds, unless it is preempted there.
const MAX_MISSED: u16 = 2;

/// State from pass to pass.
#[derive(Default)]
pub(crate) struct PassMerger {
    /// The live threads of the last pass, settled, ascending by key.
    before: PassRecords,
    /// Threads that are on their way out: in no list any more, last switch not yet made.
    leaving: Vec<TaskRecord>,
    /// Threads that began to end in this pass, as they were then; settled.
    endings: Vec<TaskRecord>,
    /// Leaders that ended before their process.
    ended_leaders: Vec<TaskRecord>,
    exits: Exits,
    names: ExecNames,
    groups: ControlGroups,
    renames: Renames,
    lost: LostExits,
    /// Those of `lost`, settled as of one thread.
    lost_counters: Counters,
    exited_rows: Counters,
    vanished: u64,
    /// Threads that began at or after this are charged from their start.
    born_from_ns: u64,
    ready: ReadyTotal,
}

/// How long all threads together were ready since the last pass.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadyTotal {
    /// The growth of their run delays, those that ended included: as the rows of an interval have it.
    pub(crate) ns: u64,
    /// Threads whose ready time cannot be assigned to one of two intervals: no event reports their state at the end of
    /// the pass, and they are in no list.
    pub(crate) unknown: u64,
}

impl PassMerger {
    /// No thread is known yet. The lists of rare events have capacity from the start, so that a quiet pass allocates nothing.
    pub(crate) fn new() -> Self {
        let space = || Vec::with_capacity(64);
        Self { leaving: space(), ended_leaders: space(), endings: space(), ..Self::default() }
    }

    /// The live threads of the last pass, settled, ascending by key.
    pub(crate) fn before(&self) -> &PassRecords {
        &self.before
    }

    pub(crate) fn groups(&mut self) -> &mut ControlGroups {
        &mut self.groups
    }

    pub(crate) fn ready(&self) -> ReadyTotal {
        self.ready
    }

    /// Fills the lists, counts and health of `into`, whose threads may be those of the snapshot before the last one,
    /// without times: changed ones are written over. `records` comes back with those of the pass before, and is the
    /// buffer for the next. The iterator ran from `observed_from_ns` (since boot) on. `lost` is cumulative.
    pub(crate) fn merge(
        &mut self,
        records: &mut PassRecords,
        events: &[Event],
        observed_from_ns: u64,
        lost: LostExits,
        infos: &mut InfoCache,
        into: &mut Snapshot,
    ) {
        // It is not known whose exec was lost, so every cached name may be old.
        if lost.execs != self.lost.execs {
            infos.expire_all();
        }
        records.sort();
        self.exits.clear();
        empty_list(&mut self.endings);
        for event in events {
            // In the order in which they happened: an exec may change an id under which a later event must be found.
            match event {
                Event::Exit(exit) => self.note_exit(exit),
                Event::Ending(exit) => self.note_ending(exit),
                Event::Exec(exec, script) => {
                    self.names.note(exec.task.process_key(), exec, script);
                    // The cached name and command line are those of the program before.
                    infos.expire(exec.task.process_key());
                    self.note_rename(exec, observed_from_ns, records);
                }
                // Consumed by `pass::watch`, which added the thread to the records.
                Event::Cut(_) => {}
            }
        }
        self.names.sort();
        // Nearly always empty, and `records_mut` would forget which threads have rested.
        if !self.renames.is_empty() {
            // `note_rename` appends.
            records.sort();
            self.renames.apply(records.records_mut());
            // A new start can change the order among records of one id.
            records.sort();
        }
        self.exits.sort();
        self.ready = self.ready_of_exits(&lost);
        // `self.lost` is still that of the last pass: `count` replaces it below.
        self.merge_threads(records, lost.count != self.lost.count, into);
        self.list_processes(records, infos, into);
        // After the processes are listed: an exit shares the name of its process.
        self.exited_rows += &self.exits.report(&self.names, &self.groups, infos, into);
        self.count(lost, into);
        self.names.end_pass();
        // After the merge, when `records` has the threads on their way out as well.
        self.renames.keep_alive(records);
        std::mem::swap(&mut self.before, records);
        self.born_from_ns = born_from_ns(into.begin);
    }

    /// Ready time of threads that ended since the last pass. `lost`: the sums of those whose event did not fit.
    fn ready_of_exits(&self, lost: &LostExits) -> ReadyTotal {
        let mut ready =
            ReadyTotal { ns: lost.counters.without(&self.lost.counters).run_delay_ns, unknown: 0 };
        for task in self.exits.tasks() {
            let earlier = find(&self.before, task);
            ready.ns = ready.ns.saturating_add(grown_delay_ns(task, earlier, self.born_from_ns));
            // It was shown as it had been a pass before.
            ready.unknown += u64::from(earlier.is_some_and(|earlier| earlier.has(STALE)));
        }
        ready
    }

    fn note_ending(&mut self, exit: &ExitEvent) {
        let mut task = exit.task;
        // As in `note_exit`: the last pass has the thread under its new identity.
        self.renames.put_on(&mut task);
        // Settled against the last pass, so that the split of run time continues from the snapshots.
        task.settle(find(&self.before, &task));
        // A thread that is pushed off its CPU on its way out reports it again.
        match self.endings.iter_mut().rev().find(|ending| ending.key() == task.key()) {
            Some(ending) => *ending = task,
            None => self.endings.push(task),
        }
    }

    fn note_exit(&mut self, exit: &ExitEvent) {
        let mut task = exit.task;
        // Before the search: the last pass has the thread under the identity that user space gave it.
        self.renames.end(&mut task);
        let earlier = find(&self.before, &task);
        // The kernel's pointer to the leader was stale (records.h), so the probe sent 0.
        if task.process_start_ns == 0 {
            task.process_start_ns = self.process_start(earlier, &task);
        }
        task.settle(earlier);
        self.exits.push(&ExitEvent { task, ..*exit });
    }

    /// Start of a process whose leader ended before `task`.
    fn process_start(&self, earlier: Option<&TaskRecord>, task: &TaskRecord) -> u64 {
        let ending = || self.endings.iter().rev().find(|ending| ending.key() == task.key());
        let leader = || self.before.binary_search_by_key(&task.pid, |other| other.tid).ok();
        // Records of the thread itself come first: the leader is found by its id alone, which may have been
        // reused.
        let known = earlier.or_else(ending).or_else(|| leader().and_then(|at| self.before.get(at)));
        // Neither was ever seen: its own start is the nearest that is known.
        known.map_or(task.start_ns, |known| known.process_start_ns)
    }

    /// A thread that changed its id by an exec.
    fn note_rename(&mut self, exec: &ExecEvent, begin_ns: u64, records: &mut PassRecords) {
        // The leader itself called exec: same id, same start, only the name is new.
        if exec.old_tid == exec.task.tid {
            return;
        }
        // An id of the last pass may meanwhile belong to a thread of another process: the pid must match too.
        let at = self.before.binary_search_by_key(&exec.old_tid, |other| other.tid).ok();
        let old = at.and_then(|at| self.before.get(at)).filter(|old| old.pid == exec.task.pid).copied();
        if let Some(old) = old {
            // Under its old id the thread ends here, with all that it had counted by the exec; `Rename` starts from there.
            let mut ended = TaskRecord { tid: old.tid, start_ns: old.start_ns, ..exec.task };
            ended.settle(Some(&old));
            // 1 thread left: the process lives on, so this exit must not end it.
            self.exits.push(&ExitEvent {
                task: ended,
                end_ns: exec.at_ns,
                threads_left: 1,
                ..ExitEvent::default()
            });
        }
        // A thread that no snapshot showed under its old id takes all its counters to the new one.
        let rename = Rename::new(exec, old.is_some());
        if exec.at_ns >= begin_ns {
            // The iterator saw the thread under either identity, or both: only the event is sure.
            let records = records.records_mut();
            records.retain(|task| {
                task.pid != exec.task.pid || (task.tid != exec.old_tid && task.tid != exec.task.tid)
            });
            records.push(rename.just_now(exec));
        }
        self.renames.begin(rename);
    }

    /// Goes through this pass, the last one and the exits side by side, all ascending.
    fn merge_threads(&mut self, records: &mut PassRecords, has_lost: bool, into: &mut Snapshot) {
        empty_list(&mut self.leaving);
        empty_list(&mut self.ended_leaders);
        into.threads.reserve(records.len().saturating_sub(into.threads.len()));
        let (mut earlier, mut exit) = (0, 0);
        let mut kept = 0;
        for at in 0..records.len() {
            // Nothing before it was dropped, so the sample of two passes ago is at this index and is this
            // thread's.
            if kept == at && kept < into.threads.len() && self.is_settled(records, at, exit) {
                // A settled thread had this index in the last pass too: records before it there are missing in this pass.
                while earlier < at {
                    self.note_missing(earlier, has_lost);
                    earlier += 1;
                }
                earlier = at + 1;
                kept += 1;
                continue;
            }
            let Some(task) = records.get_mut(at) else { break };
            let id = task.id();
            while self.before.get(earlier).is_some_and(|before| before.id() < id) {
                self.note_missing(earlier, has_lost);
                earlier += 1;
            }
            let before = self.before.get(earlier).filter(|before| before.id() == id);
            earlier += usize::from(before.is_some());
            while self.exits.key_at(exit).is_some_and(|ended| ended < task.key()) {
                exit += 1;
            }
            // A thread may be in the iterator's pass and in an exit event: it ended between the two. The event is newer and has the
            // final counters, so the exit wins and the record goes.
            if task.has(ENDED_LEADER) || self.exits.key_at(exit).is_some_and(|ended| ended == task.key()) {
                if task.is_leader() {
                    // Its process may live on in other threads, and takes its name and user from the leader.
                    self.ended_leaders.push(*task);
                }
                continue;
            }
            // Before it is copied into the snapshot: a sample must hold the split, not raw ticks.
            task.settle(before);
            let delay_ns = grown_delay_ns(task, before, self.born_from_ns);
            self.ready.ns = self.ready.ns.saturating_add(delay_ns);
            match into.threads.get_mut(kept) {
                // The slot, which the snapshot before the last one used, has no times, and neither has this row.
                Some(place) => *place = ThreadSample { sched: place.sched, ..task.to_sample() },
                None => into.threads.push(task.to_sample()),
            }
            if kept != at {
                records.move_up(at, kept);
            }
            kept += 1;
        }
        records.truncate(kept);
        into.threads.truncate(kept);
        while earlier < self.before.len() {
            self.note_missing(earlier, has_lost);
            earlier += 1;
        }
        self.add_leaving(records, into);
    }

    /// Whether all of a thread is where it was two passes ago, in the records and in the snapshot, and none of the exits from
    /// `exit` on is its own. Reads neither.
    fn is_settled(&self, records: &PassRecords, at: usize, exit: usize) -> bool {
        let Some(place) = records.places().get(at) else { return false };
        place.age == RecordPlace::SETTLED && self.exits.key_at(exit).is_none_or(|ended| ended.tid > place.tid)
    }

    /// Adds the threads that only their events, or the last pass, report.
    fn add_leaving(&mut self, records: &mut PassRecords, into: &mut Snapshot) {
        for task in &self.endings {
            let is_in = |list: &[TaskRecord]| find(list, task).is_some();
            // `note_missing` handles threads of the last pass; a thread that is left is known from this event alone.
            if !self.exits.contains(task.key()) && !is_in(records) && !is_in(&self.before) {
                self.leaving.push(*task);
            }
        }
        if !self.leaving.is_empty() {
            // Forgets the places: the index of every thread behind an added one changes.
            records.records_mut().extend_from_slice(&self.leaving);
            into.threads.extend(self.leaving.iter().map(|task| task.to_sample()));
            records.sort();
            into.threads.sort_unstable_by_key(|thread| thread.key);
        }
    }

    /// A thread of the last pass is not among this pass's.
    fn note_missing(&mut self, at: usize, has_lost: bool) {
        let Some(task) = self.before.get(at) else { return };
        if self.exits.contains(task.key()) {
            return;
        }
        // No event will report its end; its last run time is counted in its process.
        if task.has(HIDDEN) {
            self.vanished += 1;
            return;
        }
        // Where exits were lost this thread is most likely among them; its run time is in their sum.
        if has_lost || task.missed >= MAX_MISSED {
            self.vanished += 1;
            self.ready.unknown += 1;
        } else {
            // The event is newer than the last pass, so no time that it already ran is withheld until the exit.
            let newest = self.endings.iter().rev().find(|ending| ending.key() == task.key());
            self.ready.unknown += u64::from(newest.is_none());
            let stale = if newest.is_none() { STALE } else { 0 };
            let missed = task.missed + 1;
            let task = *newest.unwrap_or(task);
            self.leaving.push(TaskRecord { missed, flags: task.flags | stale, ..task });
        }
    }

    /// One sample for each process that has a live thread.
    fn list_processes(&self, records: &PassRecords, infos: &mut InfoCache, into: &mut Snapshot) {
        for task in records.leaders() {
            let process = self.process(task, task, infos);
            // A leader whose id another thread took by an exec is listed beside it until its last switch: the process is
            // named after the surviving thread, which began later.
            match into.processes.last_mut().filter(|last| last.key == process.key) {
                Some(last) => *last = process,
                None => into.processes.push(process),
            }
        }
        let listed = into.processes.len();
        let mut last = None;
        for task in records.followers() {
            let key = task.process_key();
            // Threads of one process are often neighbours: one comparison spares the searches below.
            if last == Some(key) {
                continue;
            }
            last = Some(key);
            // The leaders' part ascends; the part appended behind does not, and is nearly always empty.
            if into.processes.get(..listed).is_some_and(|list| contains(list, task))
                || into.processes.get(listed..).is_some_and(|list| list.iter().any(|other| other.key == key))
            {
                continue;
            }
            let leader = self.ended_leaders.iter().find(|leader| leader.pid == task.pid).unwrap_or(task);
            into.processes.push(self.process(task, leader, infos));
        }
        if into.processes.len() > listed {
            into.processes.sort_unstable_by_key(|process| process.key);
        }
    }

    fn process(&self, task: &TaskRecord, leader: &TaskRecord, infos: &mut InfoCache) -> ProcessSample {
        let key = task.process_key();
        let about =
            About { key, comm: leader.comm(), is_kernel: task.has(KERNEL_THREAD), uid: Some(leader.uid) };
        let info = infos.resolve_called(&about, self.names.find(key).as_ref());
        ProcessSample { key, parent_pid: task.parent_pid, info, ended_threads: Counters::default() }
    }

    fn count(&mut self, lost: LostExits, into: &mut Snapshot) {
        let mut counters = lost.counters;
        // So that the split of the sum never falls either.
        settle(&mut counters, &self.lost_counters);
        (self.lost, self.lost_counters) = (lost, counters);
        into.exited_total = self.exited_rows;
        into.exited_total += &counters;
        into.count_tasks();
        into.health.exits_lost = lost.count;
        into.health.tasks_vanished = self.vanished;
    }
}

/// Same rule as the differ: a thread first seen now but started earlier is charged nothing.
fn grown_delay_ns(task: &TaskRecord, earlier: Option<&TaskRecord>, born_from_ns: u64) -> u64 {
    match earlier {
        Some(earlier) => task.counters.run_delay_ns.saturating_sub(earlier.counters.run_delay_ns),
        None if task.start_ns >= born_from_ns => task.counters.run_delay_ns,
        None => 0,
    }
}

fn find<'a>(sorted: &'a [TaskRecord], task: &TaskRecord) -> Option<&'a TaskRecord> {
    sorted.binary_search_by_key(&task.id(), TaskRecord::id).ok().and_then(|at| sorted.get(at))
}

fn contains(sorted: &[ProcessSample], task: &TaskRecord) -> bool {
    sorted.binary_search_by_key(&task.process_key(), |process| process.key).is_ok()
}

#[cfg(test)]
mod lossy;
#[cfg(test)]
mod resting;
#[cfg(test)]
mod tests;
