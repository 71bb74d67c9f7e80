//! The network calls of Windows: one system call sends a datagram, `GetAdaptersAddresses` lists the interfaces. The interface that a
//! datagram leaves by is an option of the socket here, which is set before such a datagram. There is no receiver on Windows, so nothing
//! here receives from devices.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::windows::io::{AsRawSocket, AsSocket, BorrowedSocket};

use if_addrs::{IfAddr, Interface, get_if_addrs};
use socket2::{SockAddr, SockRef};
use windows_sys::Win32::Networking::WinSock::{
    IP_UNICAST_IF, IPPROTO_IP, WSAEADDRNOTAVAIL, WSAEHOSTUNREACH, WSAEINVAL, WSAENETDOWN, WSAENETUNREACH,
    WSAENOBUFS, WSAEWOULDBLOCK, setsockopt,
};

use crate::interfaces::{InterfaceAddress, InterfaceKind};

/// Empty: there is no receiver on Windows.
pub mod receiving {}

pub(crate) const NETWORK_UNREACHABLE: i32 = WSAENETUNREACH;

/// Whether the error means that the socket's send buffer is full.
pub(crate) fn is_full(error: i32) -> bool {
    error == WSAEWOULDBLOCK
}

/// The system has no memory for the datagram now.
pub(crate) fn is_without_buffer(error: i32) -> bool {
    error == WSAENOBUFS
}

/// Errors that an interface which went, or changed its address, makes.
pub(crate) fn is_sign_of_change(error: i32) -> bool {
    matches!(error, WSAEADDRNOTAVAIL | WSAEHOSTUNREACH | WSAEINVAL | WSAENETDOWN | WSAENETUNREACH)
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

/// Datagrams in one call of [`send`].
pub const BATCH: usize = 64;

#[derive(Clone, Debug)]
pub struct KernelAddress(SockAddr);

impl From<SocketAddr> for KernelAddress {
    fn from(address: SocketAddr) -> Self {
        Self(address.into())
    }
}

/// In the place of control messages, the interface to send from; none: as the routing table says.
#[derive(Copy, Clone, Debug, Default)]
pub struct ControlMessages(Option<OutgoingInterface>);

#[derive(Copy, Clone, Debug)]
struct OutgoingInterface {
    index: u32,
    source: IpAddr,
    /// Time to live of a multicast datagram; `None` for unicast.
    ttl: Option<u8>,
}

impl ControlMessages {
    /// Sends from this interface, with this time to live where one is given.
    pub fn from_interface(index: u32, source: IpAddr, ttl: Option<u8>) -> Self {
        Self(Some(OutgoingInterface { index, source, ttl }))
    }

    /// Index of the interface, if one was given.
    pub fn interface(&self) -> Option<u32> {
        self.0.map(|way| way.index)
    }
}

#[derive(Copy, Clone)]
pub struct Outgoing<'a> {
    pub bytes: &'a [u8],
    pub to: &'a KernelAddress,
    pub control: &'a ControlMessages,
}

/// Sends `count` datagrams (at most one batch) from a socket that does not block; `item` names each. Returns how many the system
/// took; an error belongs to the first one.
pub fn send<'a>(
    socket: BorrowedSocket<'_>,
    count: usize,
    mut item: impl FnMut(usize) -> Outgoing<'a>,
) -> io::Result<usize> {
    for at in 0..count.min(BATCH) {
        match send_one(socket, item(at)) {
            Ok(()) => {}
            Err(error) if at == 0 => return Err(error),
            // It is the first of the next call.
            Err(_) => return Ok(at),
        }
    }
    Ok(count.min(BATCH))
}

fn send_one(socket: BorrowedSocket<'_>, Outgoing { bytes, to, control }: Outgoing<'_>) -> io::Result<()> {
    let options = SockRef::from(&socket);
    match control.0 {
        None => options.send_to(bytes, &to.0).map(|_| ()),
        Some(OutgoingInterface { index, source, ttl: Some(ttl) }) => {
            match source {
                IpAddr::V4(source) => {
                    options.set_multicast_if_v4(&source)?;
                    options.set_multicast_ttl_v4(u32::from(ttl))?;
                }
                IpAddr::V6(_) => {
                    options.set_multicast_if_v6(index)?;
                    options.set_multicast_hops_v6(u32::from(ttl))?;
                }
            }
            options.send_to(bytes, &to.0).map(|_| ())
        }
        Some(OutgoingInterface { index, ttl: None, .. }) => {
            set_unicast_interface(socket, index)?;
            let sent = options.send_to(bytes, &to.0).map(|_| ());
            // The next datagram may go by the routing table.
            set_unicast_interface(socket, 0)?;
            sent
        }
    }
}

/// From which interface broadcasts go, too; 0: as the routing table says.
#[expect(unsafe_code, reason = "an option that socket2 does not know")]
fn set_unicast_interface(socket: BorrowedSocket<'_>, index: u32) -> io::Result<()> {
    // In network order, says the documentation of IP_UNICAST_IF.
    let value = index.to_be_bytes();
    let length = i32::try_from(value.len()).unwrap_or(0);
    // SAFETY: the socket is borrowed, so it is open; the value has the length that is given.
    let result = unsafe {
        setsockopt(
            usize::try_from(socket.as_raw_socket()).unwrap_or(usize::MAX),
            IPPROTO_IP,
            IP_UNICAST_IF,
            value.as_ptr(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Wakes a thread that waits for sockets: the end that it watches. Windows waits for nothing but sockets, so this is one of loopback that
/// sends to itself; being connected, it takes datagrams from no one else.
pub struct WakeReceiver(UdpSocket);

pub struct Wake(UdpSocket);

impl WakeReceiver {
    pub fn new() -> io::Result<(Self, Wake)> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(socket.local_addr()?)?;
        socket.set_nonblocking(true)?;
        Ok((Self(socket.try_clone()?), Wake(socket)))
    }

    /// The socket that is readable after a wake-up.
    pub fn as_fd(&self) -> BorrowedSocket<'_> {
        self.0.as_socket()
    }

    /// Forgets the wake-ups until now.
    pub fn drain(&mut self) {
        while self.0.recv(&mut [0; 8]).is_ok() {}
    }
}

impl Wake {
    pub fn wake(&self) {
        // A full buffer wakes as well.
        let _ = self.0.send(&[0]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags};

    use super::*;
    use crate::platform::wait;

    #[test]
    fn a_wake_up_ends_the_wait_and_is_forgotten_when_drained() {
        let (mut awake, wake) = WakeReceiver::new().unwrap();
        let is_awake = |awake: &WakeReceiver, ms| {
            let fd = awake.as_fd();
            wait(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Duration::from_millis(ms)).unwrap()
        };
        assert!(!is_awake(&awake, 1));
        let thread = std::thread::spawn(move || {
            wake.wake();
            wake.wake();
            wake
        });
        let begin = Instant::now();
        assert!(is_awake(&awake, 60_000) && begin.elapsed() < Duration::from_secs(30));
        let _wake = thread.join().unwrap();
        awake.drain();
        assert!(!is_awake(&awake, 1));
    }

    #[test]
    fn a_batch_arrives_in_order_by_route_and_by_interface() {
        let to = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        to.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let from = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let address = KernelAddress::from(to.local_addr().unwrap());
        let mut loopback = Vec::new();
        interface_addresses(&mut loopback).unwrap();
        loopback.retain(|one| one.address == Ipv4Addr::LOCALHOST);
        let controls = [
            ControlMessages::default(),
            ControlMessages::from_interface(loopback[0].index, loopback[0].address, None),
        ];
        let sent = send(from.as_socket(), 4, |at| Outgoing {
            bytes: &[b'a', b'b', b'c', b'd'][at..=at],
            to: &address,
            control: &controls[at % 2],
        });
        assert_eq!(sent.unwrap(), 4);
        for expected in *b"abcd" {
            let mut byte = [0];
            to.recv(&mut byte).unwrap();
            assert_eq!(byte, [expected]);
        }
    }
}
