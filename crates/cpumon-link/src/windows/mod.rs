//! Windows: one system call a datagram, interfaces by `GetAdaptersAddresses`. There is no receiver on Windows, so nothing here receives
//! from devices.

mod sending;

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::windows::io::{AsSocket, BorrowedSocket};

use if_addrs::{IfAddr, Interface, get_if_addrs};
use windows_sys::Win32::Networking::WinSock::{
    WSAEADDRNOTAVAIL, WSAEHOSTUNREACH, WSAEINVAL, WSAENETDOWN, WSAENETUNREACH, WSAENOBUFS, WSAEWOULDBLOCK,
};

pub(crate) use self::sending::{BATCH, ControlMessages, KernelAddress, Outgoing, send};
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

/// Wakes a thread that waits for sockets: the end that it watches. Windows waits for nothing but sockets, so this is one of loopback that
/// sends to itself; being connected, it takes datagrams from no one else.
pub struct WakeReceiver(UdpSocket);

/// The end that wakes the thread.
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
    use crate::waiting::wait;

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
}
