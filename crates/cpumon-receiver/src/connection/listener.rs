//! [`DeviceListener`]: accepts connections and gives each a thread, as far as the limits allow.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use cpumon_model::limits::{Limiter, Overflow, Places, Rate};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::CHECK_EVERY;
use super::consent::new_tries;
use super::server::{DeviceServer, DeviceTurns};
use crate::ReceiverError;
use crate::clock::mono_ns;
use crate::counts::{MAX_SOURCES, SharedCounts};
use crate::discovery::Responder;
use crate::enrolment::{Authority, EnrolmentError};
use crate::storing::Sink;

const STACK_BYTES: usize = 1 << 20;
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// Connections at one time that have not shown a certificate yet.
const MAX_STRANGERS: usize = 64;
/// Handshakes of all sources together, and of one. A flood from many networks keeps newcomers out, and cuts no connection.
const HANDSHAKES: Rate = Rate { amount: 100, seconds: 1, burst_ms: 1_000 };
const HANDSHAKES_OF_SOURCE: Rate = Rate { amount: 10, seconds: 1, burst_ms: 2_000 };

/// Bound; connections are served while [`DeviceListener::run`] runs.
pub struct DeviceListener {
    listener: TcpListener,
    pub server: Arc<DeviceServer>,
    /// Answers devices that search for this receiver, on a thread of its own.
    pub responder: Option<Responder>,
}

impl DeviceListener {
    /// Listens for the devices enrolled in `authority`. With `discovery_name` the receiver is found on its subnets under this name, and
    /// devices may ask for enrolment. All connections end, with a reason, once `stop` is set.
    pub fn bind(
        address: SocketAddr,
        authority: &Arc<Authority>,
        sink: Sink,
        discovery_name: Option<&str>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, ReceiverError> {
        let config = Arc::new(authority.server_config().map_err(EnrolmentError::from)?);
        authority.requests.clear().map_err(EnrolmentError::from)?;
        let bind = || {
            let listener = TcpListener::bind(address)?;
            // A client that goes between poll(2) and accept(2) would leave a blocking accept(2) waiting.
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = bind().map_err(|source| ReceiverError::Listen { address, source })?;
        let responder = discovery_name.map(|name| Responder::bind(authority, address, name)).transpose()?;
        let server = Arc::new(DeviceServer {
            address,
            config,
            authority: Arc::clone(authority),
            sink,
            handshake_time: HANDSHAKE_TIME,
            takes_requests: discovery_name.is_some(),
            stop: Arc::clone(stop),
            counts: SharedCounts::default(),
            discovery: responder.as_ref().map(|one| Arc::clone(&one.stats)),
            refusals: Mutex::default(),
            strangers: Places::default(),
            turns: DeviceTurns::default(),
            hosts: Mutex::default(),
            waiting: Places::default(),
            requests: DeviceTurns::default(),
            tries: new_tries(),
        });
        Ok(Self { listener, server, responder })
    }

    /// Lets devices in until the receiver ends, and waits for the end of all connections.
    pub fn run(&self) {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        let mut handshakes = Limiter::new(HANDSHAKES, HANDSHAKES_OF_SOURCE, MAX_SOURCES, Overflow::Share);
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(CHECK_EVERY.subsec_nanos()) };
        let mut has_failed = false;
        while !self.server.stop.load(Ordering::Relaxed) {
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
        // Each connection checks `stop` within 250 ms and sends the reason, so joining ends soon.
        for thread in threads {
            if thread.join().is_err() {
                log::error!("a connection's thread ended by a panic");
            }
        }
    }

    fn accept_all(&self, handshakes: &mut Limiter, threads: &mut Vec<JoinHandle<()>>) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((socket, address)) => {
                    self.server.counts.note(|counts| counts.accepted += 1);
                    threads.extend(self.admit(socket, address, handshakes));
                }
                // There is none, or the error, such as ECONNABORTED, is that connection's: the next poll comes back to the listener.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) =>
                {
                    return Ok(());
                }
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
        let (server, source) = (Arc::clone(&self.server), address.ip().to_canonical());
        let refuse = |reason: &str| {
            // Dropping the socket closes it without a byte: a reason would need the handshake that is to be saved.
            server.refuse(|counts| &mut counts.refused_early, source, 1, reason.to_owned());
            None
        };
        // By the listener and not by the new thread, so that the next connection sees it; and before the rate, so
        // that a connection without a place uses up nothing of its source.
        let Some(stranger) = server.strangers.enter(source, usize::MAX, MAX_STRANGERS) else {
            return refuse("too many strangers at once");
        };
        if handshakes.take(source, mono_ns()).is_err() {
            return refuse("too many handshakes a second");
        }
        let work = move || server.serve(socket, address, stranger);
        let thread =
            std::thread::Builder::new().name("device".to_owned()).stack_size(STACK_BYTES).spawn(work);
        // Without a thread the closure is dropped, which closes the socket and takes the stranger off the count.
        thread.inspect_err(|error| log::warn!("cannot start a thread for {address}: {error}")).ok()
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
