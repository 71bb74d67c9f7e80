//! Processes and threads that were ever stored. The virtual tables `processes` and `threads` list them without reading a
//! sample.

use std::collections::HashMap;
use std::sync::Arc;

use cpumon_model::{
    BootId, CgroupNames, ColumnId, Comm, HostId, ProcessInfo, ProcessKey, Tables, ThreadKey, Value,
};
use rusqlite::{Connection, Result as Sql};

use super::dims::{Names, ProcessThen, key_of};
use super::open::Reader;
use super::query::HostRecord;
use crate::codec::names::{ProcessName, ThreadName};
use crate::error::{At, Result};
use crate::names::next_names;
use crate::rows::{BootRow, HostRow};
use crate::sql::Cell;

/// A process as it was.
#[derive(Copy, Clone, Debug)]
pub struct StoredProcess<'a> {
    /// The boot in which its key counts; all zero of v1 devices.
    pub boot: BootId,
    /// Its key.
    pub key: ProcessKey,
    /// What it was.
    pub info: &'a ProcessInfo,
}

/// A process as it was, or a thread with its process.
pub(crate) struct Task<'a> {
    /// Row id in table `process`, or of a thread in `thread`.
    pub(crate) id: i64,
    boot: BootId,
    process: &'a ProcessThen,
    thread: Option<(ThreadKey, Comm)>,
}

/// What [`Reader::for_each_task`] goes through.
struct Walk<'a> {
    connection: &'a Connection,
    names: &'a mut Names,
    /// Boots of the host by row.
    boots: HashMap<BootRow, BootId>,
    pid: Option<u32>,
}

impl Reader {
    /// What a process was at last, and its parent's pid, if it was ever stored. Reads names, not samples.
    pub fn process(&self, host: HostId, key: ProcessKey) -> Result<Option<(Arc<ProcessInfo>, u32)>> {
        let mut found = None;
        let mut visit = |task: &Task<'_>| {
            if task.process.key == key {
                found = Some((Arc::clone(&task.process.info), task.process.parent_pid));
            }
        };
        self.for_each_task(host, Tables::PROCESSES, Some(key.pid), 0, usize::MAX, &mut visit)?;
        Ok(found)
    }

    /// Visits every process of a host of which the name is stored, once for each description it had. Reads names, not samples.
    pub fn each_process(&self, host: HostId, visit: &mut dyn FnMut(&StoredProcess<'_>)) -> Result<()> {
        let mut visit = |task: &Task<'_>| {
            visit(&StoredProcess { boot: task.boot, key: task.process.key, info: &task.process.info });
        };
        self.for_each_task(host, Tables::PROCESSES, None, 0, usize::MAX, &mut visit)
    }

    /// Up to `limit` tasks of a host with a row id above `after_id`.
    pub(crate) fn for_each_task(
        &self,
        host: HostId,
        table: Tables,
        pid: Option<u32>,
        after_id: i64,
        limit: usize,
        visit: &mut dyn FnMut(&Task<'_>),
    ) -> Result<()> {
        let Some(host) = self.host_row(host)? else { return Ok(()) };
        let mut cursor = self.take_cursor();
        let mut walk_all = || -> Sql<()> {
            let boots = boots_of(&self.connection, host)?;
            let mut walk = Walk { connection: &self.connection, names: &mut cursor.names, boots, pid };
            let after_id = after_id.cast_unsigned();
            if table == Tables::THREADS {
                walk.threads(after_id, limit, visit)
            } else {
                walk.processes(after_id, limit, visit)
            }
        };
        let done = walk_all();
        self.give_back(cursor);
        done.at("read tasks", self.path())
    }
}

fn boots_of(connection: &Connection, host: HostRow) -> Sql<HashMap<BootRow, BootId>> {
    let mut select = connection.prepare_cached("SELECT id, key FROM boot WHERE host_id = ?1")?;
    let boots =
        select.query_map([host], |row| Ok((row.get(0)?, BootId(key_of(row.get_ref(1)?.as_blob()?)))))?;
    boots.collect()
}

impl Walk<'_> {
    fn processes(&mut self, mut after: u64, limit: usize, visit: &mut dyn FnMut(&Task<'_>)) -> Sql<()> {
        let mut visited = 0;
        loop {
            let (found, end) = next_names::<ProcessName>(self.connection, after)?;
            for name in found {
                // The tables of names hold the tasks of all hosts: a boot of another host is not in this map.
                let Some(&boot) = self.boots.get(&BootRow(name.boot_id)) else { continue };
                if self.pid.is_some_and(|pid| pid != name.pid) {
                    continue;
                }
                let process = self.names.process_then(self.connection, &name)?;
                visit(&Task { id: name.id.cast_signed(), boot, process: &process, thread: None });
                visited += 1;
                if visited == limit {
                    return Ok(());
                }
            }
            let Some(end) = end else { return Ok(()) };
            after = end;
        }
    }

    fn threads(&mut self, mut after: u64, limit: usize, visit: &mut dyn FnMut(&Task<'_>)) -> Sql<()> {
        let mut visited = 0;
        loop {
            let (found, end) = next_names::<ThreadName>(self.connection, after)?;
            for name in found {
                let process = self.names.process(self.connection, name.process_id)?;
                let Some(&boot) = self.boots.get(&process.boot) else { continue };
                if self.pid.is_some_and(|pid| pid != process.key.pid) {
                    continue;
                }
                let key = ThreadKey { tid: name.tid, start_ns: name.start_ns };
                visit(&Task { id: name.id.cast_signed(), boot, process, thread: Some((key, name.comm)) });
                visited += 1;
                if visited == limit {
                    return Ok(());
                }
            }
            let Some(end) = end else { return Ok(()) };
            after = end;
        }
    }
}

impl Task<'_> {
    /// The process, or that of the thread.
    pub(super) fn process(&self) -> &ProcessThen {
        self.process
    }

    /// A cell of `processes` or `threads`.
    pub(crate) fn cell(&self, host: &HostRecord, id: ColumnId) -> Cell {
        let process = self.process;
        match id {
            ColumnId::Host => Cell::Text(host.info.hostname.as_ref().into()),
            ColumnId::HostId => Cell::Text(host.info.host.to_string().into()),
            ColumnId::BootId if self.is_v1() => Cell::Null,
            ColumnId::BootId => Cell::Text(self.boot.to_string().into()),
            ColumnId::Pid => Cell::Int(process.key.pid.into()),
            ColumnId::Tid => self.thread.map_or(Cell::Null, |(key, _)| Cell::Int(key.tid.into())),
            ColumnId::StartNs => {
                let start_ns = self.thread.map_or(process.key.start_ns, |(key, _)| key.start_ns);
                self.known(start_ns.cast_signed())
            }
            ColumnId::ParentPid => self.known(process.parent_pid.into()),
            ColumnId::Name => match &self.thread {
                Some((_, comm)) => text(&comm.to_str_lossy()),
                None => text(&process.info.name),
            },
            ColumnId::ProcessName => text(&process.info.name),
            ColumnId::Uid => self.known(process.info.uid.into()),
            ColumnId::User => text(self.user_name()),
            ColumnId::Service => text(&process.info.service()),
            ColumnId::Pod => text(&CgroupNames::of(&process.info.cgroup).pod()),
            ColumnId::Interpreter => text(&process.info.interpreter),
            ColumnId::Cgroup => text(&process.info.cgroup),
            ColumnId::Container => text(&process.info.container),
            ColumnId::Cmdline => text(&process.info.cmdline),
            ColumnId::IsKernel => self.known(process.info.is_kernel.into()),
            ColumnId::Session => process.info.session.map_or(Cell::Null, |number| Cell::Int(number.into())),
            ColumnId::Product => text(&process.info.product),
            ColumnId::PriorityClass => text(&process.info.priority_class().unwrap_or_default()),
            _ => Cell::Null,
        }
    }

    /// v1 devices send neither start times nor anything about a process but its name and id.
    fn is_v1(&self) -> bool {
        self.boot == BootId::default()
    }

    fn user_name(&self) -> &str {
        if self.is_v1() { "" } else { self.process.info.user_name().unwrap_or_default() }
    }

    fn known(&self, number: i64) -> Cell {
        if self.is_v1() { Cell::Null } else { Cell::Int(number) }
    }
}

fn text(text: &str) -> Cell {
    if text.is_empty() { Cell::Null } else { Value::Text(text.into()).into() }
}
