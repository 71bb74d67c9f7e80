//! Turns packed rows into an `Interval` with keys and names, in reused buffers. Live and stored intervals are the same type, so
//! no frontend knows the difference.

use std::sync::Arc;

use cpumon_model::{BootId, DelayOf, Delays, Fields, HostId, ProcessInterval, ThreadInterval};
use rusqlite::Connection;

use super::dims::Names;
use super::query::{Query, StoredInterval, What};
use crate::codec::meta::{self, MetaRow};
use crate::codec::sched::SchedRows;
use crate::codec::{PackedProcess, PackedThread};

/// Packed rows of one interval, borrowed from where they were decoded.
#[derive(Copy, Clone, Debug)]
pub(super) struct PackedRows<'a> {
    pub(super) processes: &'a [PackedProcess],
    /// Grouped by process; empty if threads were not read.
    pub(super) threads: &'a [PackedThread],
    /// Scheduler events of these rows.
    pub(super) sched: &'a SchedRows,
}

/// Which host and boot an interval is of.
#[derive(Copy, Clone, Debug)]
pub(super) struct HostKey {
    pub(super) host: HostId,
    pub(super) boot: BootId,
}

/// Fills what is known of the whole interval; it has no rows then.
fn fill_meta(query: &Query, key: HostKey, row: &MetaRow, into: &mut StoredInterval) {
    meta::apply(row, key.host, key.boot, &mut into.interval);
    // What is not read must come out as not known, not as zeros.
    if !query.sched {
        into.interval.fields -= Fields::SCHED | Fields::WAITS | Fields::HISTOGRAMS;
    }
    into.received_wall_ns = row[meta::RECEIVED];
    into.loss = meta::loss_of(row);
    into.interval.processes.clear();
    into.interval.threads.clear();
    into.interval.delays.clear();
}

/// Fills everything but the CPUs.
pub(super) fn fill(
    connection: &Connection,
    names: &mut Names,
    query: &Query,
    key: HostKey,
    row: &MetaRow,
    rows: PackedRows<'_>,
    into: &mut StoredInterval,
) -> rusqlite::Result<()> {
    fill_meta(query, key, row, into);
    let interval = &mut into.interval;
    if query.what == What::Meta {
        return Ok(());
    }
    let mut rest = rows.threads;
    for packed in rows.processes {
        let (own, later) = rest.split_at(rest.len().min(packed.stored_rows as usize));
        rest = later;
        let process = names.process(connection, packed.id)?;
        // Filtered here too: fresh rows, and chunks in the cache, are those of all processes.
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
        // The device sent threads of this process, but no row for the process: none is made up.
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
    // Rows are stored by row id; an interval has them by key.
    interval.processes.sort_unstable_by_key(|process| process.key);
    interval.threads.sort_unstable_by_key(|thread| thread.key);
    interval.delays.sort_unstable_by_key(|row| row.of);
    // The longest delay of a process is that of its stored threads; one that ended unseen has none.
    interval.raise_longest_delays();
    Ok(())
}
