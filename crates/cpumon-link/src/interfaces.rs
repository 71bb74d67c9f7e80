//! This machine's network interfaces as the link needs them: which are up, which can broadcast or multicast, under which
//! addresses. The list is read again at intervals, because cables, Wi-Fi and VPNs come and go.

use std::net::{IpAddr, Ipv4Addr};

/// One address of an interface; an interface with several has several entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    pub name: String,
    pub index: u32,
    pub kind: InterfaceKind,
    /// The interface is up and has a carrier.
    pub is_up: bool,
    /// The interface reports that it can multicast.
    pub is_multicast: bool,
    pub address: IpAddr,
    /// The subnet's broadcast address, where the interface was given one.
    pub broadcast: Option<Ipv4Addr>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum InterfaceKind {
    Loopback,
    Broadcast,
    PointToPoint,
}

impl InterfaceAddress {
    /// Up, with a carrier, and meant: named in `wanted`, or not loopback if none is named.
    fn is_usable(&self, wanted: &[String]) -> bool {
        let is_wanted = if wanted.is_empty() {
            self.kind != InterfaceKind::Loopback
        } else {
            wanted.contains(&self.name)
        };
        is_wanted && self.is_up
    }

    /// Where a broadcast leaves through this address: the subnet's broadcast address, or 255.255.255.255 out of this
    /// interface where the subnet has none. 127.255.255.255 only if loopback was named.
    pub fn broadcast_address(&self, wanted: &[String]) -> Option<Ipv4Addr> {
        let IpAddr::V4(own) = self.address else { return None };
        if !self.is_usable(wanted) {
            return None;
        }
        match self.kind {
            // A broadcast address that is the interface's own would reach this machine only.
            InterfaceKind::Broadcast => {
                Some(self.broadcast.filter(|&to| to != own).unwrap_or(Ipv4Addr::BROADCAST))
            }
            InterfaceKind::Loopback => Some(Ipv4Addr::new(127, 255, 255, 255)),
            InterfaceKind::PointToPoint => None,
        }
    }

    /// Whether a group of the same family can be reached through this address. Loopback does when it is named,
    /// although it does not claim to.
    pub fn can_multicast(&self, group: IpAddr, wanted: &[String]) -> bool {
        self.address.is_ipv4() == group.is_ipv4()
            && self.is_usable(wanted)
            && (self.is_multicast || self.kind == InterfaceKind::Loopback)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ethernet(broadcast: Option<[u8; 4]>) -> InterfaceAddress {
        InterfaceAddress {
            name: "eth0".to_owned(),
            index: 2,
            kind: InterfaceKind::Broadcast,
            is_up: true,
            is_multicast: true,
            address: IpAddr::from([10, 0, 0, 5]),
            broadcast: broadcast.map(Ipv4Addr::from),
        }
    }

    fn loopback() -> InterfaceAddress {
        InterfaceAddress {
            name: "lo".to_owned(),
            index: 1,
            kind: InterfaceKind::Loopback,
            is_up: true,
            is_multicast: false,
            address: IpAddr::from([127, 0, 0, 1]),
            broadcast: None,
        }
    }

    #[test]
    fn loopback_only_when_it_is_named() {
        assert_eq!(loopback().broadcast_address(&[]), None);
        assert!(!loopback().can_multicast(IpAddr::from([239, 1, 1, 1]), &[]));
        let named = ["lo".to_owned()];
        assert_eq!(loopback().broadcast_address(&named), Some(Ipv4Addr::new(127, 255, 255, 255)));
        assert!(loopback().can_multicast(IpAddr::from([239, 1, 1, 1]), &named));
        assert_eq!(ethernet(None).broadcast_address(&named), None);
    }

    #[test]
    fn the_subnets_address_or_the_limited_one() {
        let subnet = ethernet(Some([10, 0, 0, 255]));
        assert_eq!(subnet.broadcast_address(&[]), Some(Ipv4Addr::new(10, 0, 0, 255)));
        assert_eq!(ethernet(None).broadcast_address(&[]), Some(Ipv4Addr::BROADCAST));
        assert_eq!(ethernet(Some([10, 0, 0, 5])).broadcast_address(&[]), Some(Ipv4Addr::BROADCAST));
    }

    #[test]
    fn without_a_carrier_there_is_nowhere_to_go() {
        let mut down = ethernet(None);
        down.is_up = false;
        assert_eq!(down.broadcast_address(&[]), None);
    }
}
