//! [`Counts`]: what the shelf has and did, for `cpumon status`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cpumon_query::status;

/// Since the receiver started, and what is there now.
#[derive(Debug)]
pub(crate) struct Counts {
    max_bytes: u64,
    pub(super) files: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) stored: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) postponed: AtomicU64,
    pub(super) deleted: AtomicU64,
    pub(super) failed: AtomicU64,
    last_error: Mutex<String>,
}

impl Counts {
    pub(super) fn new(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            postponed: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            last_error: Mutex::default(),
        }
    }

    /// A trace is stored: what failed before works again.
    pub(super) fn note_stored(&self) {
        self.stored.fetch_add(1, Ordering::Relaxed);
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Something could not be written or read. It is logged once for each cause, and again once it had worked in between.
    pub(super) fn note_failure(&self, text: &str) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != text {
            log::warn!("traces: {text}");
            text.clone_into(&mut last);
        }
    }

    pub(crate) fn status(&self) -> status::Traces {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        status::Traces {
            files: read(&self.files),
            bytes: read(&self.bytes),
            max_bytes: self.max_bytes,
            stored: read(&self.stored),
            refused: read(&self.refused),
            postponed: read(&self.postponed),
            deleted: read(&self.deleted),
            failed: read(&self.failed),
            error: self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
