//! [`GroupSender`]: sends from the sockets of a [`UdpReceiver`] to the groups of multicast DNS, so that what is sent comes from
//! the port of multicast DNS (RFC 6762, section 6).

use std::time::Instant;

use super::receiver::UdpReceiver;
use super::sys::{self, Outgoing};
use crate::destinations::Destinations;
use crate::discovery::groups;

/// The groups on every interface, which are read again every ten seconds.
pub struct GroupSender {
    destinations: Destinations,
}

impl GroupSender {
    /// The groups on every interface but loopback.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { destinations: Destinations::new(&groups(&[]), now) }
    }

    /// Sends one datagram on each interface. Returns on how many it was sent.
    pub fn send(&mut self, from: &UdpReceiver, datagram: &[u8]) -> usize {
        if let Err(error) = self.destinations.refresh(Instant::now()) {
            log::warn!("cannot list the network interfaces: {error}");
        }
        let all = self.destinations.v4.iter().chain(&self.destinations.v6);
        all.filter(|to| {
            let Some(socket) = from.socket_of(to.shown.is_ipv4()) else { return false };
            let one = |_| Outgoing { bytes: datagram, to: &to.address, control: &to.control };
            match sys::send(socket, 1, one) {
                Ok(_) => true,
                Err(error) => {
                    log::debug!("cannot announce on {}: {error}", to.shown);
                    false
                }
            }
        })
        .count()
    }
}
