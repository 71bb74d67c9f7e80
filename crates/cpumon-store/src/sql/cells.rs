//! Cells that own what they show: SQLite asks for the cells of a row later, one by one. Cells that repeat in each row are shared.

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

/// The wanted columns of several rows, one after the other.
#[derive(Debug, Default)]
pub(super) struct CellRows {
    pub cells: Vec<Cell>,
    pub count: usize,
}
