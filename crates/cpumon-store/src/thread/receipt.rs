//! [`Receipt`]: who wants to know what became of an interval. In: a number of the caller's. Out: whether it is in the file.
//! Why: a sender that keeps what it sent may forget it only then, and sends it again otherwise: so what has a receipt and
//! fails is no loss here, and no gap is recorded for it.

use std::fmt::Debug;
use std::sync::Arc;

/// Told by the writer thread; must not wait.
pub trait Receipt: Debug + Send + Sync {
    /// The interval or gap put with this number is committed (or was there already), or it failed.
    fn notify(&self, number: u64, is_stored: bool);
}

/// A receipt and the number it is for.
pub(super) type Wanted = (Arc<dyn Receipt>, u64);

/// Receipts of the open transaction.
#[derive(Debug, Default)]
pub(super) struct Receipts(Vec<Wanted>);

impl Receipts {
    pub(super) fn push(&mut self, wanted: Option<&Wanted>) {
        self.0.extend(wanted.cloned());
    }

    /// The transaction has ended.
    pub(super) fn notify(&mut self, is_stored: bool) {
        for (receipt, number) in self.0.drain(..) {
            receipt.notify(number, is_stored);
        }
    }
}
