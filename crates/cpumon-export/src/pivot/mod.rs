//! The pivot: one row for each interval, one column for each process name.

mod alive;
mod buffer;
mod names;
mod run;
#[cfg(test)]
mod run_tests;

pub(crate) use names::MAX_COLUMNS;
pub(crate) use run::run;
