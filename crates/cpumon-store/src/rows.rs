//! Row ids of hosts and boots. They are newtypes because both are small numbers that mostly travel together.

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
