//! Picks the operating system's part of this crate: the only file here that may (docs/adr/0023-platform-files.md). [`wait`] waits for
//! sockets, in the same way on all systems.

#[cfg(unix)]
#[path = "unix/mod.rs"]
mod system;

#[cfg(windows)]
#[path = "windows/mod.rs"]
mod system;

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};
pub use system::receiving;
pub(crate) use system::{
    BATCH, ControlMessages, KernelAddress, NETWORK_UNREACHABLE, Outgoing, Wake, WakeReceiver,
    interface_addresses, is_full, is_sign_of_change, is_without_buffer, send,
};

/// Waits until one of the sockets is ready, by poll(2) or `WSAPoll`; false if none was in time.
pub(crate) fn wait(polls: &mut [PollFd<'_>], timeout: Duration) -> io::Result<bool> {
    // A time that no timespec holds is for ever.
    let timeout = Timespec::try_from(timeout).ok();
    Ok(poll(polls, timeout.as_ref())? > 0)
}
