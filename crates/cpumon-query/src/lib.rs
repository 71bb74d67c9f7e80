//! Answers questions about hosts: what they do now, and what they did.
//!
//! The present comes from a receiver, behind [`Live`]; the past from a store, or from the intervals that the receiver has in
//! memory. The answers are plain structs: the web API turns them into JSON, the command line prints them, and
//! `cpumon-export` draws and writes them.
//!
//! # Overview
//! [`Answers`] is who is asked: a store, or a receiver over HTTP. [`history`] has series, lines, matrices and sums over a range;
//! [`charts`] fills charts from them; [`fleet`] lists all hosts.
//! [`report`] answers who used the CPU, by any group, also of two ranges side by side; [`why`] answers why something is slow, and who did
//! it. [`metrics`] counts what Prometheus scrapes. [`ledger`] adds up where CPU time went, [`accuracy`] compares clocks. [`traces`] holds timelines of context-switch traces, read
//! from files behind a trait.
#![warn(missing_docs)]

pub mod accuracy;
mod answers;
pub mod charts;
mod choice;
mod error;
pub mod fields;
pub mod fleet;
#[cfg(test)]
#[path = "../../../testing/held_memory.rs"]
mod held_memory;
pub mod history;
mod hosts;
pub mod json;
mod keys;
pub mod ledger;
mod live;
pub mod metrics;
pub mod report;
#[cfg(test)]
#[path = "../../../testing/seeded_rng.rs"]
mod seeded_rng;
pub mod spans;
pub mod status;
mod tally;
pub mod time;
pub mod traces;
pub mod why;

pub use answers::Answers;
pub use choice::ChoiceError;
#[doc(hidden)] // For `words!`.
pub use clap;
pub use error::{ProcessChoice, QueryError};
pub use history::{IntervalSum, ReaderPool, add_process};
pub use keys::{TaskKey, parse_process_key, parse_thread_key};
pub use live::{Bell, Live, Recording, RecordingState, Seek, Shown, TraceSources, seek};
pub use report::{GroupBy, OTHERS, group_name};
// For a frontend that reads rows of the past one by one: it needs no dependency on the store.
pub use cpumon_store::{DamageReport, Gap, HostRecord, Reader, StoreError, TraceRecord, trace_file};
