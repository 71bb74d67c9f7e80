//! A datagram's address and control messages for the kernel, as plain bytes in the layouts
//! of ip(7), ipv6(7) and cmsg(3). Built and read without unsafe; only the system calls need that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// A `sockaddr_in` or `sockaddr_in6`.
#[derive(Copy, Clone, Debug, Default)]
#[repr(C, align(8))]
pub struct KernelAddress {
    pub bytes: [u8; Self::MAX_BYTES],
    pub len: u32,
}

impl KernelAddress {
    /// `sizeof(struct sockaddr_in6)`.
    pub const MAX_BYTES: usize = 28;
    const V4_BYTES: u32 = 16;
    const V6_BYTES: u32 = 28;
    const V4_FAMILY: [u8; 2] = family_bytes(libc::AF_INET);
    const V6_FAMILY: [u8; 2] = family_bytes(libc::AF_INET6);

    /// The address, if it is an IPv4 or IPv6 one.
    pub fn to_socket_addr(self) -> Option<SocketAddr> {
        let [f0, f1, p0, p1, a, b, c, d, ..] = self.bytes;
        let port = u16::from_be_bytes([p0, p1]);
        match ([f0, f1], self.len) {
            (Self::V4_FAMILY, Self::V4_BYTES..) => {
                Some(SocketAddr::new(Ipv4Addr::new(a, b, c, d).into(), port))
            }
            (Self::V6_FAMILY, Self::V6_BYTES..) => {
                let (ip, scope) = (self.bytes.get(8..24)?, self.bytes.get(24..28)?);
                let ip = Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?);
                let scope = u32::from_ne_bytes(scope.try_into().ok()?);
                Some(SocketAddrV6::new(ip, port, u32::from_ne_bytes([a, b, c, d]), scope).into())
            }
            _ => None,
        }
    }
}

impl From<SocketAddr> for KernelAddress {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; Self::MAX_BYTES];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let len = match address {
            SocketAddr::V4(v4) => {
                bytes[..2].copy_from_slice(&Self::V4_FAMILY);
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                Self::V4_BYTES
            }
            SocketAddr::V6(v6) => {
                bytes[..2].copy_from_slice(&Self::V6_FAMILY);
                bytes[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                Self::V6_BYTES
            }
        };
        Self { bytes, len }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "families are small and positive"
)]
const fn family_bytes(family: i32) -> [u8; 2] {
    (family as libc::sa_family_t).to_ne_bytes()
}

/// Control messages (`struct cmsghdr`, one after the other).
#[derive(Copy, Clone, Debug)]
#[repr(C, align(8))]
pub struct ControlMessages {
    pub bytes: [u8; Self::MAX_BYTES],
    pub len: usize,
}

impl Default for ControlMessages {
    fn default() -> Self {
        Self { bytes: [0; Self::MAX_BYTES], len: 0 }
    }
}

impl ControlMessages {
    /// Space for the two messages that a multicast datagram carries: 40 + 24 bytes.
    pub const MAX_BYTES: usize = 64;
    const WORD: usize = size_of::<usize>();
    const HEADER_BYTES: usize = Self::WORD + 8;

    /// Sends from this interface (and, IPv4, from this address), with this time to live where one is given.
    pub fn from_interface(index: u32, source: IpAddr, ttl: Option<u8>) -> Self {
        let mut control = Self::default();
        let mut info = [0; 20];
        let ttl = ttl.map(|ttl| i32::from(ttl).to_ne_bytes());
        match source {
            IpAddr::V4(source) => {
                info[..4].copy_from_slice(&index.to_ne_bytes());
                info[4..8].copy_from_slice(&source.octets());
                control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info[..12]);
                control.push_some(libc::IPPROTO_IP, libc::IP_TTL, ttl);
            }
            IpAddr::V6(_) => {
                // The address before it stays 0: the kernel chooses the source (ipv6(7)).
                info[16..].copy_from_slice(&index.to_ne_bytes());
                control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
                control.push_some(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, ttl);
            }
        }
        control
    }

    fn push_some(&mut self, level: i32, kind: i32, data: Option<[u8; 4]>) {
        if let Some(data) = data {
            self.push(level, kind, &data);
        }
    }

    /// The interface that an IPv4 datagram is sent from, if one was given.
    pub fn interface(&self) -> Option<u32> {
        self.find_u32(libc::IPPROTO_IP, libc::IP_PKTINFO)
    }

    /// Appends a message if it fits; `MAX_BYTES` has space for everything that is ever sent.
    fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let (at, len) = (self.len, Self::HEADER_BYTES + data.len());
        let Some(space) = self.bytes.get_mut(at..at + len) else { return };
        let (header, body) = space.split_at_mut(Self::HEADER_BYTES);
        header[..Self::WORD].copy_from_slice(&len.to_ne_bytes());
        header[Self::WORD..Self::WORD + 4].copy_from_slice(&level.to_ne_bytes());
        header[Self::WORD + 4..].copy_from_slice(&kind.to_ne_bytes());
        body.copy_from_slice(data);
        self.len = (at + len.next_multiple_of(Self::WORD)).min(Self::MAX_BYTES);
    }

    /// The `u32` of the first message of this level and kind.
    pub fn find_u32(&self, level: i32, kind: i32) -> Option<u32> {
        let mut rest = self.bytes.get(..self.len)?;
        while let Some((header, _)) = rest.split_at_checked(Self::HEADER_BYTES) {
            let (len, names) = header.split_at(Self::WORD);
            let len = usize::from_ne_bytes(len.try_into().ok()?);
            let body = rest.get(Self::HEADER_BYTES..len)?;
            if names[..4] == level.to_ne_bytes() && names[4..] == kind.to_ne_bytes() {
                return body.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
            }
            // Messages begin at multiples of a word (cmsg(3), `CMSG_NXTHDR`).
            rest = rest.get(len.next_multiple_of(Self::WORD)..)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernel_layout() {
        for text in ["1.2.3.4:5", "255.255.255.255:65535", "[::1]:1", "[fe80::1%7]:3001"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(KernelAddress::from(address).to_socket_addr(), Some(address));
        }
    }

    #[test]
    fn other_families_and_cut_addresses_are_no_address() {
        let mut address = KernelAddress::from(SocketAddr::from(([1, 2, 3, 4], 5)));
        address.len = 8;
        assert_eq!(address.to_socket_addr(), None);
        assert_eq!(KernelAddress { bytes: [1; 28], len: 28 }.to_socket_addr(), None);
    }

    #[test]
    fn control_messages_are_found_again() {
        let control = ControlMessages::from_interface(7, Ipv6Addr::LOCALHOST.into(), Some(3));
        assert_eq!(control.find_u32(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT), Some(3));
        let control = ControlMessages::from_interface(7, Ipv4Addr::LOCALHOST.into(), None);
        assert_eq!(control.find_u32(libc::IPPROTO_IP, libc::IP_PKTINFO), Some(7));
        assert_eq!(control.find_u32(libc::IPPROTO_IP, libc::IP_TTL), None);
    }

    #[test]
    fn damaged_control_bytes_end_the_search() {
        for fill in [0, 1, 0x10, 0xff] {
            let control = ControlMessages {
                bytes: [fill; ControlMessages::MAX_BYTES],
                len: ControlMessages::MAX_BYTES,
            };
            assert_eq!(control.find_u32(libc::SOL_SOCKET, libc::SO_RXQ_OVFL), None);
        }
    }
}
