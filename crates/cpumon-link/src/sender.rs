//! [`UdpSender`]: sends datagrams to every destination of every target, in batches. No network error stops it: errors are
//! counted by kind, and each kind is logged once.

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::event::{PollFd, PollFlags};
use rustix::fd::AsFd;
use socket2::{Domain, Protocol, Socket, Type};

use crate::destinations::{Destination, Destinations};
use crate::platform::{
    BATCH, NETWORK_UNREACHABLE, Outgoing, is_full, is_sign_of_change, is_without_buffer, send, wait,
};
use crate::{LinkError, Target};

/// Asked for so that a whole snapshot fits while the device drains; the kernel may grant less (`net.core.wmem_max`).
const SEND_BUFFER_BYTES: usize = 1 << 20;
/// How long one call of [`UdpSender::send_batch`] waits in all for a device that takes no more.
const FULL_DEVICE_WAIT: Duration = Duration::from_millis(200);
/// How long opening waits for a name to be looked up.
const NAME_WAIT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Default)]
pub struct SenderOptions {
    pub to: Vec<Target>,
    /// Pause after each datagram; `None` sends as fast as the device takes them. The original paused 2 ms.
    pub pace: Option<Duration>,
}

pub struct UdpSender {
    v4: Option<Socket>,
    v6: Option<Socket>,
    destinations: Destinations,
    pub pace: Option<Duration>,
    pub stats: SendStats,
}

impl UdpSender {
    /// Opens the sockets. That no interface is up, or that a name cannot be looked up yet, is no error.
    ///
    /// # Errors
    /// [`LinkError::NothingToSendTo`]; [`LinkError::Open`] if this machine lacks the address family of a target.
    pub fn open(options: &SenderOptions) -> Result<Self, LinkError> {
        if options.to.is_empty() {
            return Err(LinkError::NothingToSendTo);
        }
        let needs = |family: fn(&Target) -> bool| options.to.iter().any(family);
        let v4 = open_family(Domain::IPV4, needs(Target::is_v4), needs(Target::is_name))?;
        let v6 = open_family(Domain::IPV6, needs(Target::is_v6), needs(Target::is_name))?;
        let mut destinations = Destinations::new(&options.to, Instant::now());
        destinations.wait_for_names(NAME_WAIT);
        destinations.refresh(Instant::now()).map_err(LinkError::Interfaces)?;
        Ok(Self { v4, v6, destinations, pace: options.pace, stats: SendStats::default() })
    }

    /// Sends each datagram to every destination, in order. What fails is counted, see [`UdpSender::stats`].
    /// Allocates nothing unless the destinations change.
    pub fn send_batch<D: AsRef<[u8]>>(&mut self, datagrams: &[D]) {
        self.refresh();
        // One patience for the whole call: a device that is stuck must not hold up each datagram for 200 ms.
        let mut patience = FULL_DEVICE_WAIT;
        match self.pace {
            None => self.send_unpaced(datagrams, &mut patience),
            Some(pace) => {
                let mut due = Instant::now();
                for datagram in datagrams {
                    self.send_unpaced(std::slice::from_ref(datagram), &mut patience);
                    due = next_due(due, pace, Instant::now());
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                }
            }
        }
    }

    /// The addresses that each datagram goes to now; empty while no interface is up and no name is known.
    pub fn destinations(&self) -> impl Iterator<Item = SocketAddr> {
        self.destinations.v4.iter().chain(&self.destinations.v6).map(|destination| destination.shown)
    }

    fn refresh(&mut self) {
        match self.destinations.refresh(Instant::now()) {
            Ok(false) => {}
            Ok(true) => self.stats.destination_changes += 1,
            Err(error) => {
                if self.stats.count_errors(error.raw_os_error().unwrap_or(0), 1) {
                    log::warn!("cannot list the network interfaces: {error}; sending to those known before");
                }
            }
        }
    }

    fn send_unpaced<D: AsRef<[u8]>>(&mut self, datagrams: &[D], patience: &mut Duration) {
        let unreachable = self.destinations.unreachable * datagrams.len() as u64;
        if unreachable > 0 {
            self.destinations.interfaces.suspect();
            if self.stats.count_errors(NETWORK_UNREACHABLE, unreachable) {
                log::warn!("a target has no address now: no interface is up");
            }
        }
        let unresolved = self.destinations.unresolved * datagrams.len() as u64;
        if unresolved > 0 && self.stats.count_unresolved(unresolved) {
            log::warn!("nothing is sent to a receiver whose name has no address");
        }
        let families = [(&self.v4, &self.destinations.v4), (&self.v6, &self.destinations.v6)];
        let mut is_suspect = false;
        for (socket, to) in families {
            if let (Some(socket), false) = (socket, to.is_empty()) {
                let mut sending = Sending { socket, to, stats: &mut self.stats, patience, is_suspect: false };
                sending.all(datagrams);
                is_suspect |= sending.is_suspect;
            }
        }
        if is_suspect {
            self.destinations.interfaces.suspect();
        }
    }
}

struct Sending<'a> {
    socket: &'a Socket,
    to: &'a [Destination],
    stats: &'a mut SendStats,
    patience: &'a mut Duration,
    is_suspect: bool,
}

impl Sending<'_> {
    fn all<D: AsRef<[u8]>>(&mut self, datagrams: &[D]) {
        let total = datagrams.len() * self.to.len();
        let at = |at: usize| (&datagrams[at / self.to.len()], &self.to[at % self.to.len()]);
        let mut done = 0;
        while done < total {
            let batch = send(self.socket.as_fd(), (total - done).min(BATCH), |offset| {
                let (datagram, to) = at(done + offset);
                Outgoing { bytes: datagram.as_ref(), to: &to.address, control: &to.control }
            });
            match batch {
                Ok(sent) => {
                    let bytes = (done..done + sent).map(|item| at(item).0.as_ref().len() as u64).sum::<u64>();
                    self.stats.datagrams += sent as u64;
                    self.stats.bytes += bytes;
                    // At least one: if the kernel took none without an error, this loop would never end.
                    done += sent.max(1);
                }
                Err(error) => done += self.after(&error, at(done).1.shown, total - done),
            }
        }
    }

    /// How many datagrams to give up after an error of the first of `rest`.
    fn after(&mut self, error: &io::Error, to: SocketAddr, rest: usize) -> usize {
        let errno = error.raw_os_error().unwrap_or(0);
        if error.kind() == io::ErrorKind::Interrupted
            || (is_full(errno) || is_without_buffer(errno)) && self.wait_for_space()
        {
            return 0;
        }
        // The socket's buffer is full, so all the rest would fail as well. Other errors concern this
        // datagram.
        let lost = if is_full(errno) { rest } else { 1 };
        if self.stats.count_errors(errno, lost as u64) {
            log::warn!("cannot send to {to}: {error}; further errors of this kind are only counted");
        }
        self.is_suspect |= is_sign_of_change(errno);
        lost
    }

    /// Waits for space in the socket's buffer, as long as the call's patience lasts.
    fn wait_for_space(&mut self) -> bool {
        if self.patience.is_zero() {
            return false;
        }
        let start = Instant::now();
        let mut polls = [PollFd::new(self.socket, PollFlags::OUT)];
        let is_ready = wait(&mut polls, *self.patience).unwrap_or(false);
        // At least a little each time, so that a device that is always "ready" and always full ends the patience too.
        let spent = start.elapsed().max(Duration::from_millis(1));
        *self.patience = self.patience.saturating_sub(spent);
        is_ready
    }
}

/// When the datagram after this one is due. The next pause is shorter by what this one was too long: else a
/// large set would take longer than the sum of its pauses. By one pause at most, because many datagrams at once would overflow a receiver's buffer.
fn next_due(due: Instant, pace: Duration, now: Instant) -> Instant {
    let due = due + pace;
    now.checked_sub(pace).map_or(due, |earliest| due.max(earliest))
}

/// A socket of this family: an error if it is `needed`, `None` if it is only `useful` and this machine has none.
fn open_family(domain: Domain, needed: bool, useful: bool) -> Result<Option<Socket>, LinkError> {
    if !needed && !useful {
        return Ok(None);
    }
    match open_socket(domain) {
        Ok(socket) => Ok(Some(socket)),
        // A name may resolve to either family, and a machine without IPv6 has the other one.
        Err(_) if !needed => Ok(None),
        Err(error) if domain == Domain::IPV4 => Err(LinkError::Open { purpose: "sending over IPv4", error }),
        Err(error) => Err(LinkError::Open { purpose: "sending over IPv6", error }),
    }
}

fn open_socket(domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if domain == Domain::IPV4 {
        // Without SO_BROADCAST the kernel refuses broadcast addresses with EACCES (ip(7)).
        socket.set_broadcast(true)?;
    } else {
        socket.set_only_v6(true)?;
    }
    // Where no flag of a call says that it must not wait (Windows).
    socket.set_nonblocking(true)?;
    // As much as the kernel grants: less means waiting sooner, nothing else.
    let _ = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
    Ok(socket)
}

impl Target {
    fn is_name(&self) -> bool {
        matches!(self, Self::Name { .. })
    }

    fn is_v4(&self) -> bool {
        match self {
            Self::Unicast(address) => address.is_ipv4(),
            Self::Multicast { group, .. } => group.is_ipv4(),
            Self::Broadcast { .. } => true,
            Self::Name { .. } => false,
        }
    }

    fn is_v6(&self) -> bool {
        !self.is_v4() && !self.is_name()
    }
}

/// What a sender did since it was opened. A datagram to three destinations counts three times.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SendStats {
    /// Datagrams that the kernel took.
    pub datagrams: u64,
    pub bytes: u64,
    /// Datagrams that the kernel refused, or that had nowhere to go (no interface up, name without an address).
    pub errors: u64,
    /// The part of `errors` for a receiver whose name had no address.
    pub unresolved: u64,
    /// Times the list of destinations changed (an interface came, went or got another address).
    pub destination_changes: u64,
    by_errno: [(i32, u64); SendStats::KINDS],
}

impl SendStats {
    /// Kinds of errors counted separately; later kinds are in `errors` alone.
    const KINDS: usize = 12;

    /// The errors by kind and how often each occurred, in the order they first did.
    pub fn by_kind(&self) -> impl Iterator<Item = (io::Error, u64)> {
        self.by_errno
            .iter()
            .take_while(|row| row.1 > 0)
            .map(|row| (io::Error::from_raw_os_error(row.0), row.1))
    }

    /// Counts datagrams for a name without an address; returns whether these are the first.
    fn count_unresolved(&mut self, count: u64) -> bool {
        let is_new = self.unresolved == 0;
        self.errors += count;
        self.unresolved += count;
        is_new
    }

    /// Counts errors; returns whether this kind is new.
    fn count_errors(&mut self, errno: i32, count: u64) -> bool {
        self.errors += count;
        let Some(row) = self.by_errno.iter_mut().find(|row| row.1 == 0 || row.0 == errno) else {
            return false;
        };
        let is_new = row.1 == 0;
        *row = (errno, row.1 + count);
        is_new && count > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::NETWORK_UNREACHABLE;

    #[test]
    fn a_pause_that_was_too_long_shortens_the_next_one_and_makes_no_burst() {
        let ms = Duration::from_millis;
        let (begin, pace) = (Instant::now() + ms(1_000), ms(2));
        assert_eq!(next_due(begin, pace, begin), begin + ms(2));
        // 0.5 ms late: the next datagram is due as if it had been in time.
        assert_eq!(next_due(begin + ms(2), pace, begin + Duration::from_micros(2_500)), begin + ms(4));
        // 300 ms late: one datagram at once, not 150.
        let due = next_due(begin + ms(2), pace, begin + ms(302));
        assert_eq!((due, next_due(due, pace, begin + ms(302))), (begin + ms(300), begin + ms(302)));
    }

    #[test]
    fn each_kind_is_new_once_and_the_sum_is_whole() {
        let mut stats = SendStats::default();
        assert!(stats.count_errors(NETWORK_UNREACHABLE, 1));
        assert!(!stats.count_errors(NETWORK_UNREACHABLE, 2));
        for errno in 1..=40 {
            stats.count_errors(errno, 1);
        }
        assert_eq!(stats.errors, 43);
        assert_eq!(stats.by_kind().count(), SendStats::KINDS);
        assert_eq!(stats.by_kind().next().map(|kind| kind.1), Some(3));
    }
}
