//! What cpumon measures, as types: ids, counters, [`Snapshot`], [`Interval`], [`Ledger`]. Every other crate uses them, so they are
//! pure: no I/O, no unsafe, no clock.
//!
//! # Overview
//! A *source* fills a [`Snapshot`] with cumulative counters. [`Interval::between`] turns two snapshots into what
//! happened between them; it is the only place where counters are subtracted. Each interval carries a [`Ledger`].
//!
//! ```
//! use cpumon_model::{Interval, Snapshot};
//! let (before, after) = (Snapshot::default(), Snapshot::default());
//! let interval = Interval::between(&before, &after);
//! assert_eq!(interval.ledger.unattributed_ns(), 0);
//! ```
#![warn(missing_docs)]

mod cgroup;
mod cgroup_names;
mod clock;
mod clock_line;
mod coded;
mod collections;
mod columns;
mod counters;
mod cpu;
mod delays;
mod differ;
mod group_limits;
mod host;
mod idle;
mod ids;
mod interval;
#[cfg(feature = "json")]
mod json;
mod ledger;
pub mod limits;
mod packing;
mod snapshot;
mod text;
pub mod varint;
mod wait;
mod wait_for;

pub use cgroup::{CgroupInterval, CgroupSample, CpuLimit, MAX_CGROUPS, Pressure, Throttle};
pub use cgroup_names::{CgroupNames, is_unit};
pub use clock::{ClockExchange, ClockPiece, ClockWatch, HostClock};
pub use clock_line::{
    Arrivals, ClockEstimate, ClockLine, MAX_CLOCK_PIECES, WRONG_BEYOND_NS, WRONG_ON_ARRIVAL_NS,
};
pub use collections::{Finder, Recent, empty_list, gallop, sort_rows, trim_list};
pub use columns::{
    Align, COLUMNS, Column, ColumnId, Format, Frontends, HOST_COLUMNS, IntervalView, Kind, PageLayout,
    ScreenColumn, TASK_COLUMNS, Tables, Value, column, columns, delay_percent,
};
pub use counters::{ClockReading, Counters, Delta, Fields, SchedDelta, SchedTimes, WAIT_SLOTS, Waits};
pub use cpu::{
    CpuInterval, CpuSample, CpuSched, CpuTimes, IrqInterval, IrqSample, KnownCpuTimes, LOCAL_IRQ_FROM,
    SOFTIRQ_KINDS,
};
pub use delays::{
    DELAY_BUCKETS, DelayHistogram, DelayOf, Delays, LongestDelay, ParseDelaysError, delay_bucket,
    delay_range_ns, find_delays,
};
pub use differ::{Rows, born_from_ns};
pub use group_limits::{GroupLimits, LimitFinder};
pub use host::{HostInfo, HostRef, HostStatus, LossCounts, PROCESSES_ARE_HIDDEN, Term, Terms, Trust};
pub use idle::{OpenWaits, WaitBuffers, WaitPlace};
pub use ids::{BootId, Comm, HostId, ParseIdError, ProcessKey, ThreadKey};
pub use interval::{
    Flags, IdleProcess, Interval, Life, ProcessInterval, Resting, ThreadInterval, flag_names,
};
#[cfg(feature = "json")]
pub use json::nanos;
pub use ledger::Ledger;
pub use limits::{
    CGROUP_PATH_BYTES, DELAY_BUCKET_BYTES, HISTOGRAM_BYTES, INFO_BYTES, bytes_of_delays, bytes_of_info,
    bytes_of_rows,
};
pub use packing::{PACKING_BYTES, Packing, packing_of};
pub use snapshot::{
    ExitSample, Moment, Probes, ProcessInfo, ProcessSample, Snapshot, SourceHealth, SourceKind, TaskState,
    ThreadSample,
};
pub use text::{Escaped, Utc, counted, escape, with_causes, with_separators};
pub use wait::{WaitReason, syscall_name, syscall_number, wait_in_words, wait_words};
pub use wait_for::{WaitFor, WaitKind, WaitedOn};
