//! [`UdpReceiver`]: listens on ports that it shares with other receivers, delivers datagrams in batches with their senders,
//! and reports how many the kernel dropped because the receive buffer was full.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use rustix::event::{PollFd, PollFlags};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};

use super::sys::{self, DatagramSlots};
use crate::destinations::{Destination, Destinations, InterfaceList};
use crate::discovery::groups;
use crate::interfaces::InterfaceAddress;
use crate::platform::wait;
use crate::{DEFAULT_PORT, LinkError};

/// No datagram is longer than this (`u16::MAX` less a UDP header), so none is ever cut.
const SLOT_BYTES: usize = 1 << 16;

#[derive(Clone, Debug)]
pub struct ReceiverOptions {
    /// Addresses; `0.0.0.0` and `[::]` mean every interface (a broadcast reaches no other kind of IPv4 address).
    pub listen: Vec<SocketAddr>,
    /// Multicast groups to join; each needs a listening address of its family.
    pub multicast: Vec<IpAddr>,
    /// Interfaces to join the groups on; empty: all that are up and can multicast, loopback left out.
    pub interfaces: Vec<String>,
    /// Receive buffer asked for, for each socket; the kernel may grant less, see [`UdpReceiver::buffer_bytes`].
    pub receive_buffer_bytes: usize,
}

impl Default for ReceiverOptions {
    /// Every IPv4 interface, port 3001, 8 MiB.
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT))],
            multicast: Vec::new(),
            interfaces: Vec::new(),
            receive_buffer_bytes: 8 << 20,
        }
    }
}

/// Receives datagrams. See the crate's example.
///
/// Every socket has `SO_REUSEADDR`, not `SO_REUSEPORT`: so several receivers share a port, each gets every broadcast and
/// multicast datagram, and a unicast datagram goes to the receiver that was bound last (with `SO_REUSEPORT` the kernel
/// would deal unicast senders out among them).
pub struct UdpReceiver {
    sockets: Vec<Listening>,
    slots: Box<DatagramSlots>,
    groups: JoinedGroups,
    /// Errors that the sockets reported instead of a datagram.
    pub receive_errors: u64,
}

struct Listening {
    socket: Socket,
    address: SocketAddr,
    /// The last value of the kernel's counter, which is 32 bits wide and wraps.
    drop_counter: u32,
    drops: u64,
    /// Another socket was bound to the address before.
    is_shared: bool,
}

/// The joined groups, and the options to join them on interfaces that come later.
struct JoinedGroups {
    wanted: Vec<IpAddr>,
    on: Vec<String>,
    interfaces: InterfaceList,
}

impl UdpReceiver {
    /// Opens, binds and joins.
    ///
    /// # Errors
    /// [`LinkError`]: nothing to listen on, an address that cannot be bound, a group that is none or lacks a socket.
    pub fn bind(options: &ReceiverOptions) -> Result<Self, LinkError> {
        if options.listen.is_empty() {
            return Err(LinkError::NothingToListenOn);
        }
        let bind = |address: &SocketAddr| Listening::bind(*address, options.receive_buffer_bytes);
        let sockets: Vec<_> = options.listen.iter().map(bind).collect::<Result<_, _>>()?;
        for &group in &options.multicast {
            check_group(group, &sockets)?;
        }
        let groups = JoinedGroups {
            wanted: options.multicast.clone(),
            on: options.interfaces.clone(),
            interfaces: InterfaceList::new(Instant::now()),
        };
        let mut receiver =
            Self { sockets, slots: Box::new(DatagramSlots::new(SLOT_BYTES)), groups, receive_errors: 0 };
        receiver.groups.refresh(&receiver.sockets)?;
        Ok(receiver)
    }

    /// Waits at most `timeout` for datagrams, then hands them out without copying, at most 64 of each socket.
    /// Returns how many; 0 after the time or a signal. Datagrams are at most [`crate::MAX_DATAGRAM_BYTES`] long.
    ///
    /// # Errors
    /// [`LinkError::Wait`] if the sockets cannot be waited for. An error of a single datagram (an ICMP answer, a
    /// network that went down) is counted, see [`UdpReceiver::receive_errors`].
    pub fn recv_batch(
        &mut self,
        timeout: Duration,
        each: &mut dyn FnMut(&[u8], SocketAddr),
    ) -> Result<usize, LinkError> {
        self.groups.refresh(&self.sockets)?;
        // Datagrams that have arrived need no poll(2): under load this saves a system call for each batch.
        let count = self.take(each);
        if count > 0 || timeout.is_zero() {
            return Ok(count);
        }
        let mut polls: Vec<_> =
            self.sockets.iter().map(|from| PollFd::new(&from.socket, PollFlags::IN)).collect();
        match wait(&mut polls, timeout) {
            Ok(true) => Ok(self.take(each)),
            Ok(false) => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(LinkError::Wait(error)),
        }
    }

    /// Takes one batch from each socket without waiting; returns how many datagrams.
    fn take(&mut self, each: &mut dyn FnMut(&[u8], SocketAddr)) -> usize {
        let mut total = 0;
        for listening in &mut self.sockets {
            let (counter, drops) = (&mut listening.drop_counter, &mut listening.drops);
            let received = self.slots.receive(listening.socket.as_fd(), &mut |datagram, from, dropped| {
                if let Some(dropped) = dropped {
                    // The kernel's counter has 32 bits: `wrapping_sub` is right across its end.
                    *drops += u64::from(dropped.wrapping_sub(std::mem::replace(counter, dropped)));
                }
                match from {
                    Some(from) => each(datagram, from),
                    None => self.receive_errors += 1,
                }
            });
            match received {
                Ok(count) => total += count,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                    _ => self.receive_errors += 1,
                },
            }
        }
        total
    }

    /// Answers a sender, from the first socket of his address family, without waiting.
    pub fn send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        let socket = self.socket_for(to).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        socket.send_to_with_flags(datagram, &to.into(), flags).map(|_| ())
    }

    fn socket_for(&self, to: SocketAddr) -> Option<&Socket> {
        let is_it = |listening: &&Listening| listening.address.is_ipv4() == to.is_ipv4();
        self.sockets.iter().find(is_it).map(|listening| &listening.socket)
    }

    /// Datagrams that the kernel dropped at these sockets since they were bound, because the receive buffer was full.
    /// Exact at the moment of asking on Linux 4.12 and later; before, as of the last datagram received.
    pub fn kernel_drops(&mut self) -> u64 {
        for listening in &mut self.sockets {
            if let Ok(now) = sys::socket_drops(listening.socket.as_fd()) {
                let new = now.wrapping_sub(std::mem::replace(&mut listening.drop_counter, now));
                listening.drops += u64::from(new);
            }
        }
        self.sockets.iter().map(|listening| listening.drops).sum()
    }

    /// The addresses listened on, with the ports that the system chose where 0 was asked for.
    pub fn local_addresses(&self) -> Result<Vec<SocketAddr>, LinkError> {
        let local = |listening: &Listening| {
            let error =
                |error| LinkError::Option { option: "getsockname", address: listening.address, error };
            let address = listening.socket.local_addr().map_err(error)?;
            Ok(address.as_socket().unwrap_or(listening.address))
        };
        self.sockets.iter().map(local).collect()
    }

    /// The addresses on which another program receives already: broadcast and multicast reach both, any other datagram only
    /// this receiver, which was bound last.
    pub fn shared_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.iter().filter(|listening| listening.is_shared).map(|listening| listening.address)
    }

    /// The smallest receive buffer that the kernel granted, bytes (it counts its own overhead too). Less than asked for
    /// means: raise `net.core.rmem_max`, or run with `CAP_NET_ADMIN`.
    pub fn buffer_bytes(&self) -> usize {
        self.sockets
            .iter()
            .filter_map(|listening| listening.socket.recv_buffer_size().ok())
            .min()
            .unwrap_or(0)
    }
}

impl Listening {
    fn bind(address: SocketAddr, buffer_bytes: usize) -> Result<Self, LinkError> {
        let option = |option| move |error| LinkError::Option { option, address, error };
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))
            .map_err(|error| LinkError::Open { purpose: "receiving", error })?;
        if address.is_ipv6() {
            // Otherwise [::] would take IPv4 datagrams as well, which 0.0.0.0 beside it is for.
            socket.set_only_v6(true).map_err(option("IPV6_V6ONLY"))?;
        }
        setsockopt(&socket, sockopt::RxqOvfl, &1).map_err(|error| option("SO_RXQ_OVFL")(error.into()))?;
        // SO_RCVBUFFORCE is not bound to `net.core.rmem_max`, but needs a privilege; else as much as is allowed.
        setsockopt(&socket, sockopt::RcvBufForce, &buffer_bytes)
            .or_else(|_| socket.set_recv_buffer_size(buffer_bytes))
            .map_err(option("SO_RCVBUF"))?;
        let reuse = || socket.set_reuse_address(true).map_err(option("SO_REUSEADDR"));
        // Bind without SO_REUSEADDR first: only then does EADDRINUSE reveal that another program has the address. Set it
        // afterwards, so that others may share the address with us.
        let is_shared = match socket.bind(&address.into()) {
            Ok(()) => false,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                reuse()?;
                socket.bind(&address.into()).map_err(|error| LinkError::Bind { address, error })?;
                true
            }
            Err(error) => return Err(LinkError::Bind { address, error }),
        };
        reuse()?;
        Ok(Self { socket, address, drop_counter: 0, drops: 0, is_shared })
    }

    /// Joins a group on one interface. Joined already is fine.
    fn join(&self, group: IpAddr, interface: u32) -> io::Result<()> {
        let joined = match group {
            IpAddr::V4(group) => {
                self.socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(interface))
            }
            IpAddr::V6(group) => self.socket.join_multicast_v6(&group, interface),
        };
        joined
            .or_else(|error| if error.raw_os_error() == Some(libc::EADDRINUSE) { Ok(()) } else { Err(error) })
    }
}

fn check_group(group: IpAddr, sockets: &[Listening]) -> Result<(), LinkError> {
    if !group.is_multicast() {
        return Err(LinkError::NotMulticast { group });
    }
    if sockets.iter().any(|listening| listening.address.is_ipv4() == group.is_ipv4()) {
        return Ok(());
    }
    let (family, example) = if group.is_ipv4() { ("IPv4", "0.0.0.0:3001") } else { ("IPv6", "[::]:3001") };
    Err(LinkError::NoSocketForGroup { group, family, example })
}

impl JoinedGroups {
    /// Joins every group on every interface that is new since the last refresh.
    fn refresh(&mut self, sockets: &[Listening]) -> Result<(), LinkError> {
        let Self { wanted, on, interfaces } = self;
        if wanted.is_empty() || !interfaces.refresh(Instant::now()).map_err(LinkError::Interfaces)? {
            return Ok(());
        }
        for &group in &*wanted {
            // An interface that was removed has lost its memberships, so one that is back counts as new.
            let new = |interface: &&InterfaceAddress| {
                interface.can_multicast(group, on) && !interfaces.before.contains(interface)
            };
            for interface in interfaces.addresses.iter().filter(new) {
                let family = |listening: &&Listening| listening.address.is_ipv4() == group.is_ipv4();
                for listening in sockets.iter().filter(family) {
                    if let Err(error) = listening.join(group, interface.index) {
                        // Not fatal: an interface that cannot join must not cost the others.
                        log::warn!("cannot join {group} on interface {}: {error}", interface.address);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Sends from the sockets of a [`UdpReceiver`] to the groups of multicast DNS on every interface, so that the datagrams come
/// from the port of multicast DNS (RFC 6762, section 6). The interfaces are read again every ten seconds.
pub struct GroupSender {
    destinations: Destinations,
}

impl GroupSender {
    /// Sends to the multicast DNS groups on every interface but loopback.
    pub fn new(now: Instant) -> Self {
        Self { destinations: Destinations::new(&groups(&[]), now) }
    }

    fn refresh(&mut self) {
        if let Err(error) = self.destinations.refresh(Instant::now()) {
            log::warn!("cannot list the network interfaces: {error}");
        }
    }

    /// The addresses of this machine, loopback and link-local ones included.
    pub fn local_ips(&mut self) -> impl Iterator<Item = IpAddr> {
        self.refresh();
        self.destinations.interfaces.addresses.iter().map(|one| one.address)
    }

    /// Sends one datagram on each interface. Returns on how many it was sent.
    pub fn send(&mut self, from: &UdpReceiver, datagram: &[u8]) -> usize {
        self.refresh();
        let all = self.destinations.v4.iter().chain(&self.destinations.v6);
        let is_sent = |to: &&Destination| {
            let sent = from.socket_for(to.shown).map(|socket| to.send(socket.as_fd(), datagram));
            let logged = |error: &io::Error| log::debug!("cannot announce on {}: {error}", to.shown);
            sent.is_some_and(|sent| sent.inspect_err(logged).is_ok())
        };
        all.filter(is_sent).count()
    }
}
