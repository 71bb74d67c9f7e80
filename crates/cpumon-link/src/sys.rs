//! The system calls that the standard library and socket2 lack: datagrams in batches, control messages, the list of
//! interfaces. The only file of this crate with unsafe code; all pointers given to the kernel live on this stack or in
//! slices borrowed for the call.

#![expect(clippy::cast_possible_truncation, reason = "sizes of C structs and batches are far below 2^31")]
#![allow(clippy::unnecessary_cast, reason = "the C types of lengths and flags differ between libc flavours")]

use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use crate::interfaces::{InterfaceAddress, InterfaceName};
use crate::message::{Control, KernelAddress};

/// Datagrams in one system call.
pub const BATCH: usize = 64;

/// A datagram, its sender if that is an IP address, and the socket's drop counter where the kernel reported it.
type EachReceived<'a> = dyn FnMut(&[u8], Option<SocketAddr>, Option<u32>) + 'a;

/// Where one batch of datagrams is received into.
pub struct Slots {
    bytes: Vec<u8>,
    slot_bytes: usize,
    addresses: [KernelAddress; BATCH],
    controls: [Control; BATCH],
}

impl Slots {
    /// 64 slots. The memory is zero pages until a datagram touches them.
    pub fn new(slot_bytes: usize) -> Self {
        Self {
            bytes: vec![0; slot_bytes * BATCH],
            slot_bytes,
            addresses: [KernelAddress::default(); BATCH],
            controls: [Control::default(); BATCH],
        }
    }

    /// Receives what is there, at most one batch, without waiting, and shows each datagram.
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
            header.msg_hdr.msg_controllen = Control::MAX_BYTES as _;
        }
        // SAFETY: each header points to one slot, one address and one control buffer with their true lengths; all of
        // them are borrowed mutably by `self` and outlive the call.
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
            control.len = (header.msg_hdr.msg_controllen as usize).min(Control::MAX_BYTES);
        }
        Ok(count)
    }
}

/// One datagram to send.
#[derive(Copy, Clone)]
pub struct Outgoing<'a> {
    pub bytes: &'a [u8],
    pub to: &'a KernelAddress,
    pub control: &'a Control,
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

/// Waits until one of the sockets is ready for `events` (`POLLIN`, `POLLOUT`); false if none was in time.
#[expect(unsafe_code, reason = "poll(2) has no safe wrapper in std or socket2")]
pub fn wait(polls: &mut [libc::pollfd], timeout: Duration) -> io::Result<bool> {
    // Rounded up, so that a short rest of a timeout does not turn into a busy loop.
    let timeout_ms = i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    // SAFETY: pointer and length are those of one borrowed slice.
    let ready = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, timeout_ms) };
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready > 0) }
}

/// The number of a descriptor, for [`wait`].
pub fn number_of(of: BorrowedFd<'_>) -> i32 {
    of.as_raw_fd()
}

/// From now on reading and writing never wait.
#[expect(unsafe_code, reason = "std can do this for sockets only")]
pub fn set_nonblocking(of: BorrowedFd<'_>) -> io::Result<()> {
    let mut on: libc::c_int = 1;
    // SAFETY: FIONBIO reads one int, which lives on this stack.
    let result = unsafe { libc::ioctl(of.as_raw_fd(), libc::FIONBIO, &raw mut on) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets an integer socket option.
#[expect(unsafe_code, reason = "options that socket2 does not know")]
pub fn set_option(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    let (value, len) = (&raw const value, size_of::<i32>() as libc::socklen_t);
    // SAFETY: `value` points to an i32 on this stack, `len` is its size.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value.cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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

/// Lists the addresses of this machine's interfaces, loopback and link-local ones included.
///
/// # Errors
/// The system does not list them.
pub fn local_ips() -> io::Result<Vec<IpAddr>> {
    let mut addresses = Vec::new();
    interface_addresses(&mut addresses)?;
    Ok(addresses.iter().map(|one| one.address).collect())
}

/// Replaces the content of `into` by every address of every interface.
#[expect(unsafe_code, reason = "getifaddrs(3) has no safe wrapper in std or socket2")]
pub fn interface_addresses(into: &mut Vec<InterfaceAddress>) -> io::Result<()> {
    into.clear();
    let mut list = MaybeUninit::<*mut libc::ifaddrs>::uninit();
    // SAFETY: getifaddrs writes one pointer into `list`.
    if unsafe { libc::getifaddrs(list.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: getifaddrs succeeded, so `list` is set.
    let list = unsafe { list.assume_init() };
    let mut next = list;
    // SAFETY: `next` is null or an entry of the list, which is freed only after the loop.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: `ifa_addr` and the broadcast address (a union read only where IFF_BROADCAST says so) are null or
        // sockaddrs of the length that their family has; `ifa_name` is a C string; all belong to the entry.
        let (address, broadcast, name, index) = unsafe {
            let has_broadcast = entry.ifa_flags & libc::IFF_BROADCAST as u32 != 0;
            (
                ip_of(entry.ifa_addr),
                if has_broadcast { ip_of(entry.ifa_ifu) } else { None },
                std::ffi::CStr::from_ptr(entry.ifa_name),
                libc::if_nametoindex(entry.ifa_name),
            )
        };
        let broadcast = match broadcast {
            Some(IpAddr::V4(ip)) if ip != Ipv4Addr::UNSPECIFIED => Some(ip),
            _ => None,
        };
        if let (Some(address), true) = (address, index != 0) {
            let name = InterfaceName::new(name.to_bytes());
            into.push(InterfaceAddress { name, index, flags: entry.ifa_flags, address, broadcast });
        }
    }
    // SAFETY: `list` came from getifaddrs and nothing refers to it any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(())
}

/// # Safety
/// `address` is null or points to a socket address as long as its family says.
#[expect(unsafe_code, reason = "reads a C socket address")]
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller promises null or a valid sockaddr; its family names the struct it really is. The entries are
    // allocated by libc with the alignment of pointers, read unaligned to need no more than that.
    unsafe {
        match i32::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(IpAddr::from(v6.sin6_addr.s6_addr))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_loopback_interface() {
        let addresses = local_ips().unwrap();
        assert!(addresses.iter().any(IpAddr::is_loopback), "{addresses:?}");
    }
}
