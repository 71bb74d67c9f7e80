//! Reads table `chunk`, in which everything but the last minutes is. Decoded chunks are cached, because neighbouring queries
//! read the same ones.

use std::collections::HashSet;

use rusqlite::{Connection, params};

use super::build::ReaderNames;
use super::damage::ReadError;
use super::query::{ProcessFilter, Query, TimeRange, What};
use crate::codec::chunk::{Chunk, MAX_CHUNK_SPAN_NS};
use crate::codec::meta::END_WALL;
use crate::error::interrupted;
use crate::rows::{BootRow, HostRow, all_rows, value};

/// Most decoded chunks in memory.
const MAX_LOADED: usize = 8;
/// Bytes of decoded chunks in memory, beside the chunk being read: two of the largest that compaction makes. Chunks that are merged have no
/// more, so that none has to be read again for each of its intervals.
pub(super) const MAX_HELD_BYTES: usize = 128 << 20;
/// Most chunks that [`first_readable`] tries.
pub(super) const MAX_TRIED: u32 = 16;

/// A chunk, decoded as deep as it was needed.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// `None`: nothing was read, or not to its end.
    id: Option<i64>,
    pub(super) boot: BootRow,
    what: What,
    /// Processes whose rows were decoded.
    filter: ProcessFilter,
    has_sched: bool,
    pub(crate) chunk: Chunk,
    used: u64,
}

impl Loaded {
    /// Whether it is the chunk of this id, as deep as a query goes.
    fn serves(&self, id: i64, query: &Query) -> bool {
        // Deeper than wanted is fine, and so are rows of all processes: the caller filters.
        let has_rows = query.what == What::Meta
            || (self.filter == ProcessFilter::All || self.filter == query.filter)
                && (self.has_sched || !query.sched);
        self.id == Some(id) && self.what >= query.what && has_rows
    }
}

#[derive(Debug, Default)]
pub(crate) struct Chunks {
    loaded: Vec<Loaded>,
    clock: u64,
}

/// A chunk as the index by time has it, which is readable where the chunk is not.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkSpan {
    pub(crate) id: i64,
    pub(crate) first_end_ns: i64,
    pub(crate) last_end_ns: i64,
}

/// Lists the chunks of a host that may have intervals in a range, the earliest first.
pub(crate) fn in_range(
    connection: &Connection,
    host: HostRow,
    range: TimeRange,
) -> rusqlite::Result<Vec<ChunkSpan>> {
    let text = "SELECT id, first_end_wall_ns, last_end_wall_ns FROM chunk
         WHERE host_id = ?1 AND last_end_wall_ns > ?2 AND last_end_wall_ns <= ?4
         AND first_end_wall_ns <= ?3 ORDER BY last_end_wall_ns";
    // A chunk is found by its last end, so its first may be this much earlier.
    let latest = range.until_ns.saturating_add(MAX_CHUNK_SPAN_NS);
    let spans = all_rows(connection, text, params![host, range.since_ns, range.until_ns, latest], |row| {
        Ok(ChunkSpan { id: row.get(0)?, first_end_ns: row.get(1)?, last_end_ns: row.get(2)? })
    })?;
    // The same chunk again would take no steps of SQLite's, as it is held.
    let mut known = HashSet::new();
    if spans.iter().all(|span| known.insert(span.id)) { Ok(spans) } else { Err(interrupted()) }
}

/// The last end in the first chunk of a host that has one after `after_ns`.
pub(crate) fn end_of_next(
    connection: &Connection,
    host: HostRow,
    after_ns: i64,
) -> rusqlite::Result<Option<i64>> {
    let text = "SELECT min(last_end_wall_ns) FROM chunk WHERE host_id = ?1 AND last_end_wall_ns > ?2";
    value(connection, text, params![host, after_ns])
}

impl Chunks {
    /// A chunk, at least as deep as the query goes.
    pub(super) fn load(
        &mut self,
        connection: &Connection,
        names: &mut ReaderNames,
        span: ChunkSpan,
        query: &Query,
    ) -> Result<&Loaded, ReadError> {
        self.clock += 1;
        let known = self.loaded.iter().position(|loaded| loaded.serves(span.id, query));
        let at = if let Some(at) = known { at } else { self.read(connection, names, span, query)? };
        let loaded = &mut self.loaded[at];
        loaded.used = self.clock;
        Ok(loaded)
    }

    fn read(
        &mut self,
        connection: &Connection,
        names: &mut ReaderNames,
        span: ChunkSpan,
        query: &Query,
    ) -> Result<usize, ReadError> {
        let id = span.id;
        let at = self.slot();
        // Before the read, not behind it: a read that fails takes memory, too.
        self.shed(MAX_HELD_BYTES, Some(at));
        let loaded = &mut self.loaded[at];
        // Not valid until it is read whole: an error below leaves it half decoded.
        loaded.id = None;
        let what = query.what;
        // NULL replaces an unwanted section: SQLite does not copy its blob then.
        let mut statement = connection.prepare_cached(
            "SELECT boot_id, meta, CASE WHEN ?2 THEN processes END, CASE WHEN ?3 THEN threads END,
                    CASE WHEN ?4 THEN sched END
             FROM chunk WHERE id = ?1",
        )?;
        let with_sched = what > What::Meta && query.sched;
        let mut rows = statement.query(params![id, what > What::Meta, what > What::Processes, with_sched])?;
        let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        // A value that is no blob reads as an empty section, which is refused as damaged below.
        let blob = |at: usize| {
            row.get_ref(at).map(|value| value.as_blob_or_null().ok().flatten().unwrap_or_default())
        };
        loaded.boot = row.get(0)?;
        loaded.chunk.read_meta(blob(1)?)?;
        check_times(&loaded.chunk, span)?;
        if what > What::Meta {
            let pick = |ids: &[u64]| -> Result<Vec<bool>, ReadError> {
                names.expect_processes(ids.to_vec());
                if query.filter == ProcessFilter::All {
                    return Ok(vec![true; ids.len()]);
                }
                let mut matches = |&id: &u64| -> Result<bool, ReadError> {
                    let process = names.process(connection, id)?;
                    Ok(query.filter.matches(process.key, &process.info))
                };
                ids.iter().map(&mut matches).collect()
            };
            loaded.chunk.read_processes(blob(2)?, pick)?;
            // Also when it is not wanted: the blob is empty then, and the events of another chunk must go.
            loaded.chunk.read_sched(blob(4)?)?;
        }
        if what > What::Processes {
            names.expect_threads(loaded.chunk.read_threads(blob(3)?)?);
        }
        loaded.chunk.trim();
        (loaded.id, loaded.what) = (Some(id), what);
        (loaded.filter, loaded.has_sched) = (query.filter.clone(), with_sched);
        Ok(at)
    }

    /// Frees chunks but the one of an index, those not used for longest first, until all together have no more bytes than `most`.
    pub(super) fn shed(&mut self, most: usize, kept: Option<usize>) {
        let held = |loaded: &Loaded| loaded.chunk.held_bytes();
        while self.loaded.iter().map(held).sum::<usize>() > most {
            let others = self.loaded.iter_mut().enumerate().filter(|(at, _)| Some(*at) != kept);
            let oldest = others.filter(|(_, loaded)| held(loaded) > 0).min_by_key(|(_, loaded)| loaded.used);
            let Some((_, oldest)) = oldest else { return };
            *oldest = Loaded::default();
        }
    }

    /// Index for another chunk: a new one, or that of the chunk not used for longest.
    fn slot(&mut self) -> usize {
        if self.loaded.len() < MAX_LOADED {
            self.loaded.push(Loaded::default());
            return self.loaded.len() - 1;
        }
        let oldest = self.loaded.iter().enumerate().min_by_key(|(_, loaded)| loaded.used);
        oldest.map_or(0, |(at, _)| at)
    }
}

/// A chunk without a checksum can decode to something else. All intervals are found by these two times.
fn check_times(chunk: &Chunk, span: ChunkSpan) -> Result<(), ReadError> {
    let ends = || chunk.metas.iter().map(|row| row[END_WALL]);
    if (ends().min(), ends().max()) == (Some(span.first_end_ns), Some(span.last_end_ns)) {
        Ok(())
    } else {
        Err(ReadError::Inconsistent("the end times of a chunk's intervals differ from those in its row"))
    }
}

/// Intervals in a chunk, as its row says; `None` if that cannot be read either.
pub(super) fn count_of(connection: &Connection, id: i64) -> Option<u64> {
    let count = value::<i64>(connection, "SELECT intervals FROM chunk WHERE id = ?1", [id]);
    count.ok().and_then(|count| u64::try_from(count).ok())
}

/// The intervals' metadata of the first chunk that can be read; of none, if none can.
pub(super) fn first_readable(connection: &Connection, ids: Vec<i64>) -> Result<Chunk, ReadError> {
    let mut chunk = Chunk::default();
    for id in ids {
        let meta = value::<Vec<u8>>(connection, "SELECT meta FROM chunk WHERE id = ?1", [id]);
        let read = meta.map_err(ReadError::from).and_then(|meta| Ok(chunk.read_meta(&meta)?));
        match read {
            Ok(()) => return Ok(chunk),
            Err(error) => log::debug!("chunk left out: {}", error.into_damage()?),
        }
    }
    Ok(Chunk::default())
}
