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

use cpumon_model::{ClockReading, HostInfo, Moment, SourceKind};

#[cfg(test)]
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
mod split;
mod trace;

pub use diagnosis::{Check, CheckState, Diagnosis, DoctorOptions, Topic};
pub use error::CollectError;
pub use options::ParseSourceError;
pub use options::{
    AllowedPaths, Calls, ParseProbesError, RetainedCapabilities, SourceChoice, SourceOptions, parse_probes,
};
pub use options::{ParseThreadPatternError, ThreadPattern};
pub use schedule::{IntervalError, MAX_INTERVAL, MIN_INTERVAL, Schedule, Tick, parse_interval};
pub use source::Opened;
pub use source::Source;
pub use trace::TraceRecorder;
pub use trace::{TraceRecorderOptions, TraceSink};

/// Opens the source that `options` ask for; with [`SourceChoice::Auto`] BPF where it is permitted, else /proc.
///
/// Errors: a forced source that cannot run ([`CollectError::BpfUnavailable`]), or a /proc that cannot be read.
pub fn open(options: &SourceOptions) -> Result<Opened, CollectError> {
    source::platform::open(options)
}

/// Describes this machine. `source_reason` is empty: the caller fills in [`Opened::reason`].
///
/// Errors: the kernel's boot id cannot be read.
pub fn host_info(options: &SourceOptions) -> Result<HostInfo, CollectError> {
    source::platform::host_info(options)
}

/// Says what this machine lets cpumon measure, why, and how to get the rest. Needs no right; without [`DoctorOptions::load`]
/// it only reads files.
#[must_use]
pub fn diagnose(options: &DoctorOptions) -> Diagnosis {
    source::platform::diagnose(options)
}

/// Gives up every capability of the calling thread, and of those it starts later, that is not needed once a source of this
/// kind is open, and the way to get one back by running another program. Says in words which are left.
///
/// Errors: the kernel refuses (a seccomp filter).
pub fn drop_capabilities(kind: SourceKind, keep: RetainedCapabilities) -> std::io::Result<String> {
    source::platform::drop_capabilities(kind, keep)
}

/// Takes every file from the calling thread, and from those it starts later, that `allowed` and the system do not have. Says in words
/// what this kernel holds it to. Not for the thread that measures: it would lose the names of programs.
///
/// Errors: the kernel refuses.
pub fn confine_files(allowed: &AllowedPaths) -> std::io::Result<String> {
    source::platform::confine_files(allowed)
}

/// Takes every system call from all threads of this process that measuring, sending and `calls` do not need. Says in words what
/// it is held to.
///
/// Errors: the kernel refuses, or has no such filters.
pub fn confine_calls(calls: Calls) -> std::io::Result<String> {
    source::platform::confine_calls(calls)
}

/// Now, on the three clocks of this machine.
#[must_use]
pub fn now() -> Moment {
    source::platform::now()
}

/// Gives memory that was freed back to the system, after a crowd of tasks. It takes some ms.
pub fn give_memory_back() {
    source::platform::give_memory_back();
}

/// Lets memory of large lists go back to the system as soon as it is freed, for a process whose lists are now long and now short.
pub fn give_large_lists_back() {
    source::platform::give_large_lists_back();
}

/// Replaces `into` by a pass over the processes of Windows, with their CPU time by ticks and by cycles.
///
/// Errors: [`CollectError::NotHere`] on other systems; else the system refuses.
pub fn read_cycles(into: &mut nt::CycleSnapshot) -> Result<(), CollectError> {
    source::platform::read_cycles(into)
}

/// Reads the CPU time of every thread by three clocks: the tick sampler's, the scheduler's, and the switches. Needs BPF.
pub struct ClockReader {
    inner: source::platform::ClockReader,
}

impl ClockReader {
    /// Errors: [`CollectError::BpfUnavailable`], or [`CollectError::Unsupported`].
    pub fn open() -> Result<Self, CollectError> {
        Ok(Self { inner: source::platform::ClockReader::open()? })
    }

    /// Replaces `into` by a reading of every thread whose switches are tracked.
    ///
    /// Errors: the kernel refuses the pass.
    pub fn read(&mut self, into: &mut Vec<ClockReading>) -> Result<(), CollectError> {
        self.inner.read(into)
    }

    /// CPU time that the hypervisor took since boot, ns.
    ///
    /// Errors: /proc/stat cannot be read.
    pub fn steal_ns(&mut self) -> Result<u64, CollectError> {
        self.inner.steal_ns()
    }

    /// Length of a clock tick, ns: the interval between two samples.
    #[must_use]
    pub fn tick_ns(&self) -> u64 {
        source::platform::ClockReader::tick_ns()
    }
}
