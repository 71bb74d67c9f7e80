//! [`BeaconServer`]: the receiver's side of discovery. In: queries of anybody. Out: a signed beacon to each asker, as often as the limits
//! allow; counts. It says nothing that was not asked for, and no answer is longer than its question.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cpumon_link::discovery::{BEACON_GROUPS, BEACON_PORT};
use cpumon_link::tls::TlsError;
use cpumon_link::tls::crypto::pin_of_point;
use cpumon_link::{LinkError, ReceiverOptions, UdpReceiver, local_ips};
use cpumon_wire::beacon::{Beacon, MAX_ADDRESSES, Query, seal};

use super::BeaconSigner;
use crate::clock::wall_ns;
use crate::enrollment::Authority;
use crate::tls::limits::Gate;

/// Beacons a second, and at once.
const ALL: (f64, f64) = (20.0, 40.0);
const OF_SOURCE: (f64, f64) = (2.0, 5.0);
/// Queries are short: a small buffer holds many.
const BUFFER_BYTES: usize = 256 << 10;
/// How often it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(250);
/// How often interfaces are looked at.
const LOOK_AT_INTERFACES: Duration = Duration::from_secs(10);

/// Counts since the start.
#[derive(Debug, Default)]
pub struct BeaconStats {
    /// Queries that could be read.
    pub queries: AtomicU64,
    /// Beacons that were sent.
    pub answered: AtomicU64,
    /// Queries for another receiver.
    pub for_others: AtomicU64,
    /// Queries beyond the limits.
    pub too_many: AtomicU64,
    /// Datagrams that are no query.
    pub malformed: AtomicU64,
    /// Beacons that could not be made or sent.
    pub failed: AtomicU64,
}

/// See the module.
pub struct BeaconServer {
    receiver: UdpReceiver,
    signer: BeaconSigner,
    pin: [u8; 32],
    name: String,
    /// Where the secure stream listens.
    stream: SocketAddr,
    gate: Gate,
    sequence: u64,
    /// Addresses of this machine.
    own: Vec<IpAddr>,
    next_look: Instant,
    stats: Arc<BeaconStats>,
}

impl BeaconServer {
    /// Listens on every interface, for the receiver whose secure stream is at `stream`.
    ///
    /// # Errors
    /// The port cannot be listened on, or the identity cannot sign.
    pub fn bind(authority: &Authority, stream: SocketAddr, name: &str) -> Result<Self, TlsError> {
        let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, BEACON_PORT));
        let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, BEACON_PORT));
        // A machine without IPv6 is no error.
        Self::bind_at(&[v4, v6], &BEACON_GROUPS, authority, stream, name)
            .or_else(|_| Self::bind_at(&[v4], &BEACON_GROUPS[..1], authority, stream, name))
    }

    pub(super) fn bind_at(
        listen: &[SocketAddr],
        groups: &[IpAddr],
        authority: &Authority,
        stream: SocketAddr,
        name: &str,
    ) -> Result<Self, TlsError> {
        let receiver = UdpReceiver::bind(&ReceiverOptions {
            listen: listen.to_vec(),
            multicast: groups.to_vec(),
            interfaces: Vec::new(),
            receive_buffer_bytes: BUFFER_BYTES,
        })?;
        let signer = authority.beacon_signer()?;
        Ok(Self {
            receiver,
            pin: pin_of_point(&signer.point()),
            signer,
            name: name.to_owned(),
            stream,
            gate: Gate::new(ALL, OF_SOURCE),
            sequence: 0,
            own: Vec::new(),
            next_look: Instant::now(),
            stats: Arc::default(),
        })
    }

    /// Its counts.
    #[must_use]
    pub fn stats(&self) -> Arc<BeaconStats> {
        Arc::clone(&self.stats)
    }

    /// Hash of the key that signs.
    #[must_use]
    pub fn pin(&self) -> [u8; 32] {
        self.pin
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn local_addresses(&self) -> Result<Vec<SocketAddr>, LinkError> {
        self.receiver.local_addresses()
    }

    /// Answers until `stop` is set.
    ///
    /// # Errors
    /// The sockets cannot be waited for.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), LinkError> {
        let mut asked = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let (stats, gate, pin) = (&self.stats, &mut self.gate, self.pin);
            let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
            self.receiver.recv_batch(LOOK, &mut |datagram, from| {
                let Ok(query) = Query::decode(datagram) else {
                    count(&stats.malformed);
                    return;
                };
                count(&stats.queries);
                if query.wanted.is_some_and(|wanted| wanted != pin) {
                    count(&stats.for_others);
                } else if gate.lets_in(from.ip().to_canonical()) {
                    asked.push((query.nonce, from));
                } else {
                    count(&stats.too_many);
                }
            })?;
            for (nonce, from) in asked.drain(..) {
                let is_sent = self.answer(nonce, from).is_some();
                count(if is_sent { &self.stats.answered } else { &self.stats.failed });
            }
        }
        Ok(())
    }

    fn answer(&mut self, nonce: [u8; 16], from: SocketAddr) -> Option<()> {
        let addresses = self.addresses(from);
        if addresses.is_empty() {
            return None;
        }
        self.sequence += 1;
        let beacon = Beacon {
            nonce,
            sequence: self.sequence,
            wall_ns: wall_ns(),
            key: self.signer.point(),
            addresses,
            name: &self.name,
        };
        let message = beacon.to_sign();
        let datagram = seal(&message, &self.signer.sign(&message)?);
        self.receiver.send_to(&datagram, from).ok()
    }

    /// Where the asker may reach the secure stream: first the address that is nearest to him.
    fn addresses(&mut self, asker: SocketAddr) -> Vec<SocketAddr> {
        if !self.stream.ip().is_unspecified() {
            return vec![self.stream];
        }
        if Instant::now() >= self.next_look {
            self.next_look = Instant::now() + LOOK_AT_INTERFACES;
            match local_ips() {
                Ok(own) => self.own = own,
                Err(error) => log::warn!("cannot list the network interfaces: {error}"),
            }
        }
        // [::] hears IPv4 too.
        let is_heard = |ip: &IpAddr| self.stream.is_ipv6() || ip.is_ipv4();
        let is_link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let others = self.own.iter().copied().filter(|ip| !ip.is_loopback() && !is_link_local(ip));
        let mut all = Vec::new();
        for ip in towards(asker).into_iter().chain(others).filter(is_heard) {
            let address = SocketAddr::new(ip, self.stream.port());
            if !all.contains(&address) && all.len() < MAX_ADDRESSES {
                all.push(address);
            }
        }
        all
    }
}

/// This machine's address on the way to another. Connecting a datagram socket sends nothing; the kernel looks up the route.
fn towards(other: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if other.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(other).ok()?;
    socket.local_addr().ok().map(|own| own.ip()).filter(|ip| !ip.is_unspecified())
}
