//! All hosts at a glance, for a browser. Filled by `crate::fleet`.

use cpumon_query::fleet::{BALANCED_RATIO, LATE_INTERVALS, LATE_NS, SILENT_INTERVALS, SILENT_NS, Spark};
use cpumon_query::history::BucketTimes;
use cpumon_query::json::Nanos;
use cpumon_query::status::{Rejects, Status, StoreState};
use serde::Serialize;
use utoipa::ToSchema;

use super::table::Table;

/// Data that the receiver itself lost since it started; `/api/v1/status` has the details.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReceiverHealth {
    /// Whether intervals are being kept.
    pub store: StoreState,
    /// Why not; empty while they are.
    pub store_error: String,
    /// Why the receiver's clock cannot be right; nothing is deleted by age meanwhile. Empty: no doubt.
    pub store_clock: String,
    /// Why hosts that do not report may be missing in the list: the store cannot be read. Empty: none is.
    pub stored_error: String,
    /// Intervals that were shown and not stored.
    pub store_dropped: u64,
    /// Datagrams that came.
    pub datagrams: u64,
    /// UDP addresses that it listens on.
    pub udp: Vec<String>,
    /// TCP address for enrolled devices; null: none.
    pub tls: Option<String>,
    /// Datagrams that could not be used, and connections and snapshots of devices that could not.
    pub rejected: u64,
    /// The source of most of those, and why its last one could not be used; empty: none.
    pub rejected_why: String,
    /// Datagrams that the kernel threw away because the socket's buffer was full.
    pub kernel_dropped: u64,
}

impl From<Status> for ReceiverHealth {
    fn from(from: Status) -> Self {
        let tls = from.connections.as_ref().filter(|tls| tls.protocol_errors > 0);
        let sources = [Some(&from.receiver.rejected_by), tls.map(|tls| &tls.refused_by)];
        let worst = sources.into_iter().flatten().filter_map(|all| all.first()).max_by_key(|one| one.count);
        let why = |Rejects { source, reason, .. }: &Rejects| format!("{source}: {reason}");
        Self {
            rejected_why: worst.map(why).unwrap_or_default(),
            store: from.store.state,
            datagrams: from.receiver.datagrams,
            udp: from.udp,
            // A snapshot of a device that was acknowledged and cannot be used is lost as a datagram is.
            rejected: from.receiver.rejected + from.connections.as_ref().map_or(0, |tls| tls.protocol_errors),
            tls: from.connections.map(|connections| connections.address),
            store_error: from.store.error,
            store_clock: from.store.clock,
            stored_error: String::new(),
            store_dropped: from.store.dropped + from.store.refused,
            kernel_dropped: from.receiver.kernel_dropped,
        }
    }
}

/// Limits at which a mark or a colour changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct Limits {
    /// A ledger is balanced if at most this share of the capacity is not attributed.
    pub balanced_ratio: f64,
    /// A host is late once its newest interval is older than this many of its intervals, and than `late_ns`.
    pub late_intervals: f64,
    /// The least age of a late host, ns.
    pub late_ns: i64,
    /// A host is silent once its newest interval is older than this many of its intervals, and than `silent_ns`.
    pub silent_intervals: f64,
    /// The least age of a silent host, ns.
    pub silent_ns: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            balanced_ratio: BALANCED_RATIO,
            late_intervals: LATE_INTERVALS,
            late_ns: LATE_NS,
            silent_intervals: SILENT_INTERVALS,
            silent_ns: SILENT_NS,
        }
    }
}

/// All hosts, without the parts that differ between readers.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct FleetBase {
    /// The receiver's clock.
    pub now_ns: Nanos,
    /// Counts fleet snapshots since the receiver started.
    pub number: u64,
    /// The receiver itself.
    pub receiver: ReceiverHealth,
    /// Limits at which a mark or a colour changes.
    pub limits: Limits,
    /// A row a host: `id`, `hostname`, `trust`, `source`, `address`, `agent`, `kernel`, `arch`, `cpu_count`,
    /// `interval_ns`, `state` (`reporting`, `late`, `silent`; `stored`: not since the receiver started, the store has its
    /// past), `health` (problems, the most serious first: `silent`, `stored`, `late`, `loss`, `ledger`, `clock`; empty:
    /// none), `age_ns` since its last interval arrived, `clock_offset_ns` (its clock less the receiver's: by exchanges of
    /// time over TLS, which also give `clock_round_trip_ns` and `clock_drift_ppb`; else when that interval arrived),
    /// `end_ms`, `busy_ratio` (of all CPUs); of the last minute `minute_busy_ratio` (mean), `minute_peak_ratio` (highest
    /// interval), `minute_ready` (threads ready on average), `minute_run_queue_per_cpu`, `minute_unattributed_ratio`,
    /// `minute_intervals`, `minute_incomplete` (those that lack lost data); `threads`, `processes`, `top_key`,
    /// `top_name`, `top_cpu_pct`, `top_host_pct`, `capacity_ns`, `unattributed_ns`, `unattributed_ratio`,
    /// `ledger_closed`, `lost`, `rejected`, `store_dropped`, `flags`.
    pub hosts: Table,
    /// The busiest processes over all hosts: `host_id`, `hostname`, `key`, `name`, `container`, `cpu_pct`, `host_pct`, `run_ns`.
    pub top: Table,
}

/// Answer of `/api/v1/fleet`, and a message of its stream.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Fleet {
    /// All hosts.
    #[serde(flatten)]
    pub base: FleetBase,
    /// Fleet snapshots before this one that this reader did not get because it was too slow.
    pub skipped: u64,
    /// The newest minutes; only in an answer and in a stream's first message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spark: Option<Spark>,
}

/// Answer of `/api/v1/fleet/history`: all hosts over a range.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct FleetHistory {
    /// The range that was asked for.
    pub since_ns: Nanos,
    /// Its end.
    pub until_ns: Nanos,
    /// The points; `covered_ns` is that of the host with most data in each.
    #[serde(flatten)]
    pub times: BucketTimes,
    /// A row a host: `id`, `hostname`, `trust`, `covered_ns`, `busy_ratio` (mean, of all CPUs), `peak_ratio` (the highest single
    /// interval), `peak_ms` (begin of the point it is in), `run_queue_per_cpu`.
    pub hosts: Table,
    /// A list a host: busy share of all CPUs in each point; null: no data.
    pub busy_ratio: Vec<Vec<Option<f64>>>,
    /// The highest single interval in each part of time, as `busy_ratio`.
    pub peak_ratio: Vec<Vec<Option<f64>>>,
}
