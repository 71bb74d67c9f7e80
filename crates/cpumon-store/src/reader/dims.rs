//! Keys and names by row id, cached: each id is looked up once, then a row costs no SQL.

use std::collections::HashMap;
use std::sync::Arc;

use cpumon_model::{BootId, Comm, HostId, ProcessInfo, ProcessKey, ThreadKey};
use rusqlite::{Connection, OptionalExtension};

use crate::codec::names::{ProcessName, ThreadName};
use crate::error::is_damage;
use crate::names::{self, Block};
use crate::rows::{BootRow, HostRow};

/// Cached entries of a kind; beyond it they are looked up again.
const MAX_ENTRIES: usize = 1 << 18;

type Sql<T> = rusqlite::Result<T>;

#[derive(Clone, Debug)]
pub(super) struct ProcessThen {
    /// Row of table `boot`; 0 if the process is not known.
    pub(super) boot: BootRow,
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
    /// Tasks whose key and name cannot be read.
    pub(super) nameless: u64,
}

/// A key of 16 bytes; a damaged one is all zero.
pub(crate) fn key_of(bytes: &[u8]) -> [u8; 16] {
    bytes.try_into().unwrap_or_default()
}

/// The row of table `host`.
pub(super) fn host_row(connection: &Connection, host: HostId) -> Sql<Option<HostRow>> {
    connection
        .prepare_cached("SELECT id FROM host WHERE key = ?1")?
        .query_row([host.0], |row| row.get(0))
        .optional()
}

/// An unsigned number, which SQLite stores as a signed one of the same bits.
pub(crate) fn unsigned(row: &rusqlite::Row<'_>, at: usize) -> Sql<u64> {
    row.get::<_, i64>(at).map(i64::cast_unsigned)
}

fn load_info(connection: &Connection, id: i64) -> Sql<Option<ProcessInfo>> {
    connection
        .prepare_cached(
            "SELECT name, comm, cmdline, cgroup, container, uid, is_kernel, interpreter, user,
                    session, base_priority, product
             FROM process_info WHERE id = ?1",
        )?
        .query_row([id], |row| {
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
        .optional()
}

/// `None` for what is damaged: the rows that name it are good.
fn readable<T>(found: Sql<T>) -> Sql<Option<T>> {
    match found {
        Err(error) if is_damage(&error) => Ok(None),
        found => found.map(Some),
    }
}

impl Names {
    /// The boot of a row of table `boot`; all zero if it is gone.
    pub(crate) fn boot(&mut self, connection: &Connection, id: BootRow) -> Sql<BootId> {
        if let Some(&boot) = self.boots.get(&id) {
            return Ok(boot);
        }
        let key: Option<Vec<u8>> = readable(
            connection
                .prepare_cached("SELECT key FROM boot WHERE id = ?1")?
                .query_row([id], |row| row.get(0))
                .optional(),
        )?
        .flatten();
        let boot = BootId(key_of(&key.unwrap_or_default()));
        self.boots.insert(id, boot);
        Ok(boot)
    }

    /// A process; nameless if its row is gone.
    pub(crate) fn process(&mut self, connection: &Connection, id: u64) -> Sql<&ProcessThen> {
        if !self.processes.contains_key(&id) {
            let found = self.load_process(connection, id)?;
            // All at once: a query walks on and rarely comes back to old ones.
            if self.processes.len() >= MAX_ENTRIES {
                self.processes.clear();
            }
            self.processes.insert(id, found);
        }
        // It was found or inserted just above.
        self.processes.get(&id).ok_or(rusqlite::Error::QueryReturnedNoRows)
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
        if self.infos.len() >= MAX_ENTRIES {
            self.infos.clear();
        }
        self.infos.insert(id, Arc::clone(&info));
        Ok(info)
    }

    /// A thread; nameless if its row is gone.
    pub(crate) fn thread(&mut self, connection: &Connection, id: u64) -> Sql<ThreadThen> {
        if let Some(&thread) = self.threads.get(&id) {
            return Ok(thread);
        }
        let found = readable(names::find(connection, id, &mut self.thread_block))?;
        self.nameless += u64::from(found.is_none());
        let found: Option<ThreadName> = found.flatten();
        let thread = found.map_or_else(ThreadThen::default, |name| ThreadThen {
            key: ThreadKey { tid: name.tid, start_ns: name.start_ns },
            comm: name.comm,
            nice: name.nice,
            priority: name.priority,
        });
        if self.threads.len() >= MAX_ENTRIES {
            self.threads.clear();
        }
        self.threads.insert(id, thread);
        Ok(thread)
    }
}
