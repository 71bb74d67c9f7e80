//! Discovery: a device that has no address, or whose receiver moved, asks its subnets who offers `_cpumon._tcp` (DNS-SD over
//! multicast DNS). [`search`] is the device's side; the receiver's side is in `cpumon-receiver`. What a flood of answers costs is
//! bounded. An answer is only a hint where to connect: TLS proves who is there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use cpumon_wire::dns_sd::{Instance, MAX_ADDRESSES, PORT, Unusable, browse, read_answer};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::AsFd;

use crate::destinations::{Destination, Destinations};
use crate::platform;
use crate::tls::random;
use crate::{LinkError, Target};

/// Groups of multicast DNS (RFC 6762, section 3).
pub const GROUPS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(224, 0, 0, 251)), IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb))];
/// Hop limit of multicast DNS (RFC 6762, section 11). No router forwards these groups.
const TTL: u8 = 255;

/// The groups of multicast DNS on these interfaces; none named: on all but loopback.
pub fn groups(interfaces: &[String]) -> Vec<Target> {
    let target = |group| Target::Multicast { group, port: PORT, ttl: TTL, interfaces: interfaces.to_vec() };
    GROUPS.map(target).to_vec()
}

/// Most answers that one search reads.
const MAX_DATAGRAMS: u64 = 256;
const MAX_FOUND: usize = 32;
/// An answer of multicast DNS is at most this long (RFC 6762, section 17); ours is far below.
const MAX_ANSWER_BYTES: usize = 9_000;
/// The question is sent this often, for networks that lose datagrams.
const QUESTIONS: u32 = 2;
/// How often a search checks whether to stop.
const STOP_CHECK: Duration = Duration::from_millis(50);
/// How long a search for one receiver continues after the first answer: a false answer may come before the right one.
const AFTER_FIRST: Duration = Duration::from_millis(300);

#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Addresses and groups to ask, such as [`groups`].
    pub to: Vec<Target>,
    /// Pin of the only receiver to search for; `None`: any receiver.
    pub wanted: Option<[u8; 32]>,
    /// How long to listen; a wanted receiver ends it early.
    pub wait: Duration,
}

/// A receiver that answered, or something that claims to be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundReceiver {
    /// Hash of its key, as claimed; a TLS connection proves it.
    pub pin: [u8; 32],
    /// Host name that the receiver claims.
    pub name: String,
    /// Where it accepts TLS connections, the best first; of all answers with this pin.
    pub addresses: Vec<SocketAddr>,
    /// Source address of the first answer.
    pub from: SocketAddr,
    /// Time from the start of the search to the first answer.
    pub after: Duration,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// No DNS message, or nothing about receivers in it.
    pub malformed: u64,
    /// Answers to another question.
    pub stale: u64,
    /// Answers of other receivers than the one wanted.
    pub other_key: u64,
    /// Answers beyond the limits of one search.
    pub too_many: u64,
}

impl Ignored {
    /// Answers that no well-behaved receiver on the subnet sends.
    pub fn suspicious(&self) -> u64 {
        self.malformed + self.stale + self.too_many
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Receivers, each once, in the order of their first answers.
    pub found: Vec<FoundReceiver>,
    pub ignored: Ignored,
    /// Interfaces and addresses that were asked; 0: this machine is on no network.
    pub asked: usize,
    /// The last address to which the question could not be sent, and why.
    pub unsent: Option<String>,
}

/// Asks and listens. `stop` ends it early.
///
/// # Errors
/// No socket can be opened, or the interfaces cannot be listed. Datagrams that cannot be sent are no error: see [`Search::unsent`].
pub fn search(options: &SearchOptions, stop: &dyn Fn() -> bool) -> Result<Search, LinkError> {
    let id = random().map_err(|error| LinkError::Interfaces(std::io::Error::other(error)))?;
    let id = u16::from_ne_bytes(id);
    let mut destinations = Destinations::new(&options.to, Instant::now());
    destinations.wait_for_names(options.wait);
    destinations.refresh(Instant::now()).map_err(LinkError::Interfaces)?;
    let sockets = open(&destinations)?;
    let mut search = Search { asked: destinations.v4.len() + destinations.v6.len(), ..Search::default() };
    let begin = Instant::now();
    let mut listener = Listener { id, wanted: options.wanted, begin, datagrams: 0 };
    let mut last = begin + options.wait;
    for question in 1..=QUESTIONS {
        for (socket, to) in &sockets {
            ask(socket, to, &browse(id), &mut search);
        }
        let end = begin + options.wait * question / QUESTIONS;
        while Instant::now() < end.min(last) && !stop() {
            wait(&sockets, end.saturating_duration_since(Instant::now()).min(STOP_CHECK))?;
            for (socket, _) in &sockets {
                listener.take_all(socket, &mut search);
            }
            if options.wanted.is_some()
                && let Some(first) = search.found.first()
            {
                last = last.min(begin + first.after + AFTER_FIRST);
            }
        }
    }
    Ok(search)
}

/// A socket of each address family that has destinations, with them.
fn open(destinations: &Destinations) -> Result<Vec<(UdpSocket, &[Destination])>, LinkError> {
    let mut opened = Vec::new();
    for (any, to) in [
        (IpAddr::from(Ipv4Addr::UNSPECIFIED), &destinations.v4),
        (IpAddr::from(Ipv6Addr::UNSPECIFIED), &destinations.v6),
    ] {
        if to.is_empty() {
            continue;
        }
        let failed = |error| LinkError::Open { purpose: "discovery", error };
        let socket = UdpSocket::bind((any, 0)).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        opened.push((socket, &to[..]));
    }
    Ok(opened)
}

fn ask(socket: &UdpSocket, to: &[Destination], query: &[u8], search: &mut Search) {
    for to in to {
        if let Err(error) = to.send(socket.as_fd(), query) {
            log::debug!("cannot ask {}: {error}", to.shown);
            search.unsent = Some(format!("{}: {error}", to.shown));
        }
    }
}

fn wait(sockets: &[(UdpSocket, &[Destination])], timeout: Duration) -> Result<(), LinkError> {
    let mut polls: Vec<_> = sockets.iter().map(|(socket, _)| PollFd::new(socket, PollFlags::IN)).collect();
    match platform::wait(&mut polls, timeout) {
        Err(error) if error.kind() != std::io::ErrorKind::Interrupted => Err(LinkError::Wait(error)),
        _ => Ok(()),
    }
}

struct Listener {
    id: u16,
    wanted: Option<[u8; 32]>,
    begin: Instant,
    datagrams: u64,
}

impl Listener {
    fn take_all(&mut self, socket: &UdpSocket, search: &mut Search) {
        let mut bytes = [0; MAX_ANSWER_BYTES];
        // No more than one search reads at most: a flood does not hold this loop.
        for _ in 0..MAX_DATAGRAMS {
            let Ok((length, from)) = socket.recv_from(&mut bytes) else { return };
            self.take(bytes.get(..length).unwrap_or_default(), from, search);
        }
    }

    fn take(&mut self, datagram: &[u8], from: SocketAddr, search: &mut Search) {
        self.datagrams += 1;
        if self.datagrams > MAX_DATAGRAMS {
            search.ignored.too_many += 1;
            return;
        }
        match read_answer(datagram, self.id) {
            Ok(instances) => instances.into_iter().for_each(|one| self.add(one, from, search)),
            Err(Unusable::Stale) => search.ignored.stale += 1,
            Err(Unusable::Malformed | Unusable::Unrelated) => search.ignored.malformed += 1,
        }
    }

    fn add(&self, instance: Instance, from: SocketAddr, search: &mut Search) {
        if self.wanted.is_some_and(|wanted| wanted != instance.pin) {
            search.ignored.other_key += 1;
            return;
        }
        let addresses = instance.addresses.iter().filter_map(|address| reached(*address, from));
        if let Some(known) = search.found.iter_mut().find(|known| known.pin == instance.pin) {
            // The same answer by another way, or somebody else who claims this pin: all their addresses are tried.
            for address in addresses {
                if !known.addresses.contains(&address) && known.addresses.len() < MAX_ADDRESSES {
                    known.addresses.push(address);
                }
            }
        } else if search.found.len() >= MAX_FOUND {
            search.ignored.too_many += 1;
        } else {
            search.found.push(FoundReceiver {
                pin: instance.pin,
                name: instance.name,
                addresses: addresses.collect(),
                from,
                after: self.begin.elapsed(),
            });
        }
    }
}

/// An address of the link is usable only with the number of this machine's interface.
fn reached(address: SocketAddr, from: SocketAddr) -> Option<SocketAddr> {
    match (address, from) {
        (SocketAddr::V6(mut v6), from) if v6.ip().is_unicast_link_local() => match from {
            SocketAddr::V6(from) if from.scope_id() > 0 => {
                v6.set_scope_id(from.scope_id());
                Some(v6.into())
            }
            _ => None,
        },
        _ => Some(address),
    }
}
