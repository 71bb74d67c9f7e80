//! Reads the intervals of a host in order of time, in any range with bounded memory. The range is read in windows, each in
//! one short transaction. So compaction in between neither hides nor doubles an interval, and a slow caller does not keep
//! the write-ahead log from being reused.

use cpumon_model::HostId;
use rusqlite::{Connection, params};

use super::build::{self, HostKey, PackedRows, ReaderNames};
use super::chunks::{self, ChunkSpan, Chunks, Loaded, MAX_HELD_BYTES, count_of};
use super::damage::{Damage, DamageLog, DamageReport, HolePlace, ReadError};
use super::query::{ProcessFilter, Query, TimeRange, What};
use super::resting::{self, At, RestingList, RestingThreads};
use crate::codec::meta::{self, MetaRow, StoredInterval};
use crate::codec::sched::SchedRows;
use crate::codec::{PackedInterval, blob, host};
use crate::error::is_damage;
use crate::fresh::{self, FreshKey, FreshRow};
use crate::rows::{BootRow, HostRow, value};

/// Fresh intervals in one window.
const WINDOW_INTERVALS: u32 = 64;

/// Chunks of one window that are merged by time; more (a clock set back again and again) are given one after the other, and so are those that
/// are not in memory together.
const MAX_MERGED: usize = 8;

/// End of the last interval that ends before `wall_ns`.
pub(crate) fn last_end_before(
    connection: &Connection,
    host: HostRow,
    wall_ns: i64,
) -> Result<Option<i64>, ReadError> {
    let text = "SELECT max(end_wall_ns) FROM interval WHERE host_id = ?1 AND end_wall_ns < ?2";
    let fresh: Option<i64> = value(connection, text, params![host, wall_ns])?;
    let text = "SELECT max(last_end_wall_ns) FROM chunk WHERE host_id = ?1 AND last_end_wall_ns < ?2";
    let mut last = fresh.max(value(connection, text, params![host, wall_ns])?);
    let (mut chunks, mut names) = (Chunks::default(), ReaderNames::default());
    let query = Query::new(HostId::default()).what(What::Meta);
    // A chunk that reaches beyond the moment can have an end before it that is later than those found above.
    let just_before = wall_ns.saturating_sub(1);
    for span in chunks::in_range(connection, host, TimeRange::new(just_before, just_before))? {
        match chunks.load(connection, &mut names, span, &query) {
            Ok(loaded) => {
                let ends = loaded.chunk.metas.iter().map(|row| row[meta::END_WALL]);
                last = last.max(ends.filter(|&end| end < wall_ns).max());
            }
            // The walk to the interval that is found meets the damage again, and reports it.
            Err(error) => drop(error.into_damage()?),
        }
    }
    Ok(last)
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct IntervalPosition {
    end_wall_ns: i64,
    sequence: u64,
    /// Its place among the chunks of the window; `None`: fresh.
    chunk: Option<usize>,
    /// Number in its chunk, or among the fresh ones.
    at: usize,
}

/// How far a walk through the intervals of a query is. They come in order of their ends.
#[derive(Debug)]
pub(super) struct IntervalWalk {
    host: HostRow,
    query: Query,
    /// Whether compacted intervals are left out, because the caller reads their sums in the same transaction.
    is_fresh: bool,
    window: TimeRange,
    /// The first of its chunks that is not listed in the positions yet.
    next_chunk: usize,
    /// The first position that was not read.
    next: usize,
    /// The last interval that was given.
    given: Option<FoundInterval>,
}

#[derive(Debug, Default)]
pub(crate) struct IntervalCursor {
    pub(crate) names: ReaderNames,
    chunks: Chunks,
    fresh: Vec<FreshRow>,
    chunk_spans: Vec<ChunkSpan>,
    positions: Vec<IntervalPosition>,
    packed: PackedInterval,
    sched: SchedRows,
    lists: Vec<RestingList>,
    resting: RestingThreads,
    stored: StoredInterval,
    damage: DamageLog,
}

/// Bytes of decoded chunks that a reader keeps for the next question.
const MAX_IDLE_BYTES: usize = 4 << 20;

impl IntervalCursor {
    /// Keeps the small parts for the next question: names, the newest chunks, and the damage that was found.
    pub(super) fn rest(&mut self) {
        let Self { mut names, mut chunks, damage, .. } = std::mem::take(self);
        names.rest();
        chunks.shed(MAX_IDLE_BYTES, None);
        *self = Self { names, chunks, damage, ..Self::default() };
    }

    pub(super) fn walk(
        &mut self,
        connection: &Connection,
        host: HostRow,
        query: Query,
    ) -> Result<IntervalWalk, ReadError> {
        // At a list of the threads that wait; from there to the range intervals are only followed.
        let after_ns = self.resting.begin_of_walk(connection, host, &query)?;
        Ok(self.walk_from(after_ns, host, query, false))
    }

    /// A walk through the fresh intervals of a query, inside of the caller's transaction. Threads that rest are followed from where the
    /// last walk ended.
    pub(super) fn walk_fresh(&mut self, host: HostRow, query: Query) -> IntervalWalk {
        self.walk_from(query.since_ns, host, query, true)
    }

    fn walk_from(&mut self, after_ns: i64, host: HostRow, query: Query, is_fresh: bool) -> IntervalWalk {
        self.positions.clear();
        self.chunk_spans.clear();
        let window = TimeRange::new(after_ns, after_ns);
        IntervalWalk { host, query, is_fresh, window, next_chunk: 0, next: 0, given: None }
    }

    /// Reads the next interval of a walk into [`IntervalCursor::stored`]; `false` at the end.
    pub(super) fn advance(
        &mut self,
        connection: &Connection,
        walk: &mut IntervalWalk,
    ) -> Result<bool, ReadError> {
        self.leave(walk, true);
        loop {
            while let Some(&position) = self.positions.get(walk.next) {
                walk.next += 1;
                if self.read_at(connection, walk, position)? {
                    return Ok(true);
                }
            }
            let is_window_read = walk.next_chunk >= self.chunk_spans.len();
            if is_window_read && !self.load_window(connection, walk)? {
                return Ok(false);
            }
            self.find_positions(connection, walk)?;
        }
    }

    /// Continues behind the interval that was given last. Not `is_taken`: the walk ended before it, and the next one may begin with it.
    pub(super) fn leave(&mut self, walk: &mut IntervalWalk, is_taken: bool) {
        if let Some(FoundInterval { boot, row, .. }) = walk.given.take()
            && resting::is_wanted(&walk.query)
        {
            self.resting.leave(walk.host, &walk.query, At { boot, row: &row }, is_taken);
        }
    }

    /// The interval that was read last.
    pub(super) fn stored(&self) -> &StoredInterval {
        &self.stored
    }

    /// Reads the next window of a walk; `false` if there is nothing more.
    fn load_window(&mut self, connection: &Connection, walk: &mut IntervalWalk) -> Result<bool, ReadError> {
        let (host, query, after_ns) = (walk.host, &walk.query, walk.window.until_ns);
        let transaction = (!walk.is_fresh).then(|| connection.unchecked_transaction()).transpose()?;
        let fresh_end = fresh::end_of_some(connection, host, after_ns, WINDOW_INTERVALS)?;
        let chunk_end = if walk.is_fresh { None } else { chunks::end_of_next(connection, host, after_ns)? };
        // The nearer end: a window has at most some fresh intervals, and few chunks besides the one that ends there.
        let nearest = fresh_end.into_iter().chain(chunk_end).min();
        let Some(window_end) = nearest.map(|end| end.min(query.until_ns)).filter(|&end| end > after_ns)
        else {
            return Ok(false);
        };
        (walk.window, walk.next_chunk) = (TimeRange::new(after_ns, window_end), 0);
        self.read_fresh(connection, walk)?;
        if let Some(transaction) = transaction {
            self.chunk_spans = chunks::in_range(connection, host, walk.window)?;
            // Chunks are never changed: with the first ones read here, only retention can take a later one away.
            for &span in self.chunk_spans.iter().take(MAX_MERGED) {
                if let Err(error) = self.chunks.load(connection, &mut self.names, span, query) {
                    self.damage.note_chunk(connection, query, span, error)?;
                }
            }
            transaction.commit()?;
        }
        Ok(true)
    }

    /// Reads the fresh intervals and the lists of a window, and passes over those that are damaged.
    fn read_fresh(&mut self, connection: &Connection, walk: &IntervalWalk) -> Result<(), ReadError> {
        let IntervalWalk { host, query, window, .. } = walk;
        let (host, range) = (*host, *window);
        self.lists =
            if resting::is_wanted(query) { resting::lists_in(connection, host, range)? } else { Vec::new() };
        let (with_samples, damage) = (query.what > What::Meta, &mut self.damage);
        self.fresh = match fresh::in_range(connection, host, range, with_samples) {
            Err(error) if is_damage(&error) => {
                let mut skip = |key: FreshKey, error: rusqlite::Error| {
                    damage.note_interval(query, None, key, error.into())
                };
                fresh::each_in_range(connection, host, range, with_samples, &mut skip)?
            }
            read => read?,
        };
        Ok(())
    }

    /// Lists the next intervals of a window in order: those of some of its chunks, and in the first round the fresh ones. The last chunks
    /// are left for the next round where all together are large.
    fn find_positions(&mut self, connection: &Connection, walk: &mut IntervalWalk) -> Result<(), ReadError> {
        let (query, first, range) = (&walk.query, walk.next_chunk, walk.window);
        (walk.next, walk.next_chunk) = (0, self.chunk_spans.len().min(first + MAX_MERGED));
        self.positions.clear();
        let position = |row: &MetaRow, chunk, at| IntervalPosition {
            end_wall_ns: row[meta::END_WALL],
            sequence: row[meta::SEQUENCE].cast_unsigned(),
            chunk,
            at,
        };
        if first == 0 {
            self.positions
                .extend(self.fresh.iter().enumerate().map(|(at, row)| position(&row.meta, None, at)));
        }
        let mut bytes = 0;
        for number in first..walk.next_chunk {
            let span = self.chunk_spans[number];
            match self.chunks.load(connection, &mut self.names, span, query) {
                Ok(loaded) => {
                    bytes += loaded.chunk.held_bytes();
                    if bytes > MAX_HELD_BYTES && number > first {
                        walk.next_chunk = number;
                        break;
                    }
                    let rows = loaded.chunk.metas.iter().enumerate();
                    let inside = rows.filter(|(_, row)| range.contains(row[meta::END_WALL]));
                    self.positions.extend(inside.map(|(at, row)| position(row, Some(number), at)));
                }
                // Retention may have taken it away since it was listed.
                Err(error) if error.is_gone() => {}
                Err(error) => self.damage.note_chunk(connection, query, span, error)?,
            }
        }
        // Chunks overlap where intervals came late, and fresh ones may be older than compacted ones.
        self.positions.sort_unstable();
        Ok(())
    }

    /// Reads the interval at a position; `false` if it is damaged, or before the range and only followed.
    fn read_at(
        &mut self,
        connection: &Connection,
        walk: &mut IntervalWalk,
        position: IntervalPosition,
    ) -> Result<bool, ReadError> {
        let query = &walk.query;
        let is_inside = position.end_wall_ns > query.since_ns;
        let span = position.chunk.and_then(|chunk| self.chunk_spans.get(chunk).copied());
        let found = match span {
            Some(span) => self.find_compacted(connection, query, span, position.at),
            None => self.find_fresh(query, position.at),
        };
        let filled = found.and_then(|found| {
            self.fill(connection, query, &found, is_inside)?;
            Ok(found)
        });
        match filled {
            Ok(found) => {
                walk.given = Some(found);
                if !is_inside {
                    self.leave(walk, true);
                }
                Ok(is_inside)
            }
            Err(error) => {
                let key = FreshKey { end_wall_ns: position.end_wall_ns, sequence: position.sequence };
                self.damage.note_interval(query, span.map(|span| span.id), key, error)?;
                Ok(false)
            }
        }
    }

    /// Decodes an interval of a chunk.
    fn find_compacted(
        &mut self,
        connection: &Connection,
        query: &Query,
        span: ChunkSpan,
        at: usize,
    ) -> Result<FoundInterval, ReadError> {
        // From the cache: it holds as many chunks as are merged.
        let Loaded { boot, chunk, .. } = self.chunks.load(connection, &mut self.names, span, query)?;
        let rows = chunk.processes.of(at);
        // Under a name that a process takes later it may have threads that rest already.
        let wants_all = query.filter == ProcessFilter::All
            || resting::is_wanted(query) && matches!(query.filter, ProcessFilter::Name(_));
        let mut wants = |id: u64| wants_all || rows.binary_search_by_key(&id, |row| row.id).is_ok();
        let with_sched = query.what > What::Meta && query.sched;
        self.sched.read_of(if with_sched { chunk.sched.of(at) } else { &[] }, &mut wants)?;
        let row = *chunk.metas.get(at).unwrap_or(&[0; meta::COUNT]);
        Ok(FoundInterval { boot: *boot, row, at, span: Some(span) })
    }

    /// Decodes a fresh interval.
    fn find_fresh(&mut self, query: &Query, at: usize) -> Result<FoundInterval, ReadError> {
        let row = self.fresh.get(at).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        if query.what > What::Meta {
            blob::decode(&row.samples, &mut self.packed)?;
        }
        self.sched.read(if query.sched { &row.sched } else { &[] })?;
        Ok(FoundInterval { boot: row.boot, row: row.meta, at, span: None })
    }

    /// Follows the threads of an interval that was found, and fills [`IntervalCursor::stored`] if it is inside of the range.
    fn fill(
        &mut self,
        connection: &Connection,
        query: &Query,
        found: &FoundInterval,
        is_inside: bool,
    ) -> Result<(), ReadError> {
        let FoundInterval { boot, row, at, span } = found;
        let (boot, at) = (*boot, *at);
        let (cpu_bytes, processes, threads) = if let Some(span) = *span {
            let chunk = &self.chunks.load(connection, &mut self.names, span, query)?.chunk;
            (chunk.cpus.of(at), chunk.processes.of(at), chunk.threads.of(at))
        } else {
            let cpus = self.fresh.get(at).map_or(&[][..], |row| &row.cpus);
            (cpus, &*self.packed.processes, &*self.packed.threads)
        };
        let rows = PackedRows { processes, threads, sched: &self.sched };
        let with_resting = resting::is_wanted(query);
        if with_resting {
            self.resting.enter(connection, &mut self.names, query, At { boot, row }, rows, &self.lists)?;
        }
        if is_inside {
            let key = HostKey { host: query.host, boot: self.names.boot(connection, boot)? };
            build::fill(connection, &mut self.names, query, key, row, rows, &mut self.stored)?;
            if query.sched {
                host::decode(cpu_bytes, &mut self.stored.interval)?;
            } else {
                host::decode_without_waits(cpu_bytes, &mut self.stored.interval)?;
            }
            if with_resting {
                self.resting.add_to(connection, &mut self.names, query, &mut self.stored.interval)?;
            }
        }
        Ok(())
    }

    pub(super) fn damage_report(&self) -> DamageReport {
        self.damage.report(self.names.nameless.get(), self.names.lost_sums)
    }

    /// The holes of a host that were met so far.
    pub(super) fn damage_of(&self, host: HostId) -> impl Iterator<Item = &Damage> {
        self.damage.of(host)
    }

    pub(super) fn merge_damage(&mut self, other: Self) {
        self.damage.merge(other.damage);
        self.names.nameless.set(self.names.nameless.get() + other.names.nameless.get());
        self.names.lost_sums += other.names.lost_sums;
    }
}

#[derive(Debug)]
struct FoundInterval {
    boot: BootRow,
    row: MetaRow,
    /// Number in its chunk, or among the fresh ones.
    at: usize,
    /// Its chunk; `None`: it is fresh.
    span: Option<ChunkSpan>,
}

impl DamageLog {
    fn note_chunk(
        &mut self,
        connection: &Connection,
        query: &Query,
        span: ChunkSpan,
        error: ReadError,
    ) -> Result<(), ReadError> {
        let ChunkSpan { id, first_end_ns, last_end_ns } = span;
        let place = HolePlace { host: query.host, end_wall_ns: last_end_ns, chunk: Some(id), sequence: 0 };
        self.note(place, error, || (first_end_ns, count_of(connection, id)))
    }

    /// One interval cannot be read; `chunk`: that it is in.
    fn note_interval(
        &mut self,
        query: &Query,
        chunk: Option<i64>,
        key: FreshKey,
        error: ReadError,
    ) -> Result<(), ReadError> {
        let FreshKey { end_wall_ns, sequence } = key;
        let place = HolePlace { host: query.host, end_wall_ns, chunk, sequence };
        self.note(place, error, || (end_wall_ns, Some(1)))
    }
}
