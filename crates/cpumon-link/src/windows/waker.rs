//! [`Waker`]: wakes a thread that waits for sockets. Windows waits for nothing but sockets, so this is one of loopback that sends to
//! itself; being connected, it takes datagrams from no one else.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::windows::io::{AsSocket, BorrowedSocket};

/// The end that a waiting thread watches.
pub struct Waker(UdpSocket);

/// The end that wakes.
pub struct Wake(UdpSocket);

impl Waker {
    /// Both ends.
    pub fn new() -> io::Result<(Self, Wake)> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(socket.local_addr()?)?;
        socket.set_nonblocking(true)?;
        Ok((Self(socket.try_clone()?), Wake(socket)))
    }

    /// What can be read after a wake-up.
    pub fn as_fd(&self) -> BorrowedSocket<'_> {
        self.0.as_socket()
    }

    /// Forgets the wake-ups until now.
    pub fn drain(&mut self) {
        while self.0.recv(&mut [0; 8]).is_ok() {}
    }
}

impl Wake {
    /// Wakes the other end.
    pub fn wake(&self) {
        // A full buffer wakes as well.
        let _ = self.0.send(&[0]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags};

    use super::*;
    use crate::waiting::wait;

    #[test]
    fn a_wake_up_ends_the_wait_and_is_forgotten_when_drained() {
        let (mut waker, wake) = Waker::new().unwrap();
        let is_awake = |waker: &Waker, ms| {
            let fd = waker.as_fd();
            wait(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Duration::from_millis(ms)).unwrap()
        };
        assert!(!is_awake(&waker, 1));
        let thread = std::thread::spawn(move || {
            wake.wake();
            wake.wake();
            wake
        });
        let begin = Instant::now();
        assert!(is_awake(&waker, 60_000) && begin.elapsed() < Duration::from_secs(30));
        let _wake = thread.join().unwrap();
        waker.drain();
        assert!(!is_awake(&waker, 1));
    }
}
