//! Folds old fresh intervals into chunks. In: rows of table `interval`. Out: one row of table `chunk` for each hundred, sums
//! per minute and hour; the folded rows are gone, all in one transaction. Why: half the room, and fewer, larger reads.

use std::collections::BTreeMap;

use cpumon_model::Interval;
use rusqlite::{Connection, OptionalExtension, params};

use super::PER_SECOND;
use super::Writer;
use super::fold::note_seen;
use super::gaps::record_damage;
use crate::codec::chunk::{self, Chunk, FreshInterval};
use crate::codec::meta::{END_WALL, RECEIVED, SEQUENCE};
use crate::codec::names::{ProcessName, ThreadName};
use crate::codec::{PackedInterval, blob};
use crate::error::Result;
use crate::reader::{FreshRow, MAX_CHUNK_SPAN_NS, fresh_columns, read_fresh};

/// Thread rows in a chunk, unless one interval alone has more: bounds the memory of sealing and of reading.
const MAX_THREAD_ROWS: usize = 200_000;

/// Fresh intervals of one boot.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct FreshCount {
    pub(crate) intervals: u32,
    /// Receipt of the first one; ns since the epoch on this machine's clock.
    pub(crate) oldest_received_ns: i64,
    /// Nothing to seal before this.
    not_before_ns: i64,
}

/// Fresh intervals by rows of `host` and `boot`.
pub(crate) type FreshCounts = BTreeMap<(i64, i64), FreshCount>;

/// Reads what is fresh.
pub(crate) fn load_counts(connection: &Connection) -> rusqlite::Result<FreshCounts> {
    let mut statement = connection.prepare(
        "SELECT host_id, boot_id, count(*), min(received_wall_ns) FROM interval GROUP BY host_id, boot_id",
    )?;
    let rows = statement.query_map([], |row| {
        let count = FreshCount { intervals: row.get(2)?, oldest_received_ns: row.get(3)?, not_before_ns: 0 };
        Ok(((row.get(0)?, row.get(1)?), count))
    })?;
    rows.collect()
}

/// Which of the sealed intervals the writer looked up last.
#[derive(Debug, Default)]
pub(crate) struct CompactedKeys {
    chunk_id: i64,
    ends: Vec<(i64, i64)>,
}

/// When intervals may be sealed.
#[derive(Copy, Clone, Debug)]
struct Due {
    /// Received before this.
    full_ns: i64,
    /// Received before this although they fill no chunk.
    partial_ns: i64,
    /// Only those of this row of `host`.
    host_id: Option<i64>,
}

impl Due {
    /// Whatever the age.
    const AT_ONCE: Self = Self { full_ns: i64::MAX, partial_ns: i64::MAX, host_id: None };
}

impl Writer {
    /// Folds everything fresh into chunks at once, whatever its age.
    pub fn compact_all(&mut self) -> Result<()> {
        self.commit()?;
        while self.compact_one(Due::AT_ONCE)? {}
        Ok(())
    }

    /// Folds everything fresh of one host into chunks at once: after an import.
    pub fn compact_host(&mut self, host: cpumon_model::HostId) -> Result<()> {
        self.commit()?;
        let found = self
            .connection
            .query_row("SELECT id FROM host WHERE key = ?1", [host.0], |row| row.get(0))
            .optional();
        let host_id = found.map_err(|error| self.fail("find a host", error))?;
        if host_id.is_some() {
            while self.compact_one(Due { host_id, ..Due::AT_ONCE })? {}
        }
        Ok(())
    }

    /// Folds one chunk, if one is due at `now_ns`.
    pub(super) fn compact_step(&mut self, now_ns: i64) -> Result<bool> {
        let before = |age: std::time::Duration| {
            now_ns.saturating_sub(i64::try_from(age.as_nanos()).unwrap_or(i64::MAX))
        };
        let due = Due {
            full_ns: before(self.options.compact_after),
            partial_ns: before(self.options.compact_partial_after),
            host_id: None,
        };
        self.compact_one(due)
    }

    fn compact_one(&mut self, due: Due) -> Result<bool> {
        let full = self.options.compact_intervals;
        let found = self.fresh.iter().find(|(key, count)| {
            let is_meant = due.host_id.is_none_or(|host_id| host_id == key.0);
            let is_full = count.intervals >= full && count.oldest_received_ns <= due.full_ns;
            is_meant
                && (is_full || count.oldest_received_ns <= due.partial_ns)
                && count.not_before_ns <= due.full_ns
        });
        let Some((&key, _)) = found else { return Ok(false) };
        self.begin()?;
        self.compact_boot(key, due).map_err(|error| self.fail("seal intervals", error))?;
        self.commit()?;
        Ok(true)
    }

    fn compact_boot(&mut self, key: (i64, i64), due: Due) -> rusqlite::Result<()> {
        let mut rows = load_oldest(&self.connection, key, self.options.compact_intervals)?;
        let ready = rows.iter().take_while(|(_, row)| row.meta[RECEIVED] <= due.full_ns).count();
        let is_old = rows.first().is_some_and(|(_, row)| row.meta[RECEIVED] <= due.partial_ns);
        rows.truncate(if is_old || ready >= self.options.compact_intervals as usize { ready } else { 0 });
        let (ids, intervals) = self.unpack(key.0, rows)?;
        if !intervals.is_empty() {
            self.write_chunk(key, &intervals)?;
        }
        let mut delete = self.connection.prepare_cached("DELETE FROM interval WHERE id = ?1")?;
        for id in &ids {
            delete.execute([id])?;
        }
        drop(delete);
        let left = self.fresh.get(&key).copied().unwrap_or_default();
        let sealed = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let oldest: Option<i64> = self
            .connection
            .prepare_cached(
                "SELECT received_wall_ns FROM interval WHERE host_id = ?1 AND boot_id = ?2
                 ORDER BY end_wall_ns, sequence LIMIT 1",
            )?
            .query_row(params![key.0, key.1], |row| row.get(0))
            .optional()?;
        let not_before_ns = if ids.is_empty() { due.full_ns.saturating_add(10_000_000_000) } else { 0 };
        match oldest {
            Some(oldest_received_ns) => {
                let intervals = left.intervals.saturating_sub(sealed);
                self.fresh.insert(key, FreshCount { intervals, oldest_received_ns, not_before_ns });
            }
            None => {
                self.fresh.remove(&key);
            }
        }
        Ok(())
    }

    /// Unpacks as many intervals as one chunk takes. Damaged ones go, as a gap.
    fn unpack(
        &self,
        host_id: i64,
        rows: Vec<(i64, FreshRow)>,
    ) -> rusqlite::Result<(Vec<i64>, Vec<FreshInterval>)> {
        let (mut ids, mut intervals) = (Vec::new(), Vec::<FreshInterval>::new());
        let mut thread_rows = 0;
        for (id, row) in rows {
            let mut packed = PackedInterval::default();
            if let Err(malformed) = blob::decode(&row.samples, &mut packed) {
                log::warn!("interval {id} of {} is damaged and goes: {malformed}", self.path.display());
                record_damage(&self.connection, host_id, &row.meta)?;
                ids.push(id);
                continue;
            }
            let first_end = intervals.first().map_or(row.meta[END_WALL], |first| first.meta[END_WALL]);
            let is_too_long = row.meta[END_WALL].saturating_sub(first_end) > MAX_CHUNK_SPAN_NS;
            thread_rows += packed.threads.len();
            if !intervals.is_empty() && (is_too_long || thread_rows > MAX_THREAD_ROWS) {
                break;
            }
            ids.push(id);
            intervals.push(FreshInterval { meta: row.meta, cpus: row.cpus, sched: row.sched, rows: packed });
        }
        Ok((ids, intervals))
    }

    fn write_chunk(&mut self, key: (i64, i64), intervals: &[FreshInterval]) -> rusqlite::Result<()> {
        let sections = chunk::encode(intervals, self.options.zstd_level)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        let count = |rows: usize| i64::try_from(rows).unwrap_or(i64::MAX);
        let ends = || intervals.iter().map(|interval| interval.meta[END_WALL]);
        let received = intervals.iter().map(|interval| interval.meta[RECEIVED]).max().unwrap_or(0);
        self.connection
            .prepare_cached(
                "INSERT INTO chunk (host_id, boot_id, first_end_wall_ns, last_end_wall_ns, last_received_wall_ns,
                                    intervals, process_rows, thread_rows, meta, processes, threads, sched)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?
            .execute(params![
                key.0,
                key.1,
                ends().min().unwrap_or(0),
                ends().max().unwrap_or(0),
                received,
                count(intervals.len()),
                count(sections.process_rows),
                count(sections.thread_rows),
                sections.meta,
                sections.processes,
                sections.threads,
                sections.sched
            ])?;
        let (dims, connection) = (&mut self.dims, &self.connection);
        self.rollup.add(intervals, |id| dims.short_lived_id(connection, id))?;
        self.rollup.write(&self.connection, key.0)?;
        let rows = || intervals.iter().map(|interval| &interval.rows);
        let mut threads = rows().flat_map(|rows| rows.threads.iter().map(|row| row.id)).collect();
        let mut processes = rows().flat_map(|rows| rows.processes.iter().map(|row| row.id)).collect();
        note_seen::<ThreadName>(&self.connection, &mut threads, received / PER_SECOND)?;
        note_seen::<ProcessName>(&self.connection, &mut processes, received / PER_SECOND)
    }

    /// Whether a chunk holds this interval.
    pub(super) fn is_compacted(
        &mut self,
        host_id: i64,
        boot_id: i64,
        interval: &Interval,
    ) -> rusqlite::Result<bool> {
        let end = interval.end.wall_ns;
        let wanted = (end, interval.sequence.cast_signed());
        let mut statement = self.connection.prepare_cached(
            "SELECT id FROM chunk WHERE host_id = ?1 AND boot_id = ?2 AND first_end_wall_ns <= ?3
             AND last_end_wall_ns BETWEEN ?3 AND ?4",
        )?;
        let ids = statement
            .query_map(params![host_id, boot_id, end, end.saturating_add(MAX_CHUNK_SPAN_NS)], |row| {
                row.get(0)
            })?;
        let ids: Vec<i64> = ids.collect::<rusqlite::Result<_>>()?;
        for id in ids {
            if self.compacted_keys.chunk_id != id {
                self.compacted_keys = compacted_keys(&self.connection, id)?;
            }
            if self.compacted_keys.ends.contains(&wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn compacted_keys(connection: &Connection, chunk_id: i64) -> rusqlite::Result<CompactedKeys> {
    let meta: Vec<u8> = connection
        .prepare_cached("SELECT meta FROM chunk WHERE id = ?1")?
        .query_row([chunk_id], |row| row.get(0))?;
    let mut chunk = Chunk::default();
    if let Err(malformed) = chunk.read_meta(&meta) {
        log::warn!("chunk {chunk_id} is damaged: {malformed}");
        chunk = Chunk::default();
    }
    let ends = chunk.metas.iter().map(|row| (row[END_WALL], row[SEQUENCE])).collect();
    Ok(CompactedKeys { chunk_id, ends })
}

/// The oldest fresh intervals of a boot with their row ids, in order of time.
fn load_oldest(
    connection: &Connection,
    (host_id, boot_id): (i64, i64),
    count: u32,
) -> rusqlite::Result<Vec<(i64, FreshRow)>> {
    let text = format!(
        "SELECT {}, id FROM interval WHERE host_id = ?2 AND boot_id = ?3 ORDER BY end_wall_ns, sequence LIMIT ?4",
        fresh_columns()
    );
    let mut statement = connection.prepare_cached(&text)?;
    let rows = statement
        .query_map(params![true, host_id, boot_id, count], |row| Ok((row.get("id")?, read_fresh(row)?)))?;
    rows.collect()
}
