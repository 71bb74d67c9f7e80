//! What hosts take of a store, and the deletion of the oldest samples: by age of all hosts, by size of one. This machine, enrolled hosts
//! and the group have at least half of the store before anything of theirs goes; within each half the host that has most goes first.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Result as Sql, params};

use crate::rows::{HostRow, IdRange, count, keep_last_id, signed};

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
    let intervals = signed(rows.len());
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

/// About what a row of `thread` takes, bytes.
const THREAD_BYTES: i64 = 48;
/// Of `process`.
const PROCESS_BYTES: i64 = 56;
/// Of `process_info`, beside its texts.
const INFO_BYTES: i64 = 40;
/// Of `process_minute` or `process_hour`.
const PROCESS_SUM_BYTES: i64 = 64;
/// Of `thread_hour`.
const THREAD_SUM_BYTES: i64 = 80;
/// Of `host_minute` or `host_hour`, beside its control groups.
const HOST_SUM_BYTES: i64 = 130;
/// Of `boot`, with a description of the host, a gap and their indexes.
const BOOT_BYTES: i64 = 500;
/// Of `process_list`, beside its blobs.
const LIST_BYTES: i64 = 60;
/// Of `interval`, with its indexes, beside its blobs.
pub(super) const INTERVAL_BYTES: i64 = 400;
/// Of `chunk`, likewise.
pub(super) const CHUNK_BYTES: i64 = 250;
/// Time until samples are counted again, for each chunk or fresh interval that was counted: data comes in meanwhile, and 100,000 of
/// them are counted every second.
const SAMPLES_NS_A_ROW: i64 = 10_000;
/// The same for everything else: a million rows are counted every 36 s.
const OTHERS_NS_A_ROW: i64 = 36_000;

/// Samples of one host that came in with trust, or without.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) range: IdRange,
    pub(super) host: HostRow,
}

/// Bytes that were counted.
#[derive(Debug, Default)]
pub(super) struct Usage {
    samples: BTreeMap<Owner, i64>,
    samples_counted_ns: i64,
    samples_next_ns: i64,
    /// Of all unauthenticated hosts: names, and everything else but samples.
    names: Rows,
    rest: Rows,
    others_next_ns: i64,
}

/// Rows and about how many bytes they take.
#[derive(Copy, Clone, Debug, Default)]
struct Rows {
    rows: i64,
    bytes: i64,
}

/// SQL: 1 where a row of `chunk` or `interval` is unauthenticated. Rows before version 10 are as their host is now.
pub(super) const IS_UNAUTHENTICATED: &str = "iif(trust = 0,
    coalesce((SELECT host.trust = 'unauthenticated' FROM host WHERE host.id = host_id), 1), trust = 1)";

impl Usage {
    /// Counts what is in the file, if that was not done lately.
    pub(super) fn refresh(&mut self, connection: &Connection, now_ns: i64) -> Sql<()> {
        if now_ns >= self.samples_next_ns {
            self.count_samples(connection, now_ns)?;
        }
        if now_ns >= self.others_next_ns {
            self.names = unauthenticated_names(connection)?;
            self.rest = unauthenticated_rest(connection)?;
            let rows = self.names.rows + self.rest.rows;
            self.others_next_ns = now_ns.saturating_add(rows.saturating_mul(OTHERS_NS_A_ROW));
        }
        Ok(())
    }

    /// Counts samples, unless that was done at the same time: between two steps no data comes in.
    pub(super) fn count_samples(&mut self, connection: &Connection, now_ns: i64) -> Sql<()> {
        if now_ns == self.samples_counted_ns {
            return Ok(());
        }
        let counted = samples(connection)?;
        let rows: i64 = counted.iter().map(|(_, counted)| counted.rows).sum();
        self.samples = counted.into_iter().map(|(owner, counted)| (owner, counted.bytes)).collect();
        self.samples_counted_ns = now_ns;
        self.samples_next_ns = now_ns.saturating_add(rows.saturating_mul(SAMPLES_NS_A_ROW));
        Ok(())
    }

    fn samples_of(&self, range: IdRange) -> i64 {
        self.samples.iter().filter(|(owner, _)| owner.range == range).map(|(_, bytes)| bytes).sum()
    }

    /// Whose data goes next: that of unauthenticated hosts as long as it is more than the samples of all others.
    pub(super) fn who_pays(&self) -> IdRange {
        let others = self.names.bytes + self.rest.bytes;
        let is_more = self.samples_of(IdRange::Unauthenticated) + others > self.samples_of(IdRange::Trusted);
        if is_more { IdRange::Unauthenticated } else { IdRange::Trusted }
    }

    /// Whether unauthenticated hosts have names.
    pub(super) fn has_unauthenticated_names(&self) -> bool {
        self.names.rows > 0
    }

    /// Who has most samples of a range.
    pub(super) fn largest(&self, range: IdRange) -> Option<Owner> {
        let owners = self.samples.iter().filter(|(owner, _)| owner.range == range);
        owners.max_by_key(|(_, bytes)| **bytes).map(|(owner, _)| *owner)
    }

    /// Bytes of samples were deleted; 0: there are none to delete.
    pub(super) fn freed(&mut self, owner: Owner, bytes: i64) {
        let left = self.samples.get(&owner).map_or(0, |had| had - bytes);
        if bytes > 0 && left > 0 {
            self.samples.insert(owner, left);
        } else {
            self.samples.remove(&owner);
        }
    }
}

/// Samples by owner.
fn samples(connection: &Connection) -> Sql<Vec<(Owner, Rows)>> {
    let mut select = connection.prepare_cached(&samples_query())?;
    let rows = select.query_map([], |row| {
        let range = if row.get(1)? { IdRange::Unauthenticated } else { IdRange::Trusted };
        Ok((Owner { range, host: row.get(0)? }, Rows { rows: row.get(2)?, bytes: row.get(3)? }))
    })?;
    rows.collect()
}

fn samples_query() -> String {
    format!(
        "SELECT host_id, unauthenticated, count(*), sum(bytes) FROM (
             SELECT host_id, {IS_UNAUTHENTICATED} AS unauthenticated, bytes + {CHUNK_BYTES} AS bytes
             FROM chunk INDEXED BY chunk_host
             UNION ALL
             SELECT host_id, {IS_UNAUTHENTICATED}, length(cpus) + length(samples) + length(sched) + {INTERVAL_BYTES}
             FROM interval)
         GROUP BY 1, 2"
    )
}

/// About what the names of unauthenticated hosts take.
fn unauthenticated_names(connection: &Connection) -> Sql<Rows> {
    let of = |table: &str, key: &str, bytes: &str| {
        let text = format!("SELECT count(*), coalesce(sum({bytes}), 0) FROM {table} WHERE {key} > ?1");
        connection.prepare_cached(&text)?.query_row([IdRange::Unauthenticated.after()], |row| {
            Ok(Rows { rows: row.get(0)?, bytes: row.get(1)? })
        })
    };
    let texts = ["name", "interpreter", "comm", "cmdline", "cgroup", "container", "user", "product"]
        .map(|text| format!("octet_length({text})"));
    let parts = [
        of("thread", "id", &THREAD_BYTES.to_string())?,
        of("process", "id", &PROCESS_BYTES.to_string())?,
        of("thread_block", "first_id", "length(names)")?,
        of("process_block", "first_id", "length(names)")?,
        of("process_info", "id", &format!("{INFO_BYTES} + {}", texts.join(" + ")))?,
    ];
    Ok(sum(&parts))
}

/// About what unauthenticated hosts take beside samples and names.
fn unauthenticated_rest(connection: &Connection) -> Sql<Rows> {
    let of = |table: &str, bytes: &str| -> Sql<Rows> {
        let text = format!(
            "SELECT count(*), coalesce(sum({bytes}), 0) FROM host CROSS JOIN {table} ON {table}.host_id = host.id
             WHERE host.trust = 'unauthenticated'"
        );
        let read = |row: &rusqlite::Row<'_>| Ok(Rows { rows: row.get(0)?, bytes: row.get(1)? });
        connection.prepare_cached(&text)?.query_row([], read)
    };
    // Paths of control groups are as long as their sender likes.
    let host_sum = format!("coalesce(length(cgroups), 0) + {HOST_SUM_BYTES}");
    Ok(sum(&[
        of("process_minute", &PROCESS_SUM_BYTES.to_string())?,
        of("process_hour", &PROCESS_SUM_BYTES.to_string())?,
        of("thread_hour", &THREAD_SUM_BYTES.to_string())?,
        of("host_minute", &host_sum)?,
        of("host_hour", &host_sum)?,
        of("boot", &BOOT_BYTES.to_string())?,
        of("process_list", &format!("length(processes) + coalesce(length(resting), 0) + {LIST_BYTES}"))?,
    ]))
}

fn sum(parts: &[Rows]) -> Rows {
    parts
        .iter()
        .fold(Rows::default(), |sum, part| Rows { rows: sum.rows + part.rows, bytes: sum.bytes + part.bytes })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::schema::prepare_writer;

    #[test]
    fn chunks_are_counted_by_the_index_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        prepare_writer(&mut connection, Path::new(":memory:"), false).unwrap();
        let root: i64 = connection
            .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'chunk'", [], |row| row.get(0))
            .unwrap();
        let mut explain = connection.prepare(&format!("EXPLAIN {}", samples_query())).unwrap();
        let steps = explain
            .query_map([], |row| Ok((row.get::<_, String>("opcode")?, [row.get("p1")?, row.get("p2")?])))
            .unwrap();
        let steps: Vec<(String, [i64; 2])> = steps.map(Result::unwrap).collect();
        let opened = steps.iter().find(|(step, [_, page])| step == "OpenRead" && *page == root);
        let table = opened.map(|(_, [cursor, _])| *cursor).unwrap();
        let reads = |cursor: i64| {
            steps.iter().filter(|(step, [from, _])| step == "Column" && *from == cursor).count()
        };
        // A store of 20 GB has 200,000 chunks, and a row of one is 1 KB before its first overflow page. SQLite opens the table, but
        // takes all columns, the computed one too, from the index, whose cursor comes later.
        assert_eq!(reads(table), 0, "{steps:?}");
        assert!((table + 1..table + 9).any(|cursor| reads(cursor) > 2), "{steps:?}");
    }
}
