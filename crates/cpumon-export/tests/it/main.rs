//! Exports of whole stores.

mod fixture;
mod formats;
mod golden;
mod pivot;
mod sql;
