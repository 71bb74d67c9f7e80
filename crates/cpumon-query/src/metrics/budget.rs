//! [`SeriesBudget`]: the series of all hosts of a receiver, which have a hard cap.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Series of a receiver at most.
pub const MAX_SERIES: usize = 50_000;
/// Kept free for the series of the receiver itself.
const OF_RECEIVER: usize = 20;

/// Series that are reserved. Hosts that are not authenticated, which can be as many as they like, have three quarters at most.
#[derive(Debug)]
struct Pool {
    max: usize,
    used: AtomicUsize,
    unauthenticated: AtomicUsize,
}

impl Pool {
    fn new(max: usize) -> Self {
        let (used, unauthenticated) = Default::default();
        Self { max, used, unauthenticated }
    }

    fn max_unauthenticated(&self) -> usize {
        self.max / 4 * 3
    }

    /// False: the cap is reached, and nothing is reserved.
    fn take(&self, count: usize, is_trusted: bool) -> bool {
        let add = |to: &AtomicUsize, max: usize| {
            let within = |used: usize| used.checked_add(count).filter(|sum| *sum <= max);
            to.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
        };
        if !is_trusted && !add(&self.unauthenticated, self.max_unauthenticated()) {
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
}

/// Counts series that are reserved.
#[derive(Debug)]
pub(super) struct SeriesBudget {
    /// Those of hosts as such, three fifths of all, so that names leave space for hosts.
    own: Pool,
    names: Pool,
    /// Hosts that anyone vouches for, and the others.
    hosts: [AtomicUsize; 2],
}

impl SeriesBudget {
    pub(super) fn new(max: usize) -> Self {
        let max = max.saturating_sub(OF_RECEIVER);
        let own = max / 5 * 3;
        Self { own: Pool::new(own), names: Pool::new(max - own), hosts: Default::default() }
    }

    fn hosts(&self, is_trusted: bool) -> &AtomicUsize {
        &self.hosts[usize::from(!is_trusted)]
    }

    /// Series that are reserved.
    pub(super) fn used(&self) -> usize {
        self.own.used.load(Ordering::Relaxed) + self.names.used.load(Ordering::Relaxed)
    }
}

/// The series of one host, free again when it is dropped.
#[derive(Debug)]
pub(super) struct HostSeries {
    budget: Arc<SeriesBudget>,
    is_trusted: bool,
    own: usize,
    names: usize,
}

impl HostSeries {
    pub(super) fn new(budget: &Arc<SeriesBudget>) -> Self {
        budget.hosts(false).fetch_add(1, Ordering::Relaxed);
        Self { budget: Arc::clone(budget), is_trusted: false, own: 0, names: 0 }
    }

    /// Reserves series of the host itself; false: there are none.
    pub(super) fn take(&mut self, count: usize) -> bool {
        let is_taken = self.budget.own.take(count, self.is_trusted);
        self.own += if is_taken { count } else { 0 };
        is_taken
    }

    /// Reserves series of names.
    pub(super) fn take_names(&mut self, count: usize) -> bool {
        let is_taken = self.budget.names.take(count, self.is_trusted);
        self.names += if is_taken { count } else { 0 };
        is_taken
    }

    pub(super) fn give_names(&mut self, count: usize) {
        let given = count.min(self.names);
        self.names -= given;
        self.budget.names.give(given, self.is_trusted);
    }

    /// How far the host is trusted now; false: its series no longer fit, and all were given back.
    pub(super) fn trust(&mut self, is_trusted: bool) -> bool {
        if is_trusted == self.is_trusted {
            return true;
        }
        let (own, names) = (self.own, self.names);
        self.clear();
        self.budget.hosts(self.is_trusted).fetch_sub(1, Ordering::Relaxed);
        self.budget.hosts(is_trusted).fetch_add(1, Ordering::Relaxed);
        self.is_trusted = is_trusted;
        let fits = self.take(own) && self.take_names(names);
        if !fits {
            self.clear();
        }
        fits
    }

    /// Gives all back.
    pub(super) fn clear(&mut self) {
        self.give_names(self.names);
        self.budget.own.give(std::mem::take(&mut self.own), self.is_trusted);
    }

    /// Series of names that it may have if all hosts of its kind have as many: strangers leave known hosts what they do not use.
    pub(super) fn share(&self) -> usize {
        let names = &self.budget.names;
        let strangers = names.unauthenticated.load(Ordering::Relaxed);
        let max =
            if self.is_trusted { names.max.saturating_sub(strangers) } else { names.max_unauthenticated() };
        max / self.budget.hosts(self.is_trusted).load(Ordering::Relaxed).max(1)
    }
}

impl Drop for HostSeries {
    fn drop(&mut self) {
        self.clear();
        self.budget.hosts(self.is_trusted).fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_leave_known_hosts_a_quarter_and_names_leave_space_for_hosts() {
        let budget = Arc::new(SeriesBudget::new(1_000 + OF_RECEIVER));
        let mut known: Vec<HostSeries> = (0..2).map(|_| HostSeries::new(&budget)).collect();
        for host in &mut known {
            assert!(host.trust(true) && host.take(50));
        }
        let mut strangers: Vec<HostSeries> = (0..4_000).map(|_| HostSeries::new(&budget)).collect();
        let named = strangers.iter_mut().filter_map(|host| host.take_names(50).then_some(())).count();
        let taken = strangers.iter_mut().filter_map(|host| host.take(50).then_some(())).count();
        // Of 400 and of 600.
        assert_eq!((named, taken, budget.used()), (6, 9, 850));
        assert_eq!((known[0].share(), strangers[0].share()), (50, 0));
        assert!(known[0].take_names(50) && known[1].take_names(50) && !known[0].take_names(1));
        // One of them is enrolled: its series count among those of known hosts.
        assert!(strangers[0].trust(true) && !strangers[0].take_names(1) && known[0].share() == 50);
        known[0].give_names(30);
        drop(strangers);
        assert_eq!((budget.used(), known[0].share()), (170, 200));
        drop(known);
        assert_eq!(budget.used(), 0);
    }
}
