//! Row ids: of hosts and boots as newtypes, because they are small numbers that mostly travel together; how the next one is found; the ranges of
//! those of names; and table `counter`. Readers keep what they read by row id, so no id is given twice, not even after the row with the
//! highest one was deleted.

use std::ops::{Index, IndexMut};

use cpumon_model::{HostId, Trust};
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Result as Sql, Row, params};

/// Row id in table `host`; unlike a [`cpumon_model::HostId`] it has a meaning in one store file only.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostRow(pub(crate) i64);

/// Row id in table `boot`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

    /// That of an id.
    pub(crate) fn of_id(id: u64) -> Self {
        if id.cast_signed() > Self::Unauthenticated.after() { Self::Unauthenticated } else { Self::Trusted }
    }

    /// Its ids are above this.
    pub(crate) const fn after(self) -> i64 {
        match self {
            Self::Trusted => 0,
            // 35 million million: a thousand new names a second for a thousand years.
            Self::Unauthenticated => 1 << 45,
        }
    }

    /// Its ids go up to this.
    pub(crate) fn last(self) -> i64 {
        match self {
            Self::Trusted => Self::Unauthenticated.after(),
            Self::Unauthenticated => i64::MAX,
        }
    }
}

/// One value for each range.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct ByRange<T>([T; 2]);

impl<T> ByRange<T> {
    /// Makes the value of each range.
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

/// The row of a host; `None` if nothing of it was stored.
pub(crate) fn find_host(connection: &Connection, host: HostId) -> Sql<Option<HostRow>> {
    connection
        .prepare_cached("SELECT id FROM host WHERE key = ?1")?
        .query_row([host.0], |row| row.get(0))
        .optional()
}

/// An id above all that `table` has or ever had.
pub(crate) fn next_id(connection: &Connection, table: &str) -> Sql<i64> {
    let text = format!(
        "SELECT 1 + max(coalesce((SELECT max(id) FROM {table}), 0),
                        coalesce((SELECT value FROM counter WHERE name = 'last {table} id'), 0))"
    );
    connection.prepare_cached(&text)?.query_row([], |row| row.get(0))
}

/// Remembers the highest id of `table`: rows are about to be deleted.
pub(crate) fn keep_last_id(connection: &Connection, table: &str) -> Sql<()> {
    let text = format!(
        "INSERT INTO counter SELECT 'last {table} id', max(id) FROM {table} HAVING max(id) IS NOT NULL
         ON CONFLICT DO UPDATE SET value = max(value, excluded.value)"
    );
    connection.prepare_cached(&text)?.execute([])?;
    Ok(())
}

/// Adds to a count over the life of the store.
pub(crate) fn count(connection: &Connection, name: &str, by: i64) -> Sql<()> {
    if by == 0 {
        return Ok(());
    }
    connection
        .prepare_cached(
            "INSERT INTO counter VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = value + excluded.value",
        )?
        .execute(params![name, by])?;
    Ok(())
}

/// The value of a row of table `counter`.
pub(crate) fn counter(connection: &Connection, name: &str) -> Sql<Option<i64>> {
    let text = "SELECT value FROM counter WHERE name = ?1";
    connection.prepare_cached(text)?.query_row([name], |row| row.get(0)).optional()
}

/// Replaces the value of a row of table `counter`.
pub(crate) fn set_counter(connection: &Connection, name: &str, value: i64) -> Sql<()> {
    let text = "INSERT OR REPLACE INTO counter (name, value) VALUES (?1, ?2)";
    connection.prepare_cached(text)?.execute(params![name, value]).map(|_| ())
}

/// An unsigned number, which SQLite stores as a signed one of the same bits.
pub(crate) fn unsigned(row: &Row<'_>, at: usize) -> Sql<u64> {
    row.get::<_, i64>(at).map(i64::cast_unsigned)
}

/// A number as SQLite has them, signed; the largest one where it does not fit.
pub(crate) fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
