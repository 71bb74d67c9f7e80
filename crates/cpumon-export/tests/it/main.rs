//! Exports of whole stores.

#[path = "../../../../testing/skip.rs"]
mod skip;

mod compare;
mod fixture;
mod formats;
mod golden;
mod pivot;
mod sql;
mod trace;
