//! Discovery: a device without an address, or whose receiver moved, asks its subnets; receivers that were told to answer with a signed
//! beacon. In: a query. Out: receivers whose beacons are good. Layout and rules: docs/discovery.md.
//!
//! [`search`] is the device's side; the receiver's is in the crate `cpumon-receiver`. A beacon is only a hint where to connect: who is there
//! must show the same key in TLS.

mod search;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Target;

pub use search::{FoundReceiver, Ignored, Search, SearchOptions, search};

/// UDP port of queries.
pub const BEACON_PORT: u16 = 3003;
/// Groups of queries: administratively scoped, and of the link.
pub const BEACON_GROUPS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(239, 255, 99, 112)),
    IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0x6370, 0x756d)),
];

/// Everybody on the subnets of these interfaces; none named: of all but loopback.
#[must_use]
pub fn everybody(interfaces: &[String]) -> Vec<Target> {
    let groups = BEACON_GROUPS.map(|group| Target::from_address((group, BEACON_PORT).into()));
    let all = std::iter::once(Target::broadcast(BEACON_PORT)).chain(groups);
    all.map(|target| target.on_interfaces(interfaces)).collect()
}
