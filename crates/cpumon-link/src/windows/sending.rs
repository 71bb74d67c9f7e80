//! Sending datagrams, one a call. The way out of an interface is an option of the socket here, which is set before such a datagram.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::windows::io::{AsRawSocket, BorrowedSocket};

use socket2::{SockAddr, SockRef};
use windows_sys::Win32::Networking::WinSock::{IP_UNICAST_IF, IPPROTO_IP, setsockopt};

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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::os::windows::io::AsSocket;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_batch_arrives_in_order_by_route_and_by_interface() {
        let to = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        to.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let from = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let address = KernelAddress::from(to.local_addr().unwrap());
        let mut loopback = Vec::new();
        super::super::interface_addresses(&mut loopback).unwrap();
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
