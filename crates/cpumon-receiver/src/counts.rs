//! Counts that several threads write and frontends read ([`SharedCounts`]), and the reasons of refusals. [`RejectCounts`] counts refused
//! datagrams by their reason ([`Rejected`]), in numbers of a fixed size; [`Refusals`] keeps what was refused by its source, in a bounded
//! table, so that a flood is shown by its sources and costs a fixed amount of memory.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::sync::Mutex;

use cpumon_model::limits::Source;
use cpumon_query::status;
use cpumon_wire::encrypted::DecryptError;
use cpumon_wire::{DecodeError, Reason};

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
    /// Counts `count` refusals of one source. `reason` explains the last one.
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

/// Why a datagram was refused. It has been counted already.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("taking a datagram of a new host: there are {max_hosts} already")]
    TooManyHosts {
        /// Most hosts that the demux follows at one time.
        max_hosts: usize,
    },
    #[error("taking an unencrypted datagram of protocol v{version}: it is not allowed here ({})", flag(*version))]
    NotAllowed {
        /// Version of the protocol: 1 or 2.
        version: u8,
    },
    #[error(transparent)]
    Decrypt(#[from] DecryptError),
    /// Its source exceeds its rate; the datagram was not read.
    #[error("taking a datagram: its source sends more than --source-datagrams or --source-bytes allow")]
    TooFast,
    /// Its source's datagrams took too much of the receiver's time; the datagram was not read.
    #[error("taking a datagram: its source uses too much of the receiver's CPU time")]
    TooCostly,
    #[error("taking a datagram: its host sends more than 20 snapshots a second")]
    TooManySnapshots,
}

/// The option that would allow datagrams of this version.
fn flag(version: u8) -> &'static str {
    if version == 1 { "--allow-v1" } else { "--allow-plain" }
}

cpumon_query::named! {
    /// Kinds of reasons, each with a count of its own, in the order in which they are shown. The words are stable (API).
    RejectKind,
    /// Bytes that are not a valid datagram.
    Malformed = "malformed",
    /// A new host beyond the limit.
    Host = "host_limit",
    /// Plain v2, where that is not allowed.
    Plain = "plain",
    /// v1, where that is not allowed.
    V1 = "v1",
    /// Encrypted with a key that is not in use here.
    UnknownKey = "unknown_key",
    /// Changed on its way, or encrypted by somebody without the key. The word is older than today's term.
    BadTag = "bad_seal",
    /// An encrypted datagram that came before, or is of an agent start that is over.
    Replayed = "replayed",
    /// The source sends faster than it may.
    Rate = "rate_limit",
}

impl Rejected {
    /// Why, without the place in the datagram: the same for all with the same fault.
    pub fn fault(&self) -> String {
        match self {
            Self::Decode(error) => error.fault(),
            other => other.to_string(),
        }
    }

    /// Whether only a later version of cpumon can read it.
    pub fn needs_newer_version(&self) -> bool {
        matches!(self, Self::Decode(error) if error.reason == Reason::UnknownVersion)
    }

    pub fn kind(&self) -> RejectKind {
        match self {
            Self::Decode(_) | Self::Decrypt(DecryptError::Malformed(_)) => RejectKind::Malformed,
            Self::TooManyHosts { .. } | Self::Decrypt(DecryptError::TooManyHosts) => RejectKind::Host,
            Self::NotAllowed { version: 1 } => RejectKind::V1,
            Self::NotAllowed { .. } => RejectKind::Plain,
            Self::Decrypt(DecryptError::UnknownKey(_)) => RejectKind::UnknownKey,
            Self::Decrypt(DecryptError::BadTag(_) | DecryptError::OtherHost) => RejectKind::BadTag,
            Self::Decrypt(DecryptError::Replayed | DecryptError::Earlier) => RejectKind::Replayed,
            Self::TooFast | Self::TooCostly | Self::TooManySnapshots => RejectKind::Rate,
        }
    }
}

/// Refused datagrams of each [`RejectKind`], cumulative.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RejectCounts([u64; RejectKind::ALL.len()]);

impl RejectCounts {
    pub fn of(&self, kind: RejectKind) -> u64 {
        self.0[kind as usize]
    }

    /// Every kind that occurred, with its number.
    pub fn iter(&self) -> impl Iterator<Item = (RejectKind, u64)> {
        RejectKind::ALL.iter().copied().zip(self.0).filter(|row| row.1 > 0)
    }

    pub(crate) fn status(&self) -> BTreeMap<String, u64> {
        self.iter().map(|(kind, count)| (kind.name().to_owned(), count)).collect()
    }

    pub(crate) fn count(&mut self, kind: RejectKind) {
        self.0[kind as usize] += 1;
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

    #[test]
    fn each_kind_has_its_own_place_and_name() {
        let mut counts = RejectCounts::default();
        for (at, kind) in RejectKind::ALL.iter().copied().enumerate() {
            assert_eq!(kind as usize, at);
            (0..=at).for_each(|_| counts.count(kind));
        }
        let shown: Vec<(&str, u64)> = counts.iter().map(|(kind, count)| (kind.name(), count)).collect();
        assert_eq!(shown[0], ("malformed", 1));
        assert_eq!(shown[6], ("replayed", 7));
    }
}
