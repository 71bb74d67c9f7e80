//! The list of interfaces. Their names are those that `ipconfig` shows, such as `Ethernet`.

use std::io;
use std::net::IpAddr;

use if_addrs::{IfAddr, Interface, get_if_addrs};

use crate::destinations::{InterfaceAddress, InterfaceKind};

/// Lists the addresses of this machine's interfaces, loopback and link-local ones included.
///
/// # Errors
/// The system does not list them.
pub fn local_ips() -> io::Result<Vec<IpAddr>> {
    let mut addresses = Vec::new();
    interface_addresses(&mut addresses)?;
    Ok(addresses.iter().map(|one| one.address).collect())
}

/// Replaces the content of `into` by every address of every interface.
pub(crate) fn interface_addresses(into: &mut Vec<InterfaceAddress>) -> io::Result<()> {
    into.clear();
    into.extend(get_if_addrs()?.into_iter().filter_map(address_of));
    Ok(())
}

fn address_of(one: Interface) -> Option<InterfaceAddress> {
    let broadcast = match &one.addr {
        IfAddr::V4(v4) => v4.broadcast.filter(|to| !to.is_unspecified()),
        IfAddr::V6(_) => None,
    };
    let kind = if one.is_loopback() {
        InterfaceKind::Loopback
    } else if one.is_p2p() {
        InterfaceKind::PointToPoint
    } else {
        InterfaceKind::Broadcast
    };
    Some(InterfaceAddress {
        index: one.index?,
        kind,
        is_up: one.is_oper_up(),
        // Whether one cannot is not listed; sending then fails and is counted.
        is_multicast: kind == InterfaceKind::Broadcast,
        address: one.addr.ip(),
        broadcast,
        name: one.name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_loopback_interface() {
        let addresses = local_ips().unwrap();
        assert!(addresses.iter().any(IpAddr::is_loopback), "{addresses:?}");
    }
}
