//! Expands targets into the addresses that datagrams are sent to: one per subnet for broadcast, one per interface for
//! multicast, the resolved address of a name.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::{Duration, Instant};

use rustix::fd::BorrowedFd;

use crate::Target;
use crate::interfaces::InterfaceAddress;
use crate::platform::{ControlMessages, KernelAddress, Outgoing, interface_addresses, send};
use crate::target::Resolver;

/// Lists the addresses of this machine's interfaces, loopback and link-local ones included.
pub fn local_ips() -> io::Result<Vec<IpAddr>> {
    let mut addresses = Vec::new();
    interface_addresses(&mut addresses)?;
    Ok(addresses.iter().map(|one| one.address).collect())
}

/// Interval at which the interfaces are read again.
const READ_EVERY: Duration = Duration::from_secs(10);
/// Shortest interval between two reads, after a send error that suggests that an interface changed.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// The addresses of all interfaces, read again every ten seconds.
pub struct InterfaceList {
    pub addresses: Vec<InterfaceAddress>,
    /// As they were at the read before.
    pub before: Vec<InterfaceAddress>,
    next_read: Instant,
    last_read: Instant,
}

impl InterfaceList {
    pub fn new(now: Instant) -> Self {
        Self { addresses: Vec::new(), before: Vec::new(), next_read: now, last_read: now }
    }

    /// Reads them again soon: sending failed as if they had changed.
    pub fn suspect(&mut self) {
        // Bounded by the last read: an interface that stays down must not cause a read for each batch.
        self.next_read = self.next_read.min(self.last_read + READ_AGAIN);
    }

    /// Reads them if it is time. True: they were read.
    pub fn refresh(&mut self, now: Instant) -> io::Result<bool> {
        if now < self.next_read {
            return Ok(false);
        }
        (self.last_read, self.next_read) = (now, now + READ_EVERY);
        // Where they cannot be read, those that are known stay.
        interface_addresses(&mut self.before)?;
        std::mem::swap(&mut self.addresses, &mut self.before);
        Ok(true)
    }
}

#[derive(Clone)]
pub struct Destination {
    pub shown: SocketAddr,
    pub address: KernelAddress,
    pub control: ControlMessages,
}

pub struct Destinations {
    targets: Vec<Target>,
    /// One for each name among the targets, in their order.
    resolvers: Vec<Resolver>,
    names: Vec<Option<SocketAddr>>,
    pub interfaces: InterfaceList,
    is_expanded: bool,
    pub v4: Vec<Destination>,
    pub v6: Vec<Destination>,
    /// Targets other than names that have no destination now.
    pub unreachable: u64,
    /// Host names that have no address now.
    pub unresolved: u64,
}

impl Destinations {
    pub fn new(targets: &[Target], now: Instant) -> Self {
        let name = |target: &Target| match target {
            Target::Name { host, port } => Some(Resolver::new(host, *port, now)),
            _ => None,
        };
        let resolvers: Vec<_> = targets.iter().filter_map(name).collect();
        Self {
            targets: targets.to_vec(),
            names: vec![None; resolvers.len()],
            resolvers,
            interfaces: InterfaceList::new(now),
            is_expanded: false,
            v4: Vec::new(),
            v6: Vec::new(),
            unreachable: 0,
            unresolved: 0,
        }
    }

    /// Waits for the first look-up of every name, at most `timeout` each.
    pub fn wait_for_names(&mut self, timeout: Duration) {
        self.resolvers.iter_mut().for_each(|resolver| resolver.wait(timeout));
    }

    /// Brings the destinations up to date. True if they changed.
    pub fn refresh(&mut self, now: Instant) -> io::Result<bool> {
        // The first call expands even if nothing changed since `new`.
        let mut has_changed = !std::mem::replace(&mut self.is_expanded, true);
        for (resolver, known) in self.resolvers.iter_mut().zip(&mut self.names) {
            let address = resolver.address(now);
            has_changed |= std::mem::replace(known, address) != address;
        }
        // Single addresses take the routing table's way, so reading the interfaces would be for nothing.
        if self.targets.iter().any(Target::needs_interfaces) && self.interfaces.refresh(now)? {
            has_changed |= self.interfaces.addresses != self.interfaces.before;
        }
        if has_changed {
            self.expand();
        }
        Ok(has_changed)
    }

    fn expand(&mut self) {
        self.v4.clear();
        self.v6.clear();
        (self.unreachable, self.unresolved) = (0, 0);
        let mut names = self.names.iter();
        for target in &self.targets {
            let before = self.v4.len() + self.v6.len();
            let mut add = |destination: Destination| {
                let list = if destination.shown.is_ipv4() { &mut self.v4 } else { &mut self.v6 };
                if !list.iter().any(|known| known.is_same(&destination)) {
                    list.push(destination);
                }
            };
            let mut is_resolved = false;
            match target {
                Target::Unicast(address) => add(Destination::routed(*address)),
                Target::Name { .. } => {
                    let address = names.next().copied().flatten();
                    is_resolved = address.is_some();
                    address.map(Destination::routed).into_iter().for_each(add);
                }
                Target::Broadcast { port, interfaces } => {
                    let to = |from: &InterfaceAddress| {
                        let to = SocketAddr::new(from.broadcast_address(interfaces)?.into(), *port);
                        Some(Destination::through(from, to, None))
                    };
                    self.interfaces.addresses.iter().filter_map(to).for_each(add);
                }
                Target::Multicast { group, port, ttl, interfaces } => {
                    // An interface with several addresses is listed once for each, one after the other.
                    let mut last_index = 0;
                    let can_multicast = |from: &&InterfaceAddress| from.can_multicast(*group, interfaces);
                    for from in self.interfaces.addresses.iter().filter(can_multicast) {
                        if from.index != std::mem::replace(&mut last_index, from.index) {
                            add(Destination::through(from, SocketAddr::new(*group, *port), Some(*ttl)));
                        }
                    }
                }
            }
            // A destination that several targets share does not make the others unreachable.
            let is_missing = self.v4.len() + self.v6.len() == before;
            match target {
                Target::Name { .. } => self.unresolved += u64::from(is_missing && !is_resolved),
                _ => self.unreachable += u64::from(is_missing),
            }
        }
    }
}

impl Destination {
    /// Leaves the choice of the interface to the routing table.
    fn routed(address: SocketAddr) -> Self {
        Self { shown: address, address: address.into(), control: ControlMessages::default() }
    }

    /// Sends out of this interface, whatever the routing table says.
    fn through(from: &InterfaceAddress, to: SocketAddr, ttl: Option<u8>) -> Self {
        let (shown, source) = match to.ip() {
            IpAddr::V4(_) => (to, from.address),
            // The kernel picks the source: an interface has several IPv6 addresses, of different reach.
            IpAddr::V6(group) => {
                (SocketAddrV6::new(group, to.port(), 0, from.index).into(), Ipv6Addr::UNSPECIFIED.into())
            }
        };
        Self {
            shown,
            address: shown.into(),
            control: ControlMessages::from_interface(from.index, source, ttl),
        }
    }

    /// Sends one datagram there, without waiting.
    pub fn send(&self, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
        let one = |_| Outgoing { bytes, to: &self.address, control: &self.control };
        send(socket, 1, one).map(|_| ())
    }

    /// The same address out of the same interface: a second address in one subnet must not double the traffic.
    fn is_same(&self, other: &Self) -> bool {
        self.shown == other.shown && self.control.interface() == other.control.interface()
    }
}

impl Target {
    fn needs_interfaces(&self) -> bool {
        matches!(self, Self::Broadcast { .. } | Self::Multicast { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(targets: &[&str]) -> Destinations {
        let now = Instant::now();
        let targets: Vec<Target> = targets.iter().map(|text| text.parse().unwrap()).collect();
        let mut destinations = Destinations::new(&targets, now);
        destinations.wait_for_names(Duration::from_mins(2));
        assert!(destinations.refresh(now).unwrap());
        destinations
    }

    #[test]
    fn this_machine_has_a_loopback_interface() {
        let addresses = local_ips().unwrap();
        assert!(addresses.iter().any(IpAddr::is_loopback), "{addresses:?}");
    }

    #[test]
    fn one_address_is_one_destination_however_often_it_is_named() {
        let destinations = expanded(&["127.0.0.1:5", "127.0.0.1:5", "[::1]:5"]);
        assert_eq!((destinations.v4.len(), destinations.v6.len()), (1, 1));
    }

    #[test]
    fn nothing_changes_without_a_cause() {
        let mut destinations = expanded(&["127.0.0.1:5"]);
        assert!(!destinations.refresh(Instant::now() + READ_EVERY * 2).unwrap());
    }

    #[test]
    fn a_target_without_an_interface_is_unreachable() {
        let now = Instant::now();
        let target = Target::Broadcast { port: 5, interfaces: vec!["no-such-if".into()] };
        let mut destinations = Destinations::new(&[target], now);
        destinations.refresh(now).unwrap();
        assert_eq!(destinations.unreachable, 1);
    }

    #[test]
    fn loopback_is_no_broadcast_destination_unless_named() {
        let destinations = expanded(&["255.255.255.255:5"]);
        assert!(destinations.v4.iter().all(|to| !to.shown.ip().is_loopback()));
    }
}
