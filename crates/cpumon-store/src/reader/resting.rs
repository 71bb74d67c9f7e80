//! Threads that rest have no rows. The reader takes their waits from a list, and follows the waits from there row by row: a row says what
//! its thread waits for at the end of its interval, and that wait lasts until the next row of the thread. So each interval gets the waits
//! of the threads that rested in it. Across a gap, a restart or another boot nothing is known until the next list.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use cpumon_model::{
    Fields, Flags, IdleProcess, Interval, OpenWaits, ProcessInfo, ProcessKey, Resting, TaskState,
    ThreadInterval, ThreadKey, WaitPlace, WaitReason,
};
use rusqlite::{Connection, params};

use super::build::{PackedRows, ReaderNames};
use super::query::{ProcessFilter, Query, TimeRange, What};
use crate::codec::lists::{LONGEST_LIST_NS, ListedThread, unpack};
use crate::codec::meta::{BEGIN_MONO, END_MONO, END_WALL, MetaRow, fields_of, flags_of};
use crate::rows::{BootRow, HostRow, all_rows, find_row, first};

type Sql<T> = rusqlite::Result<T>;
type Seeded = foldhash::fast::RandomState;

/// A list of the threads that wait at a moment.
#[derive(Debug)]
pub(super) struct RestingList {
    end_wall_ns: i64,
    boot: BootRow,
    bytes: Vec<u8>,
}

/// Reads the lists of a host in a range, in order of their ends.
pub(super) fn lists_in(connection: &Connection, host: HostRow, range: TimeRange) -> Sql<Vec<RestingList>> {
    let text = "SELECT end_wall_ns, boot_id, resting FROM process_list
         WHERE host_id = ?1 AND end_wall_ns > ?2 AND end_wall_ns <= ?3 AND resting IS NOT NULL ORDER BY end_wall_ns";
    all_rows(connection, text, params![host, range.since_ns, range.until_ns], |row| {
        Ok(RestingList { end_wall_ns: row.get(0)?, boot: row.get(1)?, bytes: row.get(2)? })
    })
}

#[derive(Copy, Clone, Debug)]
pub(super) struct At<'a> {
    pub(super) boot: BootRow,
    pub(super) row: &'a MetaRow,
}

#[derive(Copy, Clone, Debug)]
struct WaitingThread {
    process: ProcessKey,
    id: u64,
    reason: WaitReason,
    place: WaitPlace,
    last_cpu: u16,
    state: u8,
    /// Number of the last interval with a row of this thread.
    turn: u64,
}

#[derive(Copy, Clone, Debug)]
struct WaitingProcess {
    /// Newest row id of the process in table `process`.
    id: u64,
    threads: u32,
}

/// Position of a walk: after an interval.
#[derive(Clone, Debug)]
struct RestingPosition {
    host: HostRow,
    filter: ProcessFilter,
    what: What,
    boot: BootRow,
    end_mono_ns: i64,
    end_wall_ns: i64,
}

/// The threads of a host that wait, followed along a walk.
#[derive(Debug, Default)]
pub(super) struct RestingThreads {
    /// `None`: it is not known who waits.
    position: Option<RestingPosition>,
    threads: HashMap<ThreadKey, WaitingThread, Seeded>,
    processes: HashMap<ProcessKey, WaitingProcess, Seeded>,
    waits: OpenWaits,
    /// Threads with a row in the current interval.
    rows: Vec<(ThreadKey, WaitingThread, u64)>,
    turn: u64,
    /// A list gave the state behind the current interval already.
    is_listed: bool,
}

/// Whether threads of this process have to be followed. A name belongs to a process only from one exec to the next.
fn follows(filter: &ProcessFilter, key: ProcessKey) -> bool {
    matches!(filter, ProcessFilter::All | ProcessFilter::Name(_))
        || filter.matches(key, &ProcessInfo::default())
}

pub(super) fn is_wanted(query: &Query) -> bool {
    query.resting && query.sched && query.what > What::Meta
}

impl RestingThreads {
    /// Where a walk over the query's range has to begin: at a list, or at once if there is none or the last walk ended here.
    pub(super) fn begin_of_walk(
        &mut self,
        connection: &Connection,
        host: HostRow,
        query: &Query,
    ) -> Sql<i64> {
        let since_ns = query.since_ns;
        let goes_on = |at: &RestingPosition| {
            (at.host, at.end_wall_ns, at.what) == (host, since_ns, query.what) && at.filter == query.filter
        };
        if !is_wanted(query) || self.position.as_ref().is_some_and(goes_on) {
            return Ok(since_ns);
        }
        self.forget();
        let text = "SELECT end_wall_ns FROM process_list
                    WHERE host_id = ?1 AND end_wall_ns BETWEEN ?2 AND ?3 AND resting IS NOT NULL
                    ORDER BY end_wall_ns DESC LIMIT 1";
        let oldest_ns = since_ns.saturating_sub(2 * LONGEST_LIST_NS);
        let list: Option<i64> = find_row(connection, text, params![host, oldest_ns, since_ns], first)?;
        Ok(list.map_or(since_ns, |end_ns| end_ns.saturating_sub(1)))
    }

    /// Forgets all waits: who waits is no longer known.
    pub(super) fn forget(&mut self) {
        self.position = None;
        self.threads.clear();
        self.processes.clear();
        self.waits.clear();
        self.rows.clear();
    }

    /// Takes the rows of the next interval in. Whatever comes then, [`RestingThreads::leave`] must follow before the next one.
    pub(super) fn enter(
        &mut self,
        connection: &Connection,
        names: &mut ReaderNames,
        query: &Query,
        at: At<'_>,
        rows: PackedRows<'_>,
        lists: &[RestingList],
    ) -> Sql<()> {
        let goes_on = |position: &RestingPosition| {
            (position.boot, position.end_mono_ns) == (at.boot, at.row[BEGIN_MONO])
                && !flags_of(at.row).contains(Flags::RESTART)
        };
        let is_known = fields_of(at.row).contains(Fields::SCHED | Fields::WAITS);
        if !is_known || !self.position.as_ref().is_some_and(goes_on) {
            self.forget();
        }
        self.turn += 1;
        self.rows.clear();
        let list = lists.iter().find(|list| (list.end_wall_ns, list.boot) == (at.row[END_WALL], at.boot));
        self.is_listed = is_known && list.is_some();
        if let Some(list) = list.filter(|_| is_known) {
            self.take_list(connection, names, query, list)?;
        } else if self.position.is_none() {
            return Ok(());
        }
        for (process_id, id, reason) in rows.sched.open_waits() {
            let process = names.process(connection, process_id)?.key;
            if !follows(&query.filter, process) {
                continue;
            }
            let place = WaitPlace::default();
            let waiting = WaitingThread { process, id, reason, place, last_cpu: 0, state: b'S', turn: 0 };
            let key = names.thread(connection, id)?.key;
            self.rows.push((key, waiting, process_id));
            if let Some(known) = self.threads.get_mut(&key) {
                known.turn = self.turn;
                self.waits.has_row(known.process, known.reason, &mut known.place);
            }
        }
        // In order of id, as what follows has them.
        for packed in rows.threads {
            if let Ok(at) = self.rows.binary_search_by_key(&packed.id, |row| row.1.id) {
                let waiting = &mut self.rows[at].1;
                (waiting.last_cpu, waiting.state) = (packed.last_cpu, packed.state.0);
            }
        }
        Ok(())
    }

    /// Replaces all waits with those of a list.
    fn take_list(
        &mut self,
        connection: &Connection,
        names: &mut ReaderNames,
        query: &Query,
        list: &RestingList,
    ) -> Sql<()> {
        self.threads.clear();
        self.processes.clear();
        self.waits.clear();
        let listed = unpack(&list.bytes).unwrap_or_else(|malformed| {
            log::warn!("a list of threads that wait is damaged: {malformed}");
            Vec::new()
        });
        for ListedThread { process_id, id, reason, last_cpu, state } in listed {
            let then = names.process(connection, process_id)?;
            let process = then.key;
            // A name that is gone has no boot.
            if then.boot == list.boot && follows(&query.filter, process) {
                let key = names.thread(connection, id)?.key;
                if key == ThreadKey::default() {
                    continue;
                }
                let place = WaitPlace::default();
                self.wait(
                    key,
                    WaitingThread { process, id, reason, place, last_cpu, state, turn: 0 },
                    process_id,
                );
            }
        }
        Ok(())
    }

    /// Notes that a thread begins or continues to wait.
    fn wait(&mut self, key: ThreadKey, mut waiting: WaitingThread, process_id: u64) {
        self.waits.join(waiting.process, waiting.reason, &mut waiting.place);
        let new = WaitingProcess { id: process_id, threads: 0 };
        let process = self.processes.entry(waiting.process).or_insert(new);
        *process = WaitingProcess { id: process_id, threads: process.threads + 1 };
        if let Some(before) = self.threads.insert(key, waiting) {
            self.end_wait(&before);
        }
    }

    /// A wait is over. Without another one its process rests no more: it did something, or it ended.
    fn end_wait(&mut self, before: &WaitingThread) {
        self.waits.leave(before.process, before.reason, before.place);
        if let Entry::Occupied(mut process) = self.processes.entry(before.process) {
            process.get_mut().threads -= 1;
            if process.get().threads == 0 {
                process.remove();
            }
        }
    }

    /// Adds what rested throughout the interval: to its processes, and as rows of threads if these are wanted.
    pub(super) fn add_to(
        &mut self,
        connection: &Connection,
        names: &mut ReaderNames,
        query: &Query,
        interval: &mut Interval,
    ) -> Sql<()> {
        if self.threads.is_empty() {
            return Ok(());
        }
        let made = self.add_processes(connection, names, query, interval)?;
        // A stored row counts all threads of its process.
        self.waits.add_to(interval, |row, threads| {
            if made.binary_search(&row.key).is_ok() {
                row.thread_rows = row.thread_rows.saturating_add(threads);
            }
        });
        if query.what < What::Threads {
            return Ok(());
        }
        let length_ns = interval.duration_ns();
        for (key, waiting) in self.threads.iter().filter(|(_, waiting)| waiting.turn != self.turn) {
            if interval.process(waiting.process).is_none() {
                continue;
            }
            let then = names.thread(connection, waiting.id)?;
            let resting = Resting {
                key: *key,
                process: waiting.process,
                comm: then.comm,
                state: TaskState(waiting.state),
                nice: then.nice,
                priority: then.priority,
                last_cpu: waiting.last_cpu,
                reason: waiting.reason,
            };
            interval.threads.push(ThreadInterval::of_resting(&resting, length_ns));
        }
        interval.threads.sort_unstable_by_key(|row| row.key);
        Ok(())
    }

    /// Adds rows of zeros of the processes in which threads rest and none has a row. Returns their keys, ascending.
    fn add_processes(
        &self,
        connection: &Connection,
        names: &mut ReaderNames,
        query: &Query,
        interval: &mut Interval,
    ) -> Sql<Vec<ProcessKey>> {
        let mut made = Vec::new();
        for (&key, process) in &self.processes {
            let then = names.process(connection, process.id)?;
            if interval.process(key).is_none() && query.filter.matches(key, &then.info) {
                made.push(IdleProcess { key, ..then.idle(0) });
            }
        }
        made.sort_unstable_by_key(|process| process.key);
        interval.add_idle(&made);
        Ok(made.into_iter().map(|process| process.key).collect())
    }

    /// Continues the walk behind the interval. Not `is_taken`: the walk ended before it, and the next one may begin with it.
    pub(super) fn leave(&mut self, host: HostRow, query: &Query, at: At<'_>, is_taken: bool) {
        self.waits.forget_rows();
        if !is_taken {
            if self.is_listed {
                self.forget();
            }
            return;
        }
        if self.position.is_none() && !self.is_listed {
            return;
        }
        let rows = std::mem::take(&mut self.rows);
        for (key, waiting, process_id) in &rows {
            if waiting.reason.is_some() {
                self.wait(*key, *waiting, *process_id);
            } else if let Some(before) = self.threads.remove(key) {
                self.end_wait(&before);
            }
        }
        self.rows = rows;
        self.position = Some(RestingPosition {
            host,
            filter: query.filter.clone(),
            what: query.what,
            boot: at.boot,
            end_mono_ns: at.row[END_MONO],
            end_wall_ns: at.row[END_WALL],
        });
    }
}
