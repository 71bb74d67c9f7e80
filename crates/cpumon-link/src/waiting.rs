//! Waiting for sockets, by poll(2) or `WSAPoll`.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};

/// Waits until one of the sockets is ready; false if none was in time.
pub fn wait(polls: &mut [PollFd<'_>], timeout: Duration) -> io::Result<bool> {
    // A time that no timespec holds is for ever.
    let timeout = Timespec::try_from(timeout).ok();
    Ok(poll(polls, timeout.as_ref())? > 0)
}
