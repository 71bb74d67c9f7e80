//! The JSON types of the HTTP API that are not those of model and query.
//!
//! Times whose name ends in `_ns` are integers in nanoseconds (`wall_ns`: since the UNIX epoch). They can exceed 2^53, so a
//! JavaScript reader needs a parser that keeps 64-bit integers. A value that is absent is zero or empty, unless its
//! own text says otherwise; `fields` names the counters that were measured at all.
//!
//! What the page reads is made for a browser: rows are a [`Table`] (a list a column), tasks have text keys, single moments are
//! text in ns, and `null` is no data, which is not zero.

mod columns;
mod fleet;
mod from_query;
mod history;
mod limits;
mod problem;
mod snapshot;
mod table;

pub use columns::{ColumnHelp, Columns};
pub use fleet::{Fleet, FleetBase, FleetHistory, ReceiverHealth};
pub(crate) use from_query::SumOptions;
pub use history::{CompareJson, ProcessJson, ProcessLine, SumJson};
pub use limits::Limits;
pub use problem::Problem;
pub(crate) use snapshot::thread_table;
pub use snapshot::{Snapshot, SnapshotBase};
pub use table::{Row, Table, TableColumn};
