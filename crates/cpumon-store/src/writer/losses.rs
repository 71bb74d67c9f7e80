//! Intervals that were put but not stored, until they are recorded as rows of table `gap`.

use std::collections::HashMap;

use cpumon_model::{HostId, Interval};

use super::gaps::{self, LostRange};
use super::naming::Seeded;
use super::transaction::Transaction;

/// Lost time of several hosts, one range each.
#[derive(Debug, Default)]
pub(crate) struct LostByHost(HashMap<HostId, LostRange, Seeded>);

impl LostByHost {
    /// Adds an interval to the lost range of its host.
    pub(crate) fn add(&mut self, interval: &Interval, reason: &'static str) {
        self.merge(interval.host, LostRange::of(interval, reason));
    }

    /// One range a host, from the first to the last, with the newest reason: a full disk loses an interval a second for
    /// hours, and as many rows of `gap` would be as large as what was lost.
    fn merge(&mut self, host: HostId, lost: LostRange) {
        self.0.entry(host).and_modify(|known| known.extend(&lost)).or_insert(lost);
    }
}

/// Losses of a writer.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// What the open transaction holds: it is lost if the transaction fails.
    at_risk: LostByHost,
    /// Intervals per host that were rolled back since [`Losses::take_rolled_back`].
    rolled_back: Vec<(HostId, u64)>,
    /// Lost, and not yet rows of `gap`.
    unrecorded: LostByHost,
}

impl Losses {
    /// An interval is about to be put into the open transaction, and will not come again.
    pub(super) fn put_at_risk(&mut self, interval: &Interval) {
        self.at_risk.add(interval, "not stored");
    }

    /// An interval was lost before it came to the writer.
    pub(super) fn add(&mut self, interval: &Interval, reason: &'static str) {
        self.unrecorded.add(interval, reason);
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
        self.unrecorded.0.iter().try_for_each(|(host, lost)| gaps::record_lost(transaction, *host, lost))
    }

    pub(super) fn committed(&mut self) {
        // Not before the commit: the rows of `gap` are in the same transaction, and can be rolled back with it.
        self.at_risk.0.clear();
        self.unrecorded.0.clear();
    }

    /// What the transaction held is lost.
    pub(super) fn rolled_back(&mut self) {
        // What was unrecorded before stays so: its rows of `gap` were rolled back too.
        for (host, lost) in std::mem::take(&mut self.at_risk).0 {
            self.rolled_back.push((host, lost.intervals));
            self.unrecorded.merge(host, lost);
        }
    }

    pub(super) fn take_rolled_back(&mut self) -> Vec<(HostId, u64)> {
        std::mem::take(&mut self.rolled_back)
    }
}
