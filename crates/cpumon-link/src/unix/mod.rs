//! unix: datagrams in batches, interfaces by getifaddrs(3), and the receiver's side.

mod message;
mod receiver;
mod sys;

use std::io::{self, PipeReader, PipeWriter, Read, Write};

use rustix::fd::{AsFd, BorrowedFd};

pub(crate) use self::message::{ControlMessages, KernelAddress};
pub(crate) use self::sys::{BATCH, Outgoing, interface_addresses, send};

pub mod receiving {
    pub use super::receiver::{GroupSender, ReceiverOptions, UdpReceiver};
}

pub(crate) const NETWORK_UNREACHABLE: i32 = libc::ENETUNREACH;

/// Whether the error means that the socket's send buffer is full.
pub(crate) fn is_full(errno: i32) -> bool {
    errno == libc::EAGAIN
}

/// The system has no memory for the datagram now.
pub(crate) fn is_without_buffer(errno: i32) -> bool {
    errno == libc::ENOBUFS
}

/// Errors that an interface which went, or changed its address, makes.
pub(crate) fn is_sign_of_change(errno: i32) -> bool {
    use libc::{EADDRNOTAVAIL, EHOSTUNREACH, EINVAL, ENETDOWN, ENETUNREACH, ENODEV, ENXIO};
    matches!(errno, EADDRNOTAVAIL | EHOSTUNREACH | EINVAL | ENETDOWN | ENETUNREACH | ENODEV | ENXIO)
}

/// Wakes a thread that waits for sockets: the end of a pipe that the thread watches. Neither end blocks.
pub struct WakeReceiver(PipeReader);

pub struct Wake(PipeWriter);

impl WakeReceiver {
    pub fn new() -> io::Result<(Self, Wake)> {
        let (awake, wake) = io::pipe()?;
        let set_nonblocking = |end| rustix::io::ioctl_fionbio(end, true).map_err(io::Error::from);
        set_nonblocking(awake.as_fd())?;
        // The measuring thread writes to this end, and must not wait when the pipe is full.
        set_nonblocking(wake.as_fd())?;
        Ok((Self(awake), Wake(wake)))
    }

    /// The end that is readable after a wake-up.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Forgets the wake-ups until now.
    pub fn drain(&mut self) {
        // A short read means that the pipe is empty.
        while self.0.read(&mut [0; 64]).is_ok_and(|count| count == 64) {}
    }
}

impl Wake {
    pub fn wake(&self) {
        // A full pipe wakes as well.
        let _ = (&self.0).write(&[0]);
    }
}
