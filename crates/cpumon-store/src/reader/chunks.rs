//! Reads table `chunk`, in which everything but the last minutes is. Decoded chunks are cached, because neighbouring queries
//! read the same ones.

use rusqlite::{Connection, params};

use super::dims::Names;
use super::error::ReadError;
use super::query::{ProcessFilter, Query, What};
use crate::codec::chunk::{Chunk, MAX_CHUNK_SPAN_NS};
use crate::rows::{BootRow, HostRow};
use crate::time::TimeRange;

/// Decoded chunks in memory.
const MAX_LOADED: usize = 8;

/// A chunk, decoded as deep as it was needed.
#[derive(Debug)]
pub(crate) struct Loaded {
    id: i64,
    pub(super) boot: BootRow,
    what: What,
    /// Whose rows were decoded.
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
        self.id == id && self.what >= query.what && has_rows
    }
}

#[derive(Debug, Default)]
pub(crate) struct Chunks {
    loaded: Vec<Loaded>,
    clock: u64,
}

/// Lists the chunks of a host that may have intervals in a range, the earliest first.
pub(crate) fn in_range(
    connection: &Connection,
    host: HostRow,
    range: TimeRange,
    out: &mut Vec<i64>,
) -> rusqlite::Result<()> {
    out.clear();
    let mut statement = connection.prepare_cached(
        "SELECT id FROM chunk WHERE host_id = ?1 AND last_end_wall_ns > ?2 AND last_end_wall_ns <= ?4
         AND first_end_wall_ns <= ?3 ORDER BY last_end_wall_ns",
    )?;
    // A chunk is found by its last end, so its first may be this much earlier.
    let latest = range.until_ns.saturating_add(MAX_CHUNK_SPAN_NS);
    let mut rows = statement.query(params![host, range.since_ns, range.until_ns, latest])?;
    while let Some(row) = rows.next()? {
        out.push(row.get(0)?);
    }
    Ok(())
}

/// The last end in the first chunk of a host that has one after `after_ns`.
pub(crate) fn end_of_next(
    connection: &Connection,
    host: HostRow,
    after_ns: i64,
) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(
            "SELECT min(last_end_wall_ns) FROM chunk WHERE host_id = ?1 AND last_end_wall_ns > ?2",
        )?
        .query_row(params![host, after_ns], |row| row.get(0))
}

impl Chunks {
    /// The chunk of this id, at least as deep as the query goes.
    pub(crate) fn load(
        &mut self,
        connection: &Connection,
        names: &mut Names,
        id: i64,
        query: &Query,
    ) -> Result<&Loaded, ReadError> {
        self.clock += 1;
        let known = self.loaded.iter().position(|loaded| loaded.serves(id, query));
        let at = if let Some(at) = known { at } else { self.read(connection, names, id, query)? };
        let loaded = &mut self.loaded[at];
        loaded.used = self.clock;
        Ok(loaded)
    }

    fn read(
        &mut self,
        connection: &Connection,
        names: &mut Names,
        id: i64,
        query: &Query,
    ) -> Result<usize, ReadError> {
        let at = self.slot();
        let loaded = &mut self.loaded[at];
        // Not valid until it is read whole: an error below leaves it half decoded.
        loaded.id = -1;
        let what = query.what;
        // NULL in place of a section that is not wanted: SQLite does not copy its blob then.
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
        if what > What::Meta {
            let mut pick = |id| -> Result<bool, ReadError> {
                if query.filter == ProcessFilter::All {
                    return Ok(true);
                }
                let process = names.process(connection, id)?;
                Ok(query.filter.matches(process.key, &process.info))
            };
            loaded.chunk.read_processes(blob(2)?, &mut pick)?;
            // Also when it is not wanted: the blob is empty then, and the events of another chunk must go.
            loaded.chunk.read_sched(blob(4)?)?;
        }
        if what > What::Processes {
            loaded.chunk.read_threads(blob(3)?)?;
        }
        (loaded.id, loaded.what) = (id, what);
        (loaded.filter, loaded.has_sched) = (query.filter.clone(), with_sched);
        Ok(at)
    }

    /// Index for another chunk: a new one, or that of the chunk not used for longest.
    fn slot(&mut self) -> usize {
        if self.loaded.len() < MAX_LOADED {
            let empty = Loaded {
                id: -1,
                boot: BootRow(0),
                what: What::Meta,
                filter: ProcessFilter::All,
                has_sched: false,
                chunk: Chunk::default(),
                used: 0,
            };
            self.loaded.push(empty);
            return self.loaded.len() - 1;
        }
        let oldest = self.loaded.iter().enumerate().min_by_key(|(_, loaded)| loaded.used);
        oldest.map_or(0, |(at, _)| at)
    }
}
