//! [`Rejected`]: why a datagram was refused. [`RejectCounts`]: how often for which kind of reason, in numbers of a fixed size.
//! [`Senders`]: who sent it, in a bounded table, so that a flood is shown by its sources and costs a fixed amount of memory.

use std::collections::HashMap;

use cpumon_model::Moment;
use cpumon_model::limits::Source;
use cpumon_wire::encrypted::DecryptError;
use cpumon_wire::{DecodeError, Reason};

/// Why a datagram was refused. It has been counted already.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// It is no datagram of ours.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It speaks for a host too many.
    #[error("taking a datagram of a new host: there are {max_hosts} already")]
    TooManyHosts {
        /// Most hosts that the demux follows at one time.
        max_hosts: usize,
    },
    /// It is not encrypted, and plain datagrams are not taken.
    #[error("taking an unencrypted datagram of protocol v{version}: it is not allowed here ({})", flag(*version))]
    NotAllowed {
        /// Version of the protocol: 1 or 2.
        version: u8,
    },
    /// It is encrypted, and cannot be opened.
    #[error(transparent)]
    Decrypt(#[from] DecryptError),
    /// Its source sends more than one may; nothing of it was read.
    #[error("taking a datagram: its source sends more than --source-datagrams or --source-bytes allow")]
    TooFast,
    /// Its source's datagrams took too much of the receiver's time; nothing of it was read.
    #[error("taking a datagram: its source uses too much of the receiver's CPU time")]
    TooCostly,
    /// Its host begins more snapshots a second than one may.
    #[error("taking a datagram: its host sends more than 20 snapshots a second")]
    TooManySnapshots,
}

/// What would allow it.
fn flag(version: u8) -> &'static str {
    if version == 1 { "--allow-v1" } else { "--allow-plain" }
}

/// Kinds of reasons, each with a count of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RejectKind {
    /// Bytes that are no datagram of ours.
    Malformed,
    /// A host beyond the limit.
    Host,
    /// Plain v2, where that is not allowed.
    Plain,
    /// v1, where that is not allowed.
    V1,
    /// Encrypted with a key that is not in use here.
    UnknownKey,
    /// Changed on its way, or encrypted by somebody without the key.
    BadTag,
    /// An encrypted datagram that came before, or is of an agent start that is over.
    Replayed,
    /// More than one source may send.
    Rate,
}

impl RejectKind {
    /// Every kind, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Malformed,
        Self::Host,
        Self::Plain,
        Self::V1,
        Self::UnknownKey,
        Self::BadTag,
        Self::Replayed,
        Self::Rate,
    ];

    /// The stable name (API).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Host => "host_limit",
            Self::Plain => "plain",
            Self::V1 => "v1",
            Self::UnknownKey => "unknown_key",
            // Older than today's term: clients of the API know the count by this name.
            Self::BadTag => "bad_seal",
            Self::Replayed => "replayed",
            Self::Rate => "rate_limit",
        }
    }
}

impl Rejected {
    /// Why, without the place in the datagram: the same for all with the same fault.
    #[must_use]
    pub fn fault(&self) -> String {
        match self {
            Self::Decode(error) => error.fault(),
            other => other.to_string(),
        }
    }

    /// Whether only a later version of cpumon can read it.
    #[must_use]
    pub fn needs_newer_version(&self) -> bool {
        matches!(self, Self::Decode(error) if error.reason == Reason::UnknownVersion)
    }

    /// Which kind of reason it is.
    #[must_use]
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
    /// How many of this kind.
    #[must_use]
    pub fn of(&self, kind: RejectKind) -> u64 {
        self.0[kind as usize]
    }

    /// Every kind that occurred, with its number.
    pub fn iter(&self) -> impl Iterator<Item = (RejectKind, u64)> {
        RejectKind::ALL.into_iter().zip(self.0).filter(|row| row.1 > 0)
    }

    pub(super) fn count(&mut self, kind: RejectKind) {
        self.0[kind as usize] += 1;
    }
}

/// Most senders kept.
const MAX_SENDERS: usize = 1_024;

/// One sender of refused datagrams.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RejectedSender {
    /// Where they came from: one machine has a whole IPv6 network of addresses.
    pub source: Source,
    /// Refused datagrams of this sender since it entered the table.
    pub datagrams: u64,
    /// How many for which reason.
    pub by_kind: RejectCounts,
    /// Why the last one was refused.
    pub last_reason: Rejected,
    /// When the last one came, ns since the UNIX epoch on the receiver's clock.
    pub last_wall_ns: i64,
}

/// Refused datagrams by sender.
#[derive(Debug, Default)]
pub(super) struct Senders {
    table: HashMap<Source, RejectedSender>,
    /// Refusals of senders that did not fit into the table.
    pub(super) elsewhere: u64,
}

impl Senders {
    /// Counts one refusal.
    pub(super) fn count(&mut self, source: Source, reason: Rejected, received: Moment) {
        let is_full = self.table.len() >= MAX_SENDERS;
        // The senders in the table stay, so that a flood of forged addresses cannot push them out.
        if is_full && !self.table.contains_key(&source) {
            self.elsewhere += 1;
            return;
        }
        let sender = self.table.entry(source).or_insert(RejectedSender {
            source,
            datagrams: 0,
            by_kind: RejectCounts::default(),
            last_reason: reason,
            last_wall_ns: 0,
        });
        sender.datagrams += 1;
        sender.by_kind.count(reason.kind());
        sender.last_reason = reason;
        sender.last_wall_ns = received.wall_ns;
    }

    /// Senders in the table, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &RejectedSender> {
        self.table.values()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn each_kind_has_its_own_place_and_name() {
        let mut counts = RejectCounts::default();
        for (at, kind) in RejectKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            (0..=at).for_each(|_| counts.count(kind));
        }
        let shown: Vec<(&str, u64)> = counts.iter().map(|(kind, count)| (kind.name(), count)).collect();
        assert_eq!(shown[0], ("malformed", 1));
        assert_eq!(shown[6], ("replayed", 7));
    }

    fn source(n: u32) -> Source {
        IpAddr::V4(Ipv4Addr::from_bits(n)).into()
    }

    #[test]
    fn an_ipv6_network_has_one_place_of_the_table() {
        let mut senders = Senders::default();
        let reason = Rejected::TooManyHosts { max_hosts: 1 };
        for n in 0..2_000_u128 {
            let address = Ipv6Addr::from_bits(0x2001_0db8 << 96 | n);
            senders.count(IpAddr::V6(address).into(), reason, Moment::default());
        }
        senders.count(source(1), reason, Moment::default());
        assert_eq!((senders.iter().count(), senders.elsewhere), (2, 0));
        let busiest = senders.iter().max_by_key(|sender| sender.datagrams).unwrap();
        assert_eq!((busiest.source.to_string().as_str(), busiest.datagrams), ("2001:db8::/64", 2_000));
    }

    #[test]
    fn the_table_is_bounded_and_the_rest_is_counted() {
        let mut senders = Senders::default();
        let reason = Rejected::TooManyHosts { max_hosts: 1 };
        for n in 0..2_000_u32 {
            senders.count(source(n), reason, Moment::default());
        }
        senders.count(source(5), reason, Moment::default());
        assert_eq!(senders.iter().count(), MAX_SENDERS);
        assert_eq!(senders.iter().map(|sender| sender.datagrams).sum::<u64>(), 1_025);
        assert_eq!(senders.elsewhere, 976);
    }
}
