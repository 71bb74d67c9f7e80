//! An interval's active rows with ids in place of keys. In: an [`Interval`]. Out: a [`PackedInterval`].
//! Why: idle rows are not kept, and rows are grouped by process so that a thread need not name its own.

use cpumon_model::{Delta, HostId, Interval, Life, ProcessInterval, SourceKind, ThreadInterval};
use rusqlite::Connection;

use super::dims::Dims;
use crate::codec::values::sum;
use crate::codec::{PackedInterval, PackedProcess, PackedThread};

/// A v1 device lists some processes and not others: a row of zeros there means *known to be idle*, no row means *no data*.
pub(crate) fn keeps_idle(interval: &Interval) -> bool {
    matches!(interval.source, SourceKind::V1 | SourceKind::Legacy)
}

/// Whether something happened to the thread.
pub(crate) fn is_active_thread(row: &ThreadInterval) -> bool {
    !row.delta.is_zero() || row.life != Life::Alive || !row.flags.is_empty()
}

/// Whether something happened to the process itself; one with an active thread is kept too.
pub(crate) fn is_active_process(row: &ProcessInterval) -> bool {
    !row.delta.is_zero() || row.life != Life::Alive || !row.flags.is_empty()
}

/// Where a process's row comes from.
#[derive(Copy, Clone, Debug)]
struct ProcessRef {
    id: u64,
    /// Index into the interval's processes; `None` if it has no row there.
    row: Option<u32>,
}

/// Where a thread's row comes from.
#[derive(Copy, Clone, Debug)]
struct ThreadRef {
    process_id: u64,
    id: u64,
    row: u32,
}

/// Kept memory of packing.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    /// Row of table `process` by index into the interval's processes; 0: not looked up yet.
    process_ids: Vec<u64>,
    processes: Vec<ProcessRef>,
    threads: Vec<ThreadRef>,
}

/// Where ids come from.
pub(crate) struct Naming<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) dims: &'a mut Dims,
    pub(crate) host: HostId,
    /// Now, seconds since the epoch on this machine's clock.
    pub(crate) now_s: i64,
}

impl Packer {
    /// Packs `interval` into `into`. Tasks that ended are forgotten afterwards.
    pub(crate) fn pack(
        &mut self,
        naming: &mut Naming<'_>,
        interval: &Interval,
        into: &mut PackedInterval,
    ) -> rusqlite::Result<()> {
        into.clear();
        self.name_all(naming, interval)?;
        self.processes.sort_unstable_by_key(|process| process.id);
        self.processes.dedup_by_key(|process| process.id);
        self.threads.sort_unstable_by_key(|thread| (thread.process_id, thread.id));
        let mut rest = self.threads.as_slice();
        for process in &self.processes {
            let count = rest.iter().take_while(|thread| thread.process_id == process.id).count();
            let (own, later) = rest.split_at(count);
            rest = later;
            let rows = own
                .iter()
                .filter_map(|thread| interval.threads.get(thread.row as usize).map(|r| (thread.id, r)));
            into.threads.extend(rows.map(|(id, row)| packed_thread(id, row)));
            let row = process.row.and_then(|at| interval.processes.get(at as usize));
            let threads = into.threads.get(into.threads.len() - count..).unwrap_or_default();
            into.processes.push(packed_process(process.id, row, threads));
        }
        forget_ended(naming, interval);
        Ok(())
    }

    /// Looks up the id of every active process and thread.
    fn name_all(&mut self, naming: &mut Naming<'_>, interval: &Interval) -> rusqlite::Result<()> {
        self.processes.clear();
        self.threads.clear();
        self.process_ids.clear();
        self.process_ids.resize(interval.processes.len(), 0);
        let keeps_all = keeps_idle(interval);
        let mut last = 0;
        for (at, row) in interval.processes.iter().enumerate() {
            if keeps_all || is_active_process(row) {
                self.name_process(naming, interval, at)?;
            }
        }
        for (at, row) in
            interval.threads.iter().enumerate().filter(|(_, row)| keeps_all || is_active_thread(row))
        {
            // Threads of a process mostly follow each other.
            let is_same = interval.processes.get(last).is_some_and(|process| process.key == row.process);
            let found = if is_same {
                Ok(last)
            } else {
                interval.processes.binary_search_by_key(&row.process, |process| process.key)
            };
            last = found.unwrap_or(last);
            let process_id = if let Ok(process_at) = found {
                self.name_process(naming, interval, process_at)?
            } else {
                let id =
                    naming.dims.process(naming.connection, naming.host, row.process, None, naming.now_s)?;
                self.processes.push(ProcessRef { id, row: None });
                id
            };
            let id = naming.dims.thread(naming.connection, naming.host, process_id, row, naming.now_s)?;
            let row = u32::try_from(at).unwrap_or(u32::MAX);
            self.threads.push(ThreadRef { process_id, id, row });
        }
        Ok(())
    }

    fn name_process(
        &mut self,
        naming: &mut Naming<'_>,
        interval: &Interval,
        at: usize,
    ) -> rusqlite::Result<u64> {
        let (Some(row), Some(&known)) = (interval.processes.get(at), self.process_ids.get(at)) else {
            return Err(rusqlite::Error::QueryReturnedNoRows);
        };
        if known != 0 {
            return Ok(known);
        }
        let id = naming.dims.process(naming.connection, naming.host, row.key, Some(row), naming.now_s)?;
        self.process_ids[at] = id;
        self.processes.push(ProcessRef { id, row: u32::try_from(at).ok() });
        Ok(id)
    }
}

fn packed_thread(id: u64, row: &ThreadInterval) -> PackedThread {
    PackedThread {
        id,
        state: row.state,
        last_cpu: row.last_cpu,
        life: row.life,
        flags: row.flags,
        delta: row.delta,
    }
}

fn packed_process(id: u64, row: Option<&ProcessInterval>, threads: &[PackedThread]) -> PackedProcess {
    let stored_rows = u32::try_from(threads.len()).unwrap_or(u32::MAX);
    match row {
        Some(row) => PackedProcess {
            id,
            thread_rows: row.thread_rows,
            life: row.life,
            flags: row.flags,
            is_absent: false,
            delta: row.delta,
            stored_rows,
        },
        None => PackedProcess {
            id,
            thread_rows: stored_rows,
            is_absent: true,
            delta: threads.iter().fold(Delta::default(), |total, thread| sum(&total, &thread.delta)),
            stored_rows,
            ..PackedProcess::default()
        },
    }
}

/// A task that ended is not seen again under the same key.
fn forget_ended(naming: &mut Naming<'_>, interval: &Interval) {
    let has_ended = |life| matches!(life, Life::Ended | Life::BornEnded);
    for row in interval.threads.iter().filter(|row| has_ended(row.life)) {
        naming.dims.end_thread(naming.host, row.key);
    }
    for row in interval.processes.iter().filter(|row| has_ended(row.life)) {
        naming.dims.end_process(naming.host, row.key);
    }
}
