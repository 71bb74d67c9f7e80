//! Removes a host with all of its data, in steps that are transactions of their own.

use rusqlite::{Connection, OptionalExtension, Result as Sql, params};

use super::ids::keep_last_id;
use crate::rows::HostRow;

/// Tables with much data of a host, by which column it is deleted, and about how many rows at once.
const TABLES: [(&str, &str, i64); 9] = [
    ("chunk", "last_received_wall_ns", 16),
    ("interval", "end_wall_ns", 256),
    ("process_minute", "minute", 5_000),
    ("process_hour", "hour", 5_000),
    ("thread_hour", "hour", 5_000),
    ("host_minute", "minute", 5_000),
    ("host_hour", "hour", 5_000),
    ("legacy_order", "end_wall_ns", 500),
    ("process_list", "end_wall_ns", 100),
];

/// Deletes some data of a host, or the host itself when there is none left. Returns whether the host is gone.
pub(super) fn remove_some(connection: &Connection, host: HostRow) -> Sql<bool> {
    keep_last_id(connection, "chunk")?;
    for (table, key, limit) in TABLES {
        if delete_some(connection, (table, key), host, limit)? {
            return Ok(false);
        }
    }
    keep_last_id(connection, "boot")?;
    keep_last_id(connection, "host")?;
    keep_last_id(connection, "trace")?;
    for text in [
        "DELETE FROM gap WHERE host_id = ?1",
        // Their files are deleted by the receiver that has the shelf, at its next tidying.
        "DELETE FROM trace WHERE host_id = ?1",
        "DELETE FROM host_change WHERE host_id = ?1",
        "DELETE FROM clock_piece WHERE boot_id IN (SELECT id FROM boot WHERE host_id = ?1)",
        "DELETE FROM boot WHERE host_id = ?1",
        "DELETE FROM host WHERE id = ?1",
    ] {
        connection.prepare_cached(text)?.execute([host])?;
    }
    Ok(true)
}

/// Deletes about `limit` rows of a host, the lowest keys first. Returns whether there are more.
fn delete_some(connection: &Connection, (table, key): (&str, &str), host: HostRow, limit: i64) -> Sql<bool> {
    let text = format!("SELECT {key} FROM {table} WHERE host_id = ?1 ORDER BY {key} LIMIT 1 OFFSET ?2");
    let up_to: Option<i64> =
        connection.prepare_cached(&text)?.query_row(params![host, limit], |row| row.get(0)).optional()?;
    connection
        .prepare_cached(&format!("DELETE FROM {table} WHERE host_id = ?1 AND {key} <= ?2"))?
        .execute(params![host, up_to.unwrap_or(i64::MAX)])?;
    Ok(up_to.is_some())
}
