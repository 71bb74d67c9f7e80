//! State that all connections with devices share ([`DeviceServer`]), and limits of what strangers and devices may cost: every table is
//! bounded, and every refusal is counted. [`DeviceTurns`] serves the connections of one device one after another; [`DeviceMemory`]
//! remembers a host over all its connections, so that a new one counts and shows nothing twice.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use cpumon_model::limits::{Limiter, Places};
use cpumon_model::{BootId, ClockWatch, HostClock, HostId, Interval, LossCounts, WRONG_BEYOND_NS};
use cpumon_query::status;
use cpumon_wire::spool::{Gap, GapReason};
use rustls::ServerConfig;

use crate::counts::{Refusals, SharedCounts};
use crate::enrolment::Authority;
use crate::lock;
use crate::storing::Sink;

/// Holes of a host that are remembered, so that they are counted once.
const MAX_GAPS: usize = 64;

pub struct DeviceServer {
    pub address: SocketAddr,
    pub(super) config: Arc<ServerConfig>,
    pub(super) authority: Arc<Authority>,
    pub(super) sink: Sink,
    /// How long the handshake and the first message may take.
    pub(super) handshake_time: Duration,
    /// Devices without a token may ask the user to be let in.
    pub(super) takes_requests: bool,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) counts: SharedCounts<status::Connections>,
    /// `None`: this receiver does not answer devices that search.
    pub discovery: Option<Arc<SharedCounts<status::Discovery>>>,
    pub(super) refusals: Mutex<Refusals<String>>,
    /// Connections that have not shown a certificate yet, and those of devices.
    pub(super) strangers: Places,
    pub(super) devices: Places,
    pub(super) turns: DeviceTurns,
    /// It outlives the connections of a host, so that nothing is shown or counted twice after a cut. Enrolment bounds the map.
    pub(super) hosts: Mutex<HashMap<HostId, Arc<Mutex<DeviceMemory>>>>,
    /// Devices that wait for the user; the newest request of each device; how often a device may ask.
    pub(super) waiting: Places,
    pub(super) requests: DeviceTurns,
    pub(super) tries: Mutex<Limiter>,
}

pub(super) type Counter = fn(&mut status::Connections) -> &mut u64;

impl DeviceServer {
    /// Counts refusals of one source. `reason` explains the last one.
    pub(super) fn refuse(&self, counter: Counter, source: IpAddr, count: u64, reason: String) {
        self.counts.note(|counts| *counter(counts) += count);
        lock(&self.refusals).count(source.into(), count, None, reason);
    }

    pub(super) fn memory_of(&self, host: HostId) -> Arc<Mutex<DeviceMemory>> {
        Arc::clone(lock(&self.hosts).entry(host).or_default())
    }

    pub fn status(&self) -> status::Connections {
        status::Connections {
            address: self.address.to_string(),
            devices: self.devices.count() as u64,
            requests_waiting: self.waiting.count() as u64,
            discovery: self.discovery.as_ref().map(|counts| counts.status()),
            refused_by: lock(&self.refusals).status(),
            enrolled_error: self.authority.registry.error(),
            ..self.counts.status()
        }
    }
}

/// The state of a host that outlives its connections.
#[derive(Debug, Default)]
pub(super) struct DeviceMemory {
    /// What was counted since the receiver started.
    pub(super) loss: LossCounts,
    /// Comparisons of its clock with this one's, and what follows from them.
    pub(super) watch: ClockWatch,
    pub(super) clock: Option<HostClock>,
    /// The newest interval that was shown: its boot, its end on the monotonic clock.
    shown: Option<(BootId, u64)>,
    /// The newest holes that were counted: begin, reason, snapshots. After a cut they come again.
    gaps: VecDeque<(i64, GapReason, u64)>,
    #[cfg(test)]
    pub(super) observed: Arc<super::tests::Observed>,
}

impl DeviceMemory {
    /// How far the wall clock is ahead, ns; 0 if no more than can be the network's doing.
    pub(super) fn shift_ns(&self) -> i64 {
        let offset_ns = self.clock.map_or(0, |clock| clock.offset_ns);
        if offset_ns.saturating_abs() > WRONG_BEYOND_NS { offset_ns } else { 0 }
    }

    /// Counts a hole that the device reports, and one that was counted before as far as it grew.
    pub(super) fn count_gap(&mut self, gap: &Gap) {
        let key = (gap.begin_wall_ns, gap.reason);
        // A hole that grows comes again with the same begin: only the growth is new.
        if let Some(known) = self.gaps.iter_mut().find(|known| (known.0, known.1) == key) {
            self.loss.snapshots_lost += gap.count().saturating_sub(known.2);
            known.2 = known.2.max(gap.count());
            return;
        }
        if self.gaps.len() >= MAX_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back((key.0, key.1, gap.count()));
        self.loss.snapshots_lost += gap.count();
    }

    /// Whether an interval is newer than what was shown; if so it counts as shown from now on.
    pub(super) fn shows(&mut self, interval: &Interval) -> bool {
        let is_old = |(boot, mono_ns)| boot == interval.boot && interval.end.mono_ns <= mono_ns;
        if self.shown.is_some_and(is_old) {
            return false;
        }
        self.shown = Some((interval.boot, interval.end.mono_ns));
        true
    }
}

/// Which turn of each device is the newest, and whether one is served.
#[derive(Debug, Default)]
pub(super) struct DeviceTurns {
    devices: Mutex<HashMap<[u8; 16], HostTurns>>,
    /// Number of the last turn, of all devices: none comes twice.
    last: AtomicU64,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct HostTurns {
    newest: u64,
    is_served: bool,
}

/// A connection or a request of a device, until it is dropped.
pub(super) struct DeviceTurn<'a> {
    all: &'a DeviceTurns,
    host: [u8; 16],
    number: u64,
    is_served: bool,
}

impl DeviceTurns {
    /// Replaces the turn that the device had: that one finds at its next check that it is not the newest.
    pub(super) fn begin(&self, host: [u8; 16]) -> DeviceTurn<'_> {
        let mut devices = lock(&self.devices);
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        devices.entry(host).or_default().newest = number;
        self.ended.notify_all();
        DeviceTurn { all: self, host, number, is_served: false }
    }
}

impl DeviceTurn<'_> {
    /// Whether the device has come again since.
    pub(super) fn is_replaced(&self) -> bool {
        lock(&self.all.devices).get(&self.host).is_none_or(|device| device.newest != self.number)
    }

    /// Waits until the turn before has ended. False: it has not within `wait`, or this one is replaced.
    pub(super) fn serve(&mut self, wait: Duration) -> bool {
        let (host, number) = (self.host, self.number);
        let is_busy = |devices: &mut HashMap<[u8; 16], HostTurns>| {
            devices.get(&host).is_some_and(|device| device.newest == number && device.is_served)
        };
        let waited = self.all.ended.wait_timeout_while(lock(&self.all.devices), wait, is_busy);
        let (mut devices, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let device = devices.get_mut(&host).filter(|device| device.newest == number && !device.is_served);
        let Some(device) = device else { return false };
        (device.is_served, self.is_served) = (true, true);
        true
    }
}

impl Drop for DeviceTurn<'_> {
    fn drop(&mut self) {
        let mut devices = lock(&self.all.devices);
        if let Some(device) = devices.get_mut(&self.host) {
            device.is_served &= !self.is_served;
            if device.newest == self.number && !device.is_served {
                devices.remove(&self.host);
            }
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
        let (all, none) = (DeviceTurns::default(), Duration::ZERO);
        let mut first = all.begin(HOST);
        assert!(first.serve(none));
        let mut second = all.begin(HOST);
        assert!(first.is_replaced() && !second.serve(none));
        let mut third = all.begin(HOST);
        drop(first);
        assert!(!second.serve(none), "a newer one waits");
        assert!(third.serve(none));
        let mut fourth = all.begin(HOST);
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || fourth.serve(Duration::from_mins(1)));
            drop(third);
            assert!(waits.join().unwrap(), "it is woken");
        });
        drop(second);
        assert!(lock(&all.devices).is_empty());
    }

    #[test]
    fn a_hole_that_comes_again_is_counted_once_and_grows() {
        let mut memory = DeviceMemory::default();
        let hole = |begin_wall_ns, last| Gap { first: 1, last, begin_wall_ns, ..Gap::default() };
        for gap in [hole(5, 10), hole(5, 10), hole(5, 8), hole(5, 11), hole(90, 2)] {
            memory.count_gap(&gap);
        }
        assert_eq!(memory.loss.snapshots_lost, 11 + 2);
        for begin in 100..300 {
            memory.count_gap(&hole(begin, 1));
        }
        assert_eq!(memory.gaps.len(), MAX_GAPS);
    }
}
