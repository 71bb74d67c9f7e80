//! Removes all names of unauthenticated hosts at once, when they alone take more than those hosts may have and none of their samples
//! is left: someone floods the store with names.

use rusqlite::{Connection, OptionalExtension, Result as Sql, params};

use super::naming::LastIds;
use crate::rows::IdRange;

/// Rows deleted in one transaction, and blocks of a thousand names.
const ROWS_AT_ONCE: i64 = 10_000;
const BLOCKS_AT_ONCE: i64 = 64;

/// Which names go: those given until it began. What comes in meanwhile gets higher ids.
#[derive(Copy, Clone, Debug)]
pub(super) struct Wipe {
    pub(super) names: LastIds,
    /// Of descriptions.
    pub(super) info: i64,
}

impl Wipe {
    /// Deletes some names. Returns whether all are gone.
    pub(super) fn step(&self, connection: &Connection) -> Sql<bool> {
        let (thread, process) = (self.names.thread.cast_signed(), self.names.process.cast_signed());
        for (table, [first, last], up_to, limit) in [
            ("thread", ["id", "id"], thread, ROWS_AT_ONCE),
            ("thread_block", ["first_id", "last_id"], thread, BLOCKS_AT_ONCE),
            ("process", ["id", "id"], process, ROWS_AT_ONCE),
            ("process_block", ["first_id", "last_id"], process, BLOCKS_AT_ONCE),
            ("short_lived", ["info_id", "info_id"], self.info, ROWS_AT_ONCE),
            ("process_info", ["id", "id"], self.info, ROWS_AT_ONCE),
        ] {
            let which = format!("{first} > ?1 AND {last} <= ?2");
            let next: Option<i64> = connection
                .prepare_cached(&format!(
                    "SELECT {first} FROM {table} WHERE {which} ORDER BY {first} LIMIT 1 OFFSET ?3"
                ))?
                .query_row(params![IdRange::Unauthenticated.after(), up_to, limit], |row| row.get(0))
                .optional()?;
            connection
                .prepare_cached(&format!("DELETE FROM {table} WHERE {which} AND {first} <= ?3"))?
                .execute(params![IdRange::Unauthenticated.after(), up_to, next.unwrap_or(i64::MAX)])?;
            if next.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
