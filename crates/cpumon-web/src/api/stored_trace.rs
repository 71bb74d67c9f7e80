//! Traces beside the store, as JSON.

use cpumon_query::TraceRecord;
use cpumon_query::json::Nanos;
use cpumon_query::recording::{self, Phase};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A trace of a device.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StoredTrace {
    /// Its number: `/api/v1/traces/{id}/file` has the file.
    pub id: String,
    /// Id of its host.
    pub host: String,
    /// When what caused it happened, on the time line of the host's intervals.
    pub at_ns: Nanos,
    /// Its first moment.
    pub first_ns: Nanos,
    /// Its last moment.
    pub last_ns: Nanos,
    /// When it was received, by the receiver's clock.
    pub received_ns: Nanos,
    /// Why it was written: a rule of `--flight-when`, `request`, `SIGUSR1`, or `recorded by a user`.
    pub reason: String,
    /// Length of the file.
    pub bytes: u64,
    /// Events in it.
    pub events: u64,
    /// Events that its recorder lost.
    pub lost: u64,
}

/// Answer of `/api/v1/hosts/{host}/traces`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StoredTraces {
    /// How many there are.
    pub total: usize,
    /// Those that were asked for, the oldest first.
    pub traces: Vec<StoredTrace>,
}

/// Answer of `/api/v1/hosts/{host}/recording`: how a trace of the host can be had now.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TraceSources {
    /// `POST` here records it: it is the receiver's own machine.
    pub can_record: bool,
    /// `POST /api/v1/hosts/{host}/traces` takes the last seconds: a flight recorder has them, or may have them.
    pub can_take: bool,
    /// How many seconds that are, if the receiver knows.
    pub last_seconds: Option<f64>,
    /// What is missing, and how to get there; empty if nothing is.
    pub how: String,
    /// The last recording by a `POST` here.
    pub recording: Option<Recording>,
}

/// A recording of the receiver's own machine.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
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
    /// The stored trace.
    pub trace: Option<String>,
    /// Why there is no trace, or what it waits for.
    pub detail: String,
}

/// How far a recording is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordingState {
    /// Under way.
    Recording,
    /// Complete, and on its way to the store.
    Storing,
    /// Stored.
    Stored,
    /// There is no trace.
    Failed,
}

impl From<recording::TraceSources> for TraceSources {
    fn from(from: recording::TraceSources) -> Self {
        Self {
            can_record: from.can_record,
            can_take: from.can_take,
            last_seconds: from.last.map(|last| last.as_secs_f64()),
            how: from.how,
            recording: from.recording.map(Into::into),
        }
    }
}

impl From<recording::Recording> for Recording {
    fn from(from: recording::Recording) -> Self {
        let (state, trace, detail) = match from.phase {
            Phase::Recording => (RecordingState::Recording, None, String::new()),
            Phase::Storing(why) => (RecordingState::Storing, None, why),
            Phase::Stored(id) => (RecordingState::Stored, Some(id.to_string()), String::new()),
            Phase::Failed(why) => (RecordingState::Failed, None, why),
        };
        let left_ms = u64::try_from(from.left.as_millis()).unwrap_or(u64::MAX);
        let (number, events, lost, bytes) = (from.number, from.events, from.lost, from.bytes);
        Self { number, state, left_ms, events, lost, bytes, trace, detail }
    }
}

impl From<&TraceRecord> for StoredTrace {
    fn from(from: &TraceRecord) -> Self {
        Self {
            id: from.id.to_string(),
            host: from.host.to_string(),
            at_ns: Nanos(from.wall_ns),
            first_ns: Nanos(from.first_wall_ns),
            last_ns: Nanos(from.last_wall_ns),
            received_ns: Nanos(from.received_wall_ns),
            reason: from.reason.clone(),
            bytes: from.bytes,
            events: from.events,
            lost: from.lost,
        }
    }
}
