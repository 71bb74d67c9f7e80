//! How a machine is measured: [`Snapshot`]s of cumulative counters, at the times of a [`Schedule`]. Every other crate works on
//! snapshots and knows nothing about kernels.
//!
//! # Overview
//! [`open`] picks a source: BPF where permitted, /proc everywhere else, and says why in one line.
//! A [`Source`] fills the same [`Snapshot`] buffers again and again. [`Schedule`] wakes on an absolute monotonic grid
//! and counts what came late or was skipped.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use cpumon_collect::{Schedule, SourceOptions, open, parse_interval};
//! use cpumon_model::Snapshot;
//!
//! let stop = AtomicBool::new(false);
//! let mut opened = open(&SourceOptions::default())?;
//! let mut schedule = Schedule::new(parse_interval("1s")?);
//! let mut snapshot = Snapshot::default();
//! while !schedule.wait(&stop).stopped {
//!     opened.source.snapshot(&mut snapshot)?;
//!     schedule.count_into(&mut snapshot.health);
//!     println!("{} threads", snapshot.thread_count);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Snapshot`]: cpumon_model::Snapshot

#[cfg(test)]
#[path = "../../../testing/allocations.rs"]
mod counting;
mod diagnosis;
mod error;
#[doc(hidden)]
pub mod etw;
#[doc(hidden)]
pub mod nt;
mod options;
#[doc(hidden)]
pub mod parse;
mod schedule;
#[doc(hidden)]
pub mod script;
#[doc(hidden)]
pub mod scrub;
mod source;
mod source_names;
mod split;

pub use diagnosis::{Check, CheckState, Diagnosis, DoctorOptions, Topic};
pub use error::CollectError;
pub use options::{
    AllowedPaths, Calls, ParseProbesError, ParseThreadPatternError, RetainedCapabilities, SourceChoice,
    SourceOptions, ThreadPattern, parse_probes,
};
pub use schedule::{IntervalError, MAX_INTERVAL, MIN_INTERVAL, Schedule, Tick, parse_interval};
pub use source::platform::{
    ClockReader, TraceRecorder, USUAL_PROBES, confine_calls, confine_files, diagnose, drop_capabilities,
    give_large_lists_back, give_memory_back, host_info, now, open, read_cycles,
};
pub use source::{Opened, Source, TraceItem, TraceRecorderOptions};
pub use source_names::ParseSourceError;
