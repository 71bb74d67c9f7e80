//! Merges names into blocks: the oldest thousand rows of `thread` and `process` become one compressed row. On a machine that
//! starts forty threads a second, names took as much space as samples do.
//!
//! A block stays as it is. A task that is still seen an hour later gets a row again, and that row stays. So a block holds
//! tasks that are gone, and goes itself when no sample can name them any more.

use rusqlite::{Connection, Result as Sql, params};

use super::naming::TaskIds;
use super::session::Transaction;
use crate::names::{Block, NameRow, ProcessName, ThreadName, block_around};
use crate::rows::{ByRange, IdRange, execute, value};

const BLOCK_IDS: u64 = 1024;
/// An id's `last_s` is moved on when it is older than this, s: updates at each sighting would be most of the writing.
const LAST_SEEN_STEP_S: i64 = 3600;

#[derive(Debug)]
pub(super) struct NameMerger {
    /// Up to these ids, names are in blocks.
    merged: ByRange<TaskIds>,
    zstd_level: i32,
}

impl NameMerger {
    pub(super) fn load(connection: &Connection, zstd_level: i32) -> Sql<Self> {
        let merged = TaskIds::load(connection, |table| {
            format!(
                "SELECT coalesce(max(last_id), ?1) FROM {table}_block WHERE first_id > ?1 AND first_id <= ?2"
            )
        })?;
        Ok(Self { merged, zstd_level })
    }

    /// Whether there are enough new names for a block.
    pub(super) fn is_due(&self, last: &ByRange<TaskIds>) -> bool {
        IdRange::ALL.into_iter().any(|range| {
            let (merged, last) = (self.merged[range], last[range]);
            last.thread >= merged.thread + BLOCK_IDS || last.process >= merged.process + BLOCK_IDS
        })
    }

    /// Makes at most one block of threads and one of processes in each range.
    pub(super) fn merge(
        &self,
        transaction: &Transaction<'_>,
        last: &ByRange<TaskIds>,
    ) -> Sql<ByRange<TaskIds>> {
        let level = self.zstd_level;
        ByRange::try_new(|range| {
            let (merged, last) = (self.merged[range], last[range]);
            Ok(TaskIds {
                thread: merge_oldest::<ThreadName>(transaction, merged.thread, last.thread, level)?,
                process: merge_oldest::<ProcessName>(transaction, merged.process, last.process, level)?,
            })
        })
    }

    /// What [`NameMerger::merge`] made is committed; whether it was anything. Before the commit it could be rolled back.
    pub(super) fn committed(&mut self, to: ByRange<TaskIds>) -> bool {
        let before = std::mem::replace(&mut self.merged, to);
        let mut both = before.iter().zip(to.iter());
        both.any(|(before, to)| to.thread > before.thread || to.process > before.process)
    }
}

/// Writes a block again after some of its names were deleted.
pub(super) fn rewrite_block<N: NameRow>(connection: &Connection, block: &Block<N>, level: i32) -> Sql<()> {
    if !block.names.is_empty() {
        return N::insert_block(connection, block, level);
    }
    let text = format!("DELETE FROM {}_block WHERE first_id = ?1", N::TABLE);
    execute(connection, &text, [block.first_id.cast_signed()]).map(drop)
}

/// Merges the oldest rows above `merged` if the ids reach far enough. Returns up to which id names are in blocks then.
fn merge_oldest<N: NameRow>(connection: &Connection, merged: u64, last: u64, level: i32) -> Sql<u64> {
    let (table, is_task) = (N::TABLE, N::IS_TASK);
    // Not `merged` + 1: retention may have deleted rows above it.
    let text = format!("SELECT min(id) FROM {table} WHERE id > ?1 AND {is_task}");
    let oldest: Option<i64> = value(connection, &text, [merged.cast_signed()])?;
    let Some(first_id) = oldest.map(i64::cast_unsigned) else { return Ok(merged) };
    let last_id = first_id + (BLOCK_IDS - 1);
    // Only when all of its ids are given out: a block is not extended later.
    if last_id > last {
        return Ok(merged);
    }
    let range = params![first_id.cast_signed(), last_id.cast_signed()];
    let mut last_s = i64::MIN;
    let mut names = Vec::new();
    let text = format!(
        "SELECT {}, last_s FROM {table} WHERE id BETWEEN ?1 AND ?2 AND {is_task} ORDER BY id",
        N::COLUMNS
    );
    let mut select = connection.prepare_cached(&text)?;
    let mut rows = select.query(range)?;
    while let Some(row) = rows.next()? {
        last_s = last_s.max(row.get("last_s")?);
        names.push(N::from_row(row)?);
    }
    N::insert_block(connection, &Block { first_id, last_id, last_s, names, lost: 0 }, level)?;
    let text = format!("DELETE FROM {table} WHERE id BETWEEN ?1 AND ?2 AND {is_task}");
    execute(connection, &text, range)?;
    Ok(last_id)
}

/// Records that tasks are in samples received at `now_s`, so that retention keeps their names. Ids may repeat.
pub(super) fn mark_seen<N: NameRow>(connection: &Connection, ids: &mut Vec<u64>, now_s: i64) -> Sql<()> {
    // In order of id, the names of one block follow each other, and each block is unpacked once.
    ids.sort_unstable();
    ids.dedup();
    let limit_s = now_s - LAST_SEEN_STEP_S;
    let table = N::TABLE;
    let mut select = connection.prepare_cached(&format!("SELECT max(last_s) FROM {table} WHERE id = ?1"))?;
    let mut update = connection.prepare_cached(&format!("UPDATE {table} SET last_s = ?2 WHERE id = ?1"))?;
    let mut block: Option<Block<N>> = None;
    for &id in ids.iter() {
        let last_s: Option<i64> = select.query_row([id.cast_signed()], |row| row.get(0))?;
        if let Some(last_s) = last_s {
            if last_s < limit_s {
                update.execute(params![id.cast_signed(), now_s])?;
            }
            continue;
        }
        if block.as_ref().is_none_or(|block| !block.covers(id)) {
            block = block_around(connection, id)?;
        }
        // Blocks are not rewritten: the task gets a row beside its block, which is found first and carries the newer `last_s`.
        let name = block.as_ref().filter(|block| block.last_s < limit_s).and_then(|block| block.get(id));
        if let Some(name) = name {
            name.insert(connection, now_s)?;
        }
    }
    Ok(())
}
