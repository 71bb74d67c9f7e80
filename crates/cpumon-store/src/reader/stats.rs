//! What a store holds and what it knows to be missing. In: the tables. Out: [`StoreStatistics`], [`Gap`]s. Why: nothing is
//! lost in silence.

use std::ops::ControlFlow;

use cpumon_model::{Flags, HostId, Interval};
use rusqlite::params;

use super::Reader;
use super::query::{Query, What};
use crate::error::{At, Result};
use crate::schema;
use crate::writer::POSITIONS;

/// Sizes and counts of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStatistics {
    /// `PRAGMA user_version`.
    pub schema_version: i32,
    /// Size of the database, bytes, without its log.
    pub file_bytes: u64,
    /// Bytes of it that are free for what comes next.
    pub free_bytes: u64,
    /// Size of the write-ahead log, bytes.
    pub log_bytes: u64,
    /// Hosts.
    pub hosts: u64,
    /// Intervals that are not sealed yet.
    pub fresh_intervals: u64,
    /// Intervals in chunks.
    pub compacted_intervals: u64,
    /// Thread rows in chunks.
    pub compacted_thread_rows: u64,
    /// Chunks.
    pub chunks: u64,
    /// Processes as they were, rows and those in blocks; one that outlived its block by an hour counts twice.
    pub process_names: u64,
    /// Threads as they were, likewise.
    pub thread_names: u64,
    /// Counts over the life of the store, by name (`retired_intervals`, ...).
    pub counters: Vec<(String, u64)>,
}

/// A known hole in a host's time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Begin, ns since the epoch, on the time line of the host's intervals.
    pub begin_wall_ns: i64,
    /// End.
    pub end_wall_ns: i64,
    /// The device's own clock less that, ns.
    pub wall_shift_ns: i64,
    /// Intervals that are known to be missing; 0 if nobody counted.
    pub intervals: u64,
    /// Why: `queue full`, `store full`, `not stored`, `damaged`; of an imported log what its device says; `restart` for another boot or agent start; `no data`.
    pub reason: String,
}

/// Finds holes between intervals, for whoever walks them anyway. In: recorded holes, then intervals in order. Out: both.
#[derive(Clone, Debug)]
pub struct GapFinder {
    recorded: Vec<Gap>,
    found: Vec<Gap>,
    limit: usize,
    first: Option<Begin>,
    last_end_ns: Option<i64>,
}

/// Where an interval begins, and what a hole before it would be.
#[derive(Copy, Clone, Debug)]
struct Begin {
    wall_ns: i64,
    slack_ns: i64,
    is_restart: bool,
}

impl GapFinder {
    /// `recorded`: what [`Reader::losses`] tells of the same range. At most `limit` holes are kept.
    #[must_use]
    pub fn new(recorded: Vec<Gap>, limit: usize) -> Self {
        Self { recorded, found: Vec::new(), limit, first: None, last_end_ns: None }
    }

    /// Whether as many holes were found as are kept.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.recorded.len() + self.found.len() >= self.limit
    }

    /// Takes the next interval.
    pub fn see(&mut self, interval: &Interval) {
        // Neighbours share a moment; half an interval between them is none that was measured.
        let begin = Begin {
            wall_ns: interval.begin.wall_ns,
            slack_ns: i64::try_from(interval.duration_ns() / 2).unwrap_or(i64::MAX),
            is_restart: interval.flags.contains(Flags::RESTART),
        };
        self.first.get_or_insert(begin);
        self.check_before(begin);
        self.last_end_ns = self.last_end_ns.max(Some(interval.end.wall_ns));
    }

    /// Takes what another one found that walked the time after this one's.
    pub fn append(&mut self, later: Self) {
        let Some(first) = later.first else { return };
        self.first.get_or_insert(first);
        self.check_before(first);
        let room = self.limit.saturating_sub(self.recorded.len() + self.found.len());
        self.found.extend(later.found.into_iter().take(room));
        self.last_end_ns = self.last_end_ns.max(later.last_end_ns);
    }

    fn check_before(&mut self, next: Begin) {
        let Some(begin_wall_ns) = self.last_end_ns else { return };
        let end_wall_ns = next.wall_ns;
        if end_wall_ns <= begin_wall_ns.saturating_add(next.slack_ns) || self.is_full() {
            return;
        }
        let mut recorded = self.recorded.iter();
        if recorded.any(|gap| gap.begin_wall_ns < end_wall_ns && gap.end_wall_ns > begin_wall_ns) {
            return;
        }
        let reason = if next.is_restart { "restart" } else { "no data" }.to_owned();
        self.found.push(Gap { begin_wall_ns, end_wall_ns, reason, ..Gap::default() });
    }

    /// All holes, in order.
    #[must_use]
    pub fn finish(self) -> Vec<Gap> {
        let mut gaps = self.recorded;
        gaps.extend(self.found);
        gaps.sort_by_key(|gap| gap.begin_wall_ns);
        gaps.truncate(self.limit);
        gaps
    }
}

impl Reader {
    /// Sizes and counts.
    pub fn statistics(&self) -> Result<StoreStatistics> {
        self.read_statistics().at("read statistics", &self.path)
    }

    fn read_statistics(&self) -> rusqlite::Result<StoreStatistics> {
        let number = |text: &str| -> rusqlite::Result<u64> {
            self.connection
                .query_row(text, [], |row| row.get::<_, Option<i64>>(0))
                .map(|n| n.unwrap_or(0).cast_unsigned())
        };
        let page_bytes = number("PRAGMA page_size")?;
        let mut counters = self.connection.prepare_cached(
            "SELECT name, value FROM counter WHERE substr(name, 1, length(?1)) <> ?1 ORDER BY name",
        )?;
        let counters = counters
            .query_map([POSITIONS], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))?;
        let mut log = self.path.as_os_str().to_owned();
        log.push("-wal");
        Ok(StoreStatistics {
            schema_version: schema::VERSION,
            file_bytes: number("PRAGMA page_count")? * page_bytes,
            free_bytes: number("PRAGMA freelist_count")? * page_bytes,
            log_bytes: std::fs::metadata(log).map_or(0, |log| log.len()),
            hosts: number("SELECT count(*) FROM host")?,
            fresh_intervals: number("SELECT count(*) FROM interval")?,
            compacted_intervals: number("SELECT sum(intervals) FROM chunk")?,
            compacted_thread_rows: number("SELECT sum(thread_rows) FROM chunk")?,
            chunks: number("SELECT count(*) FROM chunk")?,
            process_names: number(
                "SELECT (SELECT count(*) FROM process) + (SELECT coalesce(sum(count), 0) FROM process_block)",
            )?,
            thread_names: number(
                "SELECT (SELECT count(*) FROM thread) + (SELECT coalesce(sum(count), 0) FROM thread_block)",
            )?,
            counters: counters.collect::<rusqlite::Result<_>>()?,
        })
    }

    /// Holes in a host's time within (`since_ns`, `until_ns`], in order: the recorded ones with their reasons, and spans
    /// between intervals that nothing explains. At most `limit`.
    pub fn gaps(&self, host: HostId, (since_ns, until_ns): (i64, i64), limit: usize) -> Result<Vec<Gap>> {
        let Some(host_id) = self.host_row(host)? else { return Ok(Vec::new()) };
        let recorded =
            self.recorded_gaps(host_id, (since_ns, until_ns), limit).at("list gaps", &self.path)?;
        let mut finder = GapFinder::new(recorded, limit);
        let query = Query::new(host).range(since_ns, until_ns).what(What::Meta);
        self.for_each_interval(&query, &mut |interval| {
            finder.see(interval);
            if finder.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(finder.finish())
    }

    /// The recorded holes alone, with the intervals that are known to be missing: [`Reader::gaps`] without reading what is
    /// there. At most `limit`.
    pub fn losses(&self, host: HostId, range: (i64, i64), limit: usize) -> Result<Vec<Gap>> {
        let Some(host_id) = self.host_row(host)? else { return Ok(Vec::new()) };
        self.recorded_gaps(host_id, range, limit).at("list losses", &self.path)
    }

    fn recorded_gaps(
        &self,
        host_id: i64,
        (since, until): (i64, i64),
        limit: usize,
    ) -> rusqlite::Result<Vec<Gap>> {
        let mut select = self.connection.prepare_cached(
            "SELECT begin_wall_ns, end_wall_ns, intervals, reason, wall_shift_ns FROM gap
             WHERE host_id = ?1 AND end_wall_ns > ?2 AND begin_wall_ns <= ?3 ORDER BY begin_wall_ns LIMIT ?4",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = select.query_map(params![host_id, since, until, limit], |row| {
            Ok(Gap {
                begin_wall_ns: row.get(0)?,
                end_wall_ns: row.get(1)?,
                intervals: row.get::<_, i64>(2)?.cast_unsigned(),
                reason: row.get(3)?,
                wall_shift_ns: row.get(4)?,
            })
        })?;
        rows.collect()
    }
}
