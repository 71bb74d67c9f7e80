//! What ids stand for. In: ids of boots, processes and threads. Out: keys and names, kept in memory. Why: each id is looked
//! up once, then a row costs no SQL.

use std::collections::HashMap;
use std::sync::Arc;

use cpumon_model::{BootId, Comm, HostId, ProcessInfo, ProcessKey, ThreadKey};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

/// Entries of a kind kept in memory; beyond it they are looked up again.
const MAX_ENTRIES: usize = 1 << 18;

type Sql<T> = rusqlite::Result<T>;

/// A process as it was.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessThen {
    pub(crate) key: ProcessKey,
    pub(crate) parent_pid: u32,
    pub(crate) info: Arc<ProcessInfo>,
}

/// A thread as it was.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct ThreadThen {
    pub(crate) key: ThreadKey,
    pub(crate) comm: Comm,
    pub(crate) nice: i8,
    pub(crate) priority: i16,
}

/// Kept look-ups.
#[derive(Debug, Default)]
pub(crate) struct Names {
    boots: HashMap<i64, BootId>,
    processes: HashMap<u64, ProcessThen, foldhash::fast::RandomState>,
    threads: HashMap<u64, ThreadThen, foldhash::fast::RandomState>,
    infos: HashMap<i64, Arc<ProcessInfo>>,
}

/// A key of 16 bytes; a damaged one is all zero.
pub(crate) fn key_of(bytes: &[u8]) -> [u8; 16] {
    bytes.try_into().unwrap_or_default()
}

/// The row of table `host`.
pub(crate) fn host_id(connection: &Connection, host: HostId) -> Sql<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM host WHERE key = ?1")?
        .query_row([host.0], |row| row.get(0))
        .optional()
}

/// Unsigned numbers are kept bit for bit.
pub(crate) fn unsigned(row: &rusqlite::Row<'_>, at: usize) -> Sql<u64> {
    row.get::<_, i64>(at).map(i64::cast_unsigned)
}

impl Names {
    /// The boot of a row of table `boot`; all zero if it is gone.
    pub(crate) fn boot(&mut self, connection: &Connection, id: i64) -> Sql<BootId> {
        if let Some(&boot) = self.boots.get(&id) {
            return Ok(boot);
        }
        let key: Option<Vec<u8>> = connection
            .prepare_cached("SELECT key FROM boot WHERE id = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        let boot = BootId(key_of(&key.unwrap_or_default()));
        self.boots.insert(id, boot);
        Ok(boot)
    }

    /// A process; nameless if its row is gone.
    pub(crate) fn process(&mut self, connection: &Connection, id: u64) -> Sql<&ProcessThen> {
        if !self.processes.contains_key(&id) {
            let found = self.load_process(connection, id)?;
            if self.processes.len() >= MAX_ENTRIES {
                self.processes.clear();
            }
            self.processes.insert(id, found);
        }
        // It was found or made just above.
        self.processes.get(&id).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    fn load_process(&mut self, connection: &Connection, id: u64) -> Sql<ProcessThen> {
        let found = connection
            .prepare_cached("SELECT pid, start_ns, parent_pid, info_id FROM process WHERE id = ?1")?
            .query_row([id.cast_signed()], |row| {
                let key = ProcessKey { pid: row.get(0)?, start_ns: unsigned(row, 1)? };
                Ok((key, row.get::<_, u32>(2)?, row.get::<_, i64>(3)?))
            })
            .optional()?;
        let Some((key, parent_pid, info_id)) = found else { return Ok(ProcessThen::default()) };
        Ok(ProcessThen { key, parent_pid, info: self.info(connection, info_id)? })
    }

    /// A description of processes; empty if its row is gone.
    pub(crate) fn info(&mut self, connection: &Connection, id: i64) -> Sql<Arc<ProcessInfo>> {
        if let Some(info) = self.infos.get(&id) {
            return Ok(Arc::clone(info));
        }
        let info = connection
            .prepare_cached(
                "SELECT name, comm, cmdline, cgroup, container, uid, is_kernel FROM process_info WHERE id = ?1",
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
                })
            })
            .optional()?;
        let info = Arc::new(info.unwrap_or_default());
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
        let thread = connection
            .prepare_cached("SELECT tid, start_ns, comm, nice, priority FROM thread WHERE id = ?1")?
            .query_row([id.cast_signed()], |row| {
                let comm = match row.get_ref(2)? {
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Comm::new(bytes),
                    _ => Comm::default(),
                };
                let key = ThreadKey { tid: row.get(0)?, start_ns: unsigned(row, 1)? };
                Ok(ThreadThen { key, comm, nice: row.get(3)?, priority: row.get(4)? })
            })
            .optional()?
            .unwrap_or_default();
        if self.threads.len() >= MAX_ENTRIES {
            self.threads.clear();
        }
        self.threads.insert(id, thread);
        Ok(thread)
    }
}
