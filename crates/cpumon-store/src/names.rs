//! Names of tasks: tables `thread` and `process`, and the blocks that their rows are merged into, a thousand names in one blob. A
//! compiler's threads live for a second, and their names take more space than their samples; side by side and compressed a name
//! takes a quarter of its row. Both the writer and the reader find names here. Layout: docs/store.md, "Blocks of names".

use std::collections::{BTreeMap, BTreeSet};

use cpumon_model::{Comm, ProcessInfo};
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Result as Sql, Row, params};

use crate::codec::lists::{ListRow, MOST_NUMBERS, pack, step, stepped, unpack};
use crate::codec::varint::{unzigzag, zigzag};
use crate::error::unpackable;
use crate::rows::{all_rows, execute, find_row, signed, unsigned};

/// Most names in a block, twice as many as are put into one; more is damage.
const MAX_NAMES: usize = 1 << 11;
/// Plain bytes of [`MAX_NAMES`] names: each has up to seven numbers, a length and 15 bytes of text.
const MAX_BLOCK_BYTES: usize = MAX_NAMES * 128;
const TOO_MANY: &str = "more names than a block has";

/// A row of table `thread`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadName {
    pub(crate) id: u64,
    pub(crate) process_id: u64,
    pub(crate) tid: u32,
    pub(crate) start_ns: u64,
    pub(crate) comm: Comm,
    pub(crate) nice: i8,
    pub(crate) priority: i16,
}

/// A row of table `process`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessName {
    pub(crate) id: u64,
    pub(crate) boot_id: i64,
    pub(crate) pid: u32,
    pub(crate) start_ns: u64,
    pub(crate) parent_pid: u32,
    pub(crate) info_id: i64,
    pub(crate) is_short: bool,
}

/// A name that has a table of rows, and one of blocks into which its rows are packed.
pub(crate) trait NameRow: ListRow {
    /// The table of rows; the table of blocks has `_block` behind it.
    const TABLE: &'static str;
    const COLUMNS: &'static str;
    /// SQL condition for the rows that are names of tasks.
    const IS_TASK: &'static str;

    fn from_row(row: &Row<'_>) -> Sql<Self>;

    fn insert(&self, connection: &Connection, last_s: i64) -> Sql<()>;

    fn insert_block(connection: &Connection, block: &Block<Self>, level: i32) -> Sql<()>;

    fn id(&self) -> u64;
}

/// [`stepped`] for numbers of 32 bits.
fn stepped_u32(before: u32, by: u64) -> Option<u32> {
    u32::try_from(stepped(before.into(), by)).ok()
}

impl NameRow for ThreadName {
    const TABLE: &'static str = "thread";
    const COLUMNS: &'static str = "id, process_id, tid, start_ns, comm, nice, priority";
    const IS_TASK: &'static str = "TRUE";

    fn from_row(row: &Row<'_>) -> Sql<Self> {
        Ok(Self {
            id: unsigned(row, 0)?,
            process_id: unsigned(row, 1)?,
            tid: row.get(2)?,
            start_ns: unsigned(row, 3)?,
            comm: row.get::<_, SqlComm>(4)?.0,
            nice: row.get(5)?,
            priority: row.get(6)?,
        })
    }

    fn insert(&self, connection: &Connection, last_s: i64) -> Sql<()> {
        let text = "INSERT INTO thread (id, process_id, tid, start_ns, comm, nice, priority, last_s)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let [id, process_id, start_ns] = [self.id, self.process_id, self.start_ns].map(u64::cast_signed);
        let Self { tid, comm, nice, priority, .. } = *self;
        let values = params![id, process_id, tid, start_ns, SqlComm(comm), nice, priority, last_s];
        execute(connection, text, values).map(drop)
    }

    fn insert_block(connection: &Connection, block: &Block<Self>, level: i32) -> Sql<()> {
        let text = "INSERT OR REPLACE INTO thread_block (first_id, last_id, last_s, count, names)
                    VALUES (?1, ?2, ?3, ?4, ?5)";
        let (first_id, last_id) = (block.first_id.cast_signed(), block.last_id.cast_signed());
        let (count, names) = (signed(block.names.len()), block.pack(level)?);
        execute(connection, text, params![first_id, last_id, block.last_s, count, names]).map(drop)
    }

    fn id(&self) -> u64 {
        self.id
    }
}

impl ListRow for ThreadName {
    const NUMBERS: usize = 6;
    const HAS_TEXT: bool = true;
    const MAX_ROWS: usize = MAX_NAMES;
    const MAX_BYTES: usize = MAX_BLOCK_BYTES;
    const TOO_MANY: &'static str = TOO_MANY;

    fn numbers(&self, before: &Self) -> [u64; MOST_NUMBERS] {
        [
            step(self.id, before.id),
            step(self.process_id, before.process_id),
            step(self.tid.into(), before.tid.into()),
            step(self.start_ns, before.start_ns),
            zigzag(self.nice.into()),
            // Priority is 20 + nice but for real-time threads: the difference is mostly the same number.
            zigzag(i64::from(self.priority) - i64::from(self.nice)),
            0,
        ]
    }

    fn from_numbers(numbers: &[u64; MOST_NUMBERS], before: &Self) -> Option<Self> {
        let &[id, process_id, tid, start_ns, nice, priority, _] = numbers;
        let (nice, priority) = (unzigzag(nice), unzigzag(priority));
        Some(Self {
            id: stepped(before.id, id),
            process_id: stepped(before.process_id, process_id),
            tid: stepped_u32(before.tid, tid)?,
            start_ns: stepped(before.start_ns, start_ns),
            comm: Comm::default(),
            nice: nice.try_into().ok()?,
            // A damaged block can have any numbers of 64 bits here.
            priority: priority.checked_add(nice)?.try_into().ok()?,
        })
    }

    fn text(&self) -> &[u8] {
        self.comm.as_bytes()
    }

    fn set_text(&mut self, text: &[u8]) {
        self.comm = Comm::new(text);
    }
}

impl NameRow for ProcessName {
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
        let text = "INSERT INTO process (id, boot_id, pid, start_ns, parent_pid, info_id, is_short, last_s)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let [id, start_ns] = [self.id, self.start_ns].map(u64::cast_signed);
        let Self { boot_id, pid, parent_pid, info_id, is_short, .. } = *self;
        let values = params![id, boot_id, pid, start_ns, parent_pid, info_id, is_short, last_s];
        execute(connection, text, values).map(drop)
    }

    /// Retention finds unused descriptions without unpacking a block: `process_block_info` lists those in it.
    fn insert_block(connection: &Connection, block: &Block<Self>, level: i32) -> Sql<()> {
        let text = "INSERT OR REPLACE INTO process_block (first_id, last_id, last_s, count, has_short, names)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let (first_id, last_id) = (block.first_id.cast_signed(), block.last_id.cast_signed());
        let has_short = block.names.iter().any(|name| name.is_short);
        let (count, names) = (signed(block.names.len()), block.pack(level)?);
        execute(connection, text, params![first_id, last_id, block.last_s, count, has_short, names])?;
        execute(connection, "DELETE FROM process_block_info WHERE first_id = ?1", [first_id])?;
        let infos: BTreeSet<i64> = block.names.iter().map(|name| name.info_id).collect();
        for info_id in infos {
            execute(connection, "INSERT INTO process_block_info VALUES (?1, ?2)", [first_id, info_id])?;
        }
        Ok(())
    }

    fn id(&self) -> u64 {
        self.id
    }
}

impl ListRow for ProcessName {
    const NUMBERS: usize = 7;
    const HAS_TEXT: bool = true;
    const MAX_ROWS: usize = MAX_NAMES;
    const MAX_BYTES: usize = MAX_BLOCK_BYTES;
    const TOO_MANY: &'static str = TOO_MANY;

    fn numbers(&self, before: &Self) -> [u64; MOST_NUMBERS] {
        [
            step(self.id, before.id),
            zigzag(self.boot_id.wrapping_sub(before.boot_id)),
            step(self.pid.into(), before.pid.into()),
            step(self.start_ns, before.start_ns),
            // The kernel gives pids in ascending order, so a parent's pid is mostly a little lower.
            step(self.pid.into(), self.parent_pid.into()),
            zigzag(self.info_id),
            zigzag(self.is_short.into()),
        ]
    }

    fn from_numbers(numbers: &[u64; MOST_NUMBERS], before: &Self) -> Option<Self> {
        let &[id, boot_id, pid, start_ns, above_parent, info_id, is_short] = numbers;
        let pid = stepped_u32(before.pid, pid)?;
        Some(Self {
            id: stepped(before.id, id),
            boot_id: before.boot_id.wrapping_add(unzigzag(boot_id)),
            pid,
            start_ns: stepped(before.start_ns, start_ns),
            parent_pid: u32::try_from(u64::from(pid).wrapping_sub(stepped(0, above_parent))).ok()?,
            info_id: unzigzag(info_id),
            is_short: is_short != 0,
        })
    }
}

/// The columns of table `process_info` that are a description: they have the names of its fields.
macro_rules! info_columns {
    ($($field:ident)+) => {
        /// Their names, a comma before each.
        pub(crate) const INFO_COLUMNS: &str = concat!($(", ", stringify!($field)),+);

        pub(crate) fn info_values(info: &ProcessInfo) -> [&dyn ToSql; [$(stringify!($field)),+].len()] {
            [$(&info.$field),+]
        }

        pub(crate) fn info_of(row: &Row<'_>) -> Sql<ProcessInfo> {
            Ok(ProcessInfo { $($field: row.get(stringify!($field))?),+ })
        }
    };
}

info_columns! {
    name comm cmdline cgroup container uid is_kernel interpreter user session base_priority product
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

impl FromSql for SqlComm {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(value.as_bytes().map(Comm::new).unwrap_or_default()))
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
    /// Names in it that cannot be read: all of a damaged block.
    pub(crate) lost: u64,
}

impl<N: NameRow> Block<N> {
    /// Whether a name of this id would be here.
    pub(crate) fn covers(&self, id: u64) -> bool {
        (self.first_id..=self.last_id).contains(&id)
    }

    fn pack(&self, level: i32) -> Sql<Vec<u8>> {
        pack(&self.names, level).map_err(unpackable)
    }

    pub(crate) fn get(&self, id: u64) -> Option<&N> {
        self.names.binary_search_by_key(&id, NameRow::id).ok().map(|at| &self.names[at])
    }
}

/// The row of a name; `None` if there is none, or not any more.
pub(crate) fn row_of<N: NameRow>(connection: &Connection, id: u64) -> Sql<Option<N>> {
    let text = format!("SELECT {} FROM {} WHERE id = ?1", N::COLUMNS, N::TABLE);
    find_row(connection, &text, [id.cast_signed()], N::from_row)
}

/// The block around an id; `None` if there is none.
pub(crate) fn block_around<N: NameRow>(connection: &Connection, id: u64) -> Sql<Option<Block<N>>> {
    let block: Option<Block<N>> = load_block(connection, "first_id <= ?1 ORDER BY first_id DESC", id)?;
    Ok(block.filter(|block| block.covers(id)))
}

fn load_block<N: NameRow>(connection: &Connection, which: &str, id: u64) -> Sql<Option<Block<N>>> {
    let text = format!(
        "SELECT first_id, last_id, last_s, names, count FROM {}_block WHERE {which} LIMIT 1",
        N::TABLE
    );
    find_row(connection, &text, [id.cast_signed()], |row| {
        // The names behind a block are behind its first one, whatever its row has.
        let first_id = unsigned(row, 0)?;
        let last_id = unsigned(row, 1)?.max(first_id);
        let mut lost = 0;
        let names = match unpack(row.get_ref(3)?.as_blob()?) {
            Ok(names) => names,
            Err(malformed) => {
                // Not a warning: each reader meets it, and counts it for who asked.
                log::debug!("{} names {first_id} to {last_id} are damaged: {malformed}", N::TABLE);
                lost = unsigned(row, 4)?.clamp(1, MAX_NAMES as u64);
                Vec::new()
            }
        };
        Ok(Block { first_id, last_id, last_s: row.get(2)?, names, lost })
    })
}

/// The name of a task. The block it was found in stays in `cached`: the next one is mostly a neighbour.
pub(crate) fn find<N: NameRow>(
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

/// Finds the names of tasks, given in order of id; all that is between the first and the last one is read once. Gives the number of names
/// there that cannot be read.
pub(crate) fn find_all<N: NameRow>(
    connection: &Connection,
    ids: &[u64],
    found: &mut dyn FnMut(&N) -> Sql<()>,
) -> Sql<u64> {
    // Ids that are larger than those of SQLite have no names.
    let mut rest = &ids[..ids.partition_point(|&id| i64::try_from(id).is_ok())];
    let mut lost = 0;
    while let Some(&first) = rest.first() {
        let NextNames { names, end, lost: lost_here } = next_names::<N>(connection, first.saturating_sub(1))?;
        lost += lost_here;
        let (here, behind) =
            rest.split_at(end.map_or(rest.len(), |end| rest.partition_point(|&id| id <= end)));
        for name in names.iter().filter(|name| here.binary_search(&name.id()).is_ok()) {
            found(name)?;
        }
        rest = behind;
    }
    Ok(lost)
}

const STEP: usize = 1024;

/// Calls `visit` for each name above an id, in order, until it returns `false`. Gives the number of those that cannot be read.
pub(crate) fn each_name<N: NameRow>(
    connection: &Connection,
    mut after: u64,
    visit: &mut dyn FnMut(&N) -> Sql<bool>,
) -> Sql<u64> {
    let mut lost = 0;
    loop {
        let NextNames { names, end, lost: lost_here } = next_names(connection, after)?;
        lost += lost_here;
        for name in &names {
            if !visit(name)? {
                return Ok(lost);
            }
        }
        let Some(end) = end else { return Ok(lost) };
        after = end;
    }
}

struct NextNames<N> {
    /// In order of id.
    names: Vec<N>,
    /// The id up to which they are complete; `None`: to the end.
    end: Option<u64>,
    /// Names of the same ids that cannot be read.
    lost: u64,
}

/// The next names above an id.
fn next_names<N: NameRow>(connection: &Connection, after: u64) -> Sql<NextNames<N>> {
    let text = format!(
        "SELECT {} FROM {} WHERE id > ?1 AND {} ORDER BY id LIMIT {STEP}",
        N::COLUMNS,
        N::TABLE,
        N::IS_TASK
    );
    let rows: Vec<N> = all_rows(connection, &text, [after.cast_signed()], N::from_row)?;
    // The last call may have ended inside a block, so the one around the next id is tried first.
    let block: Option<Block<N>> = match block_around(connection, after + 1)? {
        Some(block) => Some(block),
        None => load_block(connection, "first_id > ?1 ORDER BY first_id", after)?,
    };
    // Rows and the block are both read only up to some id: the list is complete up to the lower of the two.
    let rows_end = rows.last().filter(|_| rows.len() == STEP).map(NameRow::id);
    let end = rows_end.into_iter().chain(block.as_ref().map(|block| block.last_id)).min();
    let is_in = |name: &N| name.id() > after && end.is_none_or(|end| name.id() <= end);
    // Names that end before a damaged block does are read again with the next ones: it is counted once, with the last of them.
    let lost = block.as_ref().filter(|block| end == Some(block.last_id)).map_or(0, |block| block.lost);
    let in_block = block.map(|block| block.names).unwrap_or_default();
    // A task that outlived its block has a row too: the same name.
    let names: BTreeMap<u64, N> =
        in_block.into_iter().chain(rows).filter(is_in).map(|name| (name.id(), name)).collect();
    Ok(NextNames { names: names.into_values().collect(), end, lost })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::{unzip, zip};

    prop_compose! {
        fn any_thread()(id in any::<u64>(), process_id in any::<u64>(), tid in any::<u32>(), start_ns in any::<u64>(),
            comm in proptest::collection::vec(any::<u8>(), 0..16), nice in any::<i8>(), priority in any::<i16>()) -> ThreadName {
            ThreadName { id, process_id, tid, start_ns, comm: Comm::new(&comm), nice, priority }
        }
    }

    prop_compose! {
        fn any_process()(id in any::<u64>(), boot_id in any::<i64>(), pid in any::<u32>(), start_ns in any::<u64>(),
            parent_pid in any::<u32>(), info_id in any::<i64>(), is_short in any::<bool>()) -> ProcessName {
            ProcessName { id, boot_id, pid, start_ns, parent_pid, info_id, is_short }
        }
    }

    proptest! {
        #[test]
        fn names_come_back(
            threads in proptest::collection::vec(any_thread(), 0..40),
            processes in proptest::collection::vec(any_process(), 0..40),
        ) {
            prop_assert_eq!(unpack::<ThreadName>(&pack(&threads, 3).unwrap()).unwrap(), threads);
            prop_assert_eq!(unpack::<ProcessName>(&pack(&processes, 3).unwrap()).unwrap(), processes);
        }

        #[test]
        fn damaged_blocks_do_not_panic(
            threads in proptest::collection::vec(any_thread(), 1..9),
            flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        ) {
            let mut plain = Vec::new();
            unzip(&pack(&threads, 3).unwrap(), &mut plain, MAX_BLOCK_BYTES).unwrap();
            for (at, flip) in flips {
                let at = at % plain.len();
                plain[at] ^= flip;
            }
            let block = zip(&plain, 3).unwrap();
            prop_assert!(unpack::<ThreadName>(&block).map_or(0, |names| names.len()) <= plain.len());
            let _ = unpack::<ProcessName>(&block);
        }
    }
}
