//! Packed rows to an `Interval`. In: rows with ids. Out: the interval with keys and names, in kept buffers.
//! Why: live and stored intervals are the same type, so no face knows the difference.

use std::sync::Arc;

use cpumon_model::{BootId, DelayOf, Delays, Fields, HostId, ProcessInterval, ThreadInterval};
use rusqlite::Connection;

use super::dims::Names;
use super::query::{Query, StoredInterval, What};
use crate::codec::meta::{self, MetaRow};
use crate::codec::sched::SchedRows;
use crate::codec::{PackedProcess, PackedThread};

/// Rows of one interval where they stand.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Rows<'a> {
    pub(crate) processes: &'a [PackedProcess],
    /// Grouped by process; empty if threads were not read.
    pub(crate) threads: &'a [PackedThread],
    /// What the scheduler's events tell of them.
    pub(crate) sched: &'a SchedRows,
}

/// Fills everything but the CPUs.
pub(crate) fn fill(
    connection: &Connection,
    names: &mut Names,
    query: &Query,
    (host, boot): (HostId, BootId),
    row: &MetaRow,
    rows: Rows<'_>,
    into: &mut StoredInterval,
) -> rusqlite::Result<()> {
    meta::apply(row, host, boot, &mut into.interval);
    if !query.sched {
        into.interval.fields -= Fields::SCHED | Fields::WAITS | Fields::HISTOGRAMS;
    }
    into.received_wall_ns = row[meta::RECEIVED];
    into.loss = meta::loss_of(row);
    let interval = &mut into.interval;
    interval.processes.clear();
    interval.threads.clear();
    interval.delays.clear();
    if query.what == What::Meta {
        return Ok(());
    }
    let mut rest = rows.threads;
    for packed in rows.processes {
        let (own, later) = rest.split_at(rest.len().min(packed.stored_rows as usize));
        rest = later;
        let process = names.process(connection, packed.id)?;
        if !query.filter.matches(process.key, &process.info) {
            continue;
        }
        let key = process.key;
        let mut push = |of, histogram: Option<&Arc<_>>| {
            interval
                .delays
                .extend(histogram.map(|histogram| Delays { of, histogram: Arc::clone(histogram) }));
        };
        push(DelayOf::Process(key), rows.sched.process_delays(packed.id));
        if !packed.is_absent {
            interval.processes.push(ProcessInterval {
                key,
                parent_pid: process.parent_pid,
                info: Arc::clone(&process.info),
                thread_rows: packed.thread_rows,
                life: packed.life,
                flags: packed.flags,
                delta: packed.delta,
                sched: rows.sched.process(packed.id),
            });
        }
        if query.what == What::Threads {
            for thread in own {
                let then = names.thread(connection, thread.id)?;
                push(DelayOf::Thread(key, then.key), rows.sched.thread_delays(thread.id));
                interval.threads.push(ThreadInterval {
                    key: then.key,
                    process: key,
                    comm: then.comm,
                    state: thread.state,
                    nice: then.nice,
                    priority: then.priority,
                    last_cpu: thread.last_cpu,
                    life: thread.life,
                    flags: thread.flags,
                    delta: thread.delta,
                    sched: rows.sched.thread(thread.id),
                });
            }
        }
    }
    interval.processes.sort_unstable_by_key(|process| process.key);
    interval.threads.sort_unstable_by_key(|thread| thread.key);
    interval.delays.sort_unstable_by_key(|row| row.of);
    Ok(())
}
