//! Traces beside the store, as JSON.

use cpumon_query::TraceRecord;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::snapshot::Nanos;

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
    /// Why it was written: a rule of `--flight-when`, `request`, or `SIGUSR1`.
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
