//! A virtual table as SQLite calls it: its declaration, a plan, and cursors, whose rows come in batches from a [`Scan`]. Only this file
//! implements SQLite's module interface.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use cpumon_model::{Column, Kind, Tables, Value, columns};
use rusqlite::types::Null;
use rusqlite::vtab::{
    Context, Filters, IndexInfo, VTab, VTabConfig, VTabConnection, VTabCursor, sqlite3_vtab,
    sqlite3_vtab_cursor,
};
use rusqlite::{Error, Result};

use super::scan::{CellRows, Scan, ScanPlan};
use crate::error::StoreError;
use crate::reader::{Reader, SharedDamage};

#[derive(Clone)]
pub(super) struct TableAux {
    pub table: Tables,
    pub path: PathBuf,
    pub damage: SharedDamage,
}

#[repr(C)]
pub(super) struct StoreTable {
    /// SQLite's part. Must be first.
    base: sqlite3_vtab,
    aux: TableAux,
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
        let table = Self { base: sqlite3_vtab::default(), aux: aux.clone(), reader: OnceCell::new() };
        Ok((Cow::Owned(declaration(aux.table)?), table))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let columns: Vec<_> = columns(self.aux.table).collect();
        let plan = ScanPlan::choose(info, &columns, expected_rows(self.aux.table));
        // Nothing but a number and a text goes from here to the cursor's `filter`.
        info.set_idx_str(&plan.to_text());
        Ok(true)
    }

    fn open(&'vtab mut self) -> Result<TableCursor<'vtab>> {
        if self.reader.get().is_none() {
            let reader = Reader::open(&self.aux.path).map_err(|error| module_error(&error))?;
            // It was empty a line ago, and no one else has a reference.
            let _is_set = self.reader.set(Rc::new(reader));
        }
        let reader =
            self.reader.get().ok_or_else(|| Error::ModuleError("the store is not open".to_owned()))?;
        Ok(TableCursor::new(Rc::clone(reader), self.aux.table, Arc::clone(&self.aux.damage)))
    }
}

/// An error of the store as SQLite passes it on.
pub(super) fn module_error(error: &StoreError) -> Error {
    Error::ModuleError(error.with_causes())
}

#[repr(C)]
pub(super) struct TableCursor<'vtab> {
    /// SQLite's part. Must be first.
    base: sqlite3_vtab_cursor,
    reader: Rc<Reader>,
    table: Tables,
    damage: SharedDamage,
    scan: Option<Scan>,
    rows: CellRows,
    at: usize,
    /// Position in a row of `rows` by column number; `None` for columns that the query does not want.
    places: Vec<Option<usize>>,
    row_id: i64,
    /// The table outlives its cursors.
    lifetime: PhantomData<&'vtab ()>,
}

impl TableCursor<'_> {
    pub fn new(reader: Rc<Reader>, table: Tables, damage: SharedDamage) -> Self {
        Self {
            base: sqlite3_vtab_cursor::default(),
            reader,
            table,
            damage,
            scan: None,
            rows: CellRows::default(),
            at: 0,
            places: Vec::new(),
            row_id: 0,
            lifetime: PhantomData,
        }
    }

    fn load(&mut self) -> Result<()> {
        self.at = 0;
        self.rows = match &mut self.scan {
            Some(scan) => scan.next_batch().map_err(|error| module_error(&error))?,
            None => CellRows::default(),
        };
        let found = self.reader.damage();
        if !found.is_empty() {
            self.damage.lock().unwrap_or_else(PoisonError::into_inner).merge(found);
        }
        Ok(())
    }
}

#[expect(unsafe_code, reason = "SQLite's module interface")]
// SAFETY: the struct is repr(C) and begins with sqlite3_vtab_cursor.
unsafe impl VTabCursor for TableCursor<'_> {
    fn filter(&mut self, _number: c_int, text: Option<&str>, arguments: &Filters<'_>) -> Result<()> {
        let plan = ScanPlan::from_text(text.unwrap_or_default());
        let bounds = plan.bounds(arguments);
        let mut place = 0..;
        self.places = (0..columns(self.table).count())
            .map(|at| if plan.wants(at) { place.next() } else { None })
            .collect();
        // SQLite filters again with the same cursor, for instance for each row of an outer table of a join.
        self.row_id = 0;
        let scan = Scan::new(Rc::clone(&self.reader), self.table, &plan, bounds);
        self.scan = Some(scan.map_err(|error| module_error(&error))?);
        self.load()
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        self.row_id += 1;
        if self.at < self.rows.count { Ok(()) } else { self.load() }
    }

    fn eof(&self) -> bool {
        self.at >= self.rows.count
    }

    fn column(&self, context: &mut Context, number: c_int) -> Result<()> {
        let width = self.scan.as_ref().map_or(0, Scan::width);
        let place = usize::try_from(number).ok().and_then(|at| self.places.get(at).copied().flatten());
        let cell = place.and_then(|place| self.rows.cells.get(self.at * width + place));
        match cell.unwrap_or(&Value::Null) {
            Value::Null => context.set_result(Null),
            Value::Int(number) => context.set_result(*number),
            Value::Real(number) => context.set_result(*number),
            Value::Text(text) => context.set_result(&**text),
        }
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.row_id)
    }
}
