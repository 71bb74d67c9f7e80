//! How a store is made, and how an older one becomes a newer one, step by step.

use std::path::Path;

use rusqlite::Connection;

use crate::error::{At, Result};

/// `PRAGMA application_id`: "cpum". file(1) and we know a store by it.
pub(crate) const APPLICATION_ID: i32 = 0x6370_756d;

/// Each step brings a store from version `index` to `index + 1`. Steps are frozen once released.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("v1.sql"),
    include_str!("v2.sql"),
    include_str!("v3.sql"),
    include_str!("v4.sql"),
    include_str!("v5.sql"),
    include_str!("v6.sql"),
    include_str!("v7.sql"),
    include_str!("v8.sql"),
    include_str!("v9.sql"),
    include_str!("v10.sql"),
    include_str!("v11.sql"),
    include_str!("v12.sql"),
    include_str!("v13.sql"),
    include_str!("v14.sql"),
    include_str!("v15.sql"),
    include_str!("v16.sql"),
    include_str!("v17.sql"),
    include_str!("v18.sql"),
];

/// The version that this build reads and writes.
pub(crate) const VERSION: i32 = 18;

/// Size of a database page, bytes. Samples of a fresh interval are often 1 KB, and a page is filled until the next one does
/// not fit: larger pages than the default of 4096 leave less of themselves empty.
pub(super) const PAGE_SIZE: &str = "PRAGMA page_size = 8192";
/// Freed pages can be given back to the file system step by step; must be set before the first table.
pub(super) const AUTO_VACUUM: &str = "PRAGMA auto_vacuum = INCREMENTAL";
/// Runs one PRAGMA; some answer with a row, which is ignored.
pub(super) fn pragma(connection: &Connection, path: &Path, text: &'static str) -> Result<()> {
    let mut statement = connection.prepare(text).at("set up", path)?;
    let mut rows = statement.query([]).at(text, path)?;
    while rows.next().at(text, path)?.is_some() {}
    Ok(())
}

pub(super) fn number(connection: &Connection, path: &Path, text: &'static str) -> Result<i32> {
    connection.query_row(text, [], |row| row.get(0)).at("read the header", path)
}

/// Makes an empty database a store of an older version, or of this one.
pub(crate) fn create(connection: &mut Connection, path: &Path, version: i32) -> Result<()> {
    for text in [PAGE_SIZE, AUTO_VACUUM] {
        pragma(connection, path, text)?;
    }
    migrate(connection, path, Steps { from: 0, to: version })
}

/// Brings a store of an older version up to date.
#[cfg(feature = "bundled")]
pub(crate) fn bring_up_to_date(connection: &mut Connection, path: &Path) -> Result<()> {
    let from = number(connection, path, "PRAGMA user_version")?;
    migrate(connection, path, Steps { from, to: VERSION })
}

/// Versions before and after.
#[derive(Copy, Clone, Debug)]
pub(super) struct Steps {
    pub(super) from: i32,
    pub(super) to: i32,
}

/// Runs steps, all in one transaction.
pub(super) fn migrate(connection: &mut Connection, path: &Path, Steps { from, to }: Steps) -> Result<()> {
    let at = |version: i32| usize::try_from(version).unwrap_or(0).min(MIGRATIONS.len());
    let steps = MIGRATIONS.get(at(from)..at(to)).unwrap_or_default();
    if steps.is_empty() {
        return Ok(());
    }
    // All steps or none: a store of a version in between would fit no reader.
    let transaction = connection.transaction().at("write the schema", path)?;
    for step in steps {
        transaction.execute_batch(step).at("write the schema", path)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).at("write the schema", path)?;
    // In the same transaction: the version always names the steps that were done.
    transaction.pragma_update(None, "user_version", to).at("write the schema", path)?;
    transaction.commit().at("write the schema", path)
}
