//! What others learn of the writer thread: health of a store for people, because a full disk stops storing but not showing; and receipts
//! for senders that store what they sent until it is acknowledged. What has a receipt and fails is no loss, and no gap is recorded for it,
//! because it is sent again.

use std::fmt::Debug;
use std::sync::Arc;

use crate::time::ClockDoubt;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreState {
    #[default]
    Ok,
    /// No space: the disk is full, a quota is reached, or it cannot be written. Tried again every few seconds.
    Full {
        /// Since when, ns since the epoch on this machine's clock.
        since_wall_ns: i64,
        reason: String,
    },
    /// Another error. Tried again every few seconds.
    Failed { reason: String },
}

impl StoreState {
    /// The stable name (API, `cpumon status --json`).
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Full { .. } => "full",
            Self::Failed { .. } => "failed",
        }
    }
}

/// Counts of a writer thread since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStatus {
    pub state: StoreState,
    pub queued_intervals: u64,
    pub queued_bytes: u64,
    pub stored_intervals: u64,
    pub stored_thread_rows: u64,
    /// Intervals that the store had already.
    pub duplicate_intervals: u64,
    /// Intervals thrown away: the queue was full, or the store could not be written.
    pub dropped_intervals: u64,
    /// Intervals that were not taken: hosts that are not trusted began boots too often. No gap is recorded for them.
    pub refused_intervals: u64,
    /// When the newest commit ended, ns since the epoch on this machine's clock; `None` before the first.
    pub last_commit_wall_ns: Option<i64>,
    /// This machine's clock cannot be right, so nothing is deleted by age.
    pub clock_doubt: Option<ClockDoubt>,
}

/// Called by the writer thread when a transaction has ended; must not block.
pub trait Receipt: Debug + Send + Sync {
    /// The interval or gap that was put with this number is committed (or was in the store already), or it failed.
    fn notify(&self, number: u64, is_stored: bool);
}

#[derive(Clone, Debug)]
pub struct ReceiptRequest {
    /// Notified once.
    pub receipt: Arc<dyn Receipt>,
    /// The caller's number of the interval or gap.
    pub number: u64,
}

impl ReceiptRequest {
    pub(super) fn notify(&self, is_stored: bool) {
        self.receipt.notify(self.number, is_stored);
    }
}
