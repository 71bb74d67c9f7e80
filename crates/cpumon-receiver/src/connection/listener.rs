//! The receiver's end of the TLS connection: records of enrolled devices go to the store and the hub, and
//! what the store has committed is acknowledged. What a record means is decided here, beside the store; the
//! link only carries it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cpumon_link::tls::fingerprint;
use cpumon_model::HostId;
use cpumon_query::status;

use super::memory::Shared;
use super::session::ConnectionSession;
use crate::ReceiverError;
use crate::discovery::{Responder, ResponderStats};
use crate::enrollment::Authority;
use crate::sources::other_sources;
use crate::storing::Sink;
use crate::tls::{Handler, Peer, ServerLimits, ServerStats, Session, TlsServer};

/// Sources of refused connections that frontends see, most first.
const SHOWN_REFUSALS: usize = 64;

struct Sessions {
    sink: Sink,
    hosts: Mutex<HashMap<HostId, Shared>>,
}

impl Handler for Sessions {
    fn open(&self, peer: &Peer) -> Box<dyn Session> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        // It outlives the connection, so that nothing is shown or counted twice after a cut. Enrolment bounds
        // the map.
        let memory = Arc::clone(hosts.entry(HostId(peer.host)).or_default());
        log::info!(
            "{} is connected from {} ({})",
            cpumon_model::escape(&peer.name),
            peer.address,
            peer.agent
        );
        Box::new(ConnectionSession::new(peer, self.sink.clone(), memory))
    }
}

/// A listener that is bound, not yet running.
pub struct ConnectionListener {
    server: TlsServer,
    responder: Option<Responder>,
    info: ListenerInfo,
}

impl ConnectionListener {
    /// Listens for the devices enrolled in `authority`.
    ///
    /// With discovery it is found on its subnets under this name, and devices may ask for enrolment.
    pub fn bind(
        address: SocketAddr,
        authority: &Arc<Authority>,
        sink: Sink,
        discovery_name: Option<&str>,
    ) -> Result<Self, ReceiverError> {
        let handler = Arc::new(Sessions { sink, hosts: Mutex::default() });
        let limits = ServerLimits { takes_requests: discovery_name.is_some(), ..ServerLimits::default() };
        let server = TlsServer::bind(address, Arc::clone(authority), handler, limits)?;
        let address = server.local_addr();
        let responder = discovery_name.map(|name| Responder::bind(authority, address, name)).transpose()?;
        let info = ListenerInfo {
            address,
            stats: server.stats(),
            discovery: responder
                .as_ref()
                .map(|one| Discovery { key: fingerprint(&one.pin()), stats: one.stats() }),
            waiting: Arc::new(server.waiting_requests()),
        };
        Ok(Self { server, responder, info })
    }

    /// The server that answers devices that search for this receiver; it runs on a thread of its own.
    pub fn take_responder(&mut self) -> Option<Responder> {
        self.responder.take()
    }

    /// Where, and what it counts.
    pub fn info(&self) -> ListenerInfo {
        self.info.clone()
    }

    /// Lets devices in until `stop` is set.
    pub fn run(&self, stop: &AtomicBool) {
        self.server.run(stop);
    }
}

/// The fingerprint of the key, and the counts of the responder.
#[derive(Clone)]
struct Discovery {
    key: String,
    stats: Arc<ResponderStats>,
}

/// A listener as frontends see it.
#[derive(Clone)]
pub struct ListenerInfo {
    /// Where it listens.
    pub address: SocketAddr,
    stats: Arc<ServerStats>,
    discovery: Option<Discovery>,
    waiting: Arc<dyn Fn() -> usize + Send + Sync>,
}

impl std::fmt::Debug for ListenerInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListenerInfo").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ListenerInfo {
    /// Fingerprint of this receiver's key, with discovery.
    pub fn discovery_key(&self) -> Option<String> {
        self.discovery.as_ref().map(|discovery| discovery.key.clone())
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
            discovery: self.discovery.as_ref().map(|Discovery { key, stats }| status::Discovery {
                key: key.clone(),
                queries: read(&stats.queries),
                answered: read(&stats.answered),
                unrelated: read(&stats.unrelated),
                too_many: read(&stats.too_many),
                malformed: read(&stats.malformed),
                failed: read(&stats.failed),
            }),
            bytes: read(&stats.bytes),
            refused_by: shown.chain(other_sources(others)).collect(),
        }
    }
}

/// Leaves word in the state directory where this receiver listens, so that `cpumon token` can say it.
pub fn leave_address(state: &Path, address: SocketAddr) {
    let path = state.join("listening");
    // Not fatal: only `cpumon token` reads the file, and the user can name the address there.
    if let Err(error) = std::fs::write(&path, format!("{address}\n")) {
        log::warn!("cannot write {}: {error}; `cpumon token` needs --address", path.display());
    }
}
