//! [`Rejected`]: why a datagram was refused. [`RejectCounts`]: how often for which kind of reason, in numbers of a fixed size.

use std::collections::BTreeMap;

use cpumon_wire::encrypted::DecryptError;
use cpumon_wire::{DecodeError, Reason};

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
    /// It is not encrypted, and plain datagrams are not taken.
    #[error("taking an unencrypted datagram of protocol v{version}: it is not allowed here ({})", flag(*version))]
    NotAllowed {
        /// Version of the protocol: 1 or 2.
        version: u8,
    },
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
    use super::*;

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
