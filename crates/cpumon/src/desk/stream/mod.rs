//! The secure stream's end. In: records of enrolled devices. Out: intervals to the store and the hub; acknowledgements of what
//! the store has committed. Why here: what a record means is decided beside the store, the link only carries it.

mod lane;
mod receipts;
mod session;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use cpumon_link::discovery::{BeaconServer, BeaconStats};
use cpumon_link::tls::{
    Authority, Handler, Peer, ServerLimits, ServerStats, Session, StreamServer, fingerprint,
};
use cpumon_model::{BootId, ClockWatch, HostClock, HostId, Interval, LossCounts};
use cpumon_query::status;
use cpumon_wire::spool::{Gap, GapReason};

use super::sink::Sink;
use session::StreamSession;

/// Sources of refused connections that faces see, most first.
const SHOWN_REFUSALS: usize = 64;
/// Holes of a host that are remembered, so that they are counted once.
const MAX_GAPS: usize = 64;

/// What is remembered of a host over all its connections.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// What was counted since the receiver started.
    loss: LossCounts,
    /// Comparisons of its clock with this one's, and what they tell.
    watch: ClockWatch,
    clock: Option<HostClock>,
    /// The newest interval that was shown: its boot, its end on the monotonic clock.
    shown: Option<(BootId, u64)>,
    /// The newest holes that were counted: begin, reason, snapshots. After a cut they come again.
    gaps: VecDeque<(i64, GapReason, u64)>,
}

impl Memory {
    /// Counts a hole that the device reports, and one that was counted before as far as it grew.
    fn count_gap(&mut self, gap: &Gap) {
        let key = (gap.begin_wall_ns, gap.reason);
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
    fn shows(&mut self, interval: &Interval) -> bool {
        let is_old = |(boot, mono_ns)| boot == interval.boot && interval.end.mono_ns <= mono_ns;
        if self.shown.is_some_and(is_old) {
            return false;
        }
        self.shown = Some((interval.boot, interval.end.mono_ns));
        true
    }
}

/// Shared by the connections of one host.
pub(super) type Shared = Arc<Mutex<Memory>>;

/// Makes sessions.
struct Sessions {
    sink: Sink,
    hosts: Mutex<HashMap<HostId, Shared>>,
}

impl Handler for Sessions {
    fn open(&self, peer: &Peer) -> Box<dyn Session> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = Arc::clone(hosts.entry(HostId(peer.host)).or_default());
        log::info!(
            "{} is connected from {} ({})",
            cpumon_model::escape(&peer.name),
            peer.address,
            peer.agent
        );
        Box::new(StreamSession::new(peer, self.sink.clone(), memory))
    }
}

/// A listener that is bound, not yet running.
pub struct StreamListener {
    server: StreamServer,
    beacon: Option<BeaconServer>,
    place: StreamPlace,
}

impl StreamListener {
    /// Listens for the devices enrolled in `authority`.
    ///
    /// With a beacon it is found on its subnets under this name, and devices may ask to be let in.
    pub fn bind(
        address: SocketAddr,
        authority: &Arc<Authority>,
        sink: Sink,
        (has_beacon, name): (bool, String),
    ) -> anyhow::Result<Self> {
        let handler = Arc::new(Sessions { sink, hosts: Mutex::default() });
        let limits = ServerLimits { takes_requests: has_beacon, ..ServerLimits::default() };
        let server = StreamServer::bind(address, Arc::clone(authority), handler, limits)
            .context("cannot receive the secure stream; choose another address with --tls")?;
        let address = server.local_addr();
        let beacon = has_beacon.then(|| BeaconServer::bind(authority, address, &name)).transpose();
        let beacon = beacon.context("cannot answer devices that look for a receiver")?;
        let place = StreamPlace {
            address,
            stats: server.stats(),
            beacon: beacon.as_ref().map(|beacon| (fingerprint(&beacon.pin()), beacon.stats())),
            waiting: Arc::new(server.waiting_requests()),
        };
        Ok(Self { server, beacon, place })
    }

    /// What answers devices that look for this receiver; it runs on a thread of its own.
    pub fn take_beacon(&mut self) -> Option<BeaconServer> {
        self.beacon.take()
    }

    /// Where, and what it counts.
    pub fn place(&self) -> StreamPlace {
        self.place.clone()
    }

    /// Lets devices in until `stop` is set.
    pub fn run(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        Ok(self.server.run(stop)?)
    }
}

/// A listener as faces see it.
#[derive(Clone)]
pub struct StreamPlace {
    /// Where it listens.
    pub address: SocketAddr,
    stats: Arc<ServerStats>,
    /// The key's fingerprint, and what the beacon counts.
    beacon: Option<(String, Arc<BeaconStats>)>,
    waiting: Arc<dyn Fn() -> usize + Send + Sync>,
}

impl std::fmt::Debug for StreamPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamPlace").field("address", &self.address).finish_non_exhaustive()
    }
}

impl StreamPlace {
    /// What people compare of this receiver's key, if it has a beacon.
    pub fn beacon_key(&self) -> Option<String> {
        self.beacon.as_ref().map(|beacon| beacon.0.clone())
    }

    /// Its counts.
    pub fn status(&self) -> status::Connections {
        let stats = &self.stats;
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let (refusals, others) = stats.refusals(SHOWN_REFUSALS);
        let shown = refusals.into_iter().map(|one| status::Rejects {
            source: one.source.to_string(),
            count: one.count,
            reason: one.reason,
            ..status::Rejects::default()
        });
        let rest = (others > 0).then(|| status::Rejects {
            source: "others".into(),
            count: others,
            ..status::Rejects::default()
        });
        status::Connections {
            address: self.address.to_string(),
            devices: read(&stats.devices),
            accepted: read(&stats.accepted),
            refused_early: read(&stats.refused_early),
            handshakes_failed: read(&stats.handshakes_failed),
            refused_devices: read(&stats.refused_devices),
            protocol_errors: read(&stats.protocol_errors),
            enrolled: read(&stats.enrolled),
            refused_tokens: read(&stats.refused_tokens),
            renewed: read(&stats.renewed),
            requests: read(&stats.requests),
            requests_waiting: (self.waiting)() as u64,
            requests_accepted: read(&stats.requests_accepted),
            requests_refused: read(&stats.requests_refused),
            beacon: self.beacon.as_ref().map(|(key, stats)| status::Beacon {
                key: key.clone(),
                queries: read(&stats.queries),
                answered: read(&stats.answered),
                for_others: read(&stats.for_others),
                too_many: read(&stats.too_many),
                malformed: read(&stats.malformed),
                failed: read(&stats.failed),
            }),
            bytes: read(&stats.bytes),
            refused_by: shown.chain(rest).collect(),
        }
    }
}

/// Leaves word in the state directory where this receiver listens, so that `cpumon token` can say it.
pub fn leave_address(state: &Path, address: SocketAddr) {
    let path = state.join("listening");
    if let Err(error) = std::fs::write(&path, format!("{address}\n")) {
        log::warn!("cannot write {}: {error}; `cpumon token` needs --address", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_that_comes_again_is_counted_once_and_grows() {
        let mut memory = Memory::default();
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
