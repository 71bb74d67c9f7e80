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

mod cgroup;
mod cgroup_names;
mod cgroup_values;
mod clock;
mod clock_line;
mod clock_piece;
mod clock_reading;
mod columns;
mod counters;
mod cpu;
mod delay_text;
mod delay_values;
mod delays;
mod differ;
mod finder;
mod group_limits;
mod host;
mod host_ref;
mod idle;
mod idle_rows;
mod ids;
mod interval;
mod interval_view;
mod irq;
#[cfg(feature = "json")]
mod json;
mod ledger;
pub mod limits;
mod lists;
mod memory;
mod name;
#[cfg(feature = "json")]
pub mod nanos;
mod open_waits;
mod recent;
mod resting;
mod sched_event;
mod sched_times;
mod sched_values;
mod screen_columns;
mod snapshot;
mod syscalls;
mod terms;
mod text;
mod unit;
mod value;
mod values;
mod wait;
mod wait_words;

pub use cgroup::{CgroupInterval, CgroupSample, CpuLimit, MAX_CGROUPS, Pressure, Throttle};
pub use cgroup_names::CgroupNames;
pub use clock::{ClockExchange, ClockWatch, HostClock};
pub use clock_line::{
    Arrivals, ClockEstimate, ClockLine, MAX_CLOCK_PIECES, WRONG_BEYOND_NS, WRONG_ON_ARRIVAL_NS,
};
pub use clock_piece::ClockPiece;
pub use clock_reading::ClockReading;
pub use columns::{COLUMNS, Column, ColumnId, Kind, Tables, column, columns};
pub use counters::{Counters, Delta, Fields};
pub use cpu::{CpuInterval, CpuSample, CpuSched, CpuTimes, SOFTIRQ_KINDS};
pub use delay_text::ParseDelaysError;
pub use delay_values::delay_percent;
pub use delays::{
    DELAY_BUCKETS, DelayHistogram, DelayOf, Delays, LongestDelay, delay_bucket, delay_range_ns, find_delays,
};
pub use differ::{Rows, born_from_ns};
pub use group_limits::{GroupLimits, LimitFinder};
pub use host::{HostInfo, HostStatus, LossCounts, PROCESSES_ARE_HIDDEN, Trust};
pub use host_ref::HostRef;
pub use idle::IdleProcess;
pub use ids::{BootId, HostId, ParseIdError, ProcessKey, ThreadKey};
pub use interval::{Flags, Interval, Life, ProcessInterval, ThreadInterval, flag_names};
pub use interval_view::IntervalView;
pub use irq::{IrqInterval, IrqSample, LOCAL_IRQ_FROM};
pub use ledger::Ledger;
pub use lists::{empty_list, sort_rows, trim_list};
pub use memory::{
    CGROUP_PATH_BYTES, DELAY_BUCKET_BYTES, HISTOGRAM_BYTES, INFO_BYTES, bytes_of_cgroup, bytes_of_delays,
    bytes_of_info, bytes_of_rows,
};
pub use name::Comm;
pub use open_waits::{OpenWaits, WaitBuffers, WaitPlace};
pub use recent::Recent;
pub use resting::Resting;
pub use sched_event::{Interrupt, Leaves, SchedEvent, SchedEventKind, TraceGroup, TraceIdentity, TraceTask};
pub use sched_times::{SchedDelta, SchedTimes};
pub use screen_columns::{Align, Format, Frontends, HOST_COLUMNS, ScreenColumn, TASK_COLUMNS};
pub use snapshot::{
    ExitSample, Moment, Probes, ProcessInfo, ProcessSample, Snapshot, SourceHealth, SourceKind, TaskState,
    ThreadSample,
};
pub use syscalls::{syscall_name, syscall_number};
pub use terms::{Term, Terms};
pub use text::{Escaped, escape, with_causes, with_separators};
pub use unit::is_unit;
pub use value::{Utc, Value};
pub use wait::{WAIT_SLOTS, WaitReason, Waits};
pub use wait_words::{wait_in_words, wait_words};
