//! Rows of tables `process`, `thread` and `process_info`, found by key or content or inserted. A task whose name or other attribute
//! changes gets a new row, so the id in a sample also gives the attributes at that time. A thousand processes of one program share one
//! description. What retention removed, these caches forget.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use cpumon_model::{
    Comm, Interval, Life, ProcessInfo, ProcessInterval, ProcessKey, ThreadInterval, ThreadKey, bytes_of_info,
};
use rusqlite::{Connection, Result as Sql, ToSql, params_from_iter};

use crate::names::{INFO_COLUMNS, NameRow, ProcessName, ThreadName, info_values};
use crate::rows::{BootRow, ByRange, HostRow, IdRange, execute, find_row, first, value};

/// Keys come from other machines: the hash has a new seed in each process, so that no sender can make keys collide.
pub(crate) type Seeded = foldhash::quality::RandomState;

/// An id of each kind of task.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct TaskIds {
    pub(super) process: u64,
    pub(super) thread: u64,
}

impl TaskIds {
    /// In each range of ids what `select` finds for the tables of both; `?1` and `?2` are the ends of the range.
    pub(super) fn load(connection: &Connection, select: fn(&str) -> String) -> Sql<ByRange<Self>> {
        ByRange::try_new(|range| {
            let find = |table: &str| {
                value(connection, &select(table), [range.after(), range.last()]).map(i64::cast_unsigned)
            };
            Ok(Self { process: find("process")?, thread: find("thread")? })
        })
    }
}

/// Row id of a process, and the values in that row that can change.
#[derive(Debug)]
struct KnownProcess {
    id: u64,
    parent_pid: u32,
    /// Hash of its description, whose texts are not held for each process: strangers choose them. Its seed is random, so two are equal
    /// by chance only, once in 2^64.
    info: u64,
    used_s: u32,
}

/// Row id of a thread, and the values in that row that can change.
#[derive(Debug)]
struct KnownThread {
    id: u64,
    comm: Comm,
    nice: i8,
    priority: i16,
    used_s: u32,
}

/// Tasks of one boot of a host whose rows are known, and when each was last used, seconds since the epoch.
#[derive(Debug, Default)]
pub(super) struct KnownTasks {
    processes: HashMap<ProcessKey, KnownProcess, Seeded>,
    threads: HashMap<ThreadKey, KnownThread, Seeded>,
}

impl KnownTasks {
    /// Memory, bytes: places of a hash table, and a byte beside each. One place in eight is never used.
    pub(super) fn bytes(&self) -> usize {
        let processes = self.processes.capacity() * (size_of::<(ProcessKey, KnownProcess)>() + 1);
        let threads = self.threads.capacity() * (size_of::<(ThreadKey, KnownThread)>() + 1);
        (processes + threads) / 7 * 8
    }

    /// Forgets what was not used since, and gives its memory back.
    pub(super) fn forget_unused(&mut self, since_s: u32) {
        self.processes.retain(|_, known| known.used_s >= since_s);
        self.threads.retain(|_, known| known.used_s >= since_s);
        self.processes.shrink_to_fit();
        self.threads.shrink_to_fit();
    }

    pub(super) fn forget(&mut self, gone: &Gone) {
        self.processes.retain(|_, known| !gone.processes.has(known.id));
        self.threads.retain(|_, known| !gone.threads.has(known.id));
    }
}

/// Looks up the row ids of one host's tasks.
#[derive(Debug)]
pub(crate) struct Naming<'a> {
    pub(super) connection: &'a Connection,
    pub(super) boot: BootRow,
    pub(super) tasks: &'a mut KnownTasks,
    pub(super) infos: &'a mut Infos,
    pub(super) last: &'a mut TaskIds,
    /// Now, seconds since the epoch on this machine's clock.
    pub(super) now_s: i64,
    /// The same in steps, so that a task that runs all the time is rarely written to.
    pub(super) used_s: u32,
}

impl Naming<'_> {
    /// The row of a process. `row` is `None` where the interval has threads of the process, but not the process itself.
    #[inline]
    pub(super) fn process(&mut self, key: ProcessKey, row: Option<&ProcessInterval>) -> Sql<u64> {
        let info = row.map(|row| self.tasks.processes.hasher().hash_one(&row.info));
        match self.tasks.processes.get_mut(&key) {
            Some(known)
                if row.is_none_or(|row| known.parent_pid == row.parent_pid && Some(known.info) == info) =>
            {
                if known.used_s != self.used_s {
                    known.used_s = self.used_s;
                }
                Ok(known.id)
            }
            _ => self.insert_process(key, row),
        }
    }

    #[cold]
    fn insert_process(&mut self, key: ProcessKey, row: Option<&ProcessInterval>) -> Sql<u64> {
        let (parent_pid, info) =
            row.map_or_else(|| (0, Arc::default()), |row| (row.parent_pid, Arc::clone(&row.info)));
        let info_id = self.infos.id(self.connection, &info)?;
        self.last.process += 1;
        let id = self.last.process;
        let name = ProcessName {
            id,
            boot_id: self.boot.0,
            pid: key.pid,
            start_ns: key.start_ns,
            parent_pid,
            info_id,
            is_short: row.is_some_and(|row| row.life == Life::BornEnded),
        };
        name.insert(self.connection, self.now_s)?;
        let info = self.tasks.processes.hasher().hash_one(&info);
        self.tasks.processes.insert(key, KnownProcess { id, parent_pid, info, used_s: self.used_s });
        Ok(id)
    }

    /// The row of a thread; a new one if its name or priority changed.
    #[inline]
    pub(super) fn thread(&mut self, process_id: u64, row: &ThreadInterval) -> Sql<u64> {
        match self.tasks.threads.get_mut(&row.key) {
            Some(known)
                if known.comm == row.comm && known.nice == row.nice && known.priority == row.priority =>
            {
                if known.used_s != self.used_s {
                    known.used_s = self.used_s;
                }
                Ok(known.id)
            }
            _ => self.insert_thread(process_id, row),
        }
    }

    #[cold]
    fn insert_thread(&mut self, process_id: u64, row: &ThreadInterval) -> Sql<u64> {
        self.last.thread += 1;
        let id = self.last.thread;
        let ThreadInterval { key, comm, nice, priority, .. } = *row;
        let name = ThreadName { id, process_id, tid: key.tid, start_ns: key.start_ns, comm, nice, priority };
        name.insert(self.connection, self.now_s)?;
        self.tasks.threads.insert(key, KnownThread { id, comm, nice, priority, used_s: self.used_s });
        Ok(id)
    }

    /// A task that ended is not seen again under the same key.
    pub(super) fn forget_ended(&mut self, interval: &Interval) {
        for row in interval.threads.iter().filter(|row| row.life.has_ended()) {
            self.tasks.threads.remove(&row.key);
        }
        for row in interval.processes.iter().filter(|row| row.life.has_ended()) {
            self.tasks.processes.remove(&row.key);
        }
    }
}

/// Memory of the descriptions of a range, bytes; beyond it they are looked up again.
const MAX_INFO_BYTES: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct Infos {
    known: HashMap<Arc<ProcessInfo>, i64, Seeded>,
    /// Their memory.
    bytes: usize,
    range: IdRange,
    /// Rows up to this id are not used any more: they are about to be deleted.
    after_id: i64,
    pub(super) last_id: i64,
}

impl Infos {
    /// Starts from what a store holds. Ids are of `range`.
    pub(super) fn load(connection: &Connection, range: IdRange) -> Sql<Self> {
        let last = "SELECT coalesce(max(id), ?1) FROM process_info WHERE id > ?1 AND id <= ?2";
        let last_id = value(connection, last, [range.after(), range.last()])?;
        Ok(Self { known: HashMap::default(), bytes: 0, range, after_id: range.after(), last_id })
    }

    /// Forgets all but which ids are used up; they are looked up again.
    pub(super) fn forget(&mut self) {
        self.known = HashMap::default();
        self.bytes = 0;
    }

    /// Forgets all for good: what comes gets rows of its own, also where an equal one is still there.
    pub(super) fn abandon(&mut self) {
        self.forget();
        self.after_id = self.last_id;
    }

    /// The row of a description, found by content.
    pub(super) fn id(&mut self, connection: &Connection, info: &Arc<ProcessInfo>) -> Sql<i64> {
        if let Some(&id) = self.known.get(info) {
            return Ok(id);
        }
        if let Some(short) = shortened(info) {
            return self.id(connection, &Arc::new(short));
        }
        let hash = stable_hash(info);
        let values = || {
            let hash: [&dyn ToSql; 1] = [&hash];
            hash.into_iter().chain(info_values(info))
        };
        let places = vec!["?"; info_values(info).len()].join(", ");
        let ids: [&dyn ToSql; 2] = [&self.after_id, &self.range.last()];
        // IS: two of the values may be NULL.
        let text = format!(
            "SELECT id FROM process_info WHERE hash = ? AND (hash{INFO_COLUMNS}) IS (hash, {places}) AND id > ? AND id <= ?"
        );
        // Written by an earlier run, or forgotten since.
        let found = find_row(connection, &text, params_from_iter(values().chain(ids)), first)?;
        let id = if let Some(id) = found {
            id
        } else {
            self.last_id += 1;
            let id: [&dyn ToSql; 1] = [&self.last_id];
            let text = format!("INSERT INTO process_info (hash{INFO_COLUMNS}, id) VALUES (?, {places}, ?)");
            execute(connection, &text, params_from_iter(values().chain(id)))?;
            self.last_id
        };
        let bytes = bytes_of_info(info);
        if self.bytes + bytes > MAX_INFO_BYTES {
            self.forget();
        }
        self.bytes += bytes;
        self.known.insert(Arc::clone(info), id);
        Ok(id)
    }
}

/// Longest name of a host, a process or a thread in the file, bytes; agents cut theirs there, too.
const MAX_NAME_BYTES: usize = 255;
/// Longest cgroup path and container name: those of this machine come whole.
const MAX_PATH_BYTES: usize = 4096;

/// A name, cut to the length that is stored.
pub(super) fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME_BYTES)]
}

/// A description whose texts are cut; `None`: none is too long. The length of a command line is bounded by that of a datagram.
fn shortened(info: &ProcessInfo) -> Option<ProcessInfo> {
    let limits = [
        (&info.name, MAX_NAME_BYTES),
        (&info.comm, MAX_NAME_BYTES),
        (&info.cgroup, MAX_PATH_BYTES),
        (&info.container, MAX_PATH_BYTES),
        (&info.interpreter, MAX_NAME_BYTES),
        (&info.user, MAX_NAME_BYTES),
        (&info.product, MAX_NAME_BYTES),
    ];
    if limits.iter().all(|(text, max)| text.len() <= *max) {
        return None;
    }
    let [name, comm, cgroup, container, interpreter, user, product] =
        limits.map(|(text, max)| text[..text.floor_char_boundary(max)].into());
    Some(ProcessInfo { name, comm, cgroup, container, interpreter, user, product, ..info.clone() })
}

/// FNV-1a over the content, the same in every build because it is stored in the file. Rows of equal hash are compared in full.
fn stable_hash(info: &ProcessInfo) -> i64 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for &byte in bytes {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    for text in [&info.name, &info.comm, &info.cmdline, &info.cgroup, &info.container] {
        hasher.write(text.as_bytes());
        // Separated, so that ("ab", "c") and ("a", "bc") differ.
        hasher.write(&[0]);
    }
    // Left out where empty: descriptions of older versions keep their hash.
    for text in [&info.interpreter, &info.user, &info.product].into_iter().filter(|text| !text.is_empty()) {
        hasher.write(text.as_bytes());
        hasher.write(&[0]);
    }
    // Likewise. What follows is as long in every case, so a number here is no other text.
    if info.session.is_some() || info.base_priority.is_some() {
        let number = |number: Option<u32>| number.map_or(0, |number| u64::from(number) + 1).to_le();
        number(info.session).hash(&mut hasher);
        number(info.base_priority.map(u32::from)).hash(&mut hasher);
    }
    // Little-endian, so that a store can be written on a machine of either byte order.
    info.uid.to_le().hash(&mut hasher);
    hasher.finish().cast_signed()
}

/// Rows that retention deleted, for caches to forget.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// Rows of table `process_info` were deleted.
    pub(super) infos: bool,
    /// All names of unauthenticated hosts, or they will be.
    pub(super) unauthenticated_names: bool,
    pub(super) hosts: Vec<HostRow>,
    /// Boots without any stored data.
    pub(super) boots: Vec<BootRow>,
    /// Names that nothing used. A task may use its name again after days.
    pub(super) processes: GoneIds,
    pub(super) threads: GoneIds,
}

#[derive(Debug, Default)]
pub(super) struct GoneIds {
    rows: HashSet<i64>,
    /// First and last id of each block, in order of ids.
    blocks: Vec<[i64; 2]>,
    /// Ids in blocks that have a row as well, which is still there.
    stay: HashSet<i64>,
}

impl GoneIds {
    pub(super) fn add_rows(&mut self, rows: Vec<i64>) {
        self.rows.extend(rows);
    }

    /// Blocks with these first and last ids went, but not the rows `stay`.
    pub(super) fn add_blocks(&mut self, mut blocks: Vec<[i64; 2]>, stay: Vec<i64>) {
        blocks.sort_unstable();
        self.blocks = blocks;
        self.stay.extend(stay);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.blocks.is_empty()
    }

    pub(super) fn has(&self, id: u64) -> bool {
        let id = id.cast_signed();
        let behind = self.blocks.partition_point(|[first, _]| *first <= id);
        let block = behind.checked_sub(1).and_then(|at| self.blocks.get(at));
        self.rows.contains(&id) || (block.is_some_and(|[_, last]| id <= *last) && !self.stay.contains(&id))
    }
}
