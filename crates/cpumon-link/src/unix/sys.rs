//! The system calls that the standard library and socket2 lack: datagrams in batches, drop counts, the list
//! of interfaces. The only file here with unsafe code; all pointers given to the kernel live on this stack or in
//! slices borrowed for the call.

#![expect(clippy::cast_possible_truncation, reason = "sizes of C structs and batches are far below 2^31")]
#![allow(clippy::unnecessary_cast, reason = "the C types of lengths and flags differ between libc flavours")]

use std::mem::zeroed;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{io, ptr};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use nix::sys::socket::SockaddrStorage;

use super::message::{ControlMessages, KernelAddress};
use crate::interfaces::{InterfaceAddress, InterfaceKind};

/// Datagrams in one system call.
pub const BATCH: usize = 64;

/// A datagram, its sender if that is an IP address, and the socket's drop counter where the kernel reported it.
type EachReceived<'a> = dyn FnMut(&[u8], Option<SocketAddr>, Option<u32>) + 'a;

/// Buffers into which one batch of datagrams is received.
pub struct DatagramSlots {
    bytes: Vec<u8>,
    slot_bytes: usize,
    addresses: [KernelAddress; BATCH],
    controls: [ControlMessages; BATCH],
}

impl DatagramSlots {
    /// 64 slots. The memory is zero pages until a datagram touches them.
    pub fn new(slot_bytes: usize) -> Self {
        Self {
            bytes: vec![0; slot_bytes * BATCH],
            slot_bytes,
            addresses: [KernelAddress::default(); BATCH],
            controls: [ControlMessages::default(); BATCH],
        }
    }

    /// Receives the datagrams that have arrived, at most one batch, without waiting, and hands out each.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, each: &mut EachReceived<'_>) -> io::Result<usize> {
        let mut lengths = [0_usize; BATCH];
        let count = self.receive_raw(socket, &mut lengths)?;
        let datagrams = self.bytes.chunks_exact(self.slot_bytes).zip(&lengths);
        for ((slot, len), (address, control)) in
            datagrams.zip(self.addresses.iter().zip(&self.controls)).take(count)
        {
            let drops = control.find_u32(libc::SOL_SOCKET, libc::SO_RXQ_OVFL);
            each(slot.get(..*len).unwrap_or(slot), address.to_socket_addr(), drops);
        }
        Ok(count)
    }

    #[expect(unsafe_code, reason = "recvmmsg(2) has no safe wrapper")]
    fn receive_raw(&mut self, socket: BorrowedFd<'_>, lengths: &mut [usize; BATCH]) -> io::Result<usize> {
        // SAFETY: all-zero bytes are valid for these plain C structs (integers and pointers).
        let (mut headers, mut vectors): ([libc::mmsghdr; BATCH], [libc::iovec; BATCH]) = unsafe { zeroed() };
        let slots = self.bytes.chunks_exact_mut(self.slot_bytes);
        let beside = self.addresses.iter_mut().zip(&mut self.controls);
        for (((header, vector), slot), (address, control)) in
            headers.iter_mut().zip(&mut vectors).zip(slots).zip(beside)
        {
            *vector = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            header.msg_hdr.msg_name = address.bytes.as_mut_ptr().cast();
            header.msg_hdr.msg_namelen = KernelAddress::MAX_BYTES as libc::socklen_t;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.bytes.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = ControlMessages::MAX_BYTES as _;
        }
        // SAFETY: each header points to one slot, one address and one control buffer with their true lengths; all
        // three are borrowed mutably from `self` and outlive the call.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        let beside = self.addresses.iter_mut().zip(&mut self.controls);
        for ((header, len), (address, control)) in headers.iter().zip(lengths).zip(beside).take(count) {
            *len = header.msg_len as usize;
            address.len = header.msg_hdr.msg_namelen;
            // Bounded by the buffer's own length, whatever the kernel says.
            control.len = (header.msg_hdr.msg_controllen as usize).min(ControlMessages::MAX_BYTES);
        }
        Ok(count)
    }
}

#[derive(Copy, Clone)]
pub struct Outgoing<'a> {
    pub bytes: &'a [u8],
    pub to: &'a KernelAddress,
    pub control: &'a ControlMessages,
}

/// Sends `count` datagrams (at most one batch), without waiting; `item` names each. Returns how many the kernel took;
/// an error belongs to the first one.
#[expect(unsafe_code, reason = "sendmmsg(2) has no safe wrapper")]
pub fn send<'a>(
    socket: BorrowedFd<'_>,
    count: usize,
    mut item: impl FnMut(usize) -> Outgoing<'a>,
) -> io::Result<usize> {
    let count = count.min(BATCH);
    // SAFETY: all-zero bytes are valid for these plain C structs (integers and pointers).
    let (mut headers, mut vectors): ([libc::mmsghdr; BATCH], [libc::iovec; BATCH]) = unsafe { zeroed() };
    for (at, (header, vector)) in headers.iter_mut().zip(&mut vectors).take(count).enumerate() {
        let Outgoing { bytes, to, control } = item(at);
        *vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        header.msg_hdr.msg_name = to.bytes.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_namelen = to.len;
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        // A null pointer means no control messages, so the kernel routes the datagram as usual.
        if control.len > 0 {
            header.msg_hdr.msg_control = control.bytes.as_ptr().cast_mut().cast();
            header.msg_hdr.msg_controllen = control.len as _;
        }
    }
    // SAFETY: the first `count` headers point to bytes, address and control of a borrowed `Outgoing` with their true
    // lengths, which the lifetime keeps alive over the call; sendmmsg only reads them.
    let sent = unsafe {
        let flags = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _;
        libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as u32, flags)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Datagrams that the kernel dropped at this socket since it was opened (`SO_MEMINFO`, Linux 4.12 and later).
#[expect(unsafe_code, reason = "an option that socket2 does not know")]
pub fn socket_drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    /// `SK_MEMINFO_DROPS` of `linux/sock_diag.h`.
    const DROPS: usize = 8;
    let mut values = [0_u32; DROPS + 1];
    let mut len = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of the array, and the new length into `len`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result == 0 { Ok(values[DROPS]) } else { Err(io::Error::last_os_error()) }
}

/// Replaces the content of `into` by every address of every interface.
pub fn interface_addresses(into: &mut Vec<InterfaceAddress>) -> io::Result<()> {
    into.clear();
    into.extend(getifaddrs()?.filter_map(|one| {
        let broadcast = one.broadcast.and_then(|to| Some(to.as_sockaddr_in()?.ip()));
        Some(InterfaceAddress {
            address: ip_of(&one.address?)?,
            index: if_nametoindex(one.interface_name.as_str()).ok()?,
            name: one.interface_name,
            kind: kind_of(one.flags),
            is_up: one.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING),
            is_multicast: one.flags.contains(InterfaceFlags::IFF_MULTICAST),
            broadcast: broadcast.filter(|to| !to.is_unspecified()),
        })
    }));
    Ok(())
}

fn kind_of(flags: InterfaceFlags) -> InterfaceKind {
    if flags.contains(InterfaceFlags::IFF_LOOPBACK) {
        InterfaceKind::Loopback
    } else if flags.contains(InterfaceFlags::IFF_BROADCAST) {
        InterfaceKind::Broadcast
    } else {
        InterfaceKind::PointToPoint
    }
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| v4.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| v6.ip().into()))
}
