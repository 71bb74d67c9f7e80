//! Limits at which the page changes a mark or a colour: they come with the data, so that it draws the line where the receiver does.

use cpumon_query::fleet::{BALANCED_RATIO, LATE_INTERVALS, LATE_NS, SILENT_INTERVALS, SILENT_NS};
use serde::Serialize;
use utoipa::ToSchema;

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
