//! Plain SQL over a store: read-only virtual tables `hosts`, `processes`, `threads`, `process_interval`, `thread_interval`,
//! `cpu_interval`, `host_interval`, `wait_interval`, `irq_interval` and `cgroup_interval`. Samples are packed blobs; a query need not know that.
//! [`Sql`] is a connection on which nothing can be written; the loadable extension adds the same tables to any SQLite shell.
//! Columns: `cpumon_model::COLUMNS`, documented in docs/store.md.

mod cells;
mod cursor;
mod delays;
mod plan;
mod scan;
#[cfg(feature = "bundled")]
mod session;
mod table;
#[cfg(all(test, feature = "bundled"))]
mod tests;

pub(crate) use cells::Cell;

use std::path::Path;
use std::sync::Arc;

use cpumon_model::Tables;
use rusqlite::Connection;
use rusqlite::vtab::Module;

use crate::reader::SharedDamage;
#[cfg(feature = "bundled")]
pub use session::Sql;
use table::{StoreTable, TableAux};

/// The virtual tables by name.
pub const TABLES: [(&str, Tables); 10] = [
    ("hosts", Tables::HOSTS),
    ("processes", Tables::PROCESSES),
    ("threads", Tables::THREADS),
    ("process_interval", Tables::PROCESS_INTERVAL),
    ("thread_interval", Tables::THREAD_INTERVAL),
    ("cpu_interval", Tables::CPU_INTERVAL),
    ("host_interval", Tables::HOST_INTERVAL),
    ("wait_interval", Tables::WAIT_INTERVAL),
    ("irq_interval", Tables::IRQ_INTERVAL),
    ("cgroup_interval", Tables::CGROUP_INTERVAL),
];

/// Adds the virtual tables, and the functions for run-delay histograms, to `connection`. The tables read the store at `path`
/// through a connection of their own, which is opened at the first use.
pub fn register(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    register_noting(connection, path, &SharedDamage::default())
}

/// [`register`]; what cannot be read is added to `damage`.
fn register_noting(connection: &Connection, path: &Path, damage: &SharedDamage) -> rusqlite::Result<()> {
    const MODULE: &Module<'_, StoreTable> = &Module::eponymous_only_module();
    delays::register(connection)?;
    for (name, table) in TABLES {
        connection.create_module(
            name,
            MODULE,
            Some(TableAux { table, path: path.to_owned(), damage: Arc::clone(damage) }),
        )?;
    }
    Ok(())
}
