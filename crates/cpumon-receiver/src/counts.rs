//! [`SharedCounts`]: what several threads count and frontends see. [`Refusals`]: what was refused, by its source, in a bounded table, so
//! that a flood is shown by its sources and costs a fixed amount of memory.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Mutex;

use cpumon_model::limits::Source;
use cpumon_query::status;

use crate::demux::{RejectCounts, RejectKind};
use crate::lock;

/// Counts that several threads raise.
#[derive(Debug, Default)]
pub struct SharedCounts<T>(Mutex<T>);

impl<T: Clone> SharedCounts<T> {
    pub(crate) fn new(counts: T) -> Self {
        Self(Mutex::new(counts))
    }

    /// Changes the counts under one lock.
    pub(crate) fn note<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut lock(&self.0))
    }

    pub fn status(&self) -> T {
        self.note(|counts| counts.clone())
    }
}

/// Most sources in a table of refusals.
pub(crate) const MAX_SOURCES: usize = 1_024;
/// Sources that frontends see, most refusals first.
const SHOWN_SOURCES: usize = 64;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Refused<R> {
    /// One machine has a whole IPv6 network of addresses.
    pub source: Source,
    /// How often, since it entered the table.
    pub count: u64,
    /// Counts by reason; for datagrams only.
    pub by_kind: RejectCounts,
    pub reason: R,
}

#[derive(Debug)]
pub struct Refusals<R> {
    table: HashMap<Source, Refused<R>>,
    /// Refusals of sources that did not fit into the table.
    others: u64,
}

impl<R> Default for Refusals<R> {
    fn default() -> Self {
        Self { table: HashMap::new(), others: 0 }
    }
}

impl<R: Clone + Display> Refusals<R> {
    /// Counts so many refusals of one source, the last of them for this reason.
    pub(crate) fn count(&mut self, source: Source, count: u64, kind: Option<RejectKind>, reason: R) {
        // The sources in the table stay, so that a flood of forged addresses cannot push them out.
        if self.table.len() >= MAX_SOURCES && !self.table.contains_key(&source) {
            self.others += count;
            return;
        }
        let new = || Refused { source, count: 0, by_kind: RejectCounts::default(), reason: reason.clone() };
        let one = self.table.entry(source).or_insert_with(new);
        one.count += count;
        if let Some(kind) = kind {
            one.by_kind.count(kind);
        }
        one.reason = reason;
    }

    /// Sources in the table, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Refused<R>> {
        self.table.values()
    }

    /// As frontends see it: most refusals first, all that are not listed by themselves last.
    pub(crate) fn status(&self) -> Vec<status::Rejects> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_by_key(|one| (std::cmp::Reverse(one.count), one.source));
        let others = self.others + all.iter().skip(SHOWN_SOURCES).map(|one| one.count).sum::<u64>();
        let shown = all.iter().take(SHOWN_SOURCES).map(|one| status::Rejects {
            source: one.source.to_string(),
            count: one.count,
            by_kind: one.by_kind.status(),
            reason: one.reason.to_string(),
        });
        let others = status::Rejects { source: "others".to_owned(), count: others, ..Default::default() };
        shown.chain((others.count > 0).then_some(others)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::*;

    fn source(n: u32) -> Source {
        IpAddr::V4(Ipv4Addr::from_bits(n)).into()
    }

    #[test]
    fn an_ipv6_network_has_one_place_of_the_table() {
        let mut refusals = Refusals::default();
        for n in 0..2_000_u128 {
            let address = Ipv6Addr::from_bits(0x2001_0db8 << 96 | n);
            refusals.count(IpAddr::V6(address).into(), 1, None, "too many");
        }
        refusals.count(source(1), 1, None, "too many");
        let shown = refusals.status();
        assert_eq!((shown.len(), shown[0].source.as_str(), shown[0].count), (2, "2001:db8::/64", 2_000));
    }

    #[test]
    fn the_table_is_bounded_and_the_rest_is_counted() {
        let mut refusals = Refusals::default();
        for n in 0..2_000 {
            refusals.count(source(n), 1, None, "too many");
        }
        refusals.count(source(5), 1, None, "too many");
        assert_eq!(refusals.iter().count(), MAX_SOURCES);
        assert_eq!(refusals.iter().map(|one| one.count).sum::<u64>(), 1_025);
        assert_eq!(refusals.others, 976);
        let shown = refusals.status();
        assert_eq!((shown.len(), shown[0].count, shown[SHOWN_SOURCES].count), (65, 2, 1_936));
        assert_eq!(shown[SHOWN_SOURCES].source, "others");
    }
}
