//! Exports of whole stores.

mod compare;
mod fixture;
mod formats;
mod golden;
mod pivot;
mod sql;
