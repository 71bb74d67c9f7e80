//! Completes a snapshot from the last known one before the two are compared: frames leave out unchanged rows and values.
//!
//! Tasks absent from a snapshot rest. Where wait reasons are measured, absent threads continued their open waits: that time is added to
//! their processes, and now and then the threads are listed for the store. Elsewhere, resting processes have no rows, because these would
//! take most of a host's memory: now and then the processes are listed, and their rows are added when an interval is read.

use std::sync::Arc;

use cpumon_model::{
    Fields, Finder, Flags, IdleProcess, Interval, ProcessInterval, ProcessKey, ProcessSample, Resting,
    Snapshot, ThreadInterval, ThreadKey, ThreadSample, gallop,
};

use super::{KnownSnapshot, Received, is_sum};
use crate::demux::gather::Gather;
use crate::demux::sparse::{complete_delays, complete_waits, forget_earlier_waits, place_of};

impl KnownSnapshot {
    /// Fills in what the frames of a snapshot left out.
    pub(crate) fn complete(&mut self, gather: &mut Gather) {
        let Gather { snapshot, whole_delays, ended_cgroups, header, .. } = gather;
        complete_delays(&mut self.snapshot, snapshot, whole_delays, self.has_all_delays);
        self.drop_known_exits(snapshot);
        self.complete_threads(snapshot);
        self.name_irqs(snapshot);
        self.cgroup_turns.complete(snapshot, &self.snapshot, ended_cgroups, header.refresh_snapshots);
    }

    /// Leaves out exits that the snapshot before had already.
    fn drop_known_exits(&mut self, snapshot: &mut Snapshot) {
        let sent_before = self.exits_sent.len();
        self.exits_sent.extend(snapshot.exits.iter().map(|exit| exit.thread.key));
        // Old and new keys share one list, so that no memory is allocated for each snapshot. `tidy` sorted
        // both.
        let (before, _) = self.exits_sent.split_at(sent_before);
        let mut was_sent = Finder::new(before, |key| *key);
        snapshot.exits.retain(|exit| !was_sent.has(&exit.thread.key));
        self.exits_sent.drain(..sent_before);
    }

    /// Merges the sent rows with the known threads. A thread without rows since it was last received kept waiting up to the last
    /// snapshot. A row without a name takes the known name, and the known waits that did not grow.
    fn complete_threads(&mut self, snapshot: &mut Snapshot) {
        let mut at = 0;
        let end_ns = self.snapshot.end.mono_ns;
        let (threads, stamps) = (&mut self.snapshot.threads, &mut self.threads_received);
        for thread in &mut snapshot.threads {
            let Some((known, received)) = known_thread(threads, stamps, &mut at, thread.key) else {
                continue;
            };
            // The device sent no row since `received`, so its open wait went on at least to the last
            // snapshot.
            known.sched.go_on_waiting(end_ns.saturating_sub(received.end_ns));
            received.end_ns = end_ns;
            let since_ns = snapshot.end.mono_ns.saturating_sub(end_ns);
            // A row without a name leaves out the wait reasons that did not grow, too.
            let is_first_name = known.comm.is_empty();
            if thread.comm.is_empty() {
                thread.comm = known.comm;
                received.lacks_waits |= received.sequence < self.lost_before;
                complete_waits(thread, known, received.lacks_waits.then_some(since_ns));
            } else {
                received.lacks_waits = false;
            }
            if is_first_name {
                forget_earlier_waits(thread, known, since_ns);
            }
            self.open_waits.has_row(known.process, known.sched.open_wait, &mut received.place);
        }
        // An ended thread has no row among the threads, but may have been left out in the same way until its
        // end.
        at = 0;
        for exit in &snapshot.exits {
            if let Some((known, received)) = known_thread(threads, stamps, &mut at, exit.thread.key) {
                known.sched.go_on_waiting(end_ns.saturating_sub(received.end_ns));
                received.end_ns = end_ns;
                // An exit has all waits since the thread began.
                if known.comm.is_empty() {
                    let since_ns = snapshot.end.mono_ns.saturating_sub(end_ns);
                    let lived_ns = exit.end_ns.saturating_sub(self.snapshot.end.boot_ns);
                    forget_earlier_waits(&exit.thread, known, since_ns.min(lived_ns));
                }
                self.open_waits.has_row(known.process, known.sched.open_wait, &mut received.place);
            }
        }
        at = 0;
        for key in &snapshot.gone {
            if let Some((known, received)) = known_thread(threads, stamps, &mut at, *key) {
                self.open_waits.has_row(known.process, known.sched.open_wait, &mut received.place);
            }
        }
    }

    /// Gives interrupt lines without a name the one that is known.
    fn name_irqs(&self, snapshot: &mut Snapshot) {
        for irq in snapshot.irqs.iter_mut().filter(|irq| irq.name.is_empty()) {
            if let Ok(at) = self.snapshot.irqs.binary_search_by_key(&irq.irq, |known| known.irq) {
                irq.name = Arc::clone(&self.snapshot.irqs[at].name);
            }
        }
    }
}

/// A known thread, and when it was received. `at`: where the last one was; keys ascend.
fn known_thread<'a>(
    threads: &'a mut [ThreadSample],
    received: &'a mut [Received],
    at: &mut usize,
    key: ThreadKey,
) -> Option<(&'a mut ThreadSample, &'a mut Received)> {
    *at = gallop(threads, *at, &key, |row| row.key);
    Some((threads.get_mut(*at).filter(|known| known.key == key)?, received.get_mut(*at)?))
}

/// Snapshots from one list of the tasks that rest to the next: each one walks over all threads.
const LIST_EVERY: u32 = 50;
/// The same as time, ns, for long intervals: a reader of the store follows a list for 20 minutes.
const LIST_EVERY_NS: u64 = 300_000_000_000;
/// Snapshots to wait after one that did not have all rows.
const TRY_AGAIN: u32 = 10;
/// After this many failed tries a list may have tasks whose end was lost: where losses never end, some ends are always missing, and no list
/// at all would be worse.
const EXACT_TRIES: u32 = 5;
/// Longer lists of processes are not made: the store takes none.
const MOST_LISTED: usize = 1 << 15;

#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct ListTurn {
    /// Snapshots left before the next list.
    left: u32,
    /// End of the last snapshot with a list, ns on the device's clock.
    listed_mono_ns: u64,
    /// The last list has tasks that were forgotten since.
    is_outdated: bool,
    /// No exact list has followed a list with forgotten tasks.
    is_uncorrected: bool,
    /// Snapshots in a row that should have had a list and did not have all.
    tries: u32,
}

impl ListTurn {
    /// Counts a snapshot, and lists the tasks that rest in its interval if it is time.
    pub(crate) fn pass(&mut self, known: &KnownSnapshot, cur: &Snapshot, interval: &mut Interval) {
        let is_long = interval.end.mono_ns.saturating_sub(self.listed_mono_ns) >= LIST_EVERY_NS;
        // What the device says of its time and its tasks brings no large list before its turn.
        let is_small = known.snapshot.processes.len() <= MOST_PROCESSES;
        if self.left > 0 && !(is_small && (is_long || self.is_outdated)) {
            self.left -= 1;
            return;
        }
        let is_exact = self.tries < EXACT_TRIES;
        let is_listed = if interval.fields.contains(Fields::SCHED | Fields::WAITS) {
            interval.resting = list(&known.snapshot, cur, is_exact);
            interval.resting.is_some()
        } else {
            // A complete snapshot has a row of each; after a loss it is not known who is idle. The next one is as good.
            if cur.is_complete || !interval.is_idle_without_row() {
                return;
            }
            interval.idle_processes = known.list_idle(interval);
            // A receiver that started later knows all processes only after the device has repeated them.
            let has_all =
                if is_exact { interval.knows_processes_exactly() } else { interval.knows_all_processes() };
            if !has_all {
                interval.idle_processes = None;
            }
            has_all
        };
        match (is_listed, is_exact) {
            (true, true) => interval.corrects_lists = std::mem::take(&mut self.is_uncorrected),
            (true, false) => self.is_uncorrected = true,
            (false, _) => {}
        }
        self.tries = if is_listed { 0 } else { self.tries.saturating_add(1) };
        self.left = if is_listed || !is_small { LIST_EVERY } else { TRY_AGAIN };
        self.is_outdated = false;
        self.listed_mono_ns = interval.end.mono_ns;
    }

    /// Tasks were forgotten whose end was lost: the last list still has them.
    pub(crate) fn hurry(&mut self) {
        (self.is_outdated, self.is_uncorrected) = (true, true);
    }
}

/// Hosts with more processes get no rows for resting processes, and no lists before their turn: a short snapshot of a hostile sender must
/// not become thousands of rows.
const MOST_PROCESSES: usize = 4_096;

impl KnownSnapshot {
    /// Adds what threads without a row waited in the interval that ends with `cur`, and rows of the processes in which all rest. Without
    /// wait reasons, counts them with the processes that have a row. `spare` is memory for it.
    pub(crate) fn add_resting(
        &mut self,
        cur: &Snapshot,
        interval: &mut Interval,
        spare: &mut Vec<ProcessInterval>,
    ) {
        // A complete snapshot has a row of each thread that is alive: what has none ended.
        if cur.is_complete {
            return;
        }
        if !interval.fields.contains(Fields::SCHED | Fields::WAITS) {
            self.count_threads(interval);
            return;
        }
        if self.snapshot.processes.len() <= MOST_PROCESSES {
            add_processes(&mut interval.processes, &self.snapshot.processes, spare);
        }
        self.open_waits.add_to(interval, |row, threads| {
            row.thread_rows = row.thread_rows.saturating_add(threads);
        });
    }

    fn threads_of(&self, process: ProcessKey) -> Option<u32> {
        let at = self.snapshot.processes.binary_search_by_key(&process, |row| row.key).ok()?;
        self.processes_received.get(at).map(|received| received.threads)
    }

    fn with_threads(&self) -> impl Iterator<Item = (&ProcessSample, u32)> {
        self.snapshot.processes.iter().zip(self.processes_received.iter().map(|received| received.threads))
    }

    /// Counts the threads without a row with their processes that have one.
    fn count_threads(&self, interval: &mut Interval) {
        let Interval { processes, threads, .. } = interval;
        let is_new = |row: &ThreadInterval| row.life.is_born() || row.flags.contains(Flags::FIRST_SIGHT);
        let mut at = usize::MAX;
        // Those that are counted already.
        for thread in threads.iter().filter(|row| !is_new(row)) {
            if let Some(place) = place_of(processes, thread.process, &mut at, |row| row.key) {
                processes[place].thread_rows = processes[place].thread_rows.saturating_sub(1);
            }
        }
        let mut has_early = false;
        for row in &mut *processes {
            match self.threads_of(row.key) {
                Some(threads) => row.thread_rows = row.thread_rows.saturating_add(threads),
                // It began before the last snapshot, so its threads may be known though it is not.
                None => has_early |= row.key.start_ns < self.snapshot.end.boot_ns,
            }
        }
        if has_early {
            self.count_early_threads(processes);
        }
    }

    /// Counts known threads with processes that are not known yet.
    fn count_early_threads(&self, processes: &mut [ProcessInterval]) {
        let (mut at, mut last, mut is_late) = (usize::MAX, None, false);
        for thread in &self.snapshot.threads {
            if last != Some(thread.process) {
                last = Some(thread.process);
                is_late = self.threads_of(thread.process).is_none();
            }
            if is_late && let Some(place) = place_of(processes, thread.process, &mut at, |row| row.key) {
                processes[place].thread_rows = processes[place].thread_rows.saturating_add(1);
            }
        }
    }

    /// The processes without a row in an interval; `None`: there are too many.
    fn list_idle(&self, interval: &Interval) -> Option<Arc<[IdleProcess]>> {
        if self.snapshot.processes.len() > MOST_LISTED {
            return None;
        }
        let mut has_row = Finder::new(&interval.processes, |row| row.key);
        let idle = self.with_threads().filter(|(process, _)| !has_row.has(&process.key) && !is_sum(process));
        let list = idle.map(|(process, thread_rows)| IdleProcess {
            key: process.key,
            info: Arc::clone(&process.info),
            parent_pid: process.parent_pid,
            thread_rows,
        });
        Some(list.collect())
    }
}

/// Adds rows of zeros of the known processes that have none. Both lists ascend.
fn add_processes(rows: &mut Vec<ProcessInterval>, known: &[ProcessSample], spare: &mut Vec<ProcessInterval>) {
    let mut is_listed = Finder::new(rows, |row| row.key);
    if known.iter().all(|process| is_listed.has(&process.key)) {
        return;
    }
    spare.clear();
    let mut own = rows.drain(..).peekable();
    for process in known {
        while let Some(row) = own.next_if(|row| row.key < process.key) {
            spare.push(row);
        }
        let idle = || ProcessInterval::new(process.key, process.parent_pid, Arc::clone(&process.info));
        spare.push(own.next_if(|row| row.key == process.key).unwrap_or_else(idle));
    }
    spare.extend(own);
    std::mem::swap(rows, spare);
}

/// Lists the resting threads without a row in `cur`. `None`: the host has more threads than are known or, for an exact list, fewer, because
/// some ends were lost.
fn list(known: &Snapshot, cur: &Snapshot, is_exact: bool) -> Option<Arc<[Resting]>> {
    let (mut threads, mut waiting) = (0, 0);
    for thread in without_row(known, cur) {
        threads += 1;
        waiting += usize::from(thread.sched.open_wait.is_some());
    }
    let (all, count) = (threads + cur.threads.len(), cur.thread_count as usize);
    if all < count || (is_exact && all > count) {
        return None;
    }
    let mut rows = without_row(known, cur).filter_map(Resting::of_sample);
    // Their number is known, so the list is made in its place.
    Some((0..waiting).map(|_| rows.next().unwrap_or_default()).collect())
}

/// Known threads that `cur` has neither as alive nor as ended. All lists ascend, so one pass matches them.
fn without_row<'a>(known: &'a Snapshot, cur: &'a Snapshot) -> impl Iterator<Item = &'a ThreadSample> {
    // A complete snapshot has a row of each thread.
    let threads = if cur.is_complete { &[] } else { &known.threads[..] };
    let mut is_sent = Finder::new(&cur.threads, |row| row.key);
    let mut has_ended = Finder::new(&cur.exits, |exit| exit.thread.key);
    let mut is_gone = Finder::new(&cur.gone, |key| *key);
    threads.iter().filter(move |thread| {
        !is_sent.has(&thread.key) && !has_ended.has(&thread.key) && !is_gone.has(&thread.key)
    })
}
