//! How a host is doing: by the age of its newest interval, and by what its ledger leaves over.

use cpumon_model::HostStatus;

/// A ledger is balanced if at most this share of the capacity is not attributed.
pub const BALANCED_RATIO: f64 = 0.005;

/// A host is late once its newest interval is older than this many of its intervals, and than [`LATE_NS`].
pub const LATE_INTERVALS: f64 = 2.5;
/// The least age of a late host, ns.
pub const LATE_NS: i64 = 3_000_000_000;
/// A host is silent once its newest interval is older than this many of its intervals, and than [`SILENT_NS`].
pub const SILENT_INTERVALS: f64 = 10.0;
/// The least age of a silent host, ns.
pub const SILENT_NS: i64 = 15_000_000_000;

/// Whether intervals of a host arrive.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum HostState {
    /// They arrive.
    Reporting,
    /// The last one is older than [`LATE_INTERVALS`] and [`LATE_NS`].
    Late,
    /// The last one is older than [`SILENT_INTERVALS`] and [`SILENT_NS`].
    Silent,
    /// None arrived since the receiver started: the store has its past.
    Stored,
}

impl HostState {
    /// The state of a host whose newest interval arrived so long ago.
    #[must_use]
    pub fn of(age_ns: i64, interval_ns: u64) -> Self {
        let (age_ns, interval_ns) = (age_ns as f64, interval_ns as f64);
        if age_ns <= (interval_ns * LATE_INTERVALS).max(LATE_NS as f64) {
            Self::Reporting
        } else if age_ns <= (interval_ns * SILENT_INTERVALS).max(SILENT_NS as f64) {
            Self::Late
        } else {
            Self::Silent
        }
    }

    /// `reporting`, `late`, `silent` or `stored`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reporting => "reporting",
            Self::Late => "late",
            Self::Silent => "silent",
            Self::Stored => "stored",
        }
    }
}

/// How long ago a host's last interval arrived.
#[must_use]
pub fn age_ns(host: &HostStatus, now_ns: i64) -> i64 {
    now_ns.saturating_sub(host.received_wall_ns).max(0)
}
