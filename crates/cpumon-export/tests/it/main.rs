//! Exports of whole stores.

#[path = "../../../../testing/held_memory.rs"]
mod held_memory;
#[path = "../../../../testing/skip.rs"]
mod skip;

mod compare;
mod fixture;
mod formats;
mod golden;
mod pivot;
mod sql;
mod trace;
mod trace_memory;
