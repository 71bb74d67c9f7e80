//! What strangers and devices may cost. Every table is bounded, everything that is refused is counted, and the connections of one device
//! are served one after another ([`InTurn`]).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cpumon_model::limits::{Limiter, Overflow, Rate};
use cpumon_query::status;

use crate::counts::{Counts, MAX_SOURCES, Refusals};

/// Limits of a [`TlsServer`](super::TlsServer).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections of devices at one time.
    pub max_devices: usize,
    /// Connections at one time that have not shown a certificate yet.
    pub max_strangers: usize,
    /// Handshakes a second, all sources together.
    pub handshakes_per_second: u32,
    /// Handshakes a second of one source.
    pub handshakes_per_second_of_source: u32,
    /// How long the handshake and the first message may take.
    pub handshake_time: Duration,
    /// A connection that is silent for so long is closed.
    pub silence: Duration,
    /// Bytes a second that one device may send, averaged over some seconds; more waits in its own socket.
    pub bytes_per_second: u64,
    /// Bytes of records of one device that may be under way.
    pub window_bytes: u32,
    /// Devices without a token may ask the user to be let in.
    pub takes_requests: bool,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_devices: 1024,
            max_strangers: 64,
            handshakes_per_second: 100,
            handshakes_per_second_of_source: 10,
            handshake_time: Duration::from_secs(5),
            silence: Duration::from_secs(30),
            bytes_per_second: 16 << 20,
            window_bytes: 1 << 20,
            takes_requests: false,
        }
    }
}

/// Which count of a server.
pub(super) type Counter = fn(&mut status::Connections) -> &mut u64;

/// Counts of a server since it was started.
#[derive(Debug, Default)]
pub struct ServerStats {
    pub(crate) counts: Counts<status::Connections>,
    refusals: Mutex<Refusals<String>>,
}

impl ServerStats {
    /// Counts so many refusals of one source, the last of them for this reason.
    pub(super) fn refuse(&self, counter: Counter, source: IpAddr, count: u64, reason: String) {
        self.counts.note(|counts| *counter(counts) += count);
        self.refusals().count(source.into(), count, None, reason);
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals<String>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As frontends see them.
    #[must_use]
    pub fn status(&self) -> status::Connections {
        status::Connections { refused_by: self.refusals().status(), ..self.counts.status() }
    }
}

impl ServerLimits {
    pub(super) fn handshakes(&self) -> Limiter {
        let rate = |amount: u32, burst_ms| Rate { amount: amount.into(), seconds: 1, burst_ms };
        limiter(rate(self.handshakes_per_second, 1_000), rate(self.handshakes_per_second_of_source, 2_000))
    }
}

/// What may be tried, by all sources and by one. A flood from many networks keeps newcomers out, and cuts no connection.
pub(crate) fn limiter(all: Rate, of_source: Rate) -> Limiter {
    Limiter::new(all, of_source, MAX_SOURCES, Overflow::Share)
}

/// The connections of one device.
#[derive(Debug, Default)]
struct Connections {
    newest: u64,
    is_served: bool,
}

/// Which connection of each device is the newest, and whether one is served.
#[derive(Debug, Default)]
pub(super) struct InTurn {
    devices: Mutex<HashMap<[u8; 16], Connections>>,
    /// Number of the last connection, of all devices: none comes twice.
    last: AtomicU64,
    ended: Condvar,
}

/// A connection that is served, as long as this lives.
pub(super) struct Served<'a> {
    all: &'a InTurn,
    host: [u8; 16],
    number: u64,
}

impl InTurn {
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 16], Connections>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A device has connected: the connection's number. The one before finds at its next check that it is not the newest.
    pub(super) fn add(&self, host: [u8; 16]) -> u64 {
        let mut devices = self.lock();
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        devices.entry(host).or_default().newest = number;
        self.ended.notify_all();
        number
    }

    /// Whether the device has connected again since.
    pub(super) fn is_replaced(&self, host: [u8; 16], number: u64) -> bool {
        self.lock().get(&host).is_none_or(|device| device.newest != number)
    }

    /// Waits for so long until the connection before has ended; `None`: it has not, or this one is not the newest any more.
    pub(super) fn begin(&self, host: [u8; 16], number: u64, wait: Duration) -> Option<Served<'_>> {
        let is_busy = |devices: &mut HashMap<[u8; 16], Connections>| {
            devices.get(&host).is_some_and(|device| device.newest == number && device.is_served)
        };
        let waited = self.ended.wait_timeout_while(self.lock(), wait, is_busy);
        let (mut devices, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let device = devices.get_mut(&host).filter(|device| device.newest == number && !device.is_served)?;
        device.is_served = true;
        Some(Served { all: self, host, number })
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let mut devices = self.all.lock();
        if let Some(device) = devices.get_mut(&self.host) {
            device.is_served = false;
        }
        if devices.get(&self.host).is_some_and(|device| device.newest == self.number) {
            devices.remove(&self.host);
        }
        self.all.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_waits_for_the_one_before_and_gives_way_to_the_next() {
        const HOST: [u8; 16] = [1; 16];
        let (all, none) = (InTurn::default(), Duration::ZERO);
        let first = all.add(HOST);
        let served = all.begin(HOST, first, none).unwrap();
        let second = all.add(HOST);
        assert!(all.is_replaced(HOST, first) && all.begin(HOST, second, none).is_none());
        let third = all.add(HOST);
        drop(served);
        assert!(all.begin(HOST, second, none).is_none(), "a newer one waits");
        let served = all.begin(HOST, third, none).unwrap();
        let fourth = all.add(HOST);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| all.begin(HOST, fourth, Duration::from_mins(1)).is_some());
            drop(served);
            assert!(waits.join().unwrap(), "it is woken");
        });
        assert!(all.lock().is_empty());
    }
}
