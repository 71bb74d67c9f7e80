//! [`Pipe`]: a TLS connection over a non-blocking socket, so that one thread can read, write and meet its deadlines. Both sides
//! use it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use cpumon_wire::connection::Message;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::BorrowedFd;
use rustls::Connection;

use super::TlsError;
use crate::platform;

/// Bytes taken from the socket before others have their turn.
const READ_AT_ONCE: usize = 256 << 10;
/// Bytes given to TLS at once: whatever is more important than the rest can still overtake it.
const WRITE_AT_ONCE: usize = 16 << 10;

/// A TLS connection, its buffers and its byte counts.
#[derive(Debug)]
pub struct Pipe {
    socket: TcpStream,
    /// The state of TLS: certificates of the other side, the protocol that was agreed on.
    pub tls: Connection,
    inbox: Vec<u8>,
    /// Bytes of the inbox that were read as messages.
    taken: usize,
    pub outbox: Vec<u8>,
    /// The other side has closed its direction of the connection.
    has_ended: bool,
    /// Decrypted bytes that were received.
    pub received_bytes: u64,
    /// Bytes that went out on the wire, with everything that TLS adds.
    pub wire_bytes: u64,
}

impl Pipe {
    pub fn new(socket: TcpStream, tls: Connection) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // Nagle's algorithm would hold back a small message until the other side acknowledges the one before.
        socket.set_nodelay(true)?;
        Ok(Self {
            socket,
            tls,
            inbox: Vec::new(),
            taken: 0,
            outbox: Vec::new(),
            has_ended: false,
            received_bytes: 0,
            wire_bytes: 0,
        })
    }

    /// Waits until the socket can do something, `wake` can be read, or `timeout` has passed. Without `reads` only for
    /// writing.
    pub fn wait(&self, timeout: Duration, reads: bool, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let wants_write = self.tls.wants_write() || !self.outbox.is_empty();
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, reads);
        events.set(PollFlags::OUT, wants_write);
        let socket = PollFd::new(&self.socket, events);
        let waited = match wake {
            None => platform::wait(&mut [socket], timeout),
            Some(wake) => {
                platform::wait(&mut [socket, PollFd::from_borrowed_fd(wake, PollFlags::IN)], timeout)
            }
        };
        match waited {
            // A signal: the caller finds nothing to do and waits again.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            waited => waited.map(|_| ()),
        }
    }

    /// Reads the bytes that have arrived, and writes as many as the socket takes.
    ///
    /// # Errors
    /// The connection broke or ended, or TLS refuses what came.
    pub fn pump(&mut self, reads: bool) -> Result<(), TlsError> {
        if reads {
            self.read()?;
        }
        self.write()?;
        // Whole messages that came before the end, such as the reason for it, are read first.
        if self.has_ended && self.inbox.len() <= self.taken + 4 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), TlsError> {
        let mut bytes = 0;
        while bytes < READ_AT_ONCE && !self.has_ended {
            match self.tls.read_tls(&mut self.socket) {
                Ok(0) => self.has_ended = true,
                Ok(count) => bytes += count,
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error.into()),
            }
            let state = match self.tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // Send the other side the TLS alert with the reason, if it still listens.
                    let _ = self.tls.write_tls(&mut self.socket);
                    return Err(error.into());
                }
            };
            self.has_ended |= state.peer_has_closed();
            // rustls holds decrypted bytes up to a limit, so they are taken after each packet.
            let plain = state.plaintext_bytes_to_read();
            if plain > 0 {
                let from = self.inbox.len();
                self.inbox.resize(from + plain, 0);
                let read = self.tls.reader().read(&mut self.inbox[from..])?;
                self.inbox.truncate(from + read);
                self.received_bytes += read as u64;
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), TlsError> {
        loop {
            while self.tls.wants_write() {
                match self.tls.write_tls(&mut self.socket) {
                    Ok(count) => self.wire_bytes += count as u64,
                    Err(error) if is_later(&error) => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
            // During the handshake rustls buffers outgoing bytes up to a limit, and writing beyond it fails.
            if self.outbox.is_empty() || self.tls.is_handshaking() {
                return Ok(());
            }
            let count = self.outbox.len().min(WRITE_AT_ONCE);
            self.tls.writer().write_all(&self.outbox[..count])?;
            self.outbox.drain(..count);
        }
    }

    /// The next whole message, if there is one; no longer than `most`.
    ///
    /// # Errors
    /// The message is longer, or the other side ended the connection inside it.
    pub fn next_message(&mut self, most: usize) -> Result<Option<&[u8]>, TlsError> {
        let rest = self.inbox.get(self.taken..).unwrap_or_default();
        match Message::length(rest, most)? {
            Some(length) => {
                let begin = self.taken;
                self.taken += length;
                Ok(self.inbox.get(begin..begin + length))
            }
            None if self.has_ended => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            None => {
                // Only here, and not after each message: moving the rest costs its whole length.
                self.inbox.drain(..self.taken);
                self.taken = 0;
                if self.inbox.is_empty() {
                    self.inbox.shrink_to(READ_AT_ONCE);
                }
                Ok(None)
            }
        }
    }

    /// Sends TLS's close notice as far as the socket takes it at once.
    pub fn close(&mut self) {
        self.tls.send_close_notify();
        // The connection ends either way.
        let _ = self.write();
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
