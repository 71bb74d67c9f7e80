//! Turns packed rows into an `Interval` with keys and names, in reused buffers. Live and stored intervals are the same type, so
//! no frontend knows the difference. Each row id is looked up once, then a row costs no SQL.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use cpumon_model::{
    BootId, Comm, DelayOf, Delays, Fields, HostId, IdleProcess, ProcessInfo, ProcessInterval, ProcessKey,
    ThreadInterval, ThreadKey, bytes_of_info,
};
use rusqlite::Connection;

use super::query::{Query, What};
use crate::codec::meta::{self, MetaRow, StoredInterval};
use crate::codec::sched::SchedRows;
use crate::codec::{PackedProcess, PackedThread, groups};
use crate::error::is_damage;
use crate::names::{self, Block, INFO_COLUMNS, NameRow, ProcessName, ThreadName};
use crate::rows::{BootRow, find_row, first};

/// Cached entries of a kind; beyond it they are looked up again.
const MAX_ENTRIES: usize = 1 << 18;
/// Memory of cached descriptions of processes during a question, and from one question to the next, bytes. Command lines and paths are of
/// any length.
const MAX_INFO_BYTES: usize = 32 << 20;
const MAX_IDLE_INFO_BYTES: usize = 8 << 20;
/// Tasks of a chunk that are looked up one by one, before the remaining ones are looked up at once. Many tasks are in another block of
/// names each, or in none.
const MAX_LOOKUPS: u32 = 1 << 10;

type Sql<T> = rusqlite::Result<T>;

/// A process as its row has it; all zero where the name is gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessThen {
    /// Row of table `boot`; 0 if the process is not known.
    pub(crate) boot: BootRow,
    pub(crate) key: ProcessKey,
    pub(crate) parent_pid: u32,
    pub(crate) info: Arc<ProcessInfo>,
}

impl ProcessThen {
    /// The process where it is idle.
    pub(crate) fn idle(&self, thread_rows: u32) -> IdleProcess {
        let Self { key, parent_pid, ref info, .. } = *self;
        IdleProcess { key, parent_pid, info: Arc::clone(info), thread_rows }
    }
}

#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct ThreadThen {
    pub(crate) key: ThreadKey,
    pub(crate) comm: Comm,
    pub(crate) nice: i8,
    pub(crate) priority: i16,
}

/// The tasks of one kind that were read before, by row id.
#[derive(Debug)]
struct NameCache<N, T> {
    known: HashMap<u64, T, foldhash::fast::RandomState>,
    /// The block in which a name was found last.
    block: Option<Block<N>>,
    /// The tasks of the chunk that was read last.
    expected: Vec<u64>,
    /// Number of tasks that were looked up one by one for that chunk.
    lookups: u32,
}

impl<N, T> Default for NameCache<N, T> {
    fn default() -> Self {
        Self { known: HashMap::default(), block: None, expected: Vec::new(), lookups: 0 }
    }
}

/// Makes a task of its name.
type MakeTask<'m, N, T> = &'m mut dyn FnMut(&N) -> Sql<T>;

impl<N: NameRow, T: Default> NameCache<N, T> {
    fn expect(&mut self, ids: Vec<u64>) {
        (self.expected, self.lookups) = (ids, 0);
    }

    /// A task; zeros if its row is gone, or damaged: then it is counted.
    fn get(
        &mut self,
        connection: &Connection,
        id: u64,
        nameless: &Cell<u64>,
        info_bytes: &Cell<usize>,
        make: MakeTask<'_, N, T>,
    ) -> Sql<&T> {
        if !self.known.contains_key(&id) {
            self.lookups = self.lookups.saturating_add(1);
            if self.lookups == MAX_LOOKUPS {
                self.load_expected(connection, info_bytes, make)?;
            }
            if !self.known.contains_key(&id) {
                let name = readable(names::find(connection, id, &mut self.block), nameless)?.flatten();
                let is_lost = |block: &Block<N>| block.lost > 0 && block.covers(id);
                if name.is_none() && self.block.as_ref().is_some_and(is_lost) {
                    nameless.set(nameless.get() + 1);
                }
                make_space(&mut self.known, 1);
                self.known.insert(id, name.map_or_else(|| Ok(T::default()), |name| make(&name))?);
            }
        }
        // It was found or inserted just above.
        self.known.get(&id).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// Looks up all tasks of the chunk together, those without a name too; as many as there is memory for descriptions.
    fn load_expected(
        &mut self,
        connection: &Connection,
        info_bytes: &Cell<usize>,
        make: MakeTask<'_, N, T>,
    ) -> Sql<()> {
        let mut ids = std::mem::take(&mut self.expected);
        ids.retain(|id| !self.known.contains_key(id));
        ids.sort_unstable();
        ids.dedup();
        make_space(&mut self.known, ids.len());
        let has_space = || info_bytes.get() <= MAX_INFO_BYTES;
        let mut found = |name: &N| {
            if has_space() {
                self.known.insert(name.id(), make(name)?);
            }
            Ok(())
        };
        let unread = readable(names::find_all(connection, &ids, &mut found), &Cell::default())?;
        // Where a page or a block is damaged, or memory is used up, the others are looked up one by one.
        if unread == Some(0) && has_space() {
            for id in ids {
                self.known.entry(id).or_default();
            }
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(crate) struct ReaderNames {
    boots: HashMap<BootRow, BootId>,
    processes: NameCache<ProcessName, ProcessThen>,
    threads: NameCache<ThreadName, ThreadThen>,
    infos: HashMap<i64, Arc<ProcessInfo>>,
    /// Memory of the descriptions that were read since `infos` and `processes`, which refer to them, were last emptied.
    info_bytes: Cell<usize>,
    /// Tasks whose key and name cannot be read.
    pub(super) nameless: Cell<u64>,
    /// Packed values of sums that cannot be read.
    pub(super) lost_sums: u64,
}

/// A key of 16 bytes; a damaged one is all zero.
pub(crate) fn key_of(bytes: &[u8]) -> [u8; 16] {
    bytes.try_into().unwrap_or_default()
}

/// `None` for a damaged name, which is counted: the rows that name it are good.
fn readable<T>(found: Sql<T>, nameless: &Cell<u64>) -> Sql<Option<T>> {
    match found {
        Err(error) if is_damage(&error) => {
            nameless.set(nameless.get() + 1);
            Ok(None)
        }
        found => found.map(Some),
    }
}

/// Makes space in a cache for `more` entries. A full cache is emptied: a query walks on and rarely comes back to old entries.
fn make_space<K, V, S>(cache: &mut HashMap<K, V, S>, more: usize) {
    if cache.len() + more > MAX_ENTRIES {
        cache.clear();
    }
}

/// A description of processes; empty if its row is gone.
fn info(
    connection: &Connection,
    infos: &mut HashMap<i64, Arc<ProcessInfo>>,
    info_bytes: &Cell<usize>,
    nameless: &Cell<u64>,
    id: i64,
) -> Sql<Arc<ProcessInfo>> {
    if let Some(info) = infos.get(&id) {
        return Ok(Arc::clone(info));
    }
    let text = format!("SELECT id{INFO_COLUMNS} FROM process_info WHERE id = ?1");
    let found = find_row(connection, &text, [id], names::info_of);
    let info = Arc::new(readable(found, nameless)?.flatten().unwrap_or_default());
    make_space(infos, 1);
    info_bytes.set(info_bytes.get().saturating_add(bytes_of_info(&info)));
    infos.insert(id, Arc::clone(&info));
    Ok(info)
}

impl ReaderNames {
    /// Frees what is too large to keep for the next question.
    pub(super) fn rest(&mut self) {
        self.limit_infos(MAX_IDLE_INFO_BYTES);
    }

    /// Forgets all descriptions if they take more than this.
    fn limit_infos(&mut self, most_bytes: usize) {
        if self.info_bytes.get() > most_bytes {
            (self.infos, self.processes.known) = (HashMap::default(), HashMap::default());
            self.info_bytes.set(0);
        }
    }

    /// The boot of a row of table `boot`; all zero if it is gone.
    pub(crate) fn boot(&mut self, connection: &Connection, id: BootRow) -> Sql<BootId> {
        if let Some(&boot) = self.boots.get(&id) {
            return Ok(boot);
        }
        let found = find_row(connection, "SELECT key FROM boot WHERE id = ?1", [id], first::<Vec<u8>>);
        let boot = BootId(key_of(&readable(found, &Cell::default())?.flatten().unwrap_or_default()));
        self.boots.insert(id, boot);
        Ok(boot)
    }

    /// The boot of a row of table `process`; all zero if either is gone.
    pub(super) fn boot_of(&mut self, connection: &Connection, process_id: u64) -> Sql<BootId> {
        let boot = self.process(connection, process_id)?.boot;
        self.boot(connection, boot)
    }

    /// Ids of the processes of a chunk, which may be read together.
    pub(super) fn expect_processes(&mut self, ids: Vec<u64>) {
        self.processes.expect(ids);
    }

    /// Ids of the threads of a chunk, which may be read together.
    pub(super) fn expect_threads(&mut self, ids: Vec<u64>) {
        self.threads.expect(ids);
    }

    /// A process; nameless if its row is gone.
    pub(crate) fn process(&mut self, connection: &Connection, id: u64) -> Sql<&ProcessThen> {
        self.limit_infos(MAX_INFO_BYTES);
        let Self { processes, infos, info_bytes, nameless, .. } = self;
        let (info_bytes, nameless) = (&*info_bytes, &*nameless);
        let mut make = |name: &ProcessName| process_then(connection, infos, info_bytes, nameless, name);
        processes.get(connection, id, nameless, info_bytes, &mut make)
    }

    pub(crate) fn process_then(&mut self, connection: &Connection, name: &ProcessName) -> Sql<ProcessThen> {
        self.limit_infos(MAX_INFO_BYTES);
        process_then(connection, &mut self.infos, &self.info_bytes, &self.nameless, name)
    }

    /// A thread; nameless if its row is gone.
    pub(crate) fn thread(&mut self, connection: &Connection, id: u64) -> Sql<ThreadThen> {
        if let Some(&thread) = self.threads.known.get(&id) {
            return Ok(thread);
        }
        let make = &mut |name: &ThreadName| {
            let ThreadName { comm, nice, priority, .. } = *name;
            Ok(ThreadThen { key: ThreadKey { tid: name.tid, start_ns: name.start_ns }, comm, nice, priority })
        };
        // Threads have no description.
        self.threads.get(connection, id, &self.nameless, &Cell::default(), make).copied()
    }
}

fn process_then(
    connection: &Connection,
    infos: &mut HashMap<i64, Arc<ProcessInfo>>,
    info_bytes: &Cell<usize>,
    nameless: &Cell<u64>,
    name: &ProcessName,
) -> Sql<ProcessThen> {
    Ok(ProcessThen {
        boot: BootRow(name.boot_id),
        key: ProcessKey { pid: name.pid, start_ns: name.start_ns },
        parent_pid: name.parent_pid,
        info: info(connection, infos, info_bytes, nameless, name.info_id)?,
    })
}

/// Packed rows of one interval, borrowed from where they were decoded.
#[derive(Copy, Clone, Debug)]
pub(super) struct PackedRows<'a> {
    pub(super) processes: &'a [PackedProcess],
    /// Grouped by process; empty if threads were not read.
    pub(super) threads: &'a [PackedThread],
    pub(super) sched: &'a SchedRows,
}

#[derive(Copy, Clone, Debug)]
pub(super) struct HostKey {
    pub(super) host: HostId,
    pub(super) boot: BootId,
}

/// Fills everything but the CPUs.
pub(super) fn fill(
    connection: &Connection,
    names: &mut ReaderNames,
    query: &Query,
    key: HostKey,
    row: &MetaRow,
    rows: PackedRows<'_>,
    into: &mut StoredInterval,
) -> rusqlite::Result<()> {
    meta::apply(row, key.host, key.boot, into);
    // Fields that are not read must come out as unknown, not as zeros.
    if !query.sched {
        into.interval.fields -= Fields::SCHED | Fields::WAITS | Fields::HISTOGRAMS | Fields::WAITS_FOR;
    }
    into.interval.processes.clear();
    into.interval.threads.clear();
    into.interval.delays.clear();
    let interval = &mut into.interval;
    if query.what == What::Meta {
        return Ok(());
    }
    for (packed, own) in groups(rows.processes, rows.threads) {
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

#[cfg(test)]
mod tests {
    use cpumon_model::{Delta, HostInfo, Interval, Moment, Trust};

    use super::*;
    use crate::{Reader, StoreOptions, Writer};

    /// Only their number was limited: with texts of some kB each they took GB, also between questions.
    #[test]
    fn descriptions_take_a_limited_amount_of_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.db");
        let (host, text) = (HostId([1; 16]), "x".repeat(100_000));
        let process = |pid: u32| ProcessInterval {
            key: ProcessKey { pid, start_ns: 5 },
            delta: Delta { run_ns: 1_000, ..Delta::default() },
            info: Arc::new(ProcessInfo { cmdline: format!("{pid} {text}").into(), ..ProcessInfo::default() }),
            ..ProcessInterval::default()
        };
        let end = Moment { mono_ns: 2_000_000_000, boot_ns: 2_000_000_000, wall_ns: 2_000_000_000 };
        let begin = Moment { mono_ns: 1_000_000_000, boot_ns: 1_000_000_000, wall_ns: 1_000_000_000 };
        let processes = (1..=400).map(process).collect();
        let interval = Interval { host, begin, end, processes, ..Interval::default() };
        let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
        let info = HostInfo { host, ..HostInfo::default() };
        writer.put(&info, Trust::Authenticated, None, &interval).unwrap();
        writer.commit().unwrap();
        let mut reader = Reader::open(&path).unwrap();
        let read = reader.first_in(&Query::new(host)).unwrap().unwrap().interval;
        assert_eq!(read.processes.len(), 400);
        for row in &read.processes {
            assert_eq!(*row.info.cmdline, format!("{} {text}", row.key.pid));
        }
        let held = |reader: &Reader| {
            let cursor = reader.cursor.borrow();
            let ReaderNames { infos, processes, info_bytes, .. } = &cursor.names;
            (info_bytes.get(), infos.len(), processes.known.len())
        };
        let (bytes, infos, known) = held(&reader);
        assert!(bytes > 1 << 20 && bytes <= MAX_INFO_BYTES + (1 << 20), "{bytes}");
        assert!(infos * 100_000 <= bytes && known * 100_000 <= bytes, "{infos} and {known} of {bytes} bytes");
        let set = |reader: &Reader, bytes| reader.cursor.borrow().names.info_bytes.set(bytes);
        set(&reader, MAX_IDLE_INFO_BYTES);
        reader.rest();
        assert_eq!(held(&reader), (MAX_IDLE_INFO_BYTES, infos, known), "what is small is kept");
        set(&reader, MAX_IDLE_INFO_BYTES + 1);
        reader.rest();
        assert_eq!(held(&reader), (0, 0, 0));
    }
}
