//! Threads of which a snapshot says nothing: they rest, and went on with what they wait for. Their time is added to their processes.

use std::sync::Arc;

use cpumon_model::{
    Delta, Fields, Flags, Interval, Life, ProcessInterval, ProcessSample, SchedDelta, Snapshot,
};

use super::known::Known;

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
        self.open_waits.add_to(interval);
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
