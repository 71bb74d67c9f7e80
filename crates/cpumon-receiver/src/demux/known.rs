//! [`Known`]: everything known of a v2 host: its live tasks with cumulative counters. In: snapshots that tell what changed.
//! Out: the full snapshot, against which the next one is compared. Why: a frame leaves out what did not change.

use std::sync::Arc;

use cpumon_model::{
    DelayOf, Fields, Interval, IrqSample, Life, ProcessKey, ProcessSample, SchedTimes, Snapshot, ThreadKey,
    ThreadSample,
};

use super::delays;
use super::gather::MAX_IRQS;

/// The full last known snapshot and when each task was heard of last.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) snapshot: Snapshot,
    /// One for each thread and process of the snapshot.
    threads_heard: Vec<Heard>,
    processes_heard: Vec<Heard>,
    /// Exits that the last snapshot told; the next one tells them again.
    exits_told: Vec<ThreadKey>,
    /// Tasks that began at or after this cannot have been counted before they were first heard of, ns since boot.
    watched_from_boot_ns: u64,
    /// A snapshot told every run-delay histogram, or that there are none: who was not told of then had no delays.
    has_all_delays: bool,
    /// Rows of the snapshot at hand that were not known, ascending.
    fresh: Vec<usize>,
    /// Processes whose last thread is gone, ascending.
    emptied: Vec<ProcessKey>,
}

/// The snapshot that told a task last.
#[derive(Copy, Clone, Debug, Default)]
struct Heard {
    sequence: u64,
    /// Its end on the device's monotonic clock, ns.
    end_ns: u64,
}

impl Heard {
    fn of(snapshot: &Snapshot) -> Self {
        Self { sequence: snapshot.sequence, end_ns: snapshot.end.mono_ns }
    }
}

/// Where a key is to be found in an ascending list, from `from` on: by galloping.
fn search<T, K: Ord>(list: &[T], from: usize, key: &K, key_of: impl Fn(&T) -> K) -> usize {
    let rest = list.get(from..).unwrap_or_default();
    let mut reach = 1;
    while rest.get(reach - 1).is_some_and(|row| key_of(row) < *key) {
        reach *= 2;
    }
    from + rest[..reach.min(rest.len())].partition_point(|row| key_of(row) < *key)
}

impl Known {
    /// Begins to watch with a first snapshot. Returns how many threads found no room.
    pub(super) fn begin(&mut self, first: &Snapshot, max_threads: usize) -> u64 {
        self.snapshot.clear();
        self.threads_heard.clear();
        self.processes_heard.clear();
        self.watched_from_boot_ns = first.begin.boot_ns;
        self.has_all_delays = false;
        self.exits_told.clear();
        self.exits_told.extend(first.exits.iter().map(|exit| exit.thread.key));
        self.take(first, max_threads)
    }

    /// Leaves out exits that the snapshot before told already.
    pub(super) fn drop_known_exits(&mut self, snapshot: &mut Snapshot) {
        let told_before = self.exits_told.len();
        self.exits_told.extend(snapshot.exits.iter().map(|exit| exit.thread.key));
        let (before, _) = self.exits_told.split_at(told_before);
        snapshot.exits.retain(|exit| before.binary_search(&exit.thread.key).is_err());
        self.exits_told.drain(..told_before);
    }

    /// Brings threads that were told and what is known of them together: a known thread of which nothing was heard went
    /// on waiting up to the last snapshot; a row without a name has the known one, and the known waits that did not grow.
    pub(super) fn complete_threads(&mut self, snapshot: &mut Snapshot) {
        let mut at = 0;
        let end_ns = self.snapshot.end.mono_ns;
        for thread in &mut snapshot.threads {
            at = search(&self.snapshot.threads, at, &thread.key, |row| row.key);
            let Some(known) = self.snapshot.threads.get_mut(at).filter(|known| known.key == thread.key)
            else {
                continue;
            };
            if thread.comm.is_empty() {
                thread.comm = known.comm;
                keep_waits(&mut thread.sched, &known.sched);
            }
            let Some(heard) = self.threads_heard.get_mut(at) else { continue };
            known.sched.go_on_waiting(end_ns.saturating_sub(heard.end_ns));
            heard.end_ns = end_ns;
        }
        for exit in &snapshot.exits {
            let at = search(&self.snapshot.threads, 0, &exit.thread.key, |row| row.key);
            if let Some(known) =
                self.snapshot.threads.get_mut(at).filter(|known| known.key == exit.thread.key)
                && let Some(heard) = self.threads_heard.get_mut(at)
            {
                known.sched.go_on_waiting(end_ns.saturating_sub(heard.end_ns));
                heard.end_ns = end_ns;
            }
        }
    }

    /// Brings told buckets of run-delay histograms and known ones together.
    pub(super) fn complete_delays(&mut self, snapshot: &mut Snapshot, whole: &[DelayOf]) {
        delays::complete(&mut self.snapshot, snapshot, whole, self.has_all_delays);
    }

    /// Gives interrupt lines whose name was not told the one that is known.
    pub(super) fn name_irqs(&self, snapshot: &mut Snapshot) {
        for irq in snapshot.irqs.iter_mut().filter(|irq| irq.name.is_empty()) {
            if let Ok(at) = self.snapshot.irqs.binary_search_by_key(&irq.irq, |known| known.irq) {
                irq.name = Arc::clone(&self.snapshot.irqs[at].name);
            }
        }
    }

    /// Applies a snapshot: everything it tells replaces what was known. Returns how many threads found no room.
    pub(super) fn take(&mut self, cur: &Snapshot, max_threads: usize) -> u64 {
        if cur.is_complete {
            self.forget_unlisted(cur);
        }
        self.forget_ended(cur);
        self.forget_gone(cur);
        let over = self.take_threads(cur, max_threads);
        self.take_processes(cur, max_threads);
        let known = &mut self.snapshot;
        (known.host, known.boot, known.sequence) = (cur.host, cur.boot, cur.sequence);
        (known.source, known.fields) = (cur.source, cur.fields);
        known.irq_in_run_time = cur.irq_in_run_time;
        known.end = cur.end;
        // Births are judged against this: whoever began since the host is watched has not been counted yet.
        known.begin = cur.begin;
        known.begin.boot_ns = self.watched_from_boot_ns;
        known.exited_total = cur.exited_total;
        known.health = cur.health;
        (known.thread_count, known.process_count) = (cur.thread_count, cur.process_count);
        if !cur.cpus.is_empty() {
            known.cpus.clone_from(&cur.cpus);
        }
        take_irqs(&mut self.snapshot.irqs, &cur.irqs);
        self.has_all_delays |= cur.is_complete || !cur.fields.contains(Fields::HISTOGRAMS);
        over + delays::take(&mut self.snapshot, cur, max_threads)
    }

    fn forget_unlisted(&mut self, cur: &Snapshot) {
        let listed = |key: &ThreadKey| cur.threads.binary_search_by_key(key, |thread| thread.key).is_ok();
        self.retain_threads(|thread, _| listed(&thread.key));
        self.retain_processes(|process, _| {
            cur.processes.binary_search_by_key(&process.key, |row| row.key).is_ok()
        });
    }

    fn forget_ended(&mut self, cur: &Snapshot) {
        if cur.exits.is_empty() {
            return;
        }
        let ended = |key: &ThreadKey| cur.exits.binary_search_by_key(key, |exit| exit.thread.key).is_ok();
        self.retain_threads(|thread, _| !ended(&thread.key));
        if cur.exits.iter().any(|exit| exit.ends_process) {
            self.retain_processes(|process, _| {
                !cur.exits.iter().any(|exit| exit.ends_process && exit.thread.process == process.key)
            });
        }
    }

    /// Marks the processes whose last thread ended without a record: they ended too.
    pub(super) fn end_emptied(&mut self, cur: &Snapshot, interval: &mut Interval) {
        self.emptied.clear();
        if cur.gone.is_empty() {
            return;
        }
        let is_gone = |key: &ThreadKey| cur.gone.binary_search(key).is_ok();
        let threads = &self.snapshot.threads;
        self.emptied.extend(threads.iter().filter(|row| is_gone(&row.key)).map(|row| row.process));
        self.emptied.sort_unstable();
        self.emptied.dedup();
        let alive = threads.iter().filter(|row| !is_gone(&row.key)).chain(&cur.threads);
        for thread in alive {
            if let Ok(at) = self.emptied.binary_search(&thread.process) {
                self.emptied.remove(at);
            }
        }
        for key in &self.emptied {
            if let Ok(at) = interval.processes.binary_search_by_key(key, |row| row.key) {
                interval.processes[at].life = Life::Ended;
            }
        }
    }

    /// Forgets threads that ended without a record, and the processes that have none left.
    fn forget_gone(&mut self, cur: &Snapshot) {
        if cur.gone.is_empty() {
            return;
        }
        self.retain_threads(|thread, _| cur.gone.binary_search(&thread.key).is_err());
        let emptied = std::mem::take(&mut self.emptied);
        self.retain_processes(|process, _| emptied.binary_search(&process.key).is_err());
        self.emptied = emptied;
    }

    /// Forgets tasks not heard of since snapshot `since`: they ended unseen. Returns how many threads.
    pub(super) fn forget_unheard(&mut self, since: u64) -> u64 {
        let before = self.snapshot.threads.len();
        self.retain_threads(|_, heard| heard.sequence >= since);
        self.retain_processes(|_, heard| heard.sequence >= since);
        let forgotten = (before - self.snapshot.threads.len()) as u64;
        if forgotten > 0 {
            // Should one of them turn up again, it must not be charged a second time from its start.
            self.watched_from_boot_ns = self.snapshot.end.boot_ns;
            self.snapshot.begin.boot_ns = self.watched_from_boot_ns;
        }
        forgotten
    }

    fn retain_threads(&mut self, keep: impl Fn(&ThreadSample, Heard) -> bool) {
        retain_both(&mut self.snapshot.threads, &mut self.threads_heard, keep);
    }

    fn retain_processes(&mut self, keep: impl Fn(&ProcessSample, Heard) -> bool) {
        retain_both(&mut self.snapshot.processes, &mut self.processes_heard, keep);
    }

    fn take_threads(&mut self, cur: &Snapshot, max_threads: usize) -> u64 {
        let (known, heard) = (&mut self.snapshot.threads, &mut self.threads_heard);
        self.fresh.clear();
        let mut at = 0;
        for (index, thread) in cur.threads.iter().enumerate() {
            at = search(known, at, &thread.key, |row| row.key);
            match known.get_mut(at).filter(|known| known.key == thread.key) {
                Some(known) => {
                    *known = *thread;
                    heard[at] = Heard::of(cur);
                }
                None => self.fresh.push(index),
            }
        }
        let room = max_threads.saturating_sub(known.len());
        let over = self.fresh.len().saturating_sub(room);
        self.fresh.truncate(room);
        let fresh = self.fresh.iter().rev().filter_map(|&index| cur.threads.get(index).copied());
        insert(known, heard, self.fresh.len(), fresh, Heard::of(cur), |row| row.key);
        over as u64
    }

    fn take_processes(&mut self, cur: &Snapshot, max_processes: usize) {
        let (known, heard) = (&mut self.snapshot.processes, &mut self.processes_heard);
        self.fresh.clear();
        let mut at = 0;
        for (index, process) in cur.processes.iter().enumerate() {
            at = search(known, at, &process.key, |row| row.key);
            match known.get_mut(at).filter(|known| known.key == process.key) {
                Some(known) => {
                    known.clone_from(process);
                    heard[at] = Heard::of(cur);
                }
                None => self.fresh.push(index),
            }
        }
        self.fresh.truncate(max_processes.saturating_sub(known.len()));
        let fresh = self.fresh.iter().rev().filter_map(|&index| cur.processes.get(index).cloned());
        insert(known, heard, self.fresh.len(), fresh, Heard::of(cur), |row| row.key);
    }
}

/// Adds the known waits that were not told, because they did not grow.
fn keep_waits(told: &mut SchedTimes, known: &SchedTimes) {
    for (reason, ns) in known.waits.iter() {
        if told.waits.of(reason) == 0 {
            told.waits.add(reason, ns);
            told.blocked_ns = told.blocked_ns.saturating_add(ns);
        }
    }
}

fn take_irqs(known: &mut Vec<IrqSample>, told: &[IrqSample]) {
    for irq in told {
        match known.binary_search_by_key(&irq.irq, |known| known.irq) {
            Ok(at) => known[at].clone_from(irq),
            Err(at) if known.len() < MAX_IRQS => known.insert(at, irq.clone()),
            Err(_) => {}
        }
    }
}

/// Inserts `count` rows, given in descending order, into an ascending list and stamps them. What lies behind them moves;
/// new tasks mostly have the highest numbers, so that is little.
fn insert<T: Default, K: Ord>(
    list: &mut Vec<T>,
    heard: &mut Vec<Heard>,
    count: usize,
    descending: impl Iterator<Item = T>,
    stamp: Heard,
    key_of: impl Fn(&T) -> K,
) {
    let mut from = list.len();
    let mut to = from + count;
    list.resize_with(to, T::default);
    heard.resize(to, stamp);
    for row in descending {
        while from > 0 && key_of(&list[from - 1]) > key_of(&row) {
            list.swap(from - 1, to - 1);
            heard.swap(from - 1, to - 1);
            from -= 1;
            to -= 1;
        }
        list[to - 1] = row;
        heard[to - 1] = stamp;
        to -= 1;
    }
}

fn retain_both<T>(list: &mut Vec<T>, heard: &mut Vec<Heard>, keep: impl Fn(&T, Heard) -> bool) {
    let mut at = 0;
    let mut kept = 0;
    list.retain(|row| {
        let stamp = heard[at];
        let stays = keep(row, stamp);
        if stays {
            heard[kept] = stamp;
            kept += 1;
        }
        at += 1;
        stays
    });
    heard.truncate(kept);
}
