//! The rows of a decoded [`super::Frame`], as types. They have no dependencies, so that decoder, receiver and tests can share them.

use cpumon_model::{Counters, Moment, Pressure, ProcessKey, SourceHealth, ThreadSample};

use super::read::Span;

/// Counts and totals of one snapshot.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Threads alive on the host.
    pub thread_count: u32,
    /// Processes alive on the host.
    pub process_count: u32,
    /// Start of the collection pass.
    pub begin: Moment,
    /// Counters of all threads that ended since the source was opened.
    pub exited_total: Counters,
    /// Pressure on the CPUs of the host, if sent.
    pub pressure: Option<Pressure>,
    /// Control groups that are not measured.
    pub cgroups_left_out: u32,
    /// What the source could not do.
    pub health: SourceHealth,
}

/// A process's info, its texts still in the frame ([`super::Frame::info`]).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct InfoText {
    pub(super) name: Span,
    pub(super) comm: Span,
    pub(super) cmdline: Span,
    pub(super) cgroup: Span,
    pub(super) container: Span,
    pub(super) interpreter: Span,
    pub(super) user: Span,
    pub(super) uid: u32,
    pub(super) is_kernel: bool,
    pub(super) session: Option<u32>,
    pub(super) base_priority: Option<u8>,
    pub(super) product: Span,
}

/// A thread as a frame has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ThreadRow {
    /// Its counters; the name is empty unless sent.
    pub sample: ThreadSample,
    /// The name was sent.
    pub has_name: bool,
}

/// A process as a frame has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ProcessRow {
    /// Pid and start of the process.
    pub key: ProcessKey,
    /// Parent's pid.
    pub parent_pid: u32,
    /// Counters of threads that ended without a row.
    pub ended_threads: Counters,
    /// What it is, if sent.
    pub info: Option<InfoText>,
}

/// A thread that ended, as a frame has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ExitRow {
    /// Final counters.
    pub thread: ThreadSample,
    /// Parent's pid.
    pub parent_pid: u32,
    /// When it ended, ns since boot.
    pub end_ns: u64,
    /// Its process ended with it.
    pub ends_process: bool,
    /// What its process was, if sent.
    pub info: Option<InfoText>,
}
