//! The columns of the grid and the text of their cells.

mod cells;
mod choose;
mod column;

pub(crate) use cells::{Cells, NONE};
pub(crate) use choose::{ColumnPlace, choose};
pub(crate) use column::Col;
