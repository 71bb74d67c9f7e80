//! The receiver's own state, and errors, as JSON.

use cpumon_query::status::{Connections, Receiver, Store, Traces};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::host::Host;

/// Answer of `/api/v1/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Status {
    /// The receiver's version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// When it started.
    pub started_wall_ns: i64,
    /// Its clock now.
    pub now_wall_ns: i64,
    /// UDP addresses it listens on.
    pub udp: Vec<String>,
    /// Address of this API.
    pub http: String,
    /// Datagrams in total.
    pub receiver: Receiver,
    /// TLS connections of enrolled devices; absent unless the receiver accepts them.
    // Scripts that read `cpumon status --json` know the field by this name.
    #[serde(rename = "stream", skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// The store.
    pub store: Store,
    /// Traces beside the store; absent unless the receiver takes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces: Option<Traces>,
    /// Every host.
    pub hosts: Vec<Host>,
}

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
    /// What was wrong, and why.
    pub detail: String,
    /// What to do about it.
    #[serde(default)]
    pub how: String,
}
