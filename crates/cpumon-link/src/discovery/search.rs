//! [`search`]: the device's side of discovery. In: whom to ask, which pin is wanted, for how long. Out: receivers whose beacon answers
//! this very question and is signed by the key in it; counts of everything else. What a flood of answers costs is bounded.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use cpumon_wire::beacon::{QUERY_BYTES, Query, Unverified};

use crate::destinations::{Destination, Destinations};
use crate::sys::{self, Outgoing};
use crate::tls::crypto::{is_signed, pin_of_point};
use crate::tls::random;
use crate::{LinkError, Target};

/// Answers that are read in one search, and signatures that are checked.
const MAX_DATAGRAMS: u64 = 256;
const MAX_CHECKS: u64 = 64;
/// Receivers that are told.
const MAX_FOUND: usize = 32;
/// The question is asked so often, for networks that lose.
const QUESTIONS: u32 = 2;
/// How often a search looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Whom to ask for what.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Whom; see [`everybody`](super::everybody).
    pub to: Vec<Target>,
    /// Only the receiver with this pin.
    pub wanted: Option<[u8; 32]>,
    /// How long to listen; a wanted receiver ends it early.
    pub wait: Duration,
}

/// A receiver whose beacon is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundReceiver {
    /// Hash of its key.
    pub pin: [u8; 32],
    /// What it calls itself.
    pub name: String,
    /// Where its secure stream is, the best first.
    pub addresses: Vec<SocketAddr>,
    /// Where the beacon came from.
    pub from: SocketAddr,
    /// How long the answer took.
    pub after: Duration,
}

/// Answers that were ignored.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// No beacon.
    pub malformed: u64,
    /// Beacons that answer another question.
    pub stale: u64,
    /// Beacons whose signature is not good for their key.
    pub badly_signed: u64,
    /// Good ones of another receiver than the one wanted.
    pub other_key: u64,
    /// More than are looked at.
    pub too_many: u64,
}

impl Ignored {
    /// All together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.malformed + self.stale + self.badly_signed + self.other_key + self.too_many
    }

    /// Those that somebody must have made up: good ones of others are none.
    #[must_use]
    pub fn suspicious(&self) -> u64 {
        self.total() - self.other_key
    }
}

/// What a search brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Receivers, each once, in the order of their answers.
    pub found: Vec<FoundReceiver>,
    /// The rest.
    pub ignored: Ignored,
    /// Addresses that were asked; 0: this machine is on no network.
    pub asked: usize,
}

/// Asks and listens. `stop` ends it early.
///
/// # Errors
/// No socket can be had, or the interfaces cannot be listed. Datagrams that cannot be sent are no error: nobody answers.
pub fn search(options: &SearchOptions, stop: &dyn Fn() -> bool) -> Result<Search, LinkError> {
    let nonce = random().map_err(|error| LinkError::Interfaces(std::io::Error::other(error)))?;
    let query = Query { nonce, wanted: options.wanted };
    let mut destinations = Destinations::new(&options.to, Instant::now());
    destinations.wait_for_names(options.wait);
    destinations.refresh(Instant::now()).map_err(LinkError::Interfaces)?;
    let sockets = open(&destinations)?;
    let mut search = Search { asked: destinations.v4.len() + destinations.v6.len(), ..Search::default() };
    let begin = Instant::now();
    let mut listener = Listener { query, begin, checks: 0, datagrams: 0 };
    for question in 1..=QUESTIONS {
        for (socket, to) in &sockets {
            ask(socket, to, &query.encode());
        }
        let end = begin + options.wait * question / QUESTIONS;
        while Instant::now() < end && !stop() {
            wait(&sockets, end.saturating_duration_since(Instant::now()).min(LOOK))?;
            for (socket, _) in &sockets {
                listener.take_all(socket, &mut search);
            }
            if options.wanted.is_some() && !search.found.is_empty() {
                return Ok(search);
            }
        }
    }
    Ok(search)
}

type Asking<'a> = (UdpSocket, &'a [Destination]);

/// A socket for each address family that is asked.
fn open(destinations: &Destinations) -> Result<Vec<Asking<'_>>, LinkError> {
    let families: [(IpAddr, &[Destination]); 2] =
        [(Ipv4Addr::UNSPECIFIED.into(), &destinations.v4), (Ipv6Addr::UNSPECIFIED.into(), &destinations.v6)];
    let open = |any: IpAddr| {
        let socket = UdpSocket::bind((any, 0))?;
        socket.set_nonblocking(true)?;
        if any.is_ipv4() {
            socket.set_broadcast(true)?;
        }
        Ok(socket)
    };
    let failed = |source| LinkError::Open { purpose: "discovery", source };
    let used = families.into_iter().filter(|(_, to)| !to.is_empty());
    used.map(|(any, to)| open(any).map(|socket| (socket, to)).map_err(failed)).collect()
}

fn ask(socket: &UdpSocket, to: &[Destination], query: &[u8]) {
    for to in to {
        let one = |_| Outgoing { bytes: query, to: &to.address, control: &to.control };
        if let Err(error) = sys::send(socket.as_fd(), 1, one) {
            log::debug!("cannot ask {}: {error}", to.shown);
        }
    }
}

fn wait(sockets: &[Asking<'_>], timeout: Duration) -> Result<(), LinkError> {
    let poll =
        |socket: &Asking<'_>| libc::pollfd { fd: socket.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut polls: Vec<_> = sockets.iter().map(poll).collect();
    match sys::wait(&mut polls, timeout) {
        Err(error) if error.kind() != std::io::ErrorKind::Interrupted => Err(LinkError::Wait(error)),
        _ => Ok(()),
    }
}

/// Looks at answers.
struct Listener {
    query: Query,
    begin: Instant,
    datagrams: u64,
    checks: u64,
}

impl Listener {
    fn take_all(&mut self, socket: &UdpSocket, search: &mut Search) {
        let mut bytes = [0; QUERY_BYTES + 1];
        // As many as may be looked at: a flood does not hold this loop.
        for _ in 0..MAX_DATAGRAMS {
            let Ok((length, from)) = socket.recv_from(&mut bytes) else { return };
            self.take(bytes.get(..length).unwrap_or_default(), from, search);
        }
    }

    fn take(&mut self, datagram: &[u8], from: SocketAddr, search: &mut Search) {
        let ignored = &mut search.ignored;
        self.datagrams += 1;
        if self.datagrams > MAX_DATAGRAMS {
            ignored.too_many += 1;
            return;
        }
        let Ok(read) = Unverified::decode(datagram) else {
            ignored.malformed += 1;
            return;
        };
        let beacon = &read.beacon;
        let pin = pin_of_point(&beacon.key);
        if beacon.nonce != self.query.nonce {
            ignored.stale += 1;
        } else if self.query.wanted.is_some_and(|wanted| wanted != pin) {
            ignored.other_key += 1;
        } else if search.found.iter().any(|known| known.pin == pin) {
            // The same question came to it by several ways.
        } else if self.checks >= MAX_CHECKS || search.found.len() >= MAX_FOUND {
            ignored.too_many += 1;
        } else {
            self.checks += 1;
            if !is_signed(&beacon.key, &read.signed_message(), &read.signature) {
                ignored.badly_signed += 1;
                return;
            }
            let addresses = beacon.addresses.iter().filter_map(|address| reached(*address, from));
            search.found.push(FoundReceiver {
                pin,
                name: beacon.name.to_owned(),
                addresses: addresses.collect(),
                from,
                after: self.begin.elapsed(),
            });
        }
    }
}

/// An address of the link is good with the number of this machine's interface only.
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
