//! Turns packed rows into an `Interval` with keys and names, in reused buffers. Live and stored intervals are the same type, so
//! no frontend knows the difference. Each row id is looked up once, then a row costs no SQL.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use cpumon_model::{
    BootId, Comm, DelayOf, Delays, Fields, HostId, ProcessInfo, ProcessInterval, ProcessKey, ThreadInterval,
    ThreadKey,
};
use rusqlite::Connection;

use super::query::{Query, StoredInterval, What};
use crate::codec::meta::{self, MetaRow};
use crate::codec::sched::SchedRows;
use crate::codec::{PackedProcess, PackedThread};
use crate::error::is_damage;
use crate::names::{self, Block, ProcessName, ThreadName};
use crate::rows::{BootRow, find_row, first};

/// Cached entries of a kind; beyond it they are looked up again.
const MAX_ENTRIES: usize = 1 << 18;
/// Tasks of a chunk that are looked up one by one; then all that are left of it are, at once. Many are in another block of names each, or in none.
const MAX_LOOKUPS: u32 = 1 << 10;

type Sql<T> = rusqlite::Result<T>;

#[derive(Clone, Debug)]
pub(crate) struct ProcessThen {
    /// Row of table `boot`; 0 if the process is not known.
    pub(crate) boot: BootRow,
    pub(crate) key: ProcessKey,
    pub(crate) parent_pid: u32,
    pub(crate) info: Arc<ProcessInfo>,
}

impl ProcessThen {
    /// A process whose name is gone.
    fn unknown() -> Self {
        Self { boot: BootRow(0), key: ProcessKey::default(), parent_pid: 0, info: Arc::default() }
    }
}

#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct ThreadThen {
    pub(crate) key: ThreadKey,
    pub(crate) comm: Comm,
    pub(crate) nice: i8,
    pub(crate) priority: i16,
}

/// The tasks of the chunk that was read last.
#[derive(Debug, Default)]
struct Expected {
    ids: Vec<u64>,
    /// How many were looked up one by one.
    lookups: u32,
}

impl Expected {
    fn of(ids: Vec<u64>) -> Self {
        Self { ids, lookups: 0 }
    }

    /// Counts a lookup. Gives all ids once, in order: when they are to be looked up together.
    fn due(&mut self) -> Option<Vec<u64>> {
        self.lookups = self.lookups.saturating_add(1);
        if self.lookups != MAX_LOOKUPS {
            return None;
        }
        let mut ids = std::mem::take(&mut self.ids);
        ids.sort_unstable();
        ids.dedup();
        Some(ids)
    }
}

impl ThreadThen {
    fn of(name: &ThreadName) -> Self {
        Self {
            key: ThreadKey { tid: name.tid, start_ns: name.start_ns },
            comm: name.comm,
            nice: name.nice,
            priority: name.priority,
        }
    }
}

/// Keys and names that were read before.
#[derive(Debug, Default)]
pub(crate) struct Names {
    boots: HashMap<BootRow, BootId>,
    processes: HashMap<u64, ProcessThen, foldhash::fast::RandomState>,
    threads: HashMap<u64, ThreadThen, foldhash::fast::RandomState>,
    infos: HashMap<i64, Arc<ProcessInfo>>,
    /// The blocks in which names were found last.
    process_block: Option<Block<ProcessName>>,
    thread_block: Option<Block<ThreadName>>,
    expected_processes: Expected,
    expected_threads: Expected,
    /// Tasks whose key and name cannot be read.
    pub(super) nameless: u64,
}

/// A key of 16 bytes; a damaged one is all zero.
pub(crate) fn key_of(bytes: &[u8]) -> [u8; 16] {
    bytes.try_into().unwrap_or_default()
}

fn load_info(connection: &Connection, id: i64) -> Sql<Option<ProcessInfo>> {
    let text = "SELECT name, comm, cmdline, cgroup, container, uid, is_kernel, interpreter, user,
                       session, base_priority, product
                FROM process_info WHERE id = ?1";
    find_row(connection, text, [id], |row| {
        Ok(ProcessInfo {
            name: row.get(0)?,
            comm: row.get(1)?,
            cmdline: row.get(2)?,
            cgroup: row.get(3)?,
            container: row.get(4)?,
            uid: row.get(5)?,
            is_kernel: row.get(6)?,
            interpreter: row.get(7)?,
            user: row.get(8)?,
            session: row.get(9)?,
            base_priority: row.get(10)?,
            product: row.get(11)?,
        })
    })
}

/// `None` for what is damaged: the rows that name it are good.
fn readable<T>(found: Sql<T>) -> Sql<Option<T>> {
    match found {
        Err(error) if is_damage(&error) => Ok(None),
        found => found.map(Some),
    }
}

/// Makes space in a cache for so many. When it is full all goes at once: a query walks on and rarely comes back to old entries.
fn make_space<K, V, S>(cache: &mut HashMap<K, V, S>, more: usize) {
    if cache.len() + more > MAX_ENTRIES {
        cache.clear();
    }
}

/// Those that are not in a cache.
fn missing<V, S: BuildHasher>(cache: &HashMap<u64, V, S>, mut ids: Vec<u64>) -> Vec<u64> {
    ids.retain(|id| !cache.contains_key(id));
    ids
}

impl Names {
    /// The boot of a row of table `boot`; all zero if it is gone.
    pub(crate) fn boot(&mut self, connection: &Connection, id: BootRow) -> Sql<BootId> {
        if let Some(&boot) = self.boots.get(&id) {
            return Ok(boot);
        }
        let found = find_row(connection, "SELECT key FROM boot WHERE id = ?1", [id], first::<Vec<u8>>);
        let boot = BootId(key_of(&readable(found)?.flatten().unwrap_or_default()));
        self.boots.insert(id, boot);
        Ok(boot)
    }

    /// The boot of a row of table `process`; all zero if either is gone.
    pub(super) fn boot_of(&mut self, connection: &Connection, process_id: u64) -> Sql<BootId> {
        let boot = self.process(connection, process_id)?.boot;
        self.boot(connection, boot)
    }

    /// The processes of a chunk that was read.
    pub(super) fn expect_processes(&mut self, ids: Vec<u64>) {
        self.expected_processes = Expected::of(ids);
    }

    /// The threads of a chunk that was read.
    pub(super) fn expect_threads(&mut self, ids: Vec<u64>) {
        self.expected_threads = Expected::of(ids);
    }

    /// A process; nameless if its row is gone.
    pub(crate) fn process(&mut self, connection: &Connection, id: u64) -> Sql<&ProcessThen> {
        if !self.processes.contains_key(&id) {
            if let Some(ids) = self.expected_processes.due() {
                self.load_processes(connection, ids)?;
            }
            if !self.processes.contains_key(&id) {
                let found = self.load_process(connection, id)?;
                make_space(&mut self.processes, 1);
                self.processes.insert(id, found);
            }
        }
        // It was found or inserted just above.
        self.processes.get(&id).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// Looks up processes, given in order, and those without a name too.
    fn load_processes(&mut self, connection: &Connection, ids: Vec<u64>) -> Sql<()> {
        let ids = missing(&self.processes, ids);
        make_space(&mut self.processes, ids.len());
        let mut found = |name: &ProcessName| {
            let process = self.process_then(connection, name)?;
            self.processes.insert(name.id, process);
            Ok(())
        };
        // Where a page is damaged they are looked up one by one.
        if readable(names::find_all(connection, &ids, &mut found))?.is_some() {
            for id in ids {
                self.processes.entry(id).or_insert_with(ProcessThen::unknown);
            }
        }
        Ok(())
    }

    fn load_process(&mut self, connection: &Connection, id: u64) -> Sql<ProcessThen> {
        let found = readable(names::find(connection, id, &mut self.process_block))?;
        self.nameless += u64::from(found.is_none());
        match found.flatten() {
            Some(name) => self.process_then(connection, &name),
            None => Ok(ProcessThen::unknown()),
        }
    }

    /// A process of which the row is known.
    pub(crate) fn process_then(&mut self, connection: &Connection, name: &ProcessName) -> Sql<ProcessThen> {
        let key = ProcessKey { pid: name.pid, start_ns: name.start_ns };
        let info = self.info(connection, name.info_id)?;
        Ok(ProcessThen { boot: BootRow(name.boot_id), key, parent_pid: name.parent_pid, info })
    }

    /// A description of processes; empty if its row is gone.
    pub(crate) fn info(&mut self, connection: &Connection, id: i64) -> Sql<Arc<ProcessInfo>> {
        if let Some(info) = self.infos.get(&id) {
            return Ok(Arc::clone(info));
        }
        let found = readable(load_info(connection, id))?;
        self.nameless += u64::from(found.is_none());
        let info = Arc::new(found.flatten().unwrap_or_default());
        make_space(&mut self.infos, 1);
        self.infos.insert(id, Arc::clone(&info));
        Ok(info)
    }

    /// A thread; nameless if its row is gone.
    pub(crate) fn thread(&mut self, connection: &Connection, id: u64) -> Sql<ThreadThen> {
        if let Some(&thread) = self.threads.get(&id) {
            return Ok(thread);
        }
        if let Some(ids) = self.expected_threads.due() {
            self.load_threads(connection, ids)?;
            if let Some(&thread) = self.threads.get(&id) {
                return Ok(thread);
            }
        }
        let found = readable(names::find(connection, id, &mut self.thread_block))?;
        self.nameless += u64::from(found.is_none());
        let thread = found.flatten().as_ref().map_or_else(ThreadThen::default, ThreadThen::of);
        make_space(&mut self.threads, 1);
        self.threads.insert(id, thread);
        Ok(thread)
    }

    /// As [`Names::load_processes`].
    fn load_threads(&mut self, connection: &Connection, ids: Vec<u64>) -> Sql<()> {
        let ids = missing(&self.threads, ids);
        make_space(&mut self.threads, ids.len());
        let mut found = |name: &ThreadName| {
            self.threads.insert(name.id, ThreadThen::of(name));
            Ok(())
        };
        if readable(names::find_all(connection, &ids, &mut found))?.is_some() {
            for id in ids {
                self.threads.entry(id).or_default();
            }
        }
        Ok(())
    }
}

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
