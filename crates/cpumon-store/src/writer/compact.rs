//! Compaction: fresh intervals become chunks. Up to a hundred rows of `interval` of one boot become one row of `chunk` and are
//! added to the sums per minute and hour, all in one transaction. That halves their space, and makes reads fewer and larger.

use std::path::Path;
use std::time::Duration;

use cpumon_model::Interval;
use rusqlite::{Connection, OptionalExtension, Result as Sql, params};

use super::dims::Dims;
use super::fresh_boots::{Due, FreshBoots, FreshCount};
use super::gaps::record_damage;
use super::ids::next_id;
use super::merge_names::mark_seen;
use super::rollup::Rollup;
use super::thread_sums::SumNames;
use super::transaction::Transaction;
use crate::codec::chunk::{self, Chunk, FreshInterval, MAX_CHUNK_SPAN_NS};
use crate::codec::meta::{END_WALL, RECEIVED, SEQUENCE, TRUST};
use crate::codec::names::{ProcessName, ThreadName};
use crate::codec::{PackedInterval, blob};
use crate::fresh::{self, FreshRow};
use crate::options::StoreOptions;
use crate::rows::{BootKey, HostRow};
use crate::sums::PER_SECOND;

/// Thread rows in a chunk, unless one interval alone has more: bounds the memory of compaction and of reading.
const MAX_THREAD_ROWS: usize = 200_000;
/// A boot that was due but had nothing ready is not tried again before.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Keys of the intervals in one chunk.
#[derive(Debug, Default)]
struct ChunkKeys {
    chunk_id: i64,
    /// End and sequence number of each interval.
    keys: Vec<(i64, i64)>,
}

/// Makes chunks of fresh intervals.
#[derive(Debug)]
pub(super) struct Compactor {
    /// So that nothing is read until there is something to do.
    fresh: FreshBoots,
    rollup: Rollup,
    /// Of the chunk that a duplicate was looked up in last.
    last_keys: ChunkKeys,
    /// Intervals in a full chunk.
    full: u32,
    zstd_level: i32,
}

impl Compactor {
    /// Counts what is fresh in a store.
    pub(super) fn load(connection: &Connection, options: &StoreOptions) -> Sql<Self> {
        Ok(Self {
            fresh: FreshBoots::load(connection, options)?,
            rollup: Rollup::default(),
            last_keys: ChunkKeys::default(),
            full: options.compact_intervals,
            zstd_level: options.zstd_level,
        })
    }

    /// After a rollback: counts again what is fresh, and forgets sums and keys of what is not in the file.
    pub(super) fn reload(&mut self, connection: &Connection, store: &Path) {
        self.rollup = Rollup::default();
        self.last_keys = ChunkKeys::default();
        // The old counts are about right, and a boot of which nothing is left is skipped.
        if let Err(error) = self.fresh.reload(connection) {
            log::warn!("cannot count fresh intervals of {}: {error}", store.display());
        }
    }

    /// A fresh interval was inserted.
    pub(super) fn count_fresh(&mut self, key: BootKey, received_wall_ns: i64) {
        self.fresh.add(key, received_wall_ns);
    }

    /// Receipt of the oldest interval that waits for compaction; ns since the epoch on this machine's clock.
    pub(super) fn oldest_fresh_ns(&self) -> Option<i64> {
        self.fresh.oldest_received_ns()
    }

    /// The boot of which a chunk has been due for longest.
    pub(super) fn next_due(&self, due: &Due) -> Option<BootKey> {
        self.fresh.next_due(due)
    }

    /// Makes one chunk of a boot's oldest fresh intervals.
    pub(super) fn compact(
        &mut self,
        transaction: &Transaction<'_>,
        dims: &mut Dims,
        key: BootKey,
        due: &Due,
    ) -> Sql<()> {
        let mut rows = load_oldest(transaction, key, self.full)?;
        // A chunk is of one trust: retention takes chunks by trust.
        let trust = rows.first().map_or(0, |(_, row)| row.meta[TRUST]);
        let of_one_trust = rows.iter().take_while(|(_, row)| row.meta[TRUST] == trust).count();
        let is_cut = of_one_trust < rows.len();
        rows.truncate(of_one_trust);
        let ready = rows.iter().take_while(|(_, row)| row.meta[RECEIVED] <= due.full_ns).count();
        let is_old = is_cut || rows.first().is_some_and(|(_, row)| row.meta[RECEIVED] <= due.partial_ns);
        // A partial chunk now would leave the rest for another partial one: wait until it is full, or old.
        rows.truncate(if is_old || ready >= self.full as usize { ready } else { 0 });
        let Unpacked { ids, intervals } = unpack(transaction, key.host, rows)?;
        if !intervals.is_empty() {
            self.write_chunk(transaction, dims, key, &intervals)?;
        }
        let mut delete = transaction.prepare_cached("DELETE FROM interval WHERE id = ?1")?;
        for id in &ids {
            delete.execute([id])?;
        }
        self.recount(transaction, key, due, ids.len())
    }

    /// Updates the count of a boot after `compacted` of its fresh intervals went.
    fn recount(
        &mut self,
        transaction: &Transaction<'_>,
        key: BootKey,
        due: &Due,
        compacted: usize,
    ) -> Sql<()> {
        let oldest: Option<i64> = transaction
            .prepare_cached(
                "SELECT received_wall_ns FROM interval WHERE host_id = ?1 AND boot_id = ?2
                 ORDER BY end_wall_ns, sequence LIMIT 1",
            )?
            .query_row(params![key.host, key.boot], |row| row.get(0))
            .optional()?;
        let Some(oldest_received_ns) = oldest else {
            self.fresh.remove(key);
            return Ok(());
        };
        // The boot was due by its count and its oldest receipt, but not enough of its rows were old enough: some came late. Without
        // a pause it would be found again at once, and the boots behind it would never be.
        let not_before_ns = if compacted == 0 { due.later_ns(RETRY_AFTER) } else { 0 };
        let before = self.fresh.count(key).intervals;
        let intervals = before.saturating_sub(u32::try_from(compacted).unwrap_or(u32::MAX));
        self.fresh.set(key, FreshCount { intervals, oldest_received_ns, not_before_ns });
        Ok(())
    }

    fn write_chunk(
        &mut self,
        transaction: &Transaction<'_>,
        dims: &mut Dims,
        key: BootKey,
        intervals: &[FreshInterval],
    ) -> Sql<()> {
        let sections = chunk::encode(intervals, self.zstd_level)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        let count = |rows: usize| i64::try_from(rows).unwrap_or(i64::MAX);
        let ends = || intervals.iter().map(|interval| interval.meta[END_WALL]);
        let received = intervals.iter().map(|interval| interval.meta[RECEIVED]).max().unwrap_or(0);
        transaction
            .prepare_cached(
                "INSERT INTO chunk (id, host_id, boot_id, first_end_wall_ns, last_end_wall_ns, last_received_wall_ns,
                                    intervals, process_rows, thread_rows, meta, processes, threads, sched, trust)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            )?
            .execute(params![
                next_id(transaction, "chunk")?,
                key.host,
                key.boot,
                ends().min().unwrap_or(0),
                ends().max().unwrap_or(0),
                received,
                count(intervals.len()),
                count(sections.process_rows),
                count(sections.thread_rows),
                sections.meta,
                sections.processes,
                sections.threads,
                sections.sched,
                intervals.first().map_or(0, |interval| interval.meta[TRUST])
            ])?;
        // In the same transaction as the chunk: a crash between the two would leave sums that lack an interval or have it twice.
        self.rollup.add(intervals, &mut SumNames::new(transaction, dims))?;
        self.rollup.write(transaction, key.host)?;
        let rows = || intervals.iter().map(|interval| &interval.rows);
        let mut threads = rows().flat_map(|rows| rows.threads.iter().map(|row| row.id)).collect();
        let mut processes = rows().flat_map(|rows| rows.processes.iter().map(|row| row.id)).collect();
        mark_seen::<ThreadName>(transaction, &mut threads, received / PER_SECOND)?;
        mark_seen::<ProcessName>(transaction, &mut processes, received / PER_SECOND)
    }

    /// Whether a chunk holds this interval.
    pub(super) fn holds(
        &mut self,
        transaction: &Transaction<'_>,
        key: BootKey,
        interval: &Interval,
    ) -> Sql<bool> {
        let end = interval.end.wall_ns;
        let wanted = (end, interval.sequence.cast_signed());
        let mut statement = transaction.prepare_cached(
            "SELECT id FROM chunk WHERE host_id = ?1 AND boot_id = ?2 AND first_end_wall_ns <= ?3
             AND last_end_wall_ns BETWEEN ?3 AND ?4",
        )?;
        let latest = end.saturating_add(MAX_CHUNK_SPAN_NS);
        let ids = statement.query_map(params![key.host, key.boot, end, latest], |row| row.get(0))?;
        let ids: Vec<i64> = ids.collect::<Sql<_>>()?;
        for id in ids {
            // A device that sends its spool again sends a hundred intervals in a row of the same chunk.
            if self.last_keys.chunk_id != id {
                self.last_keys = read_keys(transaction, id)?;
            }
            if self.last_keys.keys.contains(&wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn read_keys(connection: &Connection, chunk_id: i64) -> Sql<ChunkKeys> {
    let meta: Vec<u8> = connection
        .prepare_cached("SELECT meta FROM chunk WHERE id = ?1")?
        .query_row([chunk_id], |row| row.get(0))?;
    let mut chunk = Chunk::default();
    if let Err(malformed) = chunk.read_meta(&meta) {
        // What a damaged chunk holds is not known: an interval of it that comes again is stored again.
        log::warn!("chunk {chunk_id} is damaged: {malformed}");
        chunk = Chunk::default();
    }
    let keys = chunk.metas.iter().map(|row| (row[END_WALL], row[SEQUENCE])).collect();
    Ok(ChunkKeys { chunk_id, keys })
}

/// The oldest fresh intervals of a boot with their row ids, in order of time.
fn load_oldest(connection: &Connection, key: BootKey, count: u32) -> Sql<Vec<(i64, FreshRow)>> {
    let text = format!(
        "SELECT {}, id FROM interval WHERE host_id = ?2 AND boot_id = ?3 ORDER BY end_wall_ns, sequence LIMIT ?4",
        fresh::columns()
    );
    let mut statement = connection.prepare_cached(&text)?;
    let rows = statement
        .query_map(params![true, key.host, key.boot, count], |row| Ok((row.get("id")?, fresh::read(row)?)))?;
    rows.collect()
}

/// Intervals of one chunk.
struct Unpacked {
    /// Rows of `interval` that go, damaged ones included.
    ids: Vec<i64>,
    intervals: Vec<FreshInterval>,
}

/// Unpacks as many intervals as one chunk takes. A damaged one becomes a gap: it would stop compaction at each attempt.
fn unpack(connection: &Connection, host: HostRow, rows: Vec<(i64, FreshRow)>) -> Sql<Unpacked> {
    let (mut ids, mut intervals) = (Vec::new(), Vec::<FreshInterval>::new());
    let mut thread_rows = 0;
    for (id, row) in rows {
        let mut packed = PackedInterval::default();
        if let Err(malformed) = blob::decode(&row.samples, &mut packed) {
            log::warn!("interval {id} is damaged and becomes a gap: {malformed}");
            record_damage(connection, host, &row.meta)?;
            ids.push(id);
            continue;
        }
        // Readers find chunks by their last end only, and rely on no chunk being longer than this.
        let first_end = intervals.first().map_or(row.meta[END_WALL], |first| first.meta[END_WALL]);
        let is_too_long = row.meta[END_WALL].saturating_sub(first_end) > MAX_CHUNK_SPAN_NS;
        thread_rows += packed.threads.len();
        if !intervals.is_empty() && (is_too_long || thread_rows > MAX_THREAD_ROWS) {
            break;
        }
        ids.push(id);
        intervals.push(FreshInterval { meta: row.meta, cpus: row.cpus, sched: row.sched, rows: packed });
    }
    Ok(Unpacked { ids, intervals })
}
