//! Intervals of a host in order of time. In: a [`Query`]. Out: each interval, in one kept buffer. Why: any range is read with
//! bounded memory. The range is walked in windows; each window is read in one short transaction, so that sealing at the same
//! time neither hides nor doubles an interval, and a slow reader does not keep the writer's log from being reused.

use std::ops::ControlFlow;

use cpumon_model::{HostId, Interval};
use rusqlite::Connection;

use super::build::{self, Rows};
use super::chunks::{self, Chunks, Loaded};
use super::dims::Names;
use super::fresh::{self, FreshRow};
use super::query::{ProcessFilter, Query, StoredInterval, What};
use crate::codec::meta::{self, MetaRow};
use crate::codec::sched::SchedRows;
use crate::codec::varint::Malformed;
use crate::codec::{PackedInterval, blob, cpus};

/// Fresh intervals in one window.
const WINDOW_INTERVALS: u32 = 64;

/// Why a stream ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error("{0}")]
    Malformed(#[from] Malformed),
}

/// Takes an interval, says whether to go on.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&StoredInterval) -> ControlFlow<()>;

/// Chunks of one window that are merged by time; more (a clock set back again and again) are given one after the other.
const MAX_MERGED: usize = 8;

/// End of the last interval that ends before `wall_ns`.
pub(crate) fn last_end_before(
    connection: &Connection,
    host_id: i64,
    wall_ns: i64,
) -> Result<Option<i64>, ReadError> {
    let mut last: Option<i64> = connection
        .prepare_cached("SELECT max(end_wall_ns) FROM interval WHERE host_id = ?1 AND end_wall_ns < ?2")?
        .query_row([host_id, wall_ns], |row| row.get(0))?;
    let compacted: Option<i64> = connection
        .prepare_cached(
            "SELECT max(last_end_wall_ns) FROM chunk WHERE host_id = ?1 AND last_end_wall_ns < ?2",
        )?
        .query_row([host_id, wall_ns], |row| row.get(0))?;
    last = last.max(compacted);
    let (mut ids, mut chunks, mut names) = (Vec::new(), Chunks::default(), Names::default());
    let query = Query::new(HostId::default()).what(What::Meta);
    // Chunks that reach beyond: their last end before the moment is inside.
    chunks::in_span(connection, host_id, (wall_ns.saturating_sub(1), wall_ns.saturating_sub(1)), &mut ids)?;
    for id in ids {
        let loaded = chunks.load(connection, &mut names, id, &query)?;
        let ends = loaded.chunk.metas.iter().map(|row| row[meta::END_WALL]);
        last = last.max(ends.filter(|&end| end < wall_ns).max());
    }
    Ok(last)
}

/// Where an interval of a window stands.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SourcePosition {
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
    places: Vec<SourcePosition>,
    packed: PackedInterval,
    sched: SchedRows,
    stored: StoredInterval,
}

impl IntervalCursor {
    /// Calls `visit` for each interval of the query, in order of its end.
    pub(crate) fn run(
        &mut self,
        connection: &Connection,
        host_id: i64,
        query: &Query,
        visit: Visit<'_>,
    ) -> Result<(), ReadError> {
        let mut after_ns = query.since_ns;
        while let Some(window_end) = self.load_window(connection, host_id, query, after_ns)? {
            let span = (after_ns, window_end);
            for begin in (0..self.chunk_ids.len().max(1)).step_by(MAX_MERGED) {
                let end = self.chunk_ids.len().min(begin + MAX_MERGED);
                self.find_places(connection, query, span, begin..end)?;
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
        host_id: i64,
        query: &Query,
        visit: &mut dyn FnMut(&Interval),
    ) -> Result<(), ReadError> {
        let mut after_ns = query.since_ns;
        self.chunk_ids.clear();
        while let Some(end) = fresh::end_of_some(connection, host_id, after_ns, WINDOW_INTERVALS)? {
            let span = (after_ns, end.min(query.until_ns));
            if span.1 <= span.0 {
                break;
            }
            fresh::in_span(connection, host_id, span, true, &mut self.fresh)?;
            self.find_places(connection, query, span, 0..0)?;
            let mut visit_one = |stored: &StoredInterval| {
                visit(&stored.interval);
                ControlFlow::Continue(())
            };
            let _ = self.emit(connection, query, &mut visit_one)?;
            after_ns = span.1;
        }
        Ok(())
    }

    /// Reads the next window after `after_ns`; gives its end, or `None` if there is nothing more.
    fn load_window(
        &mut self,
        connection: &Connection,
        host_id: i64,
        query: &Query,
        after_ns: i64,
    ) -> Result<Option<i64>, ReadError> {
        let transaction = connection.unchecked_transaction()?;
        let fresh_end = fresh::end_of_some(connection, host_id, after_ns, WINDOW_INTERVALS)?;
        let chunk_end = chunks::end_of_next(connection, host_id, after_ns)?;
        let nearest = fresh_end.into_iter().chain(chunk_end).min();
        let Some(window_end) = nearest.map(|end| end.min(query.until_ns)).filter(|&end| end > after_ns)
        else {
            return Ok(None);
        };
        let span = (after_ns, window_end);
        fresh::in_span(connection, host_id, span, query.what > What::Meta, &mut self.fresh)?;
        chunks::in_span(connection, host_id, span, &mut self.chunk_ids)?;
        // Chunks are never changed: with the first ones read here, only retention can take a later one away.
        for &id in self.chunk_ids.iter().take(MAX_MERGED) {
            self.chunks.load(connection, &mut self.names, id, query)?;
        }
        transaction.commit()?;
        Ok(Some(window_end))
    }

    /// Lists the intervals of a window in order: those of some of its chunks, and with the first of them the fresh ones.
    fn find_places(
        &mut self,
        connection: &Connection,
        query: &Query,
        (after_ns, until_ns): (i64, i64),
        chunks: std::ops::Range<usize>,
    ) -> Result<(), ReadError> {
        self.places.clear();
        let place = |row: &MetaRow, chunk, at| SourcePosition {
            end_wall_ns: row[meta::END_WALL],
            sequence: row[meta::SEQUENCE].cast_unsigned(),
            chunk,
            at,
        };
        if chunks.start == 0 {
            self.places.extend(self.fresh.iter().enumerate().map(|(at, row)| place(&row.meta, None, at)));
        }
        for &id in self.chunk_ids.get(chunks).unwrap_or_default() {
            let loaded = self.chunks.load(connection, &mut self.names, id, query)?;
            let rows = loaded.chunk.metas.iter().enumerate();
            let inside =
                rows.filter(|(_, row)| row[meta::END_WALL] > after_ns && row[meta::END_WALL] <= until_ns);
            self.places.extend(inside.map(|(at, row)| place(row, Some(id), at)));
        }
        self.places.sort_unstable();
        Ok(())
    }

    fn emit(
        &mut self,
        connection: &Connection,
        query: &Query,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, ReadError> {
        for place in &self.places {
            let (names, stored) = (&mut self.names, &mut self.stored);
            if let Some(id) = place.chunk {
                let Loaded { boot_id, chunk, .. } = self.chunks.load(connection, names, id, query)?;
                let boot = names.boot(connection, *boot_id)?;
                let rows = chunk.processes(place.at);
                let mut wants = |id: u64| {
                    query.filter == ProcessFilter::All || rows.binary_search_by_key(&id, |row| row.id).is_ok()
                };
                let with_sched = query.what > What::Meta && query.sched;
                self.sched.read_of(if with_sched { chunk.sched(place.at) } else { &[] }, &mut wants)?;
                let rows = Rows {
                    processes: chunk.processes(place.at),
                    threads: chunk.threads(place.at),
                    sched: &self.sched,
                };
                let row = chunk.metas.get(place.at).unwrap_or(&[0; meta::COUNT]);
                build::fill(connection, names, query, (query.host, boot), row, rows, stored)?;
                cpus::decode(chunk.cpus(place.at), &mut stored.interval)?;
            } else if let Some(row) = self.fresh.get(place.at) {
                if query.what > What::Meta {
                    blob::decode(&row.samples, &mut self.packed)?;
                }
                self.sched.read(if query.sched { &row.sched } else { &[] })?;
                let boot = names.boot(connection, row.boot_id)?;
                let rows = Rows {
                    processes: &self.packed.processes,
                    threads: &self.packed.threads,
                    sched: &self.sched,
                };
                build::fill(connection, names, query, (query.host, boot), &row.meta, rows, stored)?;
                cpus::decode(&row.cpus, &mut stored.interval)?;
            }
            if visit(stored).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
