//! [`Senders`]: who sent what was refused. The table is bounded, so that a flood is shown by its sources and
//! costs a fixed amount of memory.

use std::collections::HashMap;

use cpumon_model::Moment;
use cpumon_model::limits::Source;

use super::rejects::{RejectCounts, Rejected};

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
    elsewhere: u64,
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

    /// Refusals of senders that did not fit into the table.
    pub(super) fn elsewhere(&self) -> u64 {
        self.elsewhere
    }

    /// Senders in the table, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &RejectedSender> {
        self.table.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
        assert_eq!((senders.iter().count(), senders.elsewhere()), (2, 0));
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
        assert_eq!(senders.elsewhere(), 976);
    }
}
