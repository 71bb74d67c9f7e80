//! Protocol v2: frames of cumulative counters, each datagram decodable alone. Layout: docs/wire-format.md.
//!
//! A datagram is a header and tables. A table describes its own columns, so a decoder skips columns, tables and header
//! fields that it does not know, and takes what is missing as not sent. The rows of a decoded [`Frame`] are types without dependencies, so
//! that decoder, receiver and tests can share them.

pub(crate) mod bits;
pub(crate) mod columns;
mod encoder;
mod frame;
mod header;
mod known;
mod read;
mod rows;
mod sections;
pub(crate) mod table;

use cpumon_model::{Counters, Moment, Pressure, ProcessKey, SourceHealth, ThreadSample};

use self::read::Span;

pub(crate) use self::columns::column_name;
pub use self::encoder::{EncodeReport, Encoder, EncoderOptions, MIN_DATAGRAM_BYTES};
pub use self::frame::{Frame, decode};
pub use self::header::{HEADER_BYTES, Header, MAGIC, MAX_FRAGMENTS, VERSION, host_of};
pub use self::rows::IrqRow;
pub use self::sections::{AboutCgroup, CgroupRow, DelayRow};

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

/// A process's info, its texts still in the frame ([`Frame::info`]).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct InfoText {
    name: Span,
    comm: Span,
    cmdline: Span,
    cgroup: Span,
    container: Span,
    interpreter: Span,
    user: Span,
    uid: u32,
    is_kernel: bool,
    session: Option<u32>,
    base_priority: Option<u8>,
    product: Span,
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
