//! Intervals that were put but not stored, until they are recorded as rows of table `gap`.

use std::collections::HashMap;

use cpumon_model::{HostId, Interval, Trust};

use super::gaps::{self, LostRange};
use super::naming::Seeded;
use super::transaction::Transaction;

/// Hosts of which losses are recorded at a time; those of others are only counted.
const MAX_HOSTS: usize = 8_192;
/// The same for hosts that are not trusted: they can be as many as they like, and each is a row of `gap` a commit.
const MAX_STRANGERS: usize = 32;

/// Lost time of one host.
#[derive(Copy, Clone, Debug)]
struct Lost {
    trust: Trust,
    range: LostRange,
}

/// Lost time of several hosts, one range each.
#[derive(Debug, Default)]
pub(crate) struct LostByHost(HashMap<HostId, Lost, Seeded>);

impl LostByHost {
    /// Hosts that lost something.
    #[cfg(test)]
    pub(crate) fn hosts(&self) -> usize {
        self.0.len()
    }

    /// Adds an interval to the lost range of its host.
    pub(crate) fn add(&mut self, trust: Trust, interval: &Interval, reason: &'static str) {
        self.merge(interval.host, Lost { trust, range: LostRange::of(interval, reason) });
    }

    /// One range a host, from the first to the last, with the newest reason: a full disk loses an interval a second for
    /// hours, and as many rows of `gap` would be as large as what was lost.
    fn merge(&mut self, host: HostId, lost: Lost) {
        let max = if lost.trust.is_trusted() { MAX_HOSTS } else { MAX_STRANGERS };
        let has_space = self.0.len() < max;
        match self.0.get_mut(&host) {
            Some(known) => known.range.extend(&lost.range),
            None if has_space => drop(self.0.insert(host, lost)),
            None => {}
        }
    }
}

/// Intervals of a host that were put, then rolled back.
#[derive(Copy, Clone, Debug)]
pub(crate) struct RolledBack {
    pub(crate) host: HostId,
    pub(crate) trust: Trust,
    pub(crate) intervals: u64,
}

/// Losses of a writer.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// What the open transaction holds: it is lost if the transaction fails. As many hosts as the transaction has.
    at_risk: HashMap<HostId, Lost, Seeded>,
    /// Since [`Losses::take_rolled_back`].
    rolled_back: Vec<RolledBack>,
    /// Lost, and not yet rows of `gap`.
    unrecorded: LostByHost,
}

impl Losses {
    /// An interval is about to be put into the open transaction, and will not come again.
    pub(super) fn put_at_risk(&mut self, trust: Trust, interval: &Interval) {
        let range = LostRange::of(interval, "not stored");
        let known = self.at_risk.entry(interval.host);
        known.and_modify(|known| known.range.extend(&range)).or_insert(Lost { trust, range });
    }

    /// An interval was lost before it came to the writer.
    pub(super) fn add(&mut self, trust: Trust, interval: &Interval, reason: &'static str) {
        self.unrecorded.add(trust, interval, reason);
    }

    pub(super) fn add_all(&mut self, lost: LostByHost) {
        for (host, lost) in lost.0 {
            self.unrecorded.merge(host, lost);
        }
    }

    pub(super) fn has_unrecorded(&self) -> bool {
        !self.unrecorded.0.is_empty()
    }

    /// Writes what was lost as rows of `gap`. It stays unrecorded until [`Losses::committed`].
    pub(super) fn record(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut hosts = self.unrecorded.0.iter();
        hosts.try_for_each(|(host, lost)| gaps::record_lost(transaction, *host, lost.trust, &lost.range))
    }

    pub(super) fn committed(&mut self) {
        // Not before the commit: the rows of `gap` are in the same transaction, and can be rolled back with it.
        self.at_risk.clear();
        self.unrecorded.0.clear();
    }

    /// What the transaction held is lost.
    pub(super) fn rolled_back(&mut self) {
        // What was unrecorded before stays so: its rows of `gap` were rolled back too.
        for (host, lost) in std::mem::take(&mut self.at_risk) {
            let (trust, intervals) = (lost.trust, lost.range.intervals);
            self.rolled_back.push(RolledBack { host, trust, intervals });
            self.unrecorded.merge(host, lost);
        }
    }

    pub(super) fn take_rolled_back(&mut self) -> Vec<RolledBack> {
        std::mem::take(&mut self.rolled_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_fill_no_table_of_gaps_and_leave_space_for_the_others() {
        let mut losses = Losses::default();
        let interval = |number: u32| {
            let id = HostId(u128::from(number).to_le_bytes());
            Interval { host: id, ..Interval::default() }
        };
        for number in 0..100_000 {
            losses.add(Trust::Unauthenticated, &interval(number), "store full");
        }
        assert_eq!(losses.unrecorded.0.len(), MAX_STRANGERS);
        losses.add(Trust::Unauthenticated, &interval(0), "store full");
        losses.add(Trust::Authenticated, &interval(200_000), "store full");
        assert_eq!(losses.unrecorded.0.len(), MAX_STRANGERS + 1);
        assert_eq!(losses.unrecorded.0[&interval(0).host].range.intervals, 2);
    }

    #[test]
    fn each_interval_that_is_rolled_back_is_counted() {
        let mut losses = Losses::default();
        for number in 0..1_000_u32 {
            let host = HostId(u128::from(number % 500).to_le_bytes());
            losses.put_at_risk(Trust::Unauthenticated, &Interval { host, ..Interval::default() });
        }
        losses.rolled_back();
        let counts = losses.take_rolled_back();
        assert_eq!(counts.iter().map(|one| one.intervals).sum::<u64>(), 1_000);
    }
}
