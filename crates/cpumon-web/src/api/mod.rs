//! The JSON types of the HTTP API, with conversions from and to the model that lose nothing.
//!
//! Times whose name ends in `_ns` are integers in nanoseconds (`wall_ns`: since the UNIX epoch). They can exceed 2^53, so a
//! JavaScript reader needs a parser that keeps 64-bit integers. A value that is absent is zero or empty, unless its
//! own text says otherwise; which counters were measured at all stands in `fields`.
//!
//! What the page reads is made for a browser: rows are a [`Table`] (a list a column), tasks have text keys, single moments are
//! text in ns, and `null` is no data, which is not zero.

mod columns;
mod convert;
mod delays;
mod fleet;
mod from_query;
mod history;
mod host;
mod interval;
mod sched;
mod snapshot;
mod status;
mod table;

pub use columns::{ColumnHelp, Columns};
pub use convert::InvalidInterval;
pub use delays::{Delays, TaskKey};
pub use fleet::{Fleet, FleetBase, ReceiverHealth, Spark};
pub use history::{
    BucketTimes, CompareJson, GapJson, Gaps, HostSeries, Kept, LineJson, Lines, Matrix, MatrixRow,
    ProcessJson, ProcessLine, SeriesColumn, SumJson, WaitLine,
};
pub use host::{Clock, Host, Hosts, Loss};
pub use interval::{Cpu, Health, Interval, Ledger, Moment, Numbered, Process, ProcessInfo, Task, Thread};
pub use sched::{CpuSched, Irq, Sched, Wait};
pub use snapshot::{Nanos, Snapshot, SnapshotBase, key_of_process, key_of_thread};
pub(crate) use snapshot::{process_columns, process_table, shown_columns, summary, thread_table, to_ms};
pub use status::{Discovery, Problem, Receiver, Rejects, Status, Store, StoreState, Stream};
pub use table::{Cell, Row, Table, TableColumn};

/// Whether a value may be left out of the JSON.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
