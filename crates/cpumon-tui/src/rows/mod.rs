//! The rows of the grid: an interval as a list, a tree or groups.

mod build;
mod groups;
mod input;
mod lookup;
#[cfg(test)]
mod props;
mod sort;
mod thread_lists;
mod tree;
mod types;

pub(crate) use lookup::{group_delays, main_thread, thread_name};
pub(crate) use types::{Fold, GridRow, Group, Item, RowId, RowKind, RowList};
