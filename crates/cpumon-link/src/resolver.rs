//! Resolves a host name on a thread of its own, so that a slow name server never delays sending. Resolves it again at
//! intervals, because the address of a name may change.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use std::{io, thread};

/// Between two attempts while the name is not known.
const RETRY: Duration = Duration::from_secs(10);
/// Between two look-ups of a name that is known: its address may change.
const RENEW: Duration = Duration::from_mins(5);

type Answer = io::Result<SocketAddr>;

/// A host name and the address that it resolved to last.
pub struct Resolver {
    host: String,
    port: u16,
    address: Option<SocketAddr>,
    pending: Option<Receiver<Answer>>,
    next: Instant,
    has_warned: bool,
}

impl Resolver {
    /// Starts the first look-up.
    pub fn new(host: &str, port: u16, now: Instant) -> Self {
        let mut resolver =
            Self { host: host.to_owned(), port, address: None, pending: None, next: now, has_warned: false };
        resolver.start(now);
        resolver
    }

    fn start(&mut self, now: Instant) {
        let (to_us, from_thread) = sync_channel(1);
        let (host, port) = (self.host.clone(), self.port);
        let resolve = move || {
            let mut found = (host.as_str(), port).to_socket_addrs();
            let first = found.as_mut().map_err(|error| io::Error::new(error.kind(), error.to_string()));
            let answer =
                first.and_then(|list| list.next().ok_or_else(|| io::Error::other("it has no address")));
            // The receiving end is gone if the sender was closed meanwhile.
            let _ = to_us.send(answer);
        };
        self.next = now + RETRY;
        match thread::Builder::new().name("cpumon-resolve".into()).spawn(resolve) {
            Ok(_) => self.pending = Some(from_thread),
            Err(error) => self.accept(Err(error), now),
        }
    }

    fn accept(&mut self, answer: Answer, now: Instant) {
        match answer {
            Ok(address) => {
                (self.address, self.next, self.has_warned) = (Some(address), now + RENEW, false);
            }
            Err(error) => {
                self.next = now + RETRY;
                if !std::mem::replace(&mut self.has_warned, true) {
                    log::warn!("cannot look up {}: {error}; trying again every {RETRY:?}", self.host);
                }
            }
        }
    }

    /// Waits for the look-up under way, at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) {
        match self.pending.as_ref().map(|pending| pending.recv_timeout(timeout)) {
            None | Some(Err(RecvTimeoutError::Timeout)) => {}
            // The thread panicked without an answer: the next try starts another one.
            Some(Err(RecvTimeoutError::Disconnected)) => self.pending = None,
            Some(Ok(answer)) => {
                self.pending = None;
                self.accept(answer, Instant::now());
            }
        }
    }

    /// The address as far as it is known; an address that cannot be looked up again stays in use.
    pub fn address(&mut self, now: Instant) -> Option<SocketAddr> {
        self.wait(Duration::ZERO);
        if self.pending.is_none() && now >= self.next {
            self.start(now);
        }
        self.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_an_address() {
        let mut resolver = Resolver::new("localhost", 7, Instant::now());
        resolver.wait(Duration::from_mins(2));
        let address = resolver.address(Instant::now()).unwrap();
        assert!(address.ip().is_loopback());
        assert_eq!(address.port(), 7);
    }

    #[test]
    fn an_unknown_name_is_tried_again_later_and_keeps_the_old_address() {
        let now = Instant::now();
        let mut resolver = Resolver::new("localhost", 7, now);
        resolver.wait(Duration::from_mins(2));
        resolver.accept(Err(io::Error::other("gone")), now);
        assert!(resolver.address(now).is_some());
        assert!(resolver.pending.is_none());
        assert!(resolver.address(now + RETRY).is_some());
        assert!(resolver.pending.is_some());
    }
}
