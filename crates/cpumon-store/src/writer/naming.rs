//! Rows of tables `process` and `thread`. A task whose name or other attribute changes gets a new row, so the id in a sample
//! also gives the attributes at that time.

use std::collections::HashMap;
use std::sync::Arc;

use cpumon_model::{Comm, Life, ProcessInfo, ProcessInterval, ProcessKey, ThreadInterval, ThreadKey};
use rusqlite::{Connection, Result as Sql};

use super::gone::Gone;
use super::infos::Infos;
use crate::codec::names::{ProcessName, ThreadName};
use crate::names::Stored;
use crate::rows::BootRow;

/// Tasks of one host in memory; beyond it they are forgotten and get new rows.
const MAX_TASKS_OF_A_HOST: usize = 1 << 18;

/// Keys come from other machines: the hash has a new seed in each process, so that none of them can make keys collide.
pub(crate) type Seeded = foldhash::quality::RandomState;

/// The highest ids in use.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct LastIds {
    pub(super) process: u64,
    pub(super) thread: u64,
}

/// A process's row and what it was made of.
#[derive(Debug)]
struct KnownProcess {
    id: u64,
    parent_pid: u32,
    info: Arc<ProcessInfo>,
}

/// A thread's row and what it was made of.
#[derive(Debug)]
struct KnownThread {
    id: u64,
    comm: Comm,
    nice: i8,
    priority: i16,
}

/// Tasks of one boot of a host whose rows are known.
#[derive(Debug, Default)]
pub(super) struct KnownTasks {
    processes: HashMap<ProcessKey, KnownProcess, Seeded>,
    threads: HashMap<ThreadKey, KnownThread, Seeded>,
}

impl KnownTasks {
    /// Tasks in memory.
    pub(super) fn count(&self) -> usize {
        self.processes.len() + self.threads.len()
    }

    /// Forgets tasks whose names are gone.
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
    pub(super) last: &'a mut LastIds,
    /// Now, seconds since the epoch on this machine's clock.
    pub(super) now_s: i64,
}

impl Naming<'_> {
    /// The row of a process. `row` is `None` where the interval has threads of it, but not the process itself.
    #[inline]
    pub(super) fn process(&mut self, key: ProcessKey, row: Option<&ProcessInterval>) -> Sql<u64> {
        match (self.tasks.processes.get(&key), row) {
            (Some(known), None) => Ok(known.id),
            // Infos of one agent are mostly the same allocation, which spares comparing their texts.
            (Some(known), Some(row))
                if known.parent_pid == row.parent_pid
                    && (Arc::ptr_eq(&known.info, &row.info) || known.info == row.info) =>
            {
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
        let known = &mut self.tasks.processes;
        // A host may invent tasks without end. All go at once: new rows are a little waste, a list of the oldest would cost
        // at each interval.
        if known.len() >= MAX_TASKS_OF_A_HOST {
            known.clear();
        }
        known.insert(key, KnownProcess { id, parent_pid, info });
        Ok(id)
    }

    /// The row of a thread; a new one if its name or priority changed.
    #[inline]
    pub(super) fn thread(&mut self, process_id: u64, row: &ThreadInterval) -> Sql<u64> {
        match self.tasks.threads.get(&row.key) {
            Some(known)
                if known.comm == row.comm && known.nice == row.nice && known.priority == row.priority =>
            {
                Ok(known.id)
            }
            _ => self.insert_thread(process_id, row),
        }
    }

    #[cold]
    fn insert_thread(&mut self, process_id: u64, row: &ThreadInterval) -> Sql<u64> {
        self.last.thread += 1;
        let id = self.last.thread;
        let name = ThreadName {
            id,
            process_id,
            tid: row.key.tid,
            start_ns: row.key.start_ns,
            comm: row.comm,
            nice: row.nice,
            priority: row.priority,
        };
        name.insert(self.connection, self.now_s)?;
        let known = &mut self.tasks.threads;
        if known.len() >= MAX_TASKS_OF_A_HOST {
            known.clear();
        }
        known.insert(row.key, KnownThread { id, comm: row.comm, nice: row.nice, priority: row.priority });
        Ok(id)
    }

    /// Forgets a process that has ended.
    pub(super) fn end_process(&mut self, key: ProcessKey) {
        self.tasks.processes.remove(&key);
    }

    /// Forgets a thread that has ended.
    pub(super) fn end_thread(&mut self, key: ThreadKey) {
        self.tasks.threads.remove(&key);
    }
}
