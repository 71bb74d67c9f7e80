//! The columns of the grid and the text of their cells.

mod cells;
mod choose;
mod column;
mod limits;
mod sort_column;

pub(crate) use cells::{Cells, NONE};
pub(crate) use choose::{ColumnPlace, choose};
pub(crate) use column::Col;
pub(crate) use limits::limits_of;
pub use sort_column::{SortColumn, UnknownColumn};
