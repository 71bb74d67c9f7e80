//! Windows: one system call a datagram, interfaces by `GetAdaptersAddresses`. There is no receiver on Windows, so nothing here receives
//! from devices.

mod interfaces;
mod sending;
mod waker;

/// Receiving datagrams: nothing on Windows.
pub mod receiving {}

pub(crate) use self::interfaces::interface_addresses;
pub use self::interfaces::local_ips;
pub(crate) use self::sending::{BATCH, Control, KernelAddress, Outgoing, send};
pub(crate) use self::waker::{Wake, Waker};

use windows_sys::Win32::Networking::WinSock::{
    WSAEADDRNOTAVAIL, WSAEHOSTUNREACH, WSAEINVAL, WSAENETDOWN, WSAENETUNREACH, WSAENOBUFS, WSAEWOULDBLOCK,
};

/// No interface is up that leads there.
pub(crate) const NETWORK_UNREACHABLE: i32 = WSAENETUNREACH;

/// The socket's buffer is full.
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
