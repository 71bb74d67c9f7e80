//! The JSON types of the HTTP API that are not those of model and query.
//!
//! Times whose name ends in `_ns` are integers in nanoseconds (`wall_ns`: since the UNIX epoch). They can exceed 2^53, so a
//! JavaScript reader needs a parser that keeps 64-bit integers. A value that is absent is zero or empty, unless its
//! own text says otherwise; `fields` names the counters that were measured at all.
//!
//! Answers for the page are made for a browser: rows are a [`Table`] (a list a column), tasks have text keys, single
//! moments are text in ns, and `null` is no data, which is not zero.

mod fleet;
mod history;
mod snapshot;
mod table;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use fleet::{Fleet, FleetBase, FleetHistory, Limits, ReceiverHealth};
pub(crate) use history::SumOptions;
pub use history::{CompareJson, ProcessJson, ProcessLine, SumJson};
pub(crate) use snapshot::thread_table;
pub use snapshot::{Snapshot, SnapshotBase};
pub use table::{ColumnHelp, ColumnList, Row, Table, TableColumn};

/// An error, RFC 9457.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `about:blank`: the status says it all.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// HTTP status code.
    pub status: u16,
    /// The error and its reason.
    pub detail: String,
    /// The remedy.
    #[serde(default)]
    pub how: String,
    /// The error of a question for programs: its kind and its figures. Absent: another error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub error: Option<serde_json::Value>,
}
