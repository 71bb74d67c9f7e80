//! Plain SQL over a store. In: a connection and a store's path. Out: read-only virtual tables `hosts`, `processes`, `threads`,
//! `process_interval`, `thread_interval`, `cpu_interval`, `host_interval`, `wait_interval` and `irq_interval`. Why: samples are
//! packed blobs, but a question in SQL should not have to know. [`Sql`] is a connection on which nothing can be written; the loadable extension puts
//! the same tables into any SQLite shell. Columns: `cpumon_model::COLUMNS`, documented in docs/store.md.

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

use cpumon_model::Tables;
use rusqlite::Connection;
use rusqlite::vtab::Module;

#[cfg(feature = "bundled")]
pub use session::Sql;
use table::{StoreTable, TableAux};

/// The virtual tables by name.
pub const TABLES: [(&str, Tables); 9] = [
    ("hosts", Tables::HOSTS),
    ("processes", Tables::PROCESSES),
    ("threads", Tables::THREADS),
    ("process_interval", Tables::PROCESS_INTERVAL),
    ("thread_interval", Tables::THREAD_INTERVAL),
    ("cpu_interval", Tables::CPU_INTERVAL),
    ("host_interval", Tables::HOST_INTERVAL),
    ("wait_interval", Tables::WAIT_INTERVAL),
    ("irq_interval", Tables::IRQ_INTERVAL),
];

/// Puts the virtual tables, and the functions for run-delay histograms, on `connection`; the tables read the store at `path` through a connection of their own, opened at the
/// first use.
pub fn register(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    const MODULE: &Module<'_, StoreTable> = &Module::eponymous_only_module();
    delays::register(connection)?;
    for (name, table) in TABLES {
        connection.create_module(name, MODULE, Some(TableAux { table, path: path.to_owned() }))?;
    }
    Ok(())
}
