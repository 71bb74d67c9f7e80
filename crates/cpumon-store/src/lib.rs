//! The store: one SQLite file with the intervals of any number of hosts, sums per minute and hour, and known gaps. Live and
//! stored intervals are the same type, so the past answers the same questions as the present. Only this crate knows its SQL.
//!
//! # Overview
//! [`Writer`] puts intervals into the file: ids and names in ordinary tables, the active rows of an interval as one packed
//! blob. [`WriterThread`] runs a writer behind a bounded queue. [`Writer::maintain`] compacts old intervals into
//! compressed chunks, sums them per minute and hour, and deletes the oldest. [`Reader`] reads while a writer writes.
//! Layouts and columns: docs/store.md.
//!
//! ```
//! use cpumon_model::{HostInfo, Interval, Moment, Trust};
//! use cpumon_store::{Query, Reader, StoreOptions, Writer};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("cpumon.sqlite");
//! let info = HostInfo { hostname: "kitchen".into(), ..HostInfo::default() };
//! let interval = Interval { end: Moment { wall_ns: 5_000_000_000, ..Moment::default() }, ..Interval::default() };
//! let mut writer = Writer::open(&path, &StoreOptions::default())?;
//! writer.put(&info, Trust::Local, None, &interval)?;
//! writer.commit()?;
//!
//! let mut reader = Reader::open(&path)?;
//! let host = reader.find_host("kitchen")?.info.host;
//! let mut intervals = reader.intervals(&Query::new(host))?;
//! let stored = intervals.read()?.expect("one interval");
//! assert_eq!(stored.interval.end.wall_ns, 5_000_000_000);
//! assert!(intervals.read()?.is_none());
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "bundled")]
mod check;
mod codec;
#[cfg(all(test, feature = "bundled"))]
#[path = "../../../testing/cpu_time.rs"]
mod cpu_time;
mod error;
mod fresh;
#[cfg(test)]
#[path = "../../../testing/held_memory.rs"]
mod held_memory;
mod legacy_order;
mod names;
mod queue;
mod reader;
mod rows;
mod schema;
pub mod sql;
mod steps;
mod sums;
mod traces;
mod writer;

#[cfg(feature = "bundled")]
pub use check::{CheckReport, LostRows, back_up, check};
#[doc(hidden)]
pub use codec::exercise::exercise;
pub use error::{Result, SqliteError, StoreError};
pub use legacy_order::LegacyOrder;
pub use queue::{
    QueueOptions, Queued, Receipt, ReceiptRequest, StoreState, StoreStatus, WriterHandle, WriterThread,
};
pub use reader::{
    BootSpan, Damage, DamageReport, Gap, GapFinder, HostRecord, InfoAndParent, IntervalReader, ProcessFilter,
    Query, Reader, Segment, SegmentReader, StoredInterval, StoredProcess, StoredReach, TimeRange, What,
    immutable_uri,
};
pub use schema::{distrust, lift_limits};
pub use sums::{ActiveTimes, PER_SECOND, Resolution, RunQueue, SumRow, add_known, rate};
pub use traces::{TraceIndex, TraceRecord, trace_file, traces_dir};
pub use writer::{
    ClockDoubt, EARLIEST_NS, Put, SourcePosition, StoreOptions, Writer, boot_id, forget_host, wall_now_ns,
};
