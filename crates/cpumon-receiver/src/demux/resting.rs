//! Threads of which a snapshot says nothing: they rest, and went on with what they wait for. Their time is added to their processes, and
//! now and then they are listed for the store.

use std::sync::Arc;

use cpumon_model::{
    Delta, Fields, Flags, Interval, Life, ProcessInterval, ProcessSample, Resting, SchedDelta, Snapshot,
    ThreadSample,
};

use super::known::Known;
use super::search::Among;

/// Snapshots from one list of the threads that rest to the next: each one walks over all threads.
const LIST_EVERY: u32 = 50;
/// After a snapshot that did not have all.
const TRY_AGAIN: u32 = 10;

/// When the next list is due.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct ListTurn {
    /// Snapshots to come before it.
    left: u32,
}

impl ListTurn {
    /// Counts a snapshot, and lists the threads that rest in its interval if it is time.
    pub(super) fn pass(&mut self, known: &Known, cur: &Snapshot, interval: &mut Interval) {
        if !interval.fields.contains(Fields::SCHED | Fields::WAITS) {
            return;
        }
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        interval.resting = list(&known.snapshot, cur);
        self.left = if interval.resting.is_some() { LIST_EVERY } else { TRY_AGAIN };
    }
}

/// Rows of processes in which all threads rest are added only to hosts of so many processes: a short snapshot of a hostile sender must
/// not become thousands of rows.
const MOST_PROCESSES: usize = 4_096;

impl Known {
    /// Adds what threads without a row waited in the interval that ends with `cur`, and rows of the processes in which all rest.
    /// `spare` is memory for it.
    pub(super) fn add_open_waits(
        &mut self,
        cur: &Snapshot,
        interval: &mut Interval,
        spare: &mut Vec<ProcessInterval>,
    ) {
        // A complete snapshot has a row of each thread that is alive: what has none ended.
        if cur.is_complete || !interval.fields.contains(Fields::SCHED | Fields::WAITS) {
            return;
        }
        if self.snapshot.processes.len() <= MOST_PROCESSES {
            add_processes(&mut interval.processes, &self.snapshot.processes, spare);
        }
        self.open_waits.add_to(interval, |row, threads| {
            row.thread_rows = row.thread_rows.saturating_add(threads);
        });
    }
}

/// Adds rows of zeros of the known processes that have none. Both lists ascend.
fn add_processes(rows: &mut Vec<ProcessInterval>, known: &[ProcessSample], spare: &mut Vec<ProcessInterval>) {
    let mut is_listed = Among::new(rows, |row| row.key);
    if known.iter().all(|process| is_listed.has(&process.key)) {
        return;
    }
    spare.clear();
    let mut own = rows.drain(..).peekable();
    for process in known {
        while let Some(row) = own.next_if(|row| row.key < process.key) {
            spare.push(row);
        }
        spare.push(own.next_if(|row| row.key == process.key).unwrap_or_else(|| idle_row(process)));
    }
    spare.extend(own);
    std::mem::swap(rows, spare);
}

/// Each field by name: a default would allocate a description and drop it.
fn idle_row(process: &ProcessSample) -> ProcessInterval {
    ProcessInterval {
        key: process.key,
        parent_pid: process.parent_pid,
        info: Arc::clone(&process.info),
        thread_rows: 0,
        life: Life::Alive,
        flags: Flags::empty(),
        delta: Delta::default(),
        sched: SchedDelta::default(),
    }
}

/// The threads that rest while `cur` has no row of them; `None`: there are more threads than are known.
fn list(known: &Snapshot, cur: &Snapshot) -> Option<Arc<[Resting]>> {
    let (mut threads, mut waiting) = (0, 0);
    for thread in without_row(known, cur) {
        threads += 1;
        waiting += usize::from(thread.sched.open_wait.is_some());
    }
    if threads + cur.threads.len() < cur.thread_count as usize {
        return None;
    }
    let mut rows = without_row(known, cur).filter_map(Resting::of_sample);
    // Their number is known, so the list is made in its place.
    Some((0..waiting).map(|_| rows.next().unwrap_or_default()).collect())
}

/// The known threads of which `cur` has no row. All lists ascend, so one pass matches them.
fn without_row<'a>(known: &'a Snapshot, cur: &'a Snapshot) -> impl Iterator<Item = &'a ThreadSample> {
    // A complete snapshot has a row of each thread.
    let threads = if cur.is_complete { &[] } else { &known.threads[..] };
    let mut is_sent = Among::new(&cur.threads, |row| row.key);
    let mut has_ended = Among::new(&cur.exits, |exit| exit.thread.key);
    let mut is_gone = Among::new(&cur.gone, |key| *key);
    threads.iter().filter(move |thread| {
        !is_sent.has(&thread.key) && !has_ended.has(&thread.key) && !is_gone.has(&thread.key)
    })
}
