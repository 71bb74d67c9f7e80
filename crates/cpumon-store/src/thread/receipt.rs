//! Receipts: a sender that stores what it sent until it is acknowledged learns here what became of it. What has a receipt and
//! fails is no loss, and no gap is recorded for it, because it is sent again.

use std::fmt::Debug;
use std::sync::Arc;

/// Called by the writer thread when a transaction has ended; must not block.
pub trait Receipt: Debug + Send + Sync {
    /// The interval or gap that was put with this number is committed (or was in the store already), or it failed.
    fn notify(&self, number: u64, is_stored: bool);
}

/// Which receipt to notify, and with which number.
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

/// Receipts of the open transaction.
#[derive(Debug, Default)]
pub(super) struct Receipts(Vec<ReceiptRequest>);

impl Receipts {
    pub(super) fn push(&mut self, request: Option<&ReceiptRequest>) {
        self.0.extend(request.cloned());
    }

    /// The transaction has ended.
    pub(super) fn notify(&mut self, is_stored: bool) {
        for request in self.0.drain(..) {
            request.notify(is_stored);
        }
    }
}
