//! How it is kept: one SQLite file. In: `Interval`s of any number of hosts. Out: the same `Interval`s (their active rows),
//! sums per minute and hour, gaps. Why: the past must answer the same questions as the present. The only room that knows SQL.
//!
//! # Overview
//! [`Writer`] puts intervals into the file: ids and names in ordinary tables, the active rows of an interval as one packed
//! blob. [`WriterThread`] runs a writer behind a bounded queue. [`Writer::maintain`] folds old intervals into compressed
//! chunks, sums them per minute and hour, and lets go of the oldest. [`Reader`] reads while a writer writes.
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
//! let mut seen = 0;
//! reader.for_each_interval(&Query::new(host), &mut |_interval| {
//!     seen += 1;
//!     std::ops::ControlFlow::Continue(())
//! })?;
//! assert_eq!(seen, 1);
//! # Ok(())
//! # }
//! ```

mod codec;
mod error;
#[cfg(feature = "import")]
pub mod legacy;
mod names;
mod options;
mod reader;
mod schema;
pub mod sql;
mod thread;
mod writer;

pub use error::{Result, StoreError};
pub use options::{QueueOptions, StoreOptions};
pub use reader::{
    Gap, GapFinder, HostRecord, Plan, Point, ProcessFilter, Query, Reader, Resolution, RunQueue, Segment,
    StoreStatistics, StoredInterval, What,
};
pub use thread::{Receipt, StoreState, StoreStatus, WriterHandle, WriterThread};
pub use writer::{Put, ReportedGap, SourcePosition, Writer};
