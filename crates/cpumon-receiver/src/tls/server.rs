//! [`TlsServer`]: the listener. Each connection has a thread, and what strangers cost is bounded. [`ConnectionListener`] is the one of a
//! running receiver: records of enrolled devices go to the store and the hub, and frontends see what it counts.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use cpumon_model::HostId;
use cpumon_model::limits::{Limiter, Places};
use cpumon_query::status;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::Shared;
use super::limits::{InTurn, ServerLimits};
use super::session::{ConnectionSession, SharedMemory};
use super::{CHECK_EVERY, Handler, Peer, Session};
use crate::ReceiverError;
use crate::clock::mono_ns;
use crate::counts::Counts;
use crate::discovery::Responder;
use crate::enrollment::consent::PendingDevices;
use crate::enrollment::{Authority, EnrollmentError};
use crate::storing::Sink;

const STACK_BYTES: usize = 1 << 20;

/// The bound listener. Connections are served while [`TlsServer::run`] runs, a thread each.
pub struct TlsServer {
    listener: TcpListener,
    /// Where it listens.
    pub address: SocketAddr,
    pub(super) shared: Arc<Shared>,
}

impl TlsServer {
    /// Listens. No device is let in before [`TlsServer::run`].
    ///
    /// # Errors
    /// The address cannot be listened on, or the identity cannot be used.
    pub fn bind(
        address: SocketAddr,
        authority: Arc<Authority>,
        handler: Arc<dyn Handler>,
        limits: ServerLimits,
    ) -> Result<Self, ReceiverError> {
        let config = Arc::new(authority.server_config().map_err(EnrollmentError::from)?);
        authority.requests.clear().map_err(EnrollmentError::from)?;
        let bind = || {
            let listener = TcpListener::bind(address)?;
            // A client that goes between poll(2) and accept(2) would leave a blocking accept(2) waiting.
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = bind().map_err(|source| ReceiverError::Listen { address, source })?;
        let shared = Arc::new(Shared {
            config,
            authority,
            handler,
            limits,
            stats: Arc::default(),
            stop: Arc::default(),
            pending: PendingDevices::new(),
            unidentified: Places::default(),
            in_turn: InTurn::default(),
        });
        Ok(Self { listener, address, shared })
    }

    /// Lets devices in until `stop` is set, then ends all connections with a reason.
    pub fn run(&self, stop: &AtomicBool) {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        let mut handshakes = self.shared.limits.handshakes();
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(CHECK_EVERY.subsec_nanos()) };
        let mut has_failed = false;
        while !stop.load(Ordering::Relaxed) {
            // A signal that ends the wait early does no harm: `stop` is checked again.
            let _ = poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&wait));
            if let Err(error) = self.accept_all(&mut handshakes, &mut threads) {
                // Without a free descriptor (EMFILE) the connection goes on waiting, and poll(2) would return at once, for ever.
                if !std::mem::replace(&mut has_failed, true) {
                    log::warn!("cannot accept TLS connections for now: {error}");
                }
                std::thread::sleep(CHECK_EVERY);
            } else {
                has_failed = false;
            }
            // Otherwise the list would grow with every connection for as long as the receiver runs.
            threads.retain(|thread| !thread.is_finished());
        }
        // Each connection checks this within 250 ms and sends the reason, so joining ends soon.
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in threads {
            if thread.join().is_err() {
                log::error!("a connection's thread ended by a panic");
            }
        }
    }

    /// Takes every connection that waits.
    fn accept_all(&self, handshakes: &mut Limiter, threads: &mut Vec<JoinHandle<()>>) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((socket, address)) => {
                    self.shared.stats.counts.note(|counts| counts.accepted += 1);
                    threads.extend(self.admit(socket, address, handshakes));
                }
                // An error such as ECONNABORTED is the connection's: the next poll comes back to the listener.
                Err(error) if is_of_connection(error.kind()) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn admit(
        &self,
        socket: TcpStream,
        address: SocketAddr,
        handshakes: &mut Limiter,
    ) -> Option<JoinHandle<()>> {
        let (shared, source) = (Arc::clone(&self.shared), address.ip().to_canonical());
        let refuse = |reason: &str| {
            // Dropping the socket closes it without a byte: a reason would need the handshake that is to be
            // saved.
            shared.stats.refuse(|counts| &mut counts.refused_early, source, 1, reason.to_owned());
            None
        };
        // By the listener and not by the new thread, so that the next connection sees it; and before the rate, so
        // that a connection without a place uses up nothing of its source.
        let Some(stranger) = shared.unidentified.enter(source, usize::MAX, shared.limits.max_strangers)
        else {
            return refuse("too many strangers at once");
        };
        if handshakes.take(source, mono_ns()).is_err() {
            return refuse("too many handshakes a second");
        }
        let work = move || {
            let stranger = stranger;
            shared.serve(socket, address, stranger);
        };
        let thread =
            std::thread::Builder::new().name("device".to_owned()).stack_size(STACK_BYTES).spawn(work);
        // Without a thread the closure is dropped, which closes the socket and takes the stranger off the
        // count.
        thread.inspect_err(|error| log::warn!("cannot start a thread for {address}: {error}")).ok()
    }
}

/// Whether an error of accept(2) says something about that connection only, or that there is none.
fn is_of_connection(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

struct Sessions {
    sink: Sink,
    hosts: Mutex<HashMap<HostId, SharedMemory>>,
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
    pub(crate) server: TlsServer,
    /// Answers devices that search for this receiver, on a thread of its own.
    pub(crate) responder: Option<Responder>,
    pub(crate) info: ListenerInfo,
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
        let address = server.address;
        let responder = discovery_name.map(|name| Responder::bind(authority, address, name)).transpose()?;
        let info = ListenerInfo {
            address,
            server: Arc::clone(&server.shared),
            discovery: responder.as_ref().map(|one| Arc::clone(&one.stats)),
        };
        Ok(Self { server, responder, info })
    }
}

/// A listener as frontends see it.
#[derive(Clone)]
pub struct ListenerInfo {
    /// Where it listens.
    pub address: SocketAddr,
    server: Arc<Shared>,
    discovery: Option<Arc<Counts<status::Discovery>>>,
}

impl ListenerInfo {
    /// Fingerprint of this receiver's key, with discovery.
    pub fn discovery_key(&self) -> Option<String> {
        self.discovery.as_ref().map(|counts| counts.status().key)
    }

    /// Its counts.
    pub fn status(&self) -> status::Connections {
        let requests_waiting = self.server.pending.count() as u64;
        let discovery = self.discovery.as_ref().map(|counts| counts.status());
        status::Connections {
            address: self.address.to_string(),
            requests_waiting,
            discovery,
            ..self.server.stats.status()
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
