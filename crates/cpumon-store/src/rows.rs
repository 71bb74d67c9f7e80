//! Row ids of hosts and boots, and ranges of those of names. Ids are newtypes because they are small numbers that mostly travel
//! together.

use std::ops::{Index, IndexMut};

use cpumon_model::Trust;
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

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

impl ToSql for HostRow {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl FromSql for HostRow {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Self)
    }
}

impl ToSql for BootRow {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl FromSql for BootRow {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Self)
    }
}

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
