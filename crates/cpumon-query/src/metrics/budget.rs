//! [`SeriesBudget`]: the series of all hosts of a receiver, which have a hard cap.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Series of a receiver at most.
pub const MAX_SERIES: usize = 50_000;
/// Kept free for the series of the receiver itself.
const OF_RECEIVER: usize = 20;

/// Counts series that are reserved. Hosts that are not authenticated, which can be as many as they like, have half of them at most.
#[derive(Debug)]
pub(super) struct SeriesBudget {
    max: usize,
    used: AtomicUsize,
    unauthenticated: AtomicUsize,
    hosts: AtomicUsize,
}

impl SeriesBudget {
    pub(super) fn new(max: usize) -> Self {
        let zero = AtomicUsize::default;
        Self { max: max.saturating_sub(OF_RECEIVER), used: zero(), unauthenticated: zero(), hosts: zero() }
    }

    /// Reserves series; false: the cap is reached, and nothing is reserved.
    fn take(&self, count: usize, is_trusted: bool) -> bool {
        let add = |to: &AtomicUsize, max: usize| {
            let within = |used: usize| used.checked_add(count).filter(|sum| *sum <= max);
            to.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
        };
        if !is_trusted && !add(&self.unauthenticated, self.max / 2) {
            return false;
        }
        let is_taken = add(&self.used, self.max);
        if !is_taken && !is_trusted {
            self.unauthenticated.fetch_sub(count, Ordering::Relaxed);
        }
        is_taken
    }

    fn give(&self, count: usize, is_trusted: bool) {
        self.used.fetch_sub(count, Ordering::Relaxed);
        if !is_trusted {
            self.unauthenticated.fetch_sub(count, Ordering::Relaxed);
        }
    }

    /// Series that one host may have if all have as many.
    pub(super) fn share(&self, is_trusted: bool) -> usize {
        let max = if is_trusted { self.max } else { self.max / 2 };
        max / self.hosts.load(Ordering::Relaxed).max(1)
    }

    /// Series that are reserved.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// The series of one host, free again when it is dropped.
#[derive(Debug)]
pub(super) struct HostSeries {
    budget: Arc<SeriesBudget>,
    is_trusted: bool,
    count: usize,
}

impl HostSeries {
    pub(super) fn new(budget: &Arc<SeriesBudget>) -> Self {
        budget.hosts.fetch_add(1, Ordering::Relaxed);
        Self { budget: Arc::clone(budget), is_trusted: false, count: 0 }
    }

    /// Reserves more; false: there are none.
    pub(super) fn take(&mut self, count: usize) -> bool {
        let is_taken = self.budget.take(count, self.is_trusted);
        self.count += if is_taken { count } else { 0 };
        is_taken
    }

    pub(super) fn give(&mut self, count: usize) {
        let given = count.min(self.count);
        self.count -= given;
        self.budget.give(given, self.is_trusted);
    }

    /// How far the host is trusted now; false: its series no longer fit, and all were given back.
    pub(super) fn trust(&mut self, is_trusted: bool) -> bool {
        if is_trusted == self.is_trusted {
            return true;
        }
        let count = std::mem::take(&mut self.count);
        self.budget.give(count, self.is_trusted);
        self.is_trusted = is_trusted;
        self.take(count)
    }

    /// Series that it may have if all hosts have as many.
    pub(super) fn share(&self) -> usize {
        self.budget.share(self.is_trusted)
    }
}

impl Drop for HostSeries {
    fn drop(&mut self) {
        self.budget.give(self.count, self.is_trusted);
        self.budget.hosts.fetch_sub(1, Ordering::Relaxed);
    }
}
