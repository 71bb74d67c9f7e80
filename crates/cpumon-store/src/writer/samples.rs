//! Deletes the oldest samples: by age of all hosts, by size of one.

use rusqlite::{Connection, OptionalExtension, Result as Sql, params};

use super::counters::count;
use super::ids::keep_last_id;
use super::usage::{CHUNK_BYTES, INTERVAL_BYTES, IS_UNAUTHENTICATED, Owner};
use crate::rows::{HostRow, IdRange};

/// Chunks deleted in one transaction.
const CHUNKS_AT_ONCE: u32 = 16;
/// Fresh intervals deleted in one transaction.
const INTERVALS_AT_ONCE: u32 = 256;

/// A chunk that is to be deleted.
struct OldChunk {
    id: i64,
    host: HostRow,
    first_end_wall_ns: i64,
    last_end_wall_ns: i64,
    intervals: i64,
    thread_rows: i64,
    bytes: i64,
    is_unauthenticated: bool,
}

/// Deletes the oldest chunks that were received before `limit_ns`. Returns whether there were any.
pub(super) fn drop_older(connection: &Connection, limit_ns: i64) -> Sql<bool> {
    // By receipt, not by end: the clock of a device may be decades off, and its data would go at once or never.
    let text = chunks_where("last_received_wall_ns < ?1 ORDER BY last_received_wall_ns LIMIT ?2");
    let mut select = connection.prepare_cached(&text)?;
    let rows = select.query_map(params![limit_ns, CHUNKS_AT_ONCE], read_chunk)?;
    let chunks: Vec<OldChunk> = rows.collect::<Sql<_>>()?;
    drop_chunks(connection, &chunks)?;
    Ok(!chunks.is_empty())
}

/// Deletes the oldest samples of an owner, about `excess` bytes of them but not many at once. Returns how many bytes; 0: there are
/// none, or of a trusted host only fresh ones.
pub(super) fn drop_oldest_of(connection: &Connection, owner: Owner, excess: i64) -> Sql<i64> {
    let text = chunks_where(&format!(
        "host_id = ?1 AND {IS_UNAUTHENTICATED} = ?2 ORDER BY last_received_wall_ns LIMIT ?3"
    ));
    let is_unauthenticated = owner.range == IdRange::Unauthenticated;
    let mut select = connection.prepare_cached(&text)?;
    let rows = select.query_map(params![owner.host, is_unauthenticated, CHUNKS_AT_ONCE], read_chunk)?;
    let mut chunks: Vec<OldChunk> = rows.collect::<Sql<_>>()?;
    let mut bytes = 0;
    let enough = chunks.iter().position(|chunk| {
        bytes += chunk.bytes;
        bytes >= excess
    });
    chunks.truncate(enough.map_or(chunks.len(), |at| at + 1));
    drop_chunks(connection, &chunks)?;
    if chunks.is_empty() && is_unauthenticated {
        // What is fresh waits up to an hour for compaction, and a flood would be out of reach for so long.
        return drop_fresh(connection, owner.host);
    }
    Ok(chunks.iter().map(|chunk| chunk.bytes).sum())
}

/// Deletes the oldest fresh intervals of a host that are unauthenticated. Returns how many bytes.
fn drop_fresh(connection: &Connection, host: HostRow) -> Sql<i64> {
    let text = format!(
        "SELECT id, length(cpus) + length(samples) + length(sched) + {INTERVAL_BYTES} FROM interval
         WHERE host_id = ?1 AND {IS_UNAUTHENTICATED} ORDER BY end_wall_ns LIMIT ?2"
    );
    let mut select = connection.prepare_cached(&text)?;
    let rows = select.query_map(params![host, INTERVALS_AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let rows: Vec<(i64, i64)> = rows.collect::<Sql<_>>()?;
    let mut delete = connection.prepare_cached("DELETE FROM interval WHERE id = ?1")?;
    for (id, _) in &rows {
        delete.execute([id])?;
    }
    let intervals = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    count_retired(connection, "intervals", intervals, intervals)?;
    Ok(rows.iter().map(|(_, bytes)| bytes).sum())
}

fn chunks_where(which: &str) -> String {
    format!(
        "SELECT id, host_id, first_end_wall_ns, last_end_wall_ns, intervals, thread_rows, bytes + {CHUNK_BYTES}, {IS_UNAUTHENTICATED}
         FROM chunk WHERE {which}"
    )
}

fn read_chunk(row: &rusqlite::Row<'_>) -> Sql<OldChunk> {
    Ok(OldChunk {
        id: row.get(0)?,
        host: row.get(1)?,
        first_end_wall_ns: row.get(2)?,
        last_end_wall_ns: row.get(3)?,
        intervals: row.get(4)?,
        thread_rows: row.get(5)?,
        bytes: row.get(6)?,
        is_unauthenticated: row.get(7)?,
    })
}

fn drop_chunks(connection: &Connection, chunks: &[OldChunk]) -> Sql<()> {
    if chunks.is_empty() {
        return Ok(());
    }
    keep_last_id(connection, "chunk")?;
    for chunk in chunks {
        connection.prepare_cached("DELETE FROM chunk WHERE id = ?1")?.execute([chunk.id])?;
        connection
            .prepare_cached("DELETE FROM legacy_order WHERE host_id = ?1 AND end_wall_ns BETWEEN ?2 AND ?3")?
            .execute(params![chunk.host, chunk.first_end_wall_ns, chunk.last_end_wall_ns])?;
    }
    for chunk in chunks {
        drop_before_data(connection, chunk)?;
    }
    let sum = |of: fn(&OldChunk) -> i64, which: fn(&&OldChunk) -> bool| {
        chunks.iter().filter(which).map(of).sum::<i64>()
    };
    let intervals = |chunk: &OldChunk| chunk.intervals;
    let rows = |chunk: &OldChunk| chunk.thread_rows;
    count_retired(
        connection,
        "intervals",
        sum(intervals, |_| true),
        sum(intervals, |one| one.is_unauthenticated),
    )?;
    count_retired(connection, "thread_rows", sum(rows, |_| true), sum(rows, |one| one.is_unauthenticated))
}

/// Deletes gaps and lists of processes that are of no use without a chunk that went.
fn drop_before_data(connection: &Connection, gone: &OldChunk) -> Sql<()> {
    // Where trusted and other data of a host were mixed, older chunks may have stayed.
    let oldest: Option<i64> = connection
        .prepare_cached(
            "SELECT first_end_wall_ns FROM chunk WHERE host_id = ?1 ORDER BY last_end_wall_ns LIMIT 1",
        )?
        .query_row([gone.host], |row| row.get(0))
        .optional()?;
    let oldest = oldest.filter(|first| *first < gone.last_end_wall_ns);
    // A gap before the oldest data is no hole in anything.
    connection
        .prepare_cached("DELETE FROM gap WHERE host_id = ?1 AND end_wall_ns < ?2")?
        .execute(params![gone.host, oldest.unwrap_or(gone.first_end_wall_ns)])?;
    // One list before the oldest data stays: who was there then is read from it.
    connection
        .prepare_cached(
            "DELETE FROM process_list WHERE host_id = ?1 AND end_wall_ns <
                 (SELECT max(end_wall_ns) FROM process_list WHERE host_id = ?1 AND end_wall_ns <= ?2)",
        )?
        .execute(params![gone.host, oldest.unwrap_or(gone.last_end_wall_ns)])?;
    Ok(())
}

/// Counts what went: all, and of it what was unauthenticated.
fn count_retired(connection: &Connection, what: &str, all: i64, unauthenticated: i64) -> Sql<()> {
    count(connection, &format!("retired_{what}"), all)?;
    count(connection, &format!("retired_unauthenticated_{what}"), unauthenticated)
}
