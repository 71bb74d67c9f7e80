//! [`Responder`]: answers devices and browsers that ask the subnet for `_cpumon._tcp` (DNS-SD over multicast DNS). Format and rules:
//! docs/discovery.md.
//!
//! It caches nothing and answers within limits, so strangers can make it neither grow nor flood a third party.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cpumon_link::LinkError;
use cpumon_link::discovery::GROUPS;
use cpumon_link::receiving::{GroupSender, ReceiverOptions, UdpReceiver};
use cpumon_link::tls::fingerprint;
use cpumon_model::limits::{Limiter, Overflow, Rate};
use cpumon_query::status;
use cpumon_wire::dns_sd::{
    Instance, MAX_ADDRESSES, PORT, ReplyTo, announcement, answer, goodbye, read_query,
};

use crate::counts::{MAX_SOURCES, SharedCounts};
use crate::enrolment::Authority;
use crate::{ReceiverError, mono_ns};

/// Limits of answers: to all senders together, and to one source.
const ALL: Rate = Rate { amount: 20, seconds: 1, burst_ms: 2_000 };
const OF_SOURCE: Rate = Rate { amount: 2, seconds: 1, burst_ms: 3_000 };
/// Queries are short, so a small receive buffer holds many.
const BUFFER_BYTES: usize = 256 << 10;
/// How often it checks whether to stop.
const STOP_CHECK: Duration = Duration::from_millis(250);
/// A record is multicast at most once a second, and announced twice (RFC 6762, sections 6 and 8.3).
const MULTICAST_PAUSE: Duration = Duration::from_secs(1);
const ANNOUNCEMENTS: u32 = 2;

/// Answers on UDP port 5353, beside other responders of the machine.
pub struct Responder {
    receiver: UdpReceiver,
    groups: GroupSender,
    instance: Instance,
    /// Where the receiver accepts TLS connections.
    tls: SocketAddr,
    limiter: Limiter,
    announcements_left: u32,
    multicast_at: Instant,
    /// Counts since the start, shared with the running thread.
    pub stats: Arc<SharedCounts<status::Discovery>>,
}

impl Responder {
    /// Listens on every interface, for a receiver that accepts TLS connections at `tls`.
    pub fn bind(authority: &Authority, tls: SocketAddr, name: &str) -> Result<Self, ReceiverError> {
        let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
        let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
        // A machine without IPv6 is no error.
        Self::bind_at(&[v4, v6], &GROUPS, authority, tls, name)
            .or_else(|_| Self::bind_at(&[v4], &GROUPS[..1], authority, tls, name))
    }

    pub(super) fn bind_at(
        listen: &[SocketAddr],
        groups: &[IpAddr],
        authority: &Authority,
        tls: SocketAddr,
        name: &str,
    ) -> Result<Self, ReceiverError> {
        let receiver = UdpReceiver::bind(&ReceiverOptions {
            listen: listen.to_vec(),
            multicast: groups.to_vec(),
            interfaces: Vec::new(),
            receive_buffer_bytes: BUFFER_BYTES,
        })
        .map_err(ReceiverError::Discovery)?;
        let (now, pin) = (Instant::now(), authority.pin()?);
        let counts = status::Discovery { key: fingerprint(&pin), ..status::Discovery::default() };
        Ok(Self {
            receiver,
            groups: GroupSender::new(now),
            instance: Instance { name: name.to_owned(), pin, addresses: Vec::new() },
            tls,
            limiter: Limiter::new(ALL, OF_SOURCE, MAX_SOURCES, Overflow::Share),
            announcements_left: ANNOUNCEMENTS,
            multicast_at: now,
            stats: Arc::new(SharedCounts::new(counts)),
        })
    }

    /// Announces the receiver, answers until `stop` is set, and takes the announcement back.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), LinkError> {
        let mut asked = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            self.announce();
            self.receive(&mut asked)?;
            for (reply_to, from) in asked.drain(..) {
                let is_sent = self.answer(reply_to, from);
                self.stats
                    .note(|counts| *(if is_sent { &mut counts.answered } else { &mut counts.failed }) += 1);
            }
        }
        self.update(None);
        // Browsers drop the receiver at once, not only when its records expire (RFC 6762, section 10.1).
        self.groups.send(&self.receiver, &goodbye(&self.instance));
        Ok(())
    }

    fn receive(&mut self, asked: &mut Vec<(ReplyTo, SocketAddr)>) -> Result<(), LinkError> {
        let (stats, limiter, instance) = (&self.stats, &mut self.limiter, &self.instance);
        self.receiver.recv_batch(STOP_CHECK, &mut |datagram, from| match read_query(
            datagram,
            from.port(),
            instance,
        ) {
            Err(_) => stats.note(|counts| counts.malformed += 1),
            Ok(None) => stats.note(|counts| counts.unrelated += 1),
            Ok(Some(reply_to)) => {
                stats.note(|counts| counts.queries += 1);
                if limiter.take(from.ip(), mono_ns()).is_ok() {
                    asked.push((reply_to, from));
                } else {
                    stats.note(|counts| counts.too_many += 1);
                }
            }
        })?;
        Ok(())
    }

    fn announce(&mut self) {
        if self.announcements_left > 0 && Instant::now() >= self.multicast_at {
            self.announcements_left -= 1;
            self.multicast_at = Instant::now() + MULTICAST_PAUSE;
            self.update(None);
            self.groups.send(&self.receiver, &announcement(&self.instance));
        }
    }

    fn answer(&mut self, reply_to: ReplyTo, from: SocketAddr) -> bool {
        self.update(Some(from));
        if self.instance.addresses.is_empty() {
            return false;
        }
        let datagram = answer(&self.instance, reply_to);
        match reply_to {
            ReplyTo::Resolver { .. } | ReplyTo::Sender => self.receiver.send_to(&datagram, from).is_ok(),
            // Everyone got the last answer less than a second ago.
            ReplyTo::Group if Instant::now() < self.multicast_at => true,
            ReplyTo::Group => {
                self.multicast_at = Instant::now() + MULTICAST_PAUSE;
                self.groups.send(&self.receiver, &datagram) > 0
            }
        }
    }

    /// Where `asker` may reach the receiver: first the address that is nearest to it.
    fn update(&mut self, asker: Option<SocketAddr>) {
        self.instance.addresses.clear();
        if !self.tls.ip().is_unspecified() {
            self.instance.addresses.push(self.tls);
            return;
        }
        // [::] accepts IPv4 too.
        let is_accepted = |ip: &IpAddr| self.tls.is_ipv6() || ip.is_ipv4();
        // Without the asker's own zone a link-local address is useless, and an address record has no zone.
        let is_link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let own = self.groups.local_ips();
        let others = own.filter(|ip| !ip.is_loopback() && !is_link_local(ip));
        let nearest = asker.and_then(towards);
        for ip in nearest.into_iter().chain(others).filter(is_accepted) {
            let address = SocketAddr::new(ip, self.tls.port());
            if !self.instance.addresses.contains(&address) && self.instance.addresses.len() < MAX_ADDRESSES {
                self.instance.addresses.push(address);
            }
        }
    }
}

/// This machine's address on the way to another. Connecting a datagram socket sends nothing; the kernel finds the route.
fn towards(other: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if other.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(other).ok()?;
    socket.local_addr().ok().map(|own| own.ip()).filter(|ip| !ip.is_unspecified())
}

#[cfg(test)]
mod tests;
