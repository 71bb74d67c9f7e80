//! Removes a host with all of its data, in steps that are transactions of their own, and then the names of boots that are gone, a range of
//! ids at a time: when a user removes a host, nothing shall stay that names its processes. Blocks in which some names stay are written
//! again.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Result as Sql, params};

use super::merge_names::{StoredInBlocks, rewrite_block};
use super::naming::LastIds;
use crate::names::{self, Block, ProcessName, ThreadName, block_around, row_of};
use crate::rows::{ByRange, HostRow, IdRange, keep_last_id};

/// Tables with much data of a host, by which column it is deleted, and about how many rows at once.
const TABLES: [(&str, &str, i64); 9] = [
    ("chunk", "last_received_wall_ns", 16),
    ("interval", "end_wall_ns", 256),
    ("process_minute", "minute", 5_000),
    ("process_hour", "hour", 5_000),
    ("thread_hour", "hour", 5_000),
    ("host_minute", "minute", 5_000),
    ("host_hour", "hour", 5_000),
    ("legacy_order", "end_wall_ns", 500),
    ("process_list", "end_wall_ns", 100),
];

/// Deletes some data of a host, or the host itself when there is none left. Returns whether the host is gone.
pub(super) fn remove_some(connection: &Connection, host: HostRow) -> Sql<bool> {
    keep_last_id(connection, "chunk")?;
    for (table, key, limit) in TABLES {
        if delete_some(connection, (table, key), host, limit)? {
            return Ok(false);
        }
    }
    keep_last_id(connection, "boot")?;
    keep_last_id(connection, "host")?;
    keep_last_id(connection, "trace")?;
    for text in [
        "DELETE FROM gap WHERE host_id = ?1",
        // Their files are deleted by the receiver that has the shelf, at its next tidying.
        "DELETE FROM trace WHERE host_id = ?1",
        "DELETE FROM host_change WHERE host_id = ?1",
        "DELETE FROM clock_piece WHERE boot_id IN (SELECT id FROM boot WHERE host_id = ?1)",
        "DELETE FROM boot WHERE host_id = ?1",
        "DELETE FROM host WHERE id = ?1",
    ] {
        connection.prepare_cached(text)?.execute([host])?;
    }
    Ok(true)
}

/// Deletes about `limit` rows of a host, the lowest keys first. Returns whether there are more.
fn delete_some(connection: &Connection, (table, key): (&str, &str), host: HostRow, limit: i64) -> Sql<bool> {
    let text = format!("SELECT {key} FROM {table} WHERE host_id = ?1 ORDER BY {key} LIMIT 1 OFFSET ?2");
    let up_to: Option<i64> =
        connection.prepare_cached(&text)?.query_row(params![host, limit], |row| row.get(0)).optional()?;
    connection
        .prepare_cached(&format!("DELETE FROM {table} WHERE host_id = ?1 AND {key} <= ?2"))?
        .execute(params![host, up_to.unwrap_or(i64::MAX)])?;
    Ok(up_to.is_some())
}

/// Ids checked in one transaction.
const IDS_AT_ONCE: i64 = 5_000;

/// How far a purge is.
#[derive(Copy, Clone, Debug)]
pub(super) struct Purge {
    /// After the processes, because whose a thread is follows from its process.
    is_at_threads: bool,
    range: IdRange,
    /// Ids up to this are done.
    from: i64,
}

impl Default for Purge {
    fn default() -> Self {
        Self::at(false, IdRange::Trusted)
    }
}

impl Purge {
    fn at(is_at_threads: bool, range: IdRange) -> Self {
        Self { is_at_threads, range, from: range.after() }
    }

    /// Checks the next ids. Gives what comes next; `None`: all are done.
    pub(super) fn step(
        self,
        connection: &Connection,
        last: &ByRange<LastIds>,
        level: i32,
    ) -> Sql<Option<Self>> {
        let ids = [self.from, self.from + IDS_AT_ONCE];
        let last = if self.is_at_threads {
            let mut block = None;
            let mut is_alive = |name: &ThreadName| {
                Ok(names::find::<ProcessName>(connection, name.process_id, &mut block)?.is_some())
            };
            purge(connection, ids, level, &mut is_alive)?;
            last[self.range].thread
        } else {
            let mut select = connection.prepare_cached("SELECT id FROM boot")?;
            let boots: HashSet<i64> = select.query_map([], |row| row.get(0))?.collect::<Sql<_>>()?;
            // Boot 0 marks rows that represent the short-lived processes of all hosts.
            let mut is_alive = |name: &ProcessName| Ok(name.boot_id == 0 || boots.contains(&name.boot_id));
            purge(connection, ids, level, &mut is_alive)?;
            last[self.range].process
        };
        Ok(match (self.is_at_threads, self.range) {
            _ if ids[1].cast_unsigned() < last => Some(Self { from: ids[1], ..self }),
            (_, IdRange::Trusted) => Some(Self::at(self.is_at_threads, IdRange::Unauthenticated)),
            (false, IdRange::Unauthenticated) => Some(Self::at(true, IdRange::Trusted)),
            (true, IdRange::Unauthenticated) => None,
        })
    }
}

/// Deletes the names among some ids that are not alive: rows, and those in blocks that begin there.
fn purge<N: StoredInBlocks>(
    connection: &Connection,
    ids: [i64; 2],
    level: i32,
    is_alive: &mut dyn FnMut(&N) -> Sql<bool>,
) -> Sql<()> {
    let table = N::TABLE;
    let mut select =
        connection.prepare_cached(&format!("SELECT id FROM {table} WHERE id > ?1 AND id <= ?2"))?;
    let rows: Vec<i64> = select.query_map(ids, |row| row.get(0))?.collect::<Sql<_>>()?;
    let mut delete = connection.prepare_cached(&format!("DELETE FROM {table} WHERE id = ?1"))?;
    for id in rows {
        if let Some(name) = row_of::<N>(connection, id.cast_unsigned())?
            && !is_alive(&name)?
        {
            delete.execute([id])?;
        }
    }
    let text = format!("SELECT first_id FROM {table}_block WHERE first_id > ?1 AND first_id <= ?2");
    let mut select = connection.prepare_cached(&text)?;
    let blocks: Vec<i64> = select.query_map(ids, |row| row.get(0))?.collect::<Sql<_>>()?;
    for first_id in blocks {
        let Some(mut block): Option<Block<N>> = block_around(connection, first_id.cast_unsigned())? else {
            continue;
        };
        let mut alive = Vec::with_capacity(block.names.len());
        for name in &block.names {
            alive.push(is_alive(name)?);
        }
        // A damaged block has no names, and stays as it is.
        if alive.contains(&false) {
            let mut alive = alive.into_iter();
            block.names.retain(|_| alive.next().unwrap_or(true));
            rewrite_block(connection, &block, level)?;
        }
    }
    Ok(())
}
