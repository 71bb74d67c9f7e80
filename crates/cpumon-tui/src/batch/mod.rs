//! Batch mode: intervals as lines or JSON.

mod json;
mod listing;
mod run;
mod text;

pub use run::batch;
