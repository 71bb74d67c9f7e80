//! Deletes rows with all that depends on them: chunks, sums, hosts, the names of unauthenticated hosts. A call deletes no more than fits
//! into one transaction, so that storing never waits long for it.

use rusqlite::{Connection, Result as Sql, Row, params};

use super::naming::TaskIds;
use crate::rows::{HostRow, IdRange, all_rows, count, execute, find_row, first, keep_last_id, signed, value};
use crate::sums::Resolution;

/// Chunks deleted in one transaction.
const CHUNKS_AT_ONCE: usize = 16;
/// Fresh intervals deleted in one transaction.
const INTERVALS_AT_ONCE: usize = 256;

/// About how many bytes a row of `interval` takes, with its indexes, beside its blobs.
pub(super) const INTERVAL_BYTES: i64 = 400;
/// About how many bytes a row of `chunk` takes.
pub(super) const CHUNK_BYTES: i64 = 250;

/// SQL: 1 where a row of `chunk` or `interval` is unauthenticated. Rows before version 10 are as their host is now.
pub(super) const IS_UNAUTHENTICATED: &str = "iif(trust = 0,
    coalesce((SELECT host.trust = 'unauthenticated' FROM host WHERE host.id = host_id), 1), trust = 1)";

/// Samples of one host that came in with trust, or without.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SampleOwner {
    pub(super) range: IdRange,
    pub(super) host: HostRow,
}

/// Deletes about `limit` rows of those that meet a condition on `?1`, the lowest keys first. Returns whether there are more.
fn delete_some(
    connection: &Connection,
    [table, key, which]: [&str; 3],
    value: i64,
    limit: usize,
) -> Sql<bool> {
    let text = format!("SELECT {key} FROM {table} WHERE {which} ORDER BY {key} LIMIT 1 OFFSET ?2");
    let next: Option<i64> = find_row(connection, &text, params![value, signed(limit)], first)?;
    let text = format!("DELETE FROM {table} WHERE {which} AND {key} <= ?2");
    execute(connection, &text, [value, next.unwrap_or(i64::MAX)])?;
    Ok(next.is_some())
}

/// Tables with much data of a host, by which column it is deleted, and about how many rows at once.
const TABLES_OF_A_HOST: [(&str, &str, usize); 9] = [
    ("chunk", "last_received_wall_ns", CHUNKS_AT_ONCE),
    ("interval", "end_wall_ns", INTERVALS_AT_ONCE),
    ("process_minute", "minute", 5_000),
    ("process_hour", "hour", 5_000),
    ("thread_hour", "hour", 5_000),
    ("host_minute", "minute", 5_000),
    ("host_hour", "hour", 5_000),
    ("legacy_order", "end_wall_ns", 500),
    ("process_list", "end_wall_ns", 100),
];

/// Deletes some data of a host, or the host itself when there is none left. Returns whether the host is gone. Its names go later, by
/// [`Purge`](super::sweep::Purge).
pub(super) fn delete_host(connection: &Connection, host: HostRow) -> Sql<bool> {
    keep_last_id(connection, "chunk")?;
    for (table, key, limit) in TABLES_OF_A_HOST {
        if delete_some(connection, [table, key, "host_id = ?1"], host.0, limit)? {
            return Ok(false);
        }
    }
    for table in ["boot", "host", "trace"] {
        keep_last_id(connection, table)?;
    }
    for text in [
        "DELETE FROM gap WHERE host_id = ?1",
        // The receiver deletes their files at its next tidying.
        "DELETE FROM trace WHERE host_id = ?1",
        "DELETE FROM host_change WHERE host_id = ?1",
        "DELETE FROM clock_piece WHERE boot_id IN (SELECT id FROM boot WHERE host_id = ?1)",
        "DELETE FROM boot WHERE host_id = ?1",
        "DELETE FROM host WHERE id = ?1",
    ] {
        execute(connection, text, [host])?;
    }
    Ok(true)
}

/// An unauthenticated host without samples.
pub(super) fn empty_host(connection: &Connection) -> Sql<Option<HostRow>> {
    let text = "SELECT id FROM host WHERE trust = 'unauthenticated'
                    AND NOT EXISTS (SELECT 1 FROM interval WHERE host_id = host.id)
                    AND NOT EXISTS (SELECT 1 FROM chunk WHERE host_id = host.id) LIMIT 1";
    find_row(connection, text, [], first)
}

/// All names of unauthenticated hosts that were given until the wipe began. What comes in meanwhile gets higher ids.
#[derive(Copy, Clone, Debug)]
pub(super) struct Wipe {
    pub(super) names: TaskIds,
    /// The last id of a description.
    pub(super) info: i64,
}

impl Wipe {
    /// Deletes some names. Returns whether all are gone.
    pub(super) fn step(&self, connection: &Connection) -> Sql<bool> {
        let (thread, process) = (self.names.thread.cast_signed(), self.names.process.cast_signed());
        // Blocks hold a thousand names.
        for (table, [first, last], up_to, limit) in [
            ("thread", ["id", "id"], thread, 10_000),
            ("thread_block", ["first_id", "last_id"], thread, 64),
            ("process", ["id", "id"], process, 10_000),
            ("process_block", ["first_id", "last_id"], process, 64),
            ("short_lived", ["info_id", "info_id"], self.info, 10_000),
            ("process_info", ["id", "id"], self.info, 10_000),
        ] {
            let which = format!("{first} > {} AND {last} <= ?1", IdRange::Unauthenticated.after());
            if delete_some(connection, [table, first, &which], up_to, limit)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

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

impl OldChunk {
    fn read(row: &Row<'_>) -> Sql<Self> {
        Ok(Self {
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
}

fn oldest_chunks(which: &str) -> String {
    format!(
        "SELECT id, host_id, first_end_wall_ns, last_end_wall_ns, intervals, thread_rows, bytes + {CHUNK_BYTES}, {IS_UNAUTHENTICATED}
         FROM chunk WHERE {which} ORDER BY last_received_wall_ns LIMIT {CHUNKS_AT_ONCE}"
    )
}

/// Deletes the oldest chunks that were received before `limit_ns`. Returns whether there were any.
pub(super) fn delete_older(connection: &Connection, limit_ns: i64) -> Sql<bool> {
    // By receipt, not by end: the clock of a device may be decades off, and its data would go at once or never.
    let text = oldest_chunks("last_received_wall_ns < ?1");
    let chunks = all_rows(connection, &text, [limit_ns], OldChunk::read)?;
    delete_chunks(connection, &chunks)?;
    Ok(!chunks.is_empty())
}

/// Deletes the oldest samples of an owner: about `excess` bytes, but not many at once. Returns the number of deleted bytes; 0: there are
/// no samples, or of a trusted host only fresh ones.
pub(super) fn delete_oldest_of(connection: &Connection, owner: SampleOwner, excess: i64) -> Sql<i64> {
    let is_unauthenticated = owner.range == IdRange::Unauthenticated;
    let text = oldest_chunks(&format!("host_id = ?1 AND {IS_UNAUTHENTICATED} = ?2"));
    let mut chunks = all_rows(connection, &text, params![owner.host, is_unauthenticated], OldChunk::read)?;
    if chunks.is_empty() && is_unauthenticated {
        // Fresh intervals wait up to an hour for compaction, and a flood would be out of reach for so long.
        return delete_fresh(connection, owner.host);
    }
    let mut bytes = 0;
    let needed = chunks.iter().take_while(|chunk| {
        let is_needed = bytes < excess;
        bytes += if is_needed { chunk.bytes } else { 0 };
        is_needed
    });
    let needed = needed.count();
    chunks.truncate(needed);
    delete_chunks(connection, &chunks)?;
    Ok(bytes)
}

/// Deletes the oldest fresh intervals of a host that are unauthenticated. Returns how many bytes.
fn delete_fresh(connection: &Connection, host: HostRow) -> Sql<i64> {
    let text = format!(
        "SELECT id, length(cpus) + length(samples) + length(sched) + {INTERVAL_BYTES} FROM interval
         WHERE host_id = ?1 AND {IS_UNAUTHENTICATED} ORDER BY end_wall_ns LIMIT {INTERVALS_AT_ONCE}"
    );
    let rows: Vec<(i64, i64)> = all_rows(connection, &text, [host], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (id, _) in &rows {
        execute(connection, "DELETE FROM interval WHERE id = ?1", [id])?;
    }
    let intervals = signed(rows.len());
    count_retired(connection, "intervals", [intervals, intervals])?;
    Ok(rows.iter().map(|(_, bytes)| bytes).sum())
}

fn delete_chunks(connection: &Connection, chunks: &[OldChunk]) -> Sql<()> {
    if chunks.is_empty() {
        return Ok(());
    }
    keep_last_id(connection, "chunk")?;
    let (mut intervals, mut rows) = ([0; 2], [0; 2]);
    for chunk in chunks {
        execute(connection, "DELETE FROM chunk WHERE id = ?1", [chunk.id])?;
        let text = "DELETE FROM legacy_order WHERE host_id = ?1 AND end_wall_ns BETWEEN ?2 AND ?3";
        execute(connection, text, params![chunk.host, chunk.first_end_wall_ns, chunk.last_end_wall_ns])?;
        let is_unauthenticated = i64::from(chunk.is_unauthenticated);
        for (sums, more) in [(&mut intervals, chunk.intervals), (&mut rows, chunk.thread_rows)] {
            sums[0] += more;
            sums[1] += more * is_unauthenticated;
        }
    }
    for chunk in chunks {
        delete_before_data(connection, chunk)?;
    }
    count_retired(connection, "intervals", intervals)?;
    count_retired(connection, "thread_rows", rows)
}

/// Deletes gaps and lists of processes that are of no use without a chunk that went.
fn delete_before_data(connection: &Connection, gone: &OldChunk) -> Sql<()> {
    // Where trusted and other data of a host were mixed, older chunks may have stayed.
    let text = "SELECT first_end_wall_ns FROM chunk WHERE host_id = ?1 ORDER BY last_end_wall_ns LIMIT 1";
    let oldest: Option<i64> = find_row(connection, text, [gone.host], first)?;
    let oldest = oldest.filter(|first| *first < gone.last_end_wall_ns);
    // A gap before the oldest data is no hole in anything.
    let text = "DELETE FROM gap WHERE host_id = ?1 AND end_wall_ns < ?2";
    execute(connection, text, params![gone.host, oldest.unwrap_or(gone.first_end_wall_ns)])?;
    // One list before the oldest data stays: who was there then is read from it.
    let text = "DELETE FROM process_list WHERE host_id = ?1 AND end_wall_ns <
                    (SELECT max(end_wall_ns) FROM process_list WHERE host_id = ?1 AND end_wall_ns <= ?2)";
    execute(connection, text, params![gone.host, oldest.unwrap_or(gone.last_end_wall_ns)]).map(drop)
}

/// Counts all deleted items, and the unauthenticated ones apart.
fn count_retired(connection: &Connection, what: &str, [all, unauthenticated]: [i64; 2]) -> Sql<()> {
    count(connection, &format!("retired_{what}"), all)?;
    count(connection, &format!("retired_unauthenticated_{what}"), unauthenticated)
}

/// Deletes the oldest sums of all hosts. Returns whether there were any.
pub(super) fn delete_oldest_sums(connection: &Connection) -> Sql<bool> {
    for resolution in Resolution::ALL {
        let name = resolution.name();
        let oldest: Option<i64> = value(connection, &format!("SELECT min({name}) FROM host_{name}"), [])?;
        if let Some(oldest) = oldest {
            // A day's worth at once: bucket by bucket, a full disk would stay full for thousands of steps.
            let day = 86_400_000_000_000 / resolution.length_ns();
            delete_sums(connection, resolution, oldest + day, i64::MAX)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes sums of buckets below `limit`, but none from the oldest chunk on that was received at `received_ns` or later.
pub(super) fn delete_sums(
    connection: &Connection,
    resolution: Resolution,
    limit: i64,
    received_ns: i64,
) -> Sql<()> {
    let name = resolution.name();
    let mut limits = Vec::new();
    for id in all_rows::<i64>(connection, "SELECT id FROM host", [], first)? {
        let oldest = oldest_bucket(connection, id, resolution, [limit, received_ns])?;
        limits.push([id, oldest.map_or(limit, |oldest| oldest.min(limit))]);
    }
    let of_threads = (resolution == Resolution::Hour).then(|| "thread_hour".to_owned());
    for table in [format!("host_{name}"), format!("process_{name}")].into_iter().chain(of_threads) {
        // Host by host, because the primary keys begin with the host: without it each deletion would read the whole table.
        let text = format!("DELETE FROM {table} WHERE host_id = ?1 AND {name} < ?2");
        let mut gone = 0;
        for id_and_limit in &limits {
            gone += execute(connection, &text, *id_and_limit)?;
        }
        count(connection, &format!("retired_{table}_rows"), signed(gone))?;
    }
    Ok(())
}

/// The first bucket of a host's oldest chunk of those that end below a bucket and were received at `received_ns` or later: the clock of a
/// device, or of a recording, may be decades behind.
fn oldest_bucket(
    connection: &Connection,
    host: i64,
    resolution: Resolution,
    [limit, received_ns]: [i64; 2],
) -> Sql<Option<i64>> {
    let text = "SELECT first_end_wall_ns FROM chunk INDEXED BY chunk_time
                WHERE host_id = ?1 AND last_end_wall_ns < ?2 AND last_received_wall_ns >= ?3
                ORDER BY last_end_wall_ns LIMIT 1";
    let length_ns = resolution.length_ns();
    let values = [host, limit.saturating_mul(length_ns), received_ns];
    let end_ns: Option<i64> = find_row(connection, text, values, first)?;
    // The interval may have begun in the bucket before.
    Ok(end_ns.map(|end_ns| end_ns.div_euclid(length_ns) - 1))
}
