//! Threads of which a snapshot says nothing: they rest, and went on with what they wait for. Their time is added to their processes, and
//! now and then they are listed for the store.

use std::sync::Arc;

use cpumon_model::{
    Delta, Fields, Flags, Interval, Life, ProcessInterval, ProcessSample, Resting, SchedDelta, Snapshot,
    ThreadKey, ThreadSample,
};

use super::known::Known;

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
    let has_row = |key: &ThreadKey| {
        cur.threads.binary_search_by_key(key, |row| row.key).is_ok()
            || cur.exits.binary_search_by_key(key, |exit| exit.thread.key).is_ok()
            || cur.gone.binary_search(key).is_ok()
    };
    let without_row: Vec<&ThreadSample> = if cur.is_complete {
        Vec::new()
    } else {
        known.threads.iter().filter(|thread| !has_row(&thread.key)).collect()
    };
    let has_all = without_row.len() + cur.threads.len() >= cur.thread_count as usize;
    has_all.then(|| without_row.into_iter().filter_map(Resting::of_sample).collect())
}
