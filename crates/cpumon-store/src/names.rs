//! Tables `thread` and `process`, and the blocks that their rows are merged into. Both the writer and the reader find names here.

use std::collections::BTreeMap;

use cpumon_model::Comm;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Result as Sql, Row, params};

use crate::codec::names::{Name, ProcessName, ThreadName, decode};

/// A name that has a table of rows and one of blocks.
pub(crate) trait Stored: Name {
    /// The table of rows; the table of blocks has `_block` behind it.
    const TABLE: &'static str;
    /// The columns that [`Stored::from_row`] reads.
    const COLUMNS: &'static str;
    /// Which rows are names of tasks.
    const IS_TASK: &'static str;

    /// Reads [`Stored::COLUMNS`].
    fn from_row(row: &Row<'_>) -> Sql<Self>;

    /// Inserts it as a row.
    fn insert(&self, connection: &Connection, last_s: i64) -> Sql<()>;
}

/// An unsigned number, which SQLite stores as a signed one of the same bits.
fn unsigned(row: &Row<'_>, at: usize) -> Sql<u64> {
    row.get::<_, i64>(at).map(i64::cast_unsigned)
}

impl Stored for ThreadName {
    const TABLE: &'static str = "thread";
    const COLUMNS: &'static str = "id, process_id, tid, start_ns, comm, nice, priority";
    const IS_TASK: &'static str = "TRUE";

    fn from_row(row: &Row<'_>) -> Sql<Self> {
        let comm = match row.get_ref(4)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Comm::new(bytes),
            _ => Comm::default(),
        };
        Ok(Self {
            id: unsigned(row, 0)?,
            process_id: unsigned(row, 1)?,
            tid: row.get(2)?,
            start_ns: unsigned(row, 3)?,
            comm,
            nice: row.get(5)?,
            priority: row.get(6)?,
        })
    }

    fn insert(&self, connection: &Connection, last_s: i64) -> Sql<()> {
        connection
            .prepare_cached(
                "INSERT INTO thread (id, process_id, tid, start_ns, comm, nice, priority, last_s)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                self.id.cast_signed(),
                self.process_id.cast_signed(),
                self.tid,
                self.start_ns.cast_signed(),
                SqlComm(self.comm),
                self.nice,
                self.priority,
                last_s
            ])?;
        Ok(())
    }
}

impl Stored for ProcessName {
    const TABLE: &'static str = "process";
    const COLUMNS: &'static str = "id, boot_id, pid, start_ns, parent_pid, info_id, is_short";
    /// Boot 0 marks rows that represent short-lived processes in sums; they are no tasks.
    const IS_TASK: &'static str = "boot_id <> 0";

    fn from_row(row: &Row<'_>) -> Sql<Self> {
        Ok(Self {
            id: unsigned(row, 0)?,
            boot_id: row.get(1)?,
            pid: row.get(2)?,
            start_ns: unsigned(row, 3)?,
            parent_pid: row.get(4)?,
            info_id: row.get(5)?,
            is_short: row.get(6)?,
        })
    }

    fn insert(&self, connection: &Connection, last_s: i64) -> Sql<()> {
        connection
            .prepare_cached(
                "INSERT INTO process (id, boot_id, pid, start_ns, parent_pid, info_id, is_short, last_s)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                self.id.cast_signed(),
                self.boot_id,
                self.pid,
                self.start_ns.cast_signed(),
                self.parent_pid,
                self.info_id,
                self.is_short,
                last_s
            ])?;
        Ok(())
    }
}

/// A kernel name as SQL: text, or a blob where it is not UTF-8.
pub(crate) struct SqlComm(pub(crate) Comm);

impl ToSql for SqlComm {
    fn to_sql(&self) -> Sql<ToSqlOutput<'_>> {
        let bytes = self.0.as_bytes();
        Ok(ToSqlOutput::Borrowed(match std::str::from_utf8(bytes) {
            Ok(_) => ValueRef::Text(bytes),
            Err(_) => ValueRef::Blob(bytes),
        }))
    }
}

/// Names that were rows with ids of (`first_id`..=`last_id`).
#[derive(Clone, Debug)]
pub(crate) struct Block<N> {
    pub(crate) first_id: u64,
    pub(crate) last_id: u64,
    /// The newest `last_s` of those rows.
    pub(crate) last_s: i64,
    /// In order of id; empty if the block is damaged.
    pub(crate) names: Vec<N>,
}

impl<N: Name> Block<N> {
    /// Whether a name of this id would be here.
    pub(crate) fn covers(&self, id: u64) -> bool {
        (self.first_id..=self.last_id).contains(&id)
    }

    /// The name of a task in it.
    pub(crate) fn get(&self, id: u64) -> Option<&N> {
        self.names.binary_search_by_key(&id, Name::id).ok().map(|at| &self.names[at])
    }
}

/// The row of a name; `None` if there is none, or not any more.
pub(crate) fn row_of<N: Stored>(connection: &Connection, id: u64) -> Sql<Option<N>> {
    let text = format!("SELECT {} FROM {} WHERE id = ?1", N::COLUMNS, N::TABLE);
    connection.prepare_cached(&text)?.query_row([id.cast_signed()], |row| N::from_row(row)).optional()
}

/// The block around an id; `None` if there is none.
pub(crate) fn block_around<N: Stored>(connection: &Connection, id: u64) -> Sql<Option<Block<N>>> {
    let block: Option<Block<N>> = load_block(connection, "first_id <= ?1 ORDER BY first_id DESC", id)?;
    Ok(block.filter(|block| block.covers(id)))
}

fn load_block<N: Stored>(connection: &Connection, which: &str, id: u64) -> Sql<Option<Block<N>>> {
    let text =
        format!("SELECT first_id, last_id, last_s, names FROM {}_block WHERE {which} LIMIT 1", N::TABLE);
    connection
        .prepare_cached(&text)?
        .query_row([id.cast_signed()], |row| {
            let (first_id, last_id) = (unsigned(row, 0)?, unsigned(row, 1)?);
            let names = decode(row.get_ref(3)?.as_blob()?).unwrap_or_else(|malformed| {
                log::warn!("{} names {first_id} to {last_id} are damaged: {malformed}", N::TABLE);
                Vec::new()
            });
            Ok(Block { first_id, last_id, last_s: row.get(2)?, names })
        })
        .optional()
}

/// The name of a task. The block it was found in stays in `cached`: the next one is mostly a neighbour.
pub(crate) fn find<N: Stored>(
    connection: &Connection,
    id: u64,
    cached: &mut Option<Block<N>>,
) -> Sql<Option<N>> {
    let in_block = |block: &Option<Block<N>>| block.as_ref().and_then(|block| block.get(id)).copied();
    // A task that outlived its block has a row too: the same name, so the one that costs no SQL is taken.
    if let Some(name) = in_block(cached) {
        return Ok(Some(name));
    }
    if let Some(row) = row_of(connection, id)? {
        return Ok(Some(row));
    }
    if cached.as_ref().is_none_or(|block| !block.covers(id)) {
        *cached = block_around(connection, id)?;
    }
    Ok(in_block(cached))
}

/// Names read at once.
const STEP: usize = 1024;

/// The next names above an id, in order, and the id up to which they are complete; `None`: to the end.
pub(crate) fn next_names<N: Stored>(connection: &Connection, after: u64) -> Sql<(Vec<N>, Option<u64>)> {
    let text = format!(
        "SELECT {} FROM {} WHERE id > ?1 AND {} ORDER BY id LIMIT {STEP}",
        N::COLUMNS,
        N::TABLE,
        N::IS_TASK
    );
    let mut select = connection.prepare_cached(&text)?;
    let rows = select.query_map([after.cast_signed()], |row| N::from_row(row))?;
    let rows: Vec<N> = rows.collect::<Sql<_>>()?;
    // The last call may have ended inside a block, so the one around the next id is tried first.
    let block: Option<Block<N>> = match block_around(connection, after + 1)? {
        Some(block) => Some(block),
        None => load_block(connection, "first_id > ?1 ORDER BY first_id", after)?,
    };
    // Rows and the block are both read only up to some id: the list is complete up to the lower of the two.
    let rows_end = rows.last().filter(|_| rows.len() == STEP).map(Name::id);
    let end = rows_end.into_iter().chain(block.as_ref().map(|block| block.last_id)).min();
    let is_in = |name: &N| name.id() > after && end.is_none_or(|end| name.id() <= end);
    let in_block = block.map(|block| block.names).unwrap_or_default();
    // A task that outlived its block has a row too: the same name.
    let names: BTreeMap<u64, N> =
        in_block.into_iter().chain(rows).filter(is_in).map(|name| (name.id(), name)).collect();
    Ok((names.into_values().collect(), end))
}
