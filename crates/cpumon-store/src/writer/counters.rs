//! Table `counter`: counts over the life of a store.

use rusqlite::{Connection, Result as Sql, params};

/// Adds to a count over the life of the store.
pub(super) fn count(connection: &Connection, name: &str, by: i64) -> Sql<()> {
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
