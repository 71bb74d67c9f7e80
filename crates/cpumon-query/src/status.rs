//! How a receiver is doing: its counters, its store, its TLS connections. The receiver fills these structs; frontends show them, the API as they are.

use std::collections::BTreeMap;

use cpumon_model::HostStatus;
use cpumon_store::{DamageReport, HostRecord};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

/// A receiver: version, addresses, counters, store, hosts.
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
    /// Address of the HTTP API.
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
    /// Every host, by name.
    #[serde(serialize_with = "with_offsets")]
    #[schema(value_type = Vec<ListedHost>)]
    pub hosts: Vec<HostStatus>,
}

/// Hosts that reported since the receiver started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hosts {
    /// Hosts there are.
    #[serde(default)]
    pub total: usize,
    /// By name.
    #[serde(serialize_with = "with_offsets")]
    #[schema(value_type = Vec<ListedHost>)]
    pub hosts: Vec<HostStatus>,
}

/// A host as it is listed.
#[derive(Serialize, ToSchema)]
struct ListedHost<'a> {
    #[serde(flatten)]
    host: &'a HostStatus,
    /// The device's wall clock less the receiver's, ns: by exchanges of time over TLS, else as the newest interval arrived, the
    /// way included.
    clock_offset_ns: i64,
}

fn with_offsets<S: Serializer>(hosts: &[HostStatus], serializer: S) -> Result<S::Ok, S::Error> {
    serializer
        .collect_seq(hosts.iter().map(|host| ListedHost { host, clock_offset_ns: host.clock_offset_ns() }))
}

/// Traces that devices sent, beside the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Traces {
    /// Files now.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The limit of those (`--trace-bytes`).
    pub max_bytes: u64,
    /// Stored since the receiver started.
    pub stored: u64,
    /// Refused for good: too large, or no trace.
    pub refused: u64,
    /// Put off: too many, no space, or the disk or the store failed; the device offers them again.
    pub postponed: u64,
    /// Deleted: too old, or because others needed the space.
    pub deleted: u64,
    /// Failures of the disk or the store.
    pub failed: u64,
    /// The last of those; empty if a trace was stored after it.
    pub error: String,
}

/// Counters over all senders since the receiver started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Receiver {
    /// Datagrams taken from the kernel.
    pub datagrams: u64,
    /// Bytes of these datagrams.
    pub bytes: u64,
    /// Datagrams the kernel threw away because the socket's buffer was full (`SO_RXQ_OVFL`, socket(7)).
    pub kernel_dropped: u64,
    /// Datagrams that could not be used.
    pub rejected: u64,
    /// Failed receive calls.
    pub receive_errors: u64,
    /// Senders of rejected datagrams, most rejects first; at most 64 are shown, all further ones together as `others`.
    pub rejected_by: Vec<Rejects>,
    /// How many were rejected for which kind of reason; what did not happen is left out: `malformed`, `host_limit` (too many
    /// hosts), `plain` and `v1` (not encrypted, and not allowed), `unknown_key`, `bad_seal`, `replayed`, `rate_limit`
    /// (its source sent more than one may).
    pub rejected_for: BTreeMap<String, u64>,
    /// Encrypted datagrams that were decrypted.
    pub opened: u64,
    /// Names of the group's keys in use.
    pub keys: Vec<String>,
    /// Whether v2 datagrams that are not encrypted are taken.
    pub accepts_plain: bool,
    /// Whether v1 datagrams are taken.
    pub accepts_v1: bool,
    /// Intervals that were decoded and shown.
    pub intervals: u64,
    /// Hosts whose name was the id of another one: they are shown as `host-ID`.
    pub changed_names: u64,
    /// Rows that were left out because a host has more processes, threads or control groups than are taken.
    pub rows_over_limit: u64,
    /// Threads that were not received any more and whose end was in no datagram: their last CPU time is not known.
    pub ended_unseen: u64,
    /// How full the tables of hosts are that send datagrams.
    pub tables: Tables,
}

/// Hosts that send datagrams, and the memory that they take. A host that completed no interval yet is in a table and not among
/// `hosts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Tables {
    /// Hosts that do not encrypt.
    pub plain_hosts: u64,
    /// Hosts that encrypt.
    pub encrypted_hosts: u64,
    /// Hosts of protocol v1.
    pub v1_hosts: u64,
    /// Places in each of the three tables.
    pub max_hosts: u64,
    /// Memory for the state of all these hosts, bytes.
    pub held_bytes: u64,
}

/// Counts of TLS connections since the receiver started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Connections {
    /// TCP address it listens on.
    pub address: String,
    /// Devices that are connected now.
    pub devices: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections refused before the handshake: too many at once, or too many a second.
    pub refused_early: u64,
    /// Handshakes that failed: no TLS 1.3, a certificate that is not of this receiver or has expired, too slow.
    pub handshakes_failed: u64,
    /// Devices refused although their certificate is good: revoked, or too many are connected.
    pub refused_devices: u64,
    /// Connections ended because of what the device sent, and snapshots in it that could not be used.
    pub protocol_errors: u64,
    /// Devices that were enrolled.
    pub enrolled: u64,
    /// Why not all enrolled hosts are known: an entry cannot be read, so its host is refused. Empty: all are known.
    pub enrolled_error: String,
    /// Tokens that were refused: unknown, used, expired.
    pub refused_tokens: u64,
    /// Certificates that were renewed.
    pub renewed: u64,
    /// Devices without a token that requested enrolment.
    pub requests: u64,
    /// Requests that wait for the user now.
    pub requests_waiting: u64,
    /// Requests that the user accepted.
    pub requests_accepted: u64,
    /// Requests that were refused: by the user, after 10 minutes without a decision, for a newer request of the same host, because too many
    /// asked, or because the receiver takes tokens only.
    pub requests_refused: u64,
    /// Answers to devices that search for a receiver; absent unless it runs with `--discovery`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Discovery>,
    /// Bytes of messages from devices.
    pub bytes: u64,
    /// Sources of refusals and errors, most first; at most 64 are shown, all further ones together as `others`.
    pub refused_by: Vec<Rejects>,
}

/// Answers to devices that search for a receiver, since the receiver started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Discovery {
    /// Fingerprint of the receiver's key, to be compared by people.
    pub key: String,
    /// Queries that could be read.
    pub queries: u64,
    /// Answers that were sent.
    pub answered: u64,
    /// Messages about other services.
    pub unrelated: u64,
    /// Queries beyond the limits, in all or of one address.
    pub too_many: u64,
    /// Datagrams that are no query.
    pub malformed: u64,
    /// Answers that could not be sent.
    pub failed: u64,
}

/// What was rejected from one sender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Rejects {
    /// IP address of the sender (spoofable); `others` for those beyond the table's bound.
    pub source: String,
    /// Datagrams rejected.
    pub count: u64,
    /// Why the last one was rejected.
    pub reason: String,
    /// How many for which kind of reason; only of datagrams.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by_kind: BTreeMap<String, u64>,
}

/// Whether intervals are being stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreState {
    /// Every interval is stored.
    #[default]
    Ok,
    /// Writing fails (disk full, say): intervals are shown but not stored; retried until it works again.
    Failing,
    /// This receiver was started without a store.
    None,
}

/// The store as the receiver sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Store {
    /// File.
    pub path: String,
    /// Whether intervals are being stored.
    pub state: StoreState,
    /// Why not; empty while they are.
    pub error: String,
    /// Intervals waiting to be written.
    pub queue: u64,
    /// Most that may wait.
    pub queue_capacity: u64,
    /// Intervals thrown away because the queue was full or writing failed.
    pub dropped: u64,
    /// Intervals that were shown but not stored: unauthenticated hosts began boots more often than one may.
    pub refused: u64,
    /// Intervals written.
    pub written: u64,
    /// Size of the file with its write-ahead log, bytes.
    pub size_bytes: u64,
    /// Why the receiver's clock cannot be right; nothing is deleted by age meanwhile. Empty: no doubt.
    pub clock: String,
    /// What answers lacked because it cannot be read, the first 20 holes; absent: nothing so far.
    #[serde(skip_serializing_if = "DamageReport::is_empty")]
    pub damage: DamageReport,
}

/// Hosts of a store, whether they report now or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredHosts {
    /// Hosts there are.
    pub total: usize,
    /// Those that were asked for, by name.
    pub hosts: Vec<HostRecord>,
}
