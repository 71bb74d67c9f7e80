//! Processes and threads that were ever stored. In: a host, a place to go on from. Out: [`Task`]s. Why: the virtual tables
//! `processes` and `threads` list them without reading a sample.

use cpumon_model::{BootId, ColumnId, HostId, Tables, Value};
use rusqlite::types::Type;
use rusqlite::{Row, params};

use super::{HostRecord, Reader};
use crate::error::{At, Result};
use crate::sql::Cell;

const PROCESSES: &str = "
    SELECT p.id, b.key, p.pid, p.start_ns, p.parent_pid, i.name, i.uid, i.cgroup, i.container, i.cmdline, i.is_kernel,
           NULL, NULL, NULL
    FROM process p JOIN boot b ON b.id = p.boot_id LEFT JOIN process_info i ON i.id = p.info_id
    WHERE p.id > ?2 AND b.host_id = ?1 AND (?3 IS NULL OR p.pid = ?3) ORDER BY p.id LIMIT ?4";
const THREADS: &str = "
    SELECT t.id, b.key, p.pid, p.start_ns, p.parent_pid, i.name, i.uid, i.cgroup, i.container, i.cmdline, i.is_kernel,
           t.tid, t.start_ns, CAST(t.comm AS BLOB)
    FROM thread t JOIN process p ON p.id = t.process_id JOIN boot b ON b.id = p.boot_id
    LEFT JOIN process_info i ON i.id = p.info_id
    WHERE t.id > ?2 AND b.host_id = ?1 AND (?3 IS NULL OR p.pid = ?3) ORDER BY t.id LIMIT ?4";

/// A row of `process` or `thread` with what belongs to it.
pub(crate) struct Task<'r, 's> {
    /// Its row id.
    pub(crate) id: i64,
    row: &'r Row<'s>,
    /// v1 devices tell neither start times nor anything about a process but its name and id.
    is_v1: bool,
    is_thread: bool,
}

impl Reader {
    /// Up to `limit` tasks of a host with a row id above `after_id`.
    pub(crate) fn for_each_task(
        &self,
        host: HostId,
        table: Tables,
        pid: Option<u32>,
        after_id: i64,
        limit: usize,
        visit: &mut dyn FnMut(&Task<'_, '_>),
    ) -> Result<()> {
        let Some(host_id) = self.host_row(host)? else { return Ok(()) };
        let is_thread = table == Tables::THREADS;
        let sql = if is_thread { THREADS } else { PROCESSES };
        let mut visit_all = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let mut rows = statement.query(params![host_id, after_id, pid, limit])?;
            while let Some(row) = rows.next()? {
                let boot: Vec<u8> = row.get(1)?;
                let is_v1 = boot == BootId::default().0;
                visit(&Task { id: row.get(0)?, row, is_v1, is_thread });
            }
            Ok(())
        };
        visit_all().at("read tasks", self.path())
    }
}

impl Task<'_, '_> {
    /// A cell of `processes` or `threads`.
    pub(crate) fn cell(&self, host: &HostRecord, id: ColumnId) -> Cell {
        match id {
            ColumnId::Host => Cell::Text(host.info.hostname.as_ref().into()),
            ColumnId::HostId => Cell::Text(host.info.host.to_string().into()),
            ColumnId::BootId => self.boot(),
            ColumnId::Pid => self.number(2),
            ColumnId::Tid => self.number(11),
            ColumnId::StartNs if self.is_thread => self.known(12),
            ColumnId::StartNs => self.known(3),
            ColumnId::ParentPid => self.known(4),
            ColumnId::Name if self.is_thread => self.text(13),
            ColumnId::Name | ColumnId::ProcessName => self.text(5),
            ColumnId::Uid => self.known(6),
            ColumnId::Cgroup => self.text(7),
            ColumnId::Container => self.text(8),
            ColumnId::Cmdline => self.text(9),
            ColumnId::IsKernel => self.known(10),
            _ => Cell::Null,
        }
    }

    fn boot(&self) -> Cell {
        let key: Option<[u8; 16]> = self.row.get(1).ok();
        key.filter(|_| !self.is_v1).map_or(Cell::Null, |key| Cell::Text(BootId(key).to_string().into()))
    }

    fn number(&self, at: usize) -> Cell {
        self.row.get_ref(at).ok().and_then(|value| value.as_i64().ok()).map_or(Cell::Null, Cell::Int)
    }

    fn known(&self, at: usize) -> Cell {
        if self.is_v1 { Cell::Null } else { self.number(at) }
    }

    fn text(&self, at: usize) -> Cell {
        let Ok(value) = self.row.get_ref(at) else { return Cell::Null };
        if value.data_type() == Type::Null {
            return Cell::Null;
        }
        match value.as_bytes() {
            Ok(bytes) if !bytes.is_empty() => Value::Text(String::from_utf8_lossy(bytes)).into(),
            _ => Cell::Null,
        }
    }
}
