//! Row ids of hosts, boots and chunks. Readers keep what they read by row id, so no id is given twice, not even after the row with
//! the highest one was deleted.

use cpumon_model::HostId;
use rusqlite::{Connection, OptionalExtension, Result as Sql};

use crate::rows::HostRow;

/// The row of a host; `None` if nothing of it was stored.
pub(super) fn find_host(connection: &Connection, host: HostId) -> Sql<Option<HostRow>> {
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
