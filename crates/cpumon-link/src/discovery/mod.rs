//! Discovery: a device that has no address, or whose receiver moved, asks its subnets who offers `_cpumon._tcp` (DNS-SD over
//! multicast DNS). [`search`] is the device's side; the receiver's side is in `cpumon-receiver`. An answer is only a hint where to
//! connect: TLS proves who is there.

mod search;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cpumon_wire::dns_sd::PORT;

use crate::Target;

pub use search::{FoundReceiver, Ignored, Search, SearchOptions, search};

/// Groups of multicast DNS (RFC 6762, section 3).
pub const GROUPS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(224, 0, 0, 251)), IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb))];
/// Hop limit of multicast DNS (RFC 6762, section 11). No router forwards these groups.
const TTL: u8 = 255;

/// The groups of multicast DNS on these interfaces; none named: on all but loopback.
#[must_use]
pub fn groups(interfaces: &[String]) -> Vec<Target> {
    let target = |group| Target::Multicast { group, port: PORT, ttl: TTL, interfaces: interfaces.to_vec() };
    GROUPS.map(target).to_vec()
}
