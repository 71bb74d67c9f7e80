//! [`Shared`]: the backlog, the counts, and what one of the two threads asks of the other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::status::UplinkStatus;
use crate::backlog::Backlog;

/// What the thread of an uplink and its handle share.
pub(super) struct Shared {
    pub(super) backlog: Mutex<Box<dyn Backlog>>,
    pub(super) status: Mutex<UplinkStatus>,
    pub(super) full_wanted: AtomicBool,
    pub(super) last_full: AtomicU64,
    pub(super) stop: AtomicBool,
}

impl Shared {
    pub(super) fn new(backlog: Box<dyn Backlog>) -> Self {
        Self {
            backlog: Mutex::new(backlog),
            status: Mutex::default(),
            full_wanted: AtomicBool::new(false),
            last_full: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    pub(super) fn backlog(&self) -> MutexGuard<'_, Box<dyn Backlog>> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self) -> MutexGuard<'_, UplinkStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
