//! This machine's network interfaces as the link needs them: which are up, which can broadcast or multicast, under which
//! addresses. The list is read again at intervals, because cables, Wi-Fi and VPNs come and go.

use std::net::{IpAddr, Ipv4Addr};

/// An interface's name, at most 15 bytes (`IFNAMSIZ` less the NUL), inline so that reading the list again allocates nothing.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceName([u8; 15]);

impl InterfaceName {
    pub fn new(name: &[u8]) -> Self {
        let mut bytes = [0; 15];
        bytes.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        Self(bytes)
    }
}

/// One address of one interface.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    pub name: InterfaceName,
    pub index: u32,
    /// `IFF_*`, netdevice(7).
    pub flags: u32,
    pub address: IpAddr,
    /// The subnet's broadcast address, where the interface was given one.
    pub broadcast: Option<Ipv4Addr>,
}

impl InterfaceAddress {
    fn has(&self, flags: i32) -> bool {
        flags.cast_unsigned() & !self.flags == 0
    }

    /// Up, with a carrier, and meant: named in `wanted`, or not loopback if none is named.
    fn is_usable(&self, wanted: &[String]) -> bool {
        let is_wanted = if wanted.is_empty() {
            !self.has(libc::IFF_LOOPBACK)
        } else {
            wanted.iter().any(|name| InterfaceName::new(name.as_bytes()) == self.name)
        };
        is_wanted && self.has(libc::IFF_UP | libc::IFF_RUNNING)
    }

    /// Where a broadcast leaves through this address: the subnet's broadcast address, or 255.255.255.255 out of this
    /// interface where the subnet has none. 127.255.255.255 only if loopback was named.
    pub fn broadcast_address(&self, wanted: &[String]) -> Option<Ipv4Addr> {
        let IpAddr::V4(own) = self.address else { return None };
        if !self.is_usable(wanted) {
            None
        } else if self.has(libc::IFF_BROADCAST) {
            // A broadcast address that is the interface's own would reach this machine only.
            Some(self.broadcast.filter(|&to| to != own).unwrap_or(Ipv4Addr::BROADCAST))
        } else {
            self.has(libc::IFF_LOOPBACK).then_some(Ipv4Addr::new(127, 255, 255, 255))
        }
    }

    /// Whether a group of the same family can be reached through this address. Loopback does when it is named,
    /// although it does not claim to.
    pub fn can_multicast(&self, group: IpAddr, wanted: &[String]) -> bool {
        self.address.is_ipv4() == group.is_ipv4()
            && self.is_usable(wanted)
            && (self.has(libc::IFF_MULTICAST) || self.has(libc::IFF_LOOPBACK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ethernet(broadcast: Option<[u8; 4]>) -> InterfaceAddress {
        InterfaceAddress {
            name: InterfaceName::new(b"eth0"),
            index: 2,
            flags: (libc::IFF_UP | libc::IFF_RUNNING | libc::IFF_BROADCAST | libc::IFF_MULTICAST)
                .cast_unsigned(),
            address: IpAddr::from([10, 0, 0, 5]),
            broadcast: broadcast.map(Ipv4Addr::from),
        }
    }

    fn loopback() -> InterfaceAddress {
        InterfaceAddress {
            name: InterfaceName::new(b"lo"),
            index: 1,
            flags: (libc::IFF_UP | libc::IFF_RUNNING | libc::IFF_LOOPBACK).cast_unsigned(),
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
        down.flags &= !libc::IFF_RUNNING.cast_unsigned();
        assert_eq!(down.broadcast_address(&[]), None);
    }
}
