//! [`Cancel`]: stops the thread that works for a request whose client went away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Belongs to the future of a request, which is dropped when its client goes away. Then the flag is set.
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// And the flag for the thread.
    pub(crate) fn new() -> (Self, Arc<AtomicBool>) {
        let cancelled = Arc::new(AtomicBool::new(false));
        (Self(Arc::clone(&cancelled)), cancelled)
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
