//! Exports of whole stores.

#[path = "../../../../testing/held_memory.rs"]
mod held_memory;
#[path = "../../../../testing/seeded_rng.rs"]
mod seeded_rng;
#[path = "../../../../testing/skip.rs"]
mod skip;

mod compare;
mod fixture;
mod formats;
mod golden;
mod parquet;
mod perfetto_schema;
mod perfetto_states;
mod pivot;
mod sql;
mod trace;
mod trace_memory;
