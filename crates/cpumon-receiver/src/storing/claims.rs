//! [`Claims`]: senders that use the id of a host that they are not: this machine's, or an enrolled one's. Agents in containers do so in
//! good faith, because they share the machine's id; others may do so on purpose. Each becomes a host of its own.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cpumon_model::{HostId, HostStatus, Interval, Trust};
use ring::digest;

use crate::clock;

/// Most hosts at a time that claim an id by datagram. Datagrams can come from any number of forged addresses.
const MAX_CLAIMS: usize = 16;
/// A claimed host that was silent for so long gives its place to a new one.
const SILENT_NS: u64 = 60_000_000_000;

/// Hosts that claim an id by datagram.
#[derive(Debug, Default)]
pub(super) struct Claims {
    places: Mutex<Vec<Claim>>,
    refused: AtomicU64,
}

#[derive(Debug)]
struct Claim {
    host: HostId,
    last_mono_ns: u64,
}

impl Claims {
    /// Turns a host that came by datagram into the one that its address claims to be. False, and counted: there are enough of those.
    pub(super) fn take(&self, status: &mut HostStatus, interval: &mut Interval) -> bool {
        claim(status, interval);
        let is_taken = self.place(interval.host, clock::now().mono_ns);
        self.refused.fetch_add(u64::from(!is_taken), Ordering::Relaxed);
        is_taken
    }

    /// Intervals that were refused because too many hosts claimed an id.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn place(&self, host: HostId, now_ns: u64) -> bool {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = places.iter_mut().find(|known| known.host == host) {
            known.last_mono_ns = now_ns;
            return true;
        }
        if places.len() >= MAX_CLAIMS {
            places.retain(|known| now_ns.saturating_sub(known.last_mono_ns) < SILENT_NS);
        }
        let is_free = places.len() < MAX_CLAIMS;
        if is_free {
            places.push(Claim { host, last_mono_ns: now_ns });
        }
        is_free
    }
}

/// Turns a host into the one that its address claims to be.
pub(super) fn claim(status: &mut HostStatus, interval: &mut Interval) {
    let ip = ip_of(&status.address);
    let id = claimed_id(interval.host, ip, status.trust);
    interval.host = id;
    status.info.host = id;
    status.info.hostname = format!("{}@{}", status.info.hostname, shown(ip)).into();
}

fn ip_of(address: &str) -> Option<IpAddr> {
    address.parse::<SocketAddr>().ok().map(|address| address.ip().to_canonical())
}

fn shown(ip: Option<IpAddr>) -> String {
    ip.map_or_else(|| "unknown".to_owned(), |ip| ip.to_string())
}

/// An id that is the same for the same claim from the same address with the same trust. It is a digest, so that no choice of address
/// leads to the id of another host.
pub(super) fn claimed_id(id: HostId, ip: Option<IpAddr>, trust: Trust) -> HostId {
    let address = match ip {
        Some(IpAddr::V4(ip)) => ip.to_ipv6_mapped().octets(),
        Some(IpAddr::V6(ip)) => ip.octets(),
        None => [0; 16],
    };
    let mut claim = b"cpumon: claimed host id\0".to_vec();
    claim.extend_from_slice(&id.0);
    claim.extend_from_slice(&address);
    claim.extend_from_slice(trust.name().as_bytes());
    let digest = digest::digest(&digest::SHA256, &claim);
    HostId(std::array::from_fn(|at| digest.as_ref()[at]))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn no_address_makes_the_claimed_id_that_of_a_host() {
        // With the exclusive or of id and rotated address that was used once, this source got the id that it claimed.
        let mark = *b"claimed-by-udp-\0";
        let address = Ipv6Addr::from(mark.map(|byte| byte.rotate_right(4)));
        let id = HostId([7; 16]);
        assert_ne!(claimed_id(id, Some(address.into()), Trust::Unauthenticated), id);
    }

    #[test]
    fn trust_is_part_of_a_claimed_host() {
        let id = HostId([7; 16]);
        let ids = [Trust::Unauthenticated, Trust::Encrypted, Trust::Authenticated]
            .map(|trust| claimed_id(id, Some(IpAddr::from([10, 0, 0, 2])), trust));
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    }

    #[test]
    fn six_thousand_addresses_are_sixteen_hosts_until_some_are_silent() {
        let claims = Claims::default();
        let host = |number: u16| {
            claimed_id(HostId([7; 16]), Some(Ipv6Addr::from([number; 8]).into()), Trust::Encrypted)
        };
        let taken = (0..6_000).filter(|number| claims.place(host(*number), 1)).count();
        assert_eq!(taken, MAX_CLAIMS);
        assert!(claims.place(host(3), SILENT_NS), "who has a place keeps it");
        assert!(claims.place(host(6_000), SILENT_NS + 1), "the silent ones give way");
        assert!(claims.place(host(3), SILENT_NS + 1), "and the others do not");
    }
}
