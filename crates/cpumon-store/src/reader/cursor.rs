//! Reads the intervals of a host in order of time, in any range with bounded memory. The range is read in windows, each in
//! one short transaction. So compaction in between neither hides nor doubles an interval, and a slow callback does not keep
//! the write-ahead log from being reused.

use std::ops::ControlFlow;

use cpumon_model::{HostId, Interval};
use rusqlite::{Connection, params};

use super::build::{self, HostKey, PackedRows};
use super::chunks::{self, Chunks, Loaded};
use super::dims::Names;
use super::error::ReadError;
use super::query::{ProcessFilter, Query, StoredInterval, What};
use crate::codec::meta::{self, MetaRow};
use crate::codec::sched::SchedRows;
use crate::codec::{PackedInterval, blob, cpus};
use crate::fresh::{self, FreshRow};
use crate::rows::HostRow;
use crate::time::TimeRange;

/// Fresh intervals in one window.
const WINDOW_INTERVALS: u32 = 64;

/// Takes an interval; `Break` ends the walk.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&StoredInterval) -> ControlFlow<()>;

/// Chunks of one window that are merged by time; more (a clock set back again and again) are given one after the other.
const MAX_MERGED: usize = 8;

/// End of the last interval that ends before `wall_ns`.
pub(crate) fn last_end_before(
    connection: &Connection,
    host: HostRow,
    wall_ns: i64,
) -> Result<Option<i64>, ReadError> {
    let mut last: Option<i64> = connection
        .prepare_cached("SELECT max(end_wall_ns) FROM interval WHERE host_id = ?1 AND end_wall_ns < ?2")?
        .query_row(params![host, wall_ns], |row| row.get(0))?;
    let compacted: Option<i64> = connection
        .prepare_cached(
            "SELECT max(last_end_wall_ns) FROM chunk WHERE host_id = ?1 AND last_end_wall_ns < ?2",
        )?
        .query_row(params![host, wall_ns], |row| row.get(0))?;
    last = last.max(compacted);
    let (mut ids, mut chunks, mut names) = (Vec::new(), Chunks::default(), Names::default());
    let query = Query::new(HostId::default()).what(What::Meta);
    // A chunk that reaches beyond the moment can have an end before it that is later than those found above.
    let just_before = wall_ns.saturating_sub(1);
    chunks::in_range(connection, host, TimeRange::new(just_before, just_before), &mut ids)?;
    for id in ids {
        let loaded = chunks.load(connection, &mut names, id, &query)?;
        let ends = loaded.chunk.metas.iter().map(|row| row[meta::END_WALL]);
        last = last.max(ends.filter(|&end| end < wall_ns).max());
    }
    Ok(last)
}

/// Position of an interval of a window.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    end_wall_ns: i64,
    sequence: u64,
    /// Id of its chunk; `None`: fresh.
    chunk: Option<i64>,
    /// Number in its chunk, or among the fresh ones.
    at: usize,
}

/// Reused buffers of a walk over intervals.
#[derive(Debug, Default)]
pub(crate) struct IntervalCursor {
    pub(crate) names: Names,
    chunks: Chunks,
    fresh: Vec<FreshRow>,
    chunk_ids: Vec<i64>,
    positions: Vec<Position>,
    packed: PackedInterval,
    sched: SchedRows,
    stored: StoredInterval,
}

impl IntervalCursor {
    /// Calls `visit` for each interval of the query, in order of its end.
    pub(crate) fn run(
        &mut self,
        connection: &Connection,
        host: HostRow,
        query: &Query,
        visit: Visit<'_>,
    ) -> Result<(), ReadError> {
        let mut after_ns = query.since_ns;
        while let Some(window_end) = self.load_window(connection, host, query, after_ns)? {
            let range = TimeRange::new(after_ns, window_end);
            // At least one round: a window of fresh intervals alone has no chunks.
            for begin in (0..self.chunk_ids.len().max(1)).step_by(MAX_MERGED) {
                let end = self.chunk_ids.len().min(begin + MAX_MERGED);
                self.find_positions(connection, query, range, begin..end)?;
                if self.emit(connection, query, visit)?.is_break() {
                    return Ok(());
                }
            }
            after_ns = window_end;
        }
        Ok(())
    }

    /// Calls `visit` for each fresh interval of the query, inside the caller's transaction.
    pub(crate) fn run_fresh(
        &mut self,
        connection: &Connection,
        host: HostRow,
        query: &Query,
        visit: &mut dyn FnMut(&Interval),
    ) -> Result<(), ReadError> {
        let mut after_ns = query.since_ns;
        self.chunk_ids.clear();
        while let Some(end) = fresh::end_of_some(connection, host, after_ns, WINDOW_INTERVALS)? {
            let range = TimeRange::new(after_ns, end.min(query.until_ns));
            if range.until_ns <= range.since_ns {
                break;
            }
            fresh::in_range(connection, host, range, true, &mut self.fresh)?;
            self.find_positions(connection, query, range, 0..0)?;
            let mut visit_one = |stored: &StoredInterval| {
                visit(&stored.interval);
                ControlFlow::Continue(())
            };
            // `visit_one` never breaks: the caller stops by doing nothing.
            let _ = self.emit(connection, query, &mut visit_one)?;
            after_ns = range.until_ns;
        }
        Ok(())
    }

    /// Reads the next window after `after_ns`; gives its end, or `None` if there is nothing more.
    fn load_window(
        &mut self,
        connection: &Connection,
        host: HostRow,
        query: &Query,
        after_ns: i64,
    ) -> Result<Option<i64>, ReadError> {
        let transaction = connection.unchecked_transaction()?;
        let fresh_end = fresh::end_of_some(connection, host, after_ns, WINDOW_INTERVALS)?;
        let chunk_end = chunks::end_of_next(connection, host, after_ns)?;
        // The nearer end: a window has at most some fresh intervals, and few chunks besides the one that ends there.
        let nearest = fresh_end.into_iter().chain(chunk_end).min();
        let Some(window_end) = nearest.map(|end| end.min(query.until_ns)).filter(|&end| end > after_ns)
        else {
            return Ok(None);
        };
        let range = TimeRange::new(after_ns, window_end);
        fresh::in_range(connection, host, range, query.what > What::Meta, &mut self.fresh)?;
        chunks::in_range(connection, host, range, &mut self.chunk_ids)?;
        // Chunks are never changed: with the first ones read here, only retention can take a later one away.
        for &id in self.chunk_ids.iter().take(MAX_MERGED) {
            self.chunks.load(connection, &mut self.names, id, query)?;
        }
        transaction.commit()?;
        Ok(Some(window_end))
    }

    /// Lists the intervals of a window in order: those of some of its chunks, and with the first of them the fresh ones.
    fn find_positions(
        &mut self,
        connection: &Connection,
        query: &Query,
        range: TimeRange,
        chunks: std::ops::Range<usize>,
    ) -> Result<(), ReadError> {
        self.positions.clear();
        let position = |row: &MetaRow, chunk, at| Position {
            end_wall_ns: row[meta::END_WALL],
            sequence: row[meta::SEQUENCE].cast_unsigned(),
            chunk,
            at,
        };
        if chunks.start == 0 {
            self.positions
                .extend(self.fresh.iter().enumerate().map(|(at, row)| position(&row.meta, None, at)));
        }
        for &id in self.chunk_ids.get(chunks).unwrap_or_default() {
            let loaded = self.chunks.load(connection, &mut self.names, id, query)?;
            let rows = loaded.chunk.metas.iter().enumerate();
            let inside = rows.filter(|(_, row)| range.contains(row[meta::END_WALL]));
            self.positions.extend(inside.map(|(at, row)| position(row, Some(id), at)));
        }
        // Chunks overlap where intervals came late, and fresh ones may be older than compacted ones.
        self.positions.sort_unstable();
        Ok(())
    }

    fn emit(
        &mut self,
        connection: &Connection,
        query: &Query,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, ReadError> {
        for position in &self.positions {
            let (names, stored) = (&mut self.names, &mut self.stored);
            // From the cache: it holds as many chunks as are merged.
            if let Some(id) = position.chunk {
                let Loaded { boot, chunk, .. } = self.chunks.load(connection, names, id, query)?;
                let boot = names.boot(connection, *boot)?;
                let rows = chunk.processes(position.at);
                let mut wants = |id: u64| {
                    query.filter == ProcessFilter::All || rows.binary_search_by_key(&id, |row| row.id).is_ok()
                };
                let with_sched = query.what > What::Meta && query.sched;
                self.sched.read_of(if with_sched { chunk.sched(position.at) } else { &[] }, &mut wants)?;
                let rows = PackedRows {
                    processes: chunk.processes(position.at),
                    threads: chunk.threads(position.at),
                    sched: &self.sched,
                };
                let row = chunk.metas.get(position.at).unwrap_or(&[0; meta::COUNT]);
                build::fill(connection, names, query, HostKey { host: query.host, boot }, row, rows, stored)?;
                cpus::decode(chunk.cpus(position.at), &mut stored.interval)?;
            } else if let Some(row) = self.fresh.get(position.at) {
                if query.what > What::Meta {
                    blob::decode(&row.samples, &mut self.packed)?;
                }
                self.sched.read(if query.sched { &row.sched } else { &[] })?;
                let boot = names.boot(connection, row.boot)?;
                let rows = PackedRows {
                    processes: &self.packed.processes,
                    threads: &self.packed.threads,
                    sched: &self.sched,
                };
                build::fill(
                    connection,
                    names,
                    query,
                    HostKey { host: query.host, boot },
                    &row.meta,
                    rows,
                    stored,
                )?;
                cpus::decode(&row.cpus, &mut stored.interval)?;
            }
            if visit(stored).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
