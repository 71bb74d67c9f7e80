//! A virtual table as SQLite calls it: its declaration, a plan, cursors. This file and [`super::cursor`] are the only ones that
//! implement SQLite's module interface.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use cpumon_model::{Column, Kind, Tables, columns};
use rusqlite::vtab::{IndexInfo, VTab, VTabConfig, VTabConnection, sqlite3_vtab};
use rusqlite::{Error, Result};

use super::cursor::{TableCursor, module_error};
use super::plan::Plan;
use crate::reader::{Reader, SharedDamage};

/// Which table, of which store.
pub(super) struct TableAux {
    pub table: Tables,
    pub path: PathBuf,
    pub damage: SharedDamage,
}

/// One virtual table on one connection.
#[repr(C)]
pub(super) struct StoreTable {
    /// SQLite's part. Must be first.
    base: sqlite3_vtab,
    table: Tables,
    path: PathBuf,
    damage: SharedDamage,
    /// Opened at the first use, so that declaring the tables costs nothing.
    reader: OnceCell<Rc<Reader>>,
}

fn declaration(table: Tables) -> Result<CString> {
    let column = |column: &Column| {
        let kind = match column.kind {
            Kind::Integer => "INTEGER",
            Kind::Real => "REAL",
            Kind::Text => "TEXT",
        };
        format!("{} {kind}", column.name)
    };
    let list: Vec<String> = columns(table).map(column).collect();
    CString::new(format!("CREATE TABLE x({})", list.join(", ")))
        .map_err(|error| Error::ModuleError(error.to_string()))
}

/// Rows to expect without any bound; only the proportions matter to SQLite's planner.
fn expected_rows(table: Tables) -> f64 {
    match table {
        Tables::HOSTS => 10.0,
        Tables::PROCESSES => 10_000.0,
        Tables::THREADS => 100_000.0,
        Tables::PROCESS_INTERVAL => 10_000_000.0,
        Tables::THREAD_INTERVAL | Tables::WAIT_INTERVAL => 100_000_000.0,
        _ => 1_000_000.0,
    }
}

#[expect(unsafe_code, reason = "SQLite's module interface")]
// SAFETY: the struct is repr(C) and begins with sqlite3_vtab.
unsafe impl<'vtab> VTab<'vtab> for StoreTable {
    type Aux = TableAux;
    type Cursor = TableCursor<'vtab>;

    fn connect(
        connection: &mut VTabConnection,
        aux: Option<&TableAux>,
        _module: &[u8],
        _database: &[u8],
        _table: &[u8],
        _arguments: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        let aux = aux.ok_or_else(|| Error::ModuleError("the table has no store".to_owned()))?;
        // A view or trigger in a file from elsewhere cannot use the table behind the user's back.
        connection.config(VTabConfig::DirectOnly)?;
        let table = Self {
            base: sqlite3_vtab::default(),
            table: aux.table,
            path: aux.path.clone(),
            damage: Arc::clone(&aux.damage),
            reader: OnceCell::new(),
        };
        Ok((Cow::Owned(declaration(aux.table)?), table))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let columns: Vec<_> = columns(self.table).collect();
        let plan = Plan::choose(info, &columns, expected_rows(self.table));
        // Nothing but a number and a text goes from here to the cursor's `filter`.
        info.set_idx_str(&plan.to_text());
        Ok(true)
    }

    fn open(&'vtab mut self) -> Result<TableCursor<'vtab>> {
        if self.reader.get().is_none() {
            let reader = Reader::open(&self.path).map_err(|error| module_error(&error))?;
            // It was empty a line ago, and no one else has a reference.
            let _is_set = self.reader.set(Rc::new(reader));
        }
        let reader =
            self.reader.get().ok_or_else(|| Error::ModuleError("the store is not open".to_owned()))?;
        Ok(TableCursor::new(Rc::clone(reader), self.table, Arc::clone(&self.damage)))
    }
}
