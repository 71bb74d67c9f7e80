//! A cursor over a virtual table, as SQLite calls it: rows come in batches from a [`Scan`], cells one by one.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::PoisonError;

use cpumon_model::{Tables, columns};
use rusqlite::Result;
use rusqlite::vtab::{Context, Filters, VTabCursor, sqlite3_vtab_cursor};

use super::cells::{Cell, CellRows};
use super::plan::Plan;
use super::scan::Scan;
use crate::reader::{Reader, SharedDamage};

/// An error of the store as SQLite passes it on.
pub(super) fn module_error(error: &crate::StoreError) -> rusqlite::Error {
    rusqlite::Error::ModuleError(error.with_causes())
}

/// A walk over one virtual table.
#[repr(C)]
pub(super) struct TableCursor<'vtab> {
    /// SQLite's part. Must be first.
    base: sqlite3_vtab_cursor,
    reader: Rc<Reader>,
    table: Tables,
    damage: SharedDamage,
    scan: Option<Scan>,
    rows: CellRows,
    /// The current row in `rows`.
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
        let plan = Plan::from_text(text.unwrap_or_default());
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
        cell.unwrap_or(&Cell::Null).give(context)
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.row_id)
    }
}
