//! Retention: deletes the oldest data by age and size, counts what went, and gives free pages back to the file system. It
//! works in small steps, one transaction each, so that storing never waits long for it.

use std::time::Duration;

use rusqlite::{Connection, Result as Sql, params};

use super::merge_names::drop_short_lived;
use super::naming::LastIds;
use super::transaction::Transaction;
use crate::options::StoreOptions;
use crate::sums::Resolution;

/// Chunks deleted in one transaction.
const CHUNKS_AT_ONCE: u32 = 16;
/// Ids of names checked in one transaction.
const NAMES_AT_ONCE: i64 = 20_000;
/// Free pages (8 KB) that stay in the file for the next intervals; the rest goes back to the file system.
const FREE_PAGES: i64 = 256;
/// Pages given back in one transaction.
const PAGES_AT_ONCE: i64 = 1024;
/// Time from the end of one sweep over names and sums to the begin of the next.
const SWEEP_EVERY_NS: i64 = 600_000_000_000;
/// A name's `last_s` may be this much older than its last use: it is moved on once an hour, at compaction, and intervals may
/// wait an hour for that.
const LAST_SEEN_SLACK_S: i64 = 2 * 3600;

/// Threads are named by samples only (`?3`: the oldest of them).
const THREAD_RULE: &str = "last_s < ?3 OR last_s < ?4";
/// Blocks of processes likewise; the short-lived ones in them are taken out on their own.
const PROCESS_BLOCK_RULE: &str = "last_s < min(?3, ?4)";
/// Processes are named by sums too (`?4`: the oldest of both), unless they were short-lived. Rows of boot 0 represent the
/// short-lived processes in sums, and have no `last_s`.
const PROCESS_RULE: &str = "boot_id <> 0 AND ((is_short AND last_s < ?3) OR last_s < ?4)";

/// Progress of the sweep over names.
#[derive(Copy, Clone, Debug, Default)]
struct Sweep {
    next_ns: i64,
    is_running: bool,
    thread_id: i64,
    process_id: i64,
    pruned_processes: i64,
}

/// What a step of retention did.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Something, and there may be more to do.
    Continue,
    /// There is nothing to do now.
    Done,
    /// Likewise, and rows of `process_info` went: their ids must not be used any more.
    DoneInfosGone,
}

/// Limits of a store by age and size, and how far they were applied.
#[derive(Debug)]
pub(super) struct Retention {
    max_age: Option<Duration>,
    minute_max_age: Option<Duration>,
    hour_max_age: Option<Duration>,
    max_bytes: Option<i64>,
    zstd_level: i32,
    sweep: Sweep,
}

impl Retention {
    pub(super) fn new(options: &StoreOptions) -> Self {
        Self {
            max_age: options.max_age,
            minute_max_age: options.minute_max_age,
            hour_max_age: options.hour_max_age,
            max_bytes: options.max_bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
            zstd_level: options.zstd_level,
            sweep: Sweep::default(),
        }
    }

    /// One step, at `now_ns` on this machine's clock.
    pub(super) fn step(&mut self, transaction: &Transaction<'_>, last: LastIds, now_ns: i64) -> Sql<Step> {
        let limit = self.max_age.map(|age| before(now_ns, age));
        if let Some(limit) = limit
            && drop_chunks(transaction, limit)? > 0
        {
            return Ok(Step::Continue);
        }
        // Free pages do not count: data is deleted first and the file shrinks afterwards, or each step would delete more.
        let pages = Pages::read(transaction)?;
        if self.max_bytes.is_some_and(|max| pages.used_bytes > max) && drop_oldest(transaction)? {
            return Ok(Step::Continue);
        }
        // Returned in small steps, because each moves pages within the file, and the writer waits meanwhile.
        if pages.free > FREE_PAGES {
            shrink(transaction, (pages.free - FREE_PAGES).min(PAGES_AT_ONCE))?;
            return Ok(Step::Continue);
        }
        self.sweep(transaction, last, now_ns)
    }

    /// Deletes sums that are too old and names that nothing uses, a range of ids at a time.
    fn sweep(&mut self, transaction: &Transaction<'_>, last: LastIds, now_ns: i64) -> Sql<Step> {
        if !self.sweep.is_running {
            if now_ns < self.sweep.next_ns {
                return Ok(Step::Done);
            }
            self.sweep =
                Sweep { is_running: true, pruned_processes: self.sweep.pruned_processes, ..Sweep::default() };
            self.drop_old_sums(transaction, now_ns)?;
        }
        self.prune_names(transaction, now_ns)?;
        if last.thread > self.sweep.thread_id.cast_unsigned()
            || last.process > self.sweep.process_id.cast_unsigned()
        {
            return Ok(Step::Continue);
        }
        self.sweep.is_running = false;
        self.sweep.next_ns = now_ns.saturating_add(SWEEP_EVERY_NS);
        if std::mem::take(&mut self.sweep.pruned_processes) == 0 {
            return Ok(Step::Done);
        }
        // Both deletions read whole tables, so they run only after processes went.
        transaction.execute(
            "DELETE FROM process_block_info WHERE first_id NOT IN (SELECT first_id FROM process_block)",
            [],
        )?;
        transaction.execute(
            "DELETE FROM process_info WHERE id NOT IN
                 (SELECT info_id FROM process UNION ALL SELECT info_id FROM process_block_info)",
            [],
        )?;
        Ok(Step::DoneInfosGone)
    }

    fn drop_old_sums(&self, connection: &Connection, now_ns: i64) -> Sql<()> {
        for (resolution, age) in
            [(Resolution::Minute, self.minute_max_age), (Resolution::Hour, self.hour_max_age)]
        {
            if let Some(age) = age {
                let limit = before(now_ns, age).div_euclid(resolution.length_ns());
                drop_sums(connection, resolution, limit)?;
            }
        }
        Ok(())
    }

    /// Deletes unused names of the next range of ids.
    fn prune_names(&mut self, connection: &Connection, now_ns: i64) -> Sql<()> {
        let samples_s = oldest_sample_s(connection, now_ns)? - LAST_SEEN_SLACK_S;
        let sums_s = oldest_sum_s(connection)?.map_or(samples_s, |sums| sums.min(samples_s));
        let oldest = Oldest { samples_s, sums_s };
        let (threads, processes) = (self.sweep.thread_id, self.sweep.process_id);
        prune(connection, "thread", threads, THREAD_RULE, oldest)?;
        prune_blocks(connection, "thread", threads, THREAD_RULE, oldest)?;
        self.sweep.pruned_processes += prune(connection, "process", processes, PROCESS_RULE, oldest)?
            + prune_blocks(connection, "process", processes, PROCESS_BLOCK_RULE, oldest)?
            + prune_short_lived(connection, processes, samples_s, self.zstd_level)?;
        (self.sweep.thread_id, self.sweep.process_id) = (threads + NAMES_AT_ONCE, processes + NAMES_AT_ONCE);
        Ok(())
    }
}

fn before(now_ns: i64, age: Duration) -> i64 {
    now_ns.saturating_sub(i64::try_from(age.as_nanos()).unwrap_or(i64::MAX))
}

/// Size of the database file.
struct Pages {
    used_bytes: i64,
    /// Pages that hold nothing.
    free: i64,
}

impl Pages {
    fn read(connection: &Connection) -> Sql<Self> {
        let number = |text: &str| connection.prepare_cached(text)?.query_row([], |row| row.get::<_, i64>(0));
        let (count, free) = (number("PRAGMA page_count")?, number("PRAGMA freelist_count")?);
        Ok(Self { used_bytes: (count - free).saturating_mul(number("PRAGMA page_size")?), free })
    }
}

/// Cuts free pages off the file.
fn shrink(connection: &Connection, pages: i64) -> Sql<()> {
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = vacuum.query([])?;
    // Each step frees one page; a statement that is dropped early frees no more.
    while rows.next()?.is_some() {}
    Ok(())
}

/// Adds to a count over the life of the store.
fn count(connection: &Connection, name: &str, by: i64) -> Sql<()> {
    connection
        .prepare_cached(
            "INSERT INTO counter VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = value + excluded.value",
        )?
        .execute(params![name, by])?;
    Ok(())
}

/// Over the size: the oldest chunks go; without any, the oldest sums.
fn drop_oldest(connection: &Connection) -> Sql<bool> {
    if drop_chunks(connection, i64::MAX)? > 0 {
        return Ok(true);
    }
    for resolution in Resolution::ALL {
        let name = resolution.name();
        let oldest: Option<i64> =
            connection.query_row(&format!("SELECT min({name}) FROM host_{name}"), [], |row| row.get(0))?;
        if let Some(oldest) = oldest {
            // A day's worth at once: bucket by bucket, a full disk would stay full for thousands of steps.
            let day = 86_400_000_000_000 / resolution.length_ns();
            drop_sums(connection, resolution, oldest + day)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes the oldest chunks that were received before `limit_ns`. Returns how many.
fn drop_chunks(connection: &Connection, limit_ns: i64) -> Sql<usize> {
    // By receipt, not by end: the clock of a device may be decades off, and its data would go at once or never.
    let mut select = connection.prepare_cached(
        "SELECT id, host_id, first_end_wall_ns, last_end_wall_ns, intervals, thread_rows FROM chunk
         WHERE last_received_wall_ns < ?1 ORDER BY last_received_wall_ns LIMIT ?2",
    )?;
    let rows = select.query_map(params![limit_ns, CHUNKS_AT_ONCE], |row| {
        Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get::<_, i64>(5)?])
    })?;
    let chunks: Vec<[i64; 6]> = rows.collect::<Sql<_>>()?;
    let (mut intervals, mut thread_rows) = (0, 0);
    for [id, host_id, first, last, chunk_intervals, chunk_rows] in &chunks {
        connection.prepare_cached("DELETE FROM chunk WHERE id = ?1")?.execute([id])?;
        connection
            .prepare_cached("DELETE FROM legacy_order WHERE host_id = ?1 AND end_wall_ns BETWEEN ?2 AND ?3")?
            .execute([host_id, first, last])?;
        // A gap before the oldest data is no hole in anything.
        connection
            .prepare_cached("DELETE FROM gap WHERE host_id = ?1 AND end_wall_ns < ?2")?
            .execute([host_id, first])?;
        // One list before the oldest data stays: who was there then is read from it.
        connection
            .prepare_cached(
                "DELETE FROM process_list WHERE host_id = ?1 AND end_wall_ns <
                     (SELECT max(end_wall_ns) FROM process_list WHERE host_id = ?1 AND end_wall_ns <= ?2)",
            )?
            .execute([host_id, last])?;
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
fn drop_sums(connection: &Connection, resolution: Resolution, limit: i64) -> Sql<()> {
    let name = resolution.name();
    let mut hosts = connection.prepare_cached("SELECT id FROM host")?;
    let ids: Vec<i64> = hosts.query_map([], |row| row.get(0))?.collect::<Sql<_>>()?;
    for table in [format!("host_{name}"), format!("process_{name}")] {
        // Host by host, because the primary keys begin with the host: without it each deletion would read the whole table.
        let mut delete =
            connection.prepare_cached(&format!("DELETE FROM {table} WHERE host_id = ?1 AND {name} < ?2"))?;
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

/// Receipt of the oldest stored sample, s since the epoch; now if there is none.
fn oldest_sample_s(connection: &Connection, now_ns: i64) -> Sql<i64> {
    // A chunk's last receipt can be this much after its first: the time it took to fill, bounded by the age of partial ones.
    const CHUNK_SLACK_NS: i64 = 24 * 3_600_000_000_000;
    let oldest: Option<i64> = connection
        .prepare_cached("SELECT min(last_received_wall_ns) FROM chunk")?
        .query_row([], |row| row.get(0))?;
    Ok(oldest.map_or(now_ns, |oldest| oldest.min(now_ns)).saturating_sub(CHUNK_SLACK_NS) / 1_000_000_000)
}

/// Begin of the oldest stored sum, s since the epoch on its host's clock; `None` if there is none.
fn oldest_sum_s(connection: &Connection) -> Sql<Option<i64>> {
    let mut begins = Vec::new();
    for resolution in Resolution::ALL {
        let name = resolution.name();
        let oldest: Option<i64> = connection
            .prepare_cached(&format!("SELECT min({name}) FROM host_{name}"))?
            .query_row([], |row| row.get(0))?;
        begins.extend(oldest.map(|bucket| bucket.saturating_mul(resolution.length_ns() / 1_000_000_000)));
    }
    Ok(begins.into_iter().min())
}

/// Age of the data that names can be used by, s since the epoch.
#[derive(Copy, Clone, Debug)]
struct Oldest {
    /// Receipt of the oldest sample.
    samples_s: i64,
    /// Begin of the oldest sum, or that receipt if it is older.
    sums_s: i64,
}

/// Deletes unused names among the ids after `from`. Returns how many went.
fn prune(connection: &Connection, table: &str, from: i64, rule: &str, oldest: Oldest) -> Sql<i64> {
    let text = format!("DELETE FROM {table} WHERE id > ?1 AND id <= ?2 AND ({rule})");
    let gone = connection.prepare_cached(&text)?.execute(params![
        from,
        from + NAMES_AT_ONCE,
        oldest.samples_s,
        oldest.sums_s
    ])?;
    count_names(connection, table, i64::try_from(gone).unwrap_or(i64::MAX))
}

/// [`prune`] for whole blocks.
fn prune_blocks(connection: &Connection, table: &str, from: i64, rule: &str, oldest: Oldest) -> Sql<i64> {
    let wanted = format!("first_id > ?1 AND first_id <= ?2 AND ({rule})");
    let range = params![from, from + NAMES_AT_ONCE, oldest.samples_s, oldest.sums_s];
    let gone: i64 = connection
        .prepare_cached(&format!("SELECT coalesce(sum(count), 0) FROM {table}_block WHERE {wanted}"))?
        .query_row(range, |row| row.get(0))?;
    connection.prepare_cached(&format!("DELETE FROM {table}_block WHERE {wanted}"))?.execute(range)?;
    count_names(connection, table, gone)
}

/// Takes the short-lived processes out of blocks that no sample needs any more, only sums.
fn prune_short_lived(connection: &Connection, from: i64, oldest_s: i64, level: i32) -> Sql<i64> {
    let mut select = connection.prepare_cached(
        "SELECT first_id FROM process_block WHERE first_id > ?1 AND first_id <= ?2 AND has_short AND last_s < ?3",
    )?;
    let rows = select.query_map(params![from, from + NAMES_AT_ONCE, oldest_s], |row| row.get::<_, i64>(0))?;
    let blocks: Vec<i64> = rows.collect::<Sql<_>>()?;
    let mut gone = 0;
    for first_id in blocks {
        gone += drop_short_lived(connection, first_id.cast_unsigned(), level)?;
    }
    count_names(connection, "process", gone)
}

/// Adds deleted names to the counter of their table.
fn count_names(connection: &Connection, table: &str, gone: i64) -> Sql<i64> {
    if gone > 0 {
        count(connection, &format!("retired_{table}_names"), gone)?;
    }
    Ok(gone)
}
