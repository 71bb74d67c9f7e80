//! Folds names into blocks. In: the oldest rows of tables `thread` and `process`. Out: blocks of them; the rows are gone, in
//! the same transaction. Why: on a machine that starts forty threads a second, names took as much room as samples do.
//!
//! A block stays as it is. A task that is still seen an hour later gets its row back, and that row stays: so a block holds
//! what is gone, and goes itself when no sample can name it any more.

use rusqlite::{Connection, params};

use super::Writer;
use crate::codec::names::{Name, ProcessName, ThreadName, encode};
use crate::error::Result;
use crate::names::{Block, Stored, block_around};

/// Ids in a block.
const BLOCK_IDS: u64 = 1024;
/// An id's `last_s` is moved on when it is older than this, so that few rows are written again.
const LAST_SEEN_STEP_S: i64 = 3600;

/// Up to which ids names are folded.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct FoldedTo {
    thread: u64,
    process: u64,
}

/// Reads up to where names are folded.
pub(crate) fn load_folded(connection: &Connection) -> rusqlite::Result<FoldedTo> {
    let last = |text: &str| connection.query_row(text, [], |row| row.get::<_, i64>(0));
    Ok(FoldedTo {
        thread: last("SELECT coalesce(max(last_id), 0) FROM thread_block")?.cast_unsigned(),
        process: last("SELECT coalesce(max(last_id), 0) FROM process_block")?.cast_unsigned(),
    })
}

impl Writer {
    /// Folds one block, if there are enough new names.
    pub(super) fn fold_step(&mut self) -> Result<bool> {
        let last = self.dims.last_ids();
        let is_due =
            last.thread >= self.folded.thread + BLOCK_IDS || last.process >= self.folded.process + BLOCK_IDS;
        if !is_due {
            return Ok(false);
        }
        self.begin()?;
        let (folded, level) = (self.folded, self.options.zstd_level);
        let fold_both = |connection: &Connection| -> rusqlite::Result<FoldedTo> {
            Ok(FoldedTo {
                thread: fold::<ThreadName>(connection, folded.thread, last.thread, level)?,
                process: fold::<ProcessName>(connection, folded.process, last.process, level)?,
            })
        };
        let folded = fold_both(&self.connection).map_err(|error| self.fail("fold names", error))?;
        self.commit()?;
        let is_more = folded.thread > self.folded.thread || folded.process > self.folded.process;
        self.folded = folded;
        Ok(is_more)
    }
}

/// Names whose block says more than the names.
trait Folds: Stored {
    /// Writes a block of `names`.
    fn write_block(connection: &Connection, block: &Block<Self>, level: i32) -> rusqlite::Result<()>;
}

impl Folds for ThreadName {
    fn write_block(connection: &Connection, block: &Block<Self>, level: i32) -> rusqlite::Result<()> {
        connection
            .prepare_cached("INSERT INTO thread_block (first_id, last_id, last_s, count, names) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![
                block.first_id.cast_signed(),
                block.last_id.cast_signed(),
                block.last_s,
                count(&block.names),
                packed(&block.names, level)?
            ])?;
        Ok(())
    }
}

impl Folds for ProcessName {
    fn write_block(connection: &Connection, block: &Block<Self>, level: i32) -> rusqlite::Result<()> {
        let first_id = block.first_id.cast_signed();
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO process_block (first_id, last_id, last_s, count, has_short, names)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                first_id,
                block.last_id.cast_signed(),
                block.last_s,
                count(&block.names),
                block.names.iter().any(|name| name.is_short),
                packed(&block.names, level)?
            ])?;
        connection
            .prepare_cached("DELETE FROM process_block_info WHERE first_id = ?1")?
            .execute([first_id])?;
        let mut infos: Vec<i64> = block.names.iter().map(|name| name.info_id).collect();
        infos.sort_unstable();
        infos.dedup();
        let mut insert = connection.prepare_cached("INSERT INTO process_block_info VALUES (?1, ?2)")?;
        for info_id in infos {
            insert.execute([first_id, info_id])?;
        }
        Ok(())
    }
}

fn count<N>(names: &[N]) -> i64 {
    i64::try_from(names.len()).unwrap_or(i64::MAX)
}

fn packed<N: Name>(names: &[N], level: i32) -> rusqlite::Result<Vec<u8>> {
    encode(names, level).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// Folds the oldest rows above `folded` if the ids reach far enough; up to where they are folded then.
fn fold<N: Folds>(connection: &Connection, folded: u64, last: u64, level: i32) -> rusqlite::Result<u64> {
    let (table, is_task) = (N::TABLE, N::IS_TASK);
    let oldest: Option<i64> = connection
        .prepare_cached(&format!("SELECT min(id) FROM {table} WHERE id > ?1 AND {is_task}"))?
        .query_row([folded.cast_signed()], |row| row.get(0))?;
    let Some(first_id) = oldest.map(i64::cast_unsigned) else { return Ok(folded) };
    let last_id = first_id + (BLOCK_IDS - 1);
    if last_id > last {
        return Ok(folded);
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
    N::write_block(connection, &Block { first_id, last_id, last_s, names }, level)?;
    connection
        .prepare_cached(&format!("DELETE FROM {table} WHERE id BETWEEN ?1 AND ?2 AND {is_task}"))?
        .execute(range)?;
    Ok(last_id)
}

/// Notes that tasks are in samples received at `now_s`: retention lets go of names that no sample uses. Ids may repeat.
pub(super) fn note_seen<N: Stored>(
    connection: &Connection,
    ids: &mut Vec<u64>,
    now_s: i64,
) -> rusqlite::Result<()> {
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
        let name = block.as_ref().filter(|block| block.last_s < limit_s).and_then(|block| block.get(id));
        if let Some(name) = name {
            name.insert(connection, now_s)?;
        }
    }
    Ok(())
}

/// Takes the short-lived processes out of a block: sums name them by their stand-ins. How many went.
pub(super) fn drop_short(connection: &Connection, first_id: u64, level: i32) -> rusqlite::Result<i64> {
    let Some(mut block) = block_around::<ProcessName>(connection, first_id)? else { return Ok(0) };
    let before = count(&block.names);
    block.names.retain(|name| !name.is_short);
    ProcessName::write_block(connection, &block, level)?;
    Ok(before - count(&block.names))
}
