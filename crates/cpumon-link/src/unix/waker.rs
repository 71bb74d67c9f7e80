//! [`Waker`]: wakes a thread that waits for sockets. A pipe, of which neither end blocks.

use std::io::{self, PipeReader, PipeWriter, Read, Write};

use rustix::fd::{AsFd, BorrowedFd};

/// The end that a waiting thread watches.
pub struct Waker(PipeReader);

/// The end that wakes.
pub struct Wake(PipeWriter);

impl Waker {
    /// Both ends.
    pub fn new() -> io::Result<(Self, Wake)> {
        let (awake, wake) = io::pipe()?;
        let set_nonblocking = |end| rustix::io::ioctl_fionbio(end, true).map_err(io::Error::from);
        set_nonblocking(awake.as_fd())?;
        // The measuring thread writes to this end, and must not wait when the pipe is full.
        set_nonblocking(wake.as_fd())?;
        Ok((Self(awake), Wake(wake)))
    }

    /// What can be read after a wake-up.
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
    /// Wakes the other end.
    pub fn wake(&self) {
        // A full pipe wakes as well.
        let _ = (&self.0).write(&[0]);
    }
}
