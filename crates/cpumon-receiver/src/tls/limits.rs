//! What strangers and devices may cost. Every table is bounded, everything that is refused is counted, and the connections of one device
//! are served one after another ([`InTurn`]).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cpumon_model::limits::{Limiter, Overflow, Rate, Source};

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

/// Sources whose refusals are remembered.
const MAX_SOURCES: usize = 1024;

/// What was refused from one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRefusals {
    /// Its address, or IPv6 network.
    pub source: Source,
    /// How often.
    pub count: u64,
    /// Why the last time.
    pub reason: String,
}

/// Counts of a server since it was started.
#[derive(Debug, Default)]
pub struct ServerStats {
    /// Connections of devices now.
    pub devices: AtomicU64,
    /// Connections that were accepted.
    pub accepted: AtomicU64,
    /// Connections refused before the handshake: too many, or too fast.
    pub refused_early: AtomicU64,
    /// Handshakes that failed: no TLS, another version, a certificate that is not ours or has expired, too slow.
    pub handshakes_failed: AtomicU64,
    /// Devices refused because they are not enrolled any more.
    pub refused_devices: AtomicU64,
    /// Connections ended because of what the device sent, and snapshots in it that could not be used.
    pub protocol_errors: AtomicU64,
    /// Devices that were enrolled.
    pub enrolled: AtomicU64,
    /// Tokens that were refused.
    pub refused_tokens: AtomicU64,
    /// Devices that asked to be let in without a token.
    pub requests: AtomicU64,
    /// Those of them that the user let in.
    pub requests_accepted: AtomicU64,
    /// Those of them that were refused: by the user, or because too many ask.
    pub requests_refused: AtomicU64,
    /// Certificates that were renewed.
    pub renewed: AtomicU64,
    /// Bytes of messages that came in.
    pub bytes: AtomicU64,
    sources: Mutex<HashMap<Source, SourceRefusals>>,
    others: AtomicU64,
}

impl ServerStats {
    pub(super) fn refuse(&self, counter: &AtomicU64, source: IpAddr, reason: String) {
        self.refuse_many(counter, source, 1, reason);
    }

    /// Counts so many refusals of one source, the last of them for this reason.
    pub(super) fn refuse_many(&self, counter: &AtomicU64, source: IpAddr, count: u64, reason: String) {
        counter.fetch_add(count, Ordering::Relaxed);
        let source = source.into();
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() >= MAX_SOURCES && !sources.contains_key(&source) {
            self.others.fetch_add(count, Ordering::Relaxed);
            return;
        }
        let entry =
            sources.entry(source).or_insert(SourceRefusals { source, count: 0, reason: String::new() });
        entry.count += count;
        entry.reason = reason;
    }

    /// Sources of refused connections, most first, at most `most`; and the number of refusals of all others.
    #[must_use]
    pub fn refusals(&self, most: usize) -> (Vec<SourceRefusals>, u64) {
        let mut all: Vec<SourceRefusals> =
            self.sources.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        all.sort_by_key(|one| (std::cmp::Reverse(one.count), one.source));
        let rest: u64 = all.iter().skip(most).map(|one| one.count).sum();
        all.truncate(most);
        (all, rest + self.others.load(Ordering::Relaxed))
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
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn refusals_of_an_ipv6_network_are_one_source() {
        let stats = ServerStats::default();
        for n in 0..2_000_u128 {
            let address = Ipv6Addr::from_bits(0x2001_0db8 << 96 | n);
            stats.refuse(&stats.refused_early, address.into(), "too many".to_owned());
        }
        let (refusals, others) = stats.refusals(8);
        assert_eq!((refusals.len(), refusals[0].count, others), (1, 2_000, 0));
        assert_eq!(refusals[0].source.to_string(), "2001:db8::/64");
    }

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
