//! Lets go of the oldest. In: limits of age and size. Out: deleted chunks, sums and names, counted, and a smaller file.
//! Why: a store that only grows fills the disk.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, params};

use super::Writer;
use super::fold::drop_short;
use crate::error::Result;

/// Chunks let go of in one transaction.
const CHUNKS_AT_ONCE: u32 = 16;
/// Rows of names looked through in one transaction.
const NAMES_AT_ONCE: i64 = 20_000;
/// Free pages (8 KB) that stay in the file for the next intervals; the rest goes back to the file system.
const FREE_PAGES: i64 = 256;
/// Pages given back in one transaction.
const PAGES_AT_ONCE: i64 = 1024;
/// Names and sums are looked through this often.
const SWEEP_EVERY_NS: i64 = 600_000_000_000;
/// A name's `last_s` may be this much older than its last use: an hour, and an hour in which it was not yet sealed.
const LAST_SEEN_SLACK_S: i64 = 2 * 3600;

/// Threads are named by samples only (`?3`: the oldest of them).
const THREAD_RULE: &str = "last_s < ?3 OR last_s < ?4";
/// Blocks of processes likewise; the short-lived ones in them are taken out on their own.
const PROCESS_BLOCK_RULE: &str = "last_s < min(?3, ?4)";
/// Processes are named by sums too (`?4`: the oldest of both), unless they were short-lived. Rows of boot 0 are the stand-ins
/// for short-lived processes in sums.
const PROCESS_RULE: &str = "boot_id <> 0 AND ((is_short AND last_s < ?3) OR last_s < ?4)";

/// Where the sweep over names stands.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    next_ns: i64,
    is_running: bool,
    thread_id: i64,
    process_id: i64,
    pruned_processes: i64,
}

impl Writer {
    /// One step of retention; `false` if there is nothing to do.
    pub(super) fn retain_step(&mut self, now_ns: i64) -> Result<bool> {
        self.begin()?;
        let done = self.retain(now_ns).map_err(|error| self.fail("let go of old data", error))?;
        self.commit()?;
        Ok(done)
    }

    fn retain(&mut self, now_ns: i64) -> rusqlite::Result<bool> {
        let limit = self.options.max_age.map(|age| before(now_ns, age));
        if let Some(limit) = limit
            && drop_chunks(&self.connection, limit)? > 0
        {
            return Ok(true);
        }
        let (used, free) = pages(&self.connection)?;
        if self.options.max_bytes.is_some_and(|max| used > i64::try_from(max).unwrap_or(i64::MAX))
            && self.drop_oldest()?
        {
            return Ok(true);
        }
        if free > FREE_PAGES {
            shrink(&self.connection, (free - FREE_PAGES).min(PAGES_AT_ONCE))?;
            return Ok(true);
        }
        self.sweep(now_ns)
    }

    /// Over the size: the oldest chunks go; without any, the oldest sums.
    fn drop_oldest(&self) -> rusqlite::Result<bool> {
        if drop_chunks(&self.connection, i64::MAX)? > 0 {
            return Ok(true);
        }
        for resolution in ["minute", "hour"] {
            let oldest: Option<i64> = self.connection.query_row(
                &format!("SELECT min({resolution}) FROM host_{resolution}"),
                [],
                |row| row.get(0),
            )?;
            if let Some(oldest) = oldest {
                // A day's worth, so that this ends soon.
                drop_sums(
                    &self.connection,
                    resolution,
                    oldest + if resolution == "minute" { 1440 } else { 24 },
                )?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks for sums that are too old and names that nothing uses, a part at a time.
    fn sweep(&mut self, now_ns: i64) -> rusqlite::Result<bool> {
        if !self.sweep.is_running {
            if now_ns < self.sweep.next_ns {
                return Ok(false);
            }
            let pruned_processes = self.sweep.pruned_processes;
            self.sweep = Sweep { is_running: true, pruned_processes, ..Sweep::default() };
            for (resolution, age, length_ns) in [
                ("minute", self.options.minute_max_age, 60_000_000_000),
                ("hour", self.options.hour_max_age, 3_600_000_000_000),
            ] {
                if let Some(age) = age {
                    drop_sums(&self.connection, resolution, before(now_ns, age).div_euclid(length_ns))?;
                }
            }
        }
        let oldest_s = oldest_sample_s(&self.connection, now_ns)? - LAST_SEEN_SLACK_S;
        let sums_s = oldest_sum_s(&self.connection)?.map_or(oldest_s, |sums| sums.min(oldest_s));
        let (threads, processes) = (self.sweep.thread_id, self.sweep.process_id);
        let old = (oldest_s, sums_s);
        let (connection, level) = (&self.connection, self.options.zstd_level);
        prune(connection, "thread", threads, THREAD_RULE, old)?;
        prune_blocks(connection, "thread", threads, THREAD_RULE, old)?;
        self.sweep.pruned_processes += prune(connection, "process", processes, PROCESS_RULE, old)?
            + prune_blocks(connection, "process", processes, PROCESS_BLOCK_RULE, old)?
            + prune_short(connection, processes, oldest_s, level)?;
        (self.sweep.thread_id, self.sweep.process_id) = (threads + NAMES_AT_ONCE, processes + NAMES_AT_ONCE);
        let last = self.dims.last_ids();
        if last.thread > self.sweep.thread_id.cast_unsigned()
            || last.process > self.sweep.process_id.cast_unsigned()
        {
            return Ok(true);
        }
        self.sweep.is_running = false;
        self.sweep.next_ns = now_ns.saturating_add(SWEEP_EVERY_NS);
        if self.sweep.pruned_processes > 0 {
            self.sweep.pruned_processes = 0;
            self.connection.execute(
                "DELETE FROM process_block_info WHERE first_id NOT IN (SELECT first_id FROM process_block)",
                [],
            )?;
            self.connection.execute(
                "DELETE FROM process_info WHERE id NOT IN
                     (SELECT info_id FROM process UNION ALL SELECT info_id FROM process_block_info)",
                [],
            )?;
            self.dims.forget_infos();
        }
        Ok(false)
    }
}

fn before(now_ns: i64, age: Duration) -> i64 {
    now_ns.saturating_sub(i64::try_from(age.as_nanos()).unwrap_or(i64::MAX))
}

/// Bytes in use, and free pages.
fn pages(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let number = |text: &str| connection.prepare_cached(text)?.query_row([], |row| row.get::<_, i64>(0));
    let (count, free) = (number("PRAGMA page_count")?, number("PRAGMA freelist_count")?);
    Ok(((count - free).saturating_mul(number("PRAGMA page_size")?), free))
}

/// Cuts free pages off the file.
fn shrink(connection: &Connection, pages: i64) -> rusqlite::Result<()> {
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Adds to a count over the life of the store.
fn count(connection: &Connection, name: &str, by: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO counter VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = value + excluded.value",
        )?
        .execute(params![name, by])?;
    Ok(())
}

/// Deletes the oldest chunks that were received before `limit_ns`; gives how many.
fn drop_chunks(connection: &Connection, limit_ns: i64) -> rusqlite::Result<usize> {
    let mut select = connection.prepare_cached(
        "SELECT id, host_id, first_end_wall_ns, last_end_wall_ns, intervals, thread_rows FROM chunk
         WHERE last_received_wall_ns < ?1 ORDER BY last_received_wall_ns LIMIT ?2",
    )?;
    let rows = select.query_map(params![limit_ns, CHUNKS_AT_ONCE], |row| {
        Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get::<_, i64>(5)?])
    })?;
    let chunks: Vec<[i64; 6]> = rows.collect::<rusqlite::Result<_>>()?;
    let (mut intervals, mut thread_rows) = (0, 0);
    for [id, host_id, first, last, chunk_intervals, chunk_rows] in &chunks {
        connection.prepare_cached("DELETE FROM chunk WHERE id = ?1")?.execute([id])?;
        connection
            .prepare_cached("DELETE FROM legacy_order WHERE host_id = ?1 AND end_wall_ns BETWEEN ?2 AND ?3")?
            .execute([host_id, first, last])?;
        connection
            .prepare_cached("DELETE FROM gap WHERE host_id = ?1 AND end_wall_ns < ?2")?
            .execute([host_id, first])?;
        intervals += chunk_intervals;
        thread_rows += chunk_rows;
    }
    if !chunks.is_empty() {
        count(connection, "retired_intervals", intervals)?;
        count(connection, "retired_thread_rows", thread_rows)?;
    }
    Ok(chunks.len())
}

/// Deletes sums of buckets below `limit`.
fn drop_sums(connection: &Connection, resolution: &str, limit: i64) -> rusqlite::Result<()> {
    let mut hosts = connection.prepare_cached("SELECT id FROM host")?;
    let ids: Vec<i64> = hosts.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for table in [format!("host_{resolution}"), format!("process_{resolution}")] {
        let mut delete = connection
            .prepare_cached(&format!("DELETE FROM {table} WHERE host_id = ?1 AND {resolution} < ?2"))?;
        let mut gone = 0;
        for id in &ids {
            gone += delete.execute(params![id, limit])?;
        }
        if gone > 0 {
            count(connection, &format!("retired_{table}_rows"), i64::try_from(gone).unwrap_or(i64::MAX))?;
        }
    }
    Ok(())
}

/// Receipt of the oldest interval that is kept, s since the epoch; now if there is none.
fn oldest_sample_s(connection: &Connection, now_ns: i64) -> rusqlite::Result<i64> {
    // A chunk's last receipt can be this much after its first: the time it took to fill, bounded by the age of partial ones.
    const CHUNK_SLACK_NS: i64 = 24 * 3_600_000_000_000;
    let compacted: Option<i64> = connection
        .prepare_cached("SELECT min(last_received_wall_ns) FROM chunk")?
        .query_row([], |row| row.get(0))?;
    Ok(compacted.map_or(now_ns, |oldest| oldest.min(now_ns)).saturating_sub(CHUNK_SLACK_NS) / 1_000_000_000)
}

/// Begin of the oldest sum that is kept, s since the epoch on its host's clock; `None` if there is none.
fn oldest_sum_s(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let oldest = |text: &str, length_s: i64| -> rusqlite::Result<Option<i64>> {
        let found: Option<i64> =
            connection.prepare_cached(text)?.query_row([], |row| row.get(0)).optional()?.flatten();
        Ok(found.map(|bucket| bucket.saturating_mul(length_s)))
    };
    let minutes = oldest("SELECT min(minute) FROM host_minute", 60)?;
    let hours = oldest("SELECT min(hour) FROM host_hour", 3600)?;
    Ok(minutes.into_iter().chain(hours).min())
}

/// When the oldest sample was received and when the oldest sum begins, s since the epoch.
type Old = (i64, i64);

/// Deletes names that nothing uses among the ids after `from`: how many went.
fn prune(connection: &Connection, table: &str, from: i64, rule: &str, old: Old) -> rusqlite::Result<i64> {
    let text = format!("DELETE FROM {table} WHERE id > ?1 AND id <= ?2 AND ({rule})");
    let gone =
        connection.prepare_cached(&text)?.execute(params![from, from + NAMES_AT_ONCE, old.0, old.1])?;
    count_names(connection, table, i64::try_from(gone).unwrap_or(i64::MAX))
}

/// [`prune`] for whole blocks.
fn prune_blocks(
    connection: &Connection,
    table: &str,
    from: i64,
    rule: &str,
    old: Old,
) -> rusqlite::Result<i64> {
    let wanted = format!("first_id > ?1 AND first_id <= ?2 AND ({rule})");
    let range = params![from, from + NAMES_AT_ONCE, old.0, old.1];
    let gone: i64 = connection
        .prepare_cached(&format!("SELECT coalesce(sum(count), 0) FROM {table}_block WHERE {wanted}"))?
        .query_row(range, |row| row.get(0))?;
    connection.prepare_cached(&format!("DELETE FROM {table}_block WHERE {wanted}"))?.execute(range)?;
    count_names(connection, table, gone)
}

/// Takes the short-lived processes out of blocks that only sums still need.
fn prune_short(connection: &Connection, from: i64, oldest_s: i64, level: i32) -> rusqlite::Result<i64> {
    let mut select = connection.prepare_cached(
        "SELECT first_id FROM process_block WHERE first_id > ?1 AND first_id <= ?2 AND has_short AND last_s < ?3",
    )?;
    let rows = select.query_map(params![from, from + NAMES_AT_ONCE, oldest_s], |row| row.get::<_, i64>(0))?;
    let blocks: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
    let mut gone = 0;
    for first_id in blocks {
        gone += drop_short(connection, first_id.cast_unsigned(), level)?;
    }
    count_names(connection, "process", gone)
}

/// Counts names that went.
fn count_names(connection: &Connection, table: &str, gone: i64) -> rusqlite::Result<i64> {
    if gone > 0 {
        count(connection, &format!("retired_{table}_names"), gone)?;
    }
    Ok(gone)
}

/// Steps of retention until there is nothing to do or `budget` has passed since `begin`.
pub(super) fn retain_for(writer: &mut Writer, begin: Instant, budget: Duration, now_ns: i64) -> Result<()> {
    while begin.elapsed() < budget && writer.retain_step(now_ns)? {}
    Ok(())
}
