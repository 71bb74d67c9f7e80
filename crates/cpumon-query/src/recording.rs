//! [`TraceSources`]: how a trace of a host can be had now, and how far a recording of this machine is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a trace of a host can be had now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TraceSources {
    /// The receiver records this host on request: `POST /api/v1/hosts/{host}/recording`.
    pub can_record: bool,
    /// A flight recorder has the last seconds of it, or may have them: `POST /api/v1/hosts/{host}/traces` takes them.
    pub can_take: bool,
    /// How many seconds that are, if it is known.
    pub last_seconds: Option<f64>,
    /// What is missing, and how to get there; empty if nothing is.
    pub how: String,
    /// The last recording on request.
    pub recording: Option<Recording>,
}

/// A recording on request, of the receiver's own machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recording {
    /// Counts them since the receiver started, from 1.
    pub number: u64,
    /// How far it is.
    pub state: RecordingState,
    /// Time until it ends, ms.
    pub left_ms: u64,
    /// Events so far.
    pub events: u64,
    /// Events that did not fit in the buffers.
    pub lost: u64,
    /// Bytes written so far.
    pub bytes: u64,
    /// Number of the stored trace; text in JSON.
    #[serde(with = "cpumon_model::nanos::if_known")]
    #[schema(value_type = Option<String>)]
    pub trace: Option<i64>,
    /// Why there is no trace, or what it waits for.
    pub detail: String,
}

/// How far a recording is.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordingState {
    /// Under way.
    #[default]
    Recording,
    /// Complete, and on its way to the store.
    Storing,
    /// Stored.
    Stored,
    /// There is no trace.
    Failed,
}
