//! Cells of rows at rest. In: [`Value`]s that borrow. Out: [`Cell`]s that do not, shared where rows repeat them. Why: SQLite
//! asks for a row's cells later, one by one.

use std::rc::Rc;

use cpumon_model::Value;
use rusqlite::vtab::Context;

/// One cell that owns what it shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Real(f64),
    Text(Rc<str>),
}

impl From<Value<'_>> for Cell {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Int(number) => Self::Int(number),
            Value::Real(number) => Self::Real(number),
            Value::Text(text) => Self::Text(text.into()),
        }
    }
}

impl Cell {
    pub fn give(&self, context: &mut Context) -> rusqlite::Result<()> {
        match self {
            Self::Null => context.set_result(rusqlite::types::Null),
            Self::Int(number) => context.set_result(*number),
            Self::Real(number) => context.set_result(*number),
            Self::Text(text) => context.set_result(&**text),
        }
    }
}

/// Rows in a row: only the wanted columns, one after the other.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub cells: Vec<Cell>,
    pub count: usize,
}
