//! [`Receipts`]: how far the store's writer thread is with what a session put into its queue.

use std::sync::{Mutex, PoisonError};

use cpumon_store::Receipt;

/// See the module. Numbers are given in the order in which they were put.
#[derive(Debug, Default)]
pub struct Receipts(Mutex<Progress>);

#[derive(Copy, Clone, Debug, Default)]
struct Progress {
    stored: u64,
    /// The first that failed: nothing from it on counts, even if later ones were stored.
    failed: Option<u64>,
}

impl Receipts {
    /// Every put up to this number is committed.
    pub fn stored(&self) -> u64 {
        let progress = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        progress.failed.map_or(progress.stored, |failed| progress.stored.min(failed.saturating_sub(1)))
    }

    /// Some put failed.
    pub fn has_failed(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failed.is_some()
    }
}

impl Receipt for Receipts {
    fn notify(&self, number: u64, is_stored: bool) {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_stored {
            progress.stored = progress.stored.max(number);
        } else {
            progress.failed = Some(progress.failed.map_or(number, |failed| failed.min(number)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_a_failure_is_not_acknowledged() {
        let receipts = Receipts::default();
        receipts.notify(1, true);
        receipts.notify(2, true);
        assert_eq!((receipts.stored(), receipts.has_failed()), (2, false));
        receipts.notify(3, false);
        receipts.notify(4, true);
        assert_eq!((receipts.stored(), receipts.has_failed()), (2, true));
    }
}
