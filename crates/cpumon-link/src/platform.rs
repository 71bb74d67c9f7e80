//! Picks the operating system's part of this crate: the only file here that may (docs/adr/0023-platform-files.md).

#[cfg(unix)]
#[path = "unix/mod.rs"]
mod system;

#[cfg(windows)]
#[path = "windows/mod.rs"]
mod system;

pub use system::receiving;
pub(crate) use system::{
    BATCH, ControlMessages, KernelAddress, NETWORK_UNREACHABLE, Outgoing, Wake, WakeReceiver,
    interface_addresses, is_full, is_sign_of_change, is_without_buffer, send,
};
