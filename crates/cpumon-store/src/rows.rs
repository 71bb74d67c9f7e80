//! How statements are run, and row ids: of hosts and boots as newtypes, because they are small numbers that mostly travel together; how the
//! next one is found; the ranges of those of names; and table `counter`. Readers keep what they read by row id, so no id is given twice, not
//! even after the row with the highest one was deleted.

use std::ops::{Index, IndexMut};

use cpumon_model::{HostId, Trust};
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Result as Sql, Row, params};

use crate::steps::HeldRows;

/// Runs a statement and returns the number of changed rows. As those below, it prepares a text once for a connection.
pub(crate) fn execute(connection: &Connection, text: &str, values: impl Params) -> Sql<usize> {
    connection.prepare_cached(text)?.execute(values)
}

/// The first column of the only row.
pub(crate) fn value<T: FromSql>(connection: &Connection, text: &str, values: impl Params) -> Sql<T> {
    connection.prepare_cached(text)?.query_row(values, first)
}

/// The first row; `None` if there is none.
pub(crate) fn find_row<T>(
    connection: &Connection,
    text: &str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> Sql<T>,
) -> Sql<Option<T>> {
    connection.prepare_cached(text)?.query_row(values, read).optional()
}

/// All rows, as many as a file of this length can have.
pub(crate) fn all_rows<T>(
    connection: &Connection,
    text: &str,
    values: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Sql<T>,
) -> Sql<Vec<T>> {
    let mut select = connection.prepare_cached(text)?;
    let width = select.column_count();
    let (mut rows, mut all, mut held) = (select.query(values)?, Vec::new(), HeldRows::new(connection));
    while let Some(row) = rows.next()? {
        let mut bytes = size_of::<T>();
        for at in 0..width {
            if let ValueRef::Text(packed) | ValueRef::Blob(packed) = row.get_ref(at)? {
                bytes = bytes.saturating_add(packed.len());
            }
        }
        held.add(bytes)?;
        all.push(read(row)?);
    }
    Ok(all)
}

/// Reads the first column of a row.
pub(crate) fn first<T: FromSql>(row: &Row<'_>) -> Sql<T> {
    row.get(0)
}

/// Row id in table `host`; unlike a [`cpumon_model::HostId`] it has a meaning in one store file only.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostRow(pub(crate) i64);

/// Row id in table `boot`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BootRow(pub(crate) i64);

/// A boot and its host: chunks and fresh intervals are grouped by this pair.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BootKey {
    pub(crate) host: HostRow,
    pub(crate) boot: BootRow,
}

macro_rules! row_ids {
    ($($id:ident),*) => {$(
        impl ToSql for $id {
            fn to_sql(&self) -> Sql<ToSqlOutput<'_>> {
                self.0.to_sql()
            }
        }

        impl FromSql for $id {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                value.as_i64().map(Self)
            }
        }
    )*};
}
row_ids!(HostRow, BootRow);

/// Which ids names have: rows of `process_info`, `process` and `thread`. Those of unauthenticated hosts have a range of their own,
/// so that they are counted and removed without asking of each whose it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IdRange {
    Trusted,
    Unauthenticated,
}

impl IdRange {
    /// Both, in order of ids.
    pub(crate) const ALL: [Self; 2] = [Self::Trusted, Self::Unauthenticated];

    /// That of data which came in with a trust.
    pub(crate) fn of(trust: Trust) -> Self {
        if trust.is_trusted() { Self::Trusted } else { Self::Unauthenticated }
    }

    pub(crate) fn of_id(id: u64) -> Self {
        if id.cast_signed() > Self::Unauthenticated.after() { Self::Unauthenticated } else { Self::Trusted }
    }

    /// The range's ids are above this one.
    pub(crate) const fn after(self) -> i64 {
        match self {
            Self::Trusted => 0,
            // 35 million million: a thousand new names a second for a thousand years.
            Self::Unauthenticated => 1 << 45,
        }
    }

    pub(crate) fn last(self) -> i64 {
        match self {
            Self::Trusted => Self::Unauthenticated.after(),
            Self::Unauthenticated => i64::MAX,
        }
    }
}

#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct ByRange<T>([T; 2]);

impl<T> ByRange<T> {
    pub(crate) fn try_new<E>(mut make: impl FnMut(IdRange) -> Result<T, E>) -> Result<Self, E> {
        Ok(Self([make(IdRange::Trusted)?, make(IdRange::Unauthenticated)?]))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }
}

impl<T> Index<IdRange> for ByRange<T> {
    type Output = T;

    fn index(&self, range: IdRange) -> &T {
        &self.0[range as usize]
    }
}

impl<T> IndexMut<IdRange> for ByRange<T> {
    fn index_mut(&mut self, range: IdRange) -> &mut T {
        &mut self.0[range as usize]
    }
}

/// The row of a host; `None` if the store does not know the host.
pub(crate) fn find_host(connection: &Connection, host: HostId) -> Sql<Option<HostRow>> {
    find_row(connection, "SELECT id FROM host WHERE key = ?1", [host.0], first)
}

/// An id above all that `table` has or ever had.
pub(crate) fn next_id(connection: &Connection, table: &str) -> Sql<i64> {
    let text = format!(
        "SELECT 1 + max(coalesce((SELECT max(id) FROM {table}), 0),
                        coalesce((SELECT value FROM counter WHERE name = 'last {table} id'), 0))"
    );
    value(connection, &text, [])
}

/// Remembers the highest id of `table`: rows are about to be deleted.
pub(crate) fn keep_last_id(connection: &Connection, table: &str) -> Sql<()> {
    let text = format!(
        "INSERT INTO counter SELECT 'last {table} id', max(id) FROM {table} HAVING max(id) IS NOT NULL
         ON CONFLICT DO UPDATE SET value = max(value, excluded.value)"
    );
    execute(connection, &text, []).map(drop)
}

/// Adds to a count over the life of the store.
pub(crate) fn count(connection: &Connection, name: &str, by: i64) -> Sql<()> {
    if by == 0 {
        return Ok(());
    }
    let text = "INSERT INTO counter VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = value + excluded.value";
    execute(connection, text, params![name, by]).map(drop)
}

/// The value of a row of table `counter`; `None` if there is no such row.
pub(crate) fn counter(connection: &Connection, name: &str) -> Sql<Option<i64>> {
    find_row(connection, "SELECT value FROM counter WHERE name = ?1", [name], first)
}

/// Replaces the value of a row of table `counter`.
pub(crate) fn set_counter(connection: &Connection, name: &str, value: i64) -> Sql<()> {
    let text = "INSERT OR REPLACE INTO counter (name, value) VALUES (?1, ?2)";
    execute(connection, text, params![name, value]).map(drop)
}

/// An unsigned number, which SQLite stores as a signed one of the same bits.
pub(crate) fn unsigned(row: &Row<'_>, at: usize) -> Sql<u64> {
    row.get::<_, i64>(at).map(i64::cast_unsigned)
}

/// A number as SQLite has them, signed; the largest one where it does not fit.
pub(crate) fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
