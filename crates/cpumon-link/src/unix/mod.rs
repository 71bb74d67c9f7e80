//! unix: datagrams in batches, interfaces by getifaddrs(3), and the receiver's side.

mod message;
mod multicast;
mod receiver;
mod sys;
mod waker;

/// Receiving datagrams, which only receivers do.
pub mod receiving {
    pub use super::multicast::GroupSender;
    pub use super::receiver::{ReceiverOptions, UdpReceiver};
}

pub(crate) use self::message::{Control, KernelAddress};
pub use self::sys::local_ips;
pub(crate) use self::sys::{BATCH, Outgoing, interface_addresses, send};
pub(crate) use self::waker::{Wake, Waker};

/// No interface is up that leads there.
pub(crate) const NETWORK_UNREACHABLE: i32 = libc::ENETUNREACH;

/// The socket's buffer is full.
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
