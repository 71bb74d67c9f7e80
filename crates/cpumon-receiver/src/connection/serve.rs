//! [`DeviceListener`] accepts connections and gives each a thread, as far as the limits allow. The thread serves its connection from the
//! handshake to the last message: it identifies the client, then enrols a device or takes the messages of an enrolled one.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cpumon_files::AuditEvent;
use cpumon_link::tls::connect::{await_message, shake_hands};
use cpumon_link::tls::crypto::key_hash;
use cpumon_link::tls::pipe::Pipe;
use cpumon_link::tls::{TlsError, files};
use cpumon_model::HostId;
use cpumon_model::limits::{Limiter, Overflow, Place, Places, Rate};
use cpumon_wire::connection::{
    ALPN_ENROL, ALPN_SNAPSHOTS, ByeReason, MAX_MESSAGE_BYTES, MAX_SMALL_MESSAGE_BYTES, Message, VERSION,
    agree_on_version,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConnection;

use super::consent::{Applicant, new_tries};
use super::server::{Counter, DeviceServer, DeviceTurn, DeviceTurns};
use super::session::{DevicePeer, DeviceSession};
use super::{AbortCheck, CHECK_EVERY, End, bye, flush};
use crate::counts::{MAX_SOURCES, SharedCounts};
use crate::discovery::Responder;
use crate::enrolment::{Authority, EnrolledHost, EnrolmentError, named_host};
use crate::storing::Sink;
use crate::{ReceiverError, mono_ns, wall_ns};

const STACK_BYTES: usize = 1 << 20;
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// Time between two removals of enrolment tokens that have ended.
const TIDY_EVERY: Duration = Duration::from_mins(10);
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
        authority.remove_ended_tokens();
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
            devices: Places::default(),
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
        let (mut has_failed, mut tidy_at) = (false, Instant::now() + TIDY_EVERY);
        while !self.server.stop.load(Ordering::Relaxed) {
            // A signal that ends the wait early does no harm: `stop` is checked again.
            let _ = poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&wait));
            if let Err(error) = self.accept_all(&mut handshakes, &mut threads) {
                // Without a free descriptor (EMFILE) the connection keeps waiting, and poll(2) would return at once, for ever.
                if !std::mem::replace(&mut has_failed, true) {
                    log::warn!("cannot accept TLS connections for now: {error}");
                }
                std::thread::sleep(CHECK_EVERY);
            } else {
                has_failed = false;
            }
            if Instant::now() >= tidy_at {
                self.server.authority.remove_ended_tokens();
                tidy_at = Instant::now() + TIDY_EVERY;
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
    if let Err(error) = files::write(&path, format!("{address}\n").as_bytes(), false) {
        log::warn!("{error}; `cpumon token` needs --address");
    }
}

/// Connections of devices at one time.
const MAX_DEVICES: usize = 1024;
/// A connection that is silent for so long is closed.
const SILENCE: Duration = Duration::from_secs(30);
/// Bytes of records of one device that may be under way.
const WINDOW_BYTES: u32 = 1 << 20;
/// Bytes of answers that may wait for a device to read them; with more, nothing of it is read.
const MAX_WAITING_ANSWER_BYTES: usize = 64 << 10;
/// How often a session with work of its own is called.
const WORK: Duration = Duration::from_millis(25);

impl DeviceServer {
    fn serve(self: Arc<Self>, socket: TcpStream, address: SocketAddr, stranger: Place) {
        // One deadline for handshake and first message: sending a byte at a time does not prolong it.
        let (source, deadline) = (address.ip().to_canonical(), Instant::now() + self.handshake_time);
        let hello = ServerConnection::new(Arc::clone(&self.config))
            .map_err(TlsError::from)
            .and_then(|tls| Ok(Pipe::new(socket, tls.into())?))
            .and_then(|mut pipe| shake_hands(&mut pipe, deadline).map(|()| pipe));
        let mut pipe = match hello {
            Ok(pipe) => pipe,
            Err(error) => {
                return self.refuse(|counts| &mut counts.handshakes_failed, source, 1, error.to_string());
            }
        };
        let protocol_errors: Counter = |counts| &mut counts.protocol_errors;
        let refused_devices: Counter = |counts| &mut counts.refused_devices;
        let refused_tokens: Counter = |counts| &mut counts.refused_tokens;
        let end: Result<(), (End, Counter)> = match pipe.tls.alpn_protocol() {
            Some(ALPN_ENROL) => {
                self.enroll(&mut pipe, source, stranger, deadline).map_err(|end| (end, refused_tokens))
            }
            Some(ALPN_SNAPSHOTS) => match self.greet(&mut pipe, address, deadline) {
                Ok((peer, _place)) => {
                    // From here on it counts as a device, and its place among the strangers is free.
                    drop(stranger);
                    self.attend(&mut pipe, &peer).map_err(|end| (end, protocol_errors))
                }
                Err(end) => Err((end, refused_devices)),
            },
            _ => Err((bye(ByeReason::Protocol, "it names no protocol that is spoken here"), protocol_errors)),
        };
        if let Err((End::Bye(reason, text), counter)) = end {
            let counter: Counter = match reason {
                ByeReason::NotLetIn => |counts| &mut counts.requests_refused,
                // One that was let in and then revoked has sent nothing wrong.
                ByeReason::Revoked => refused_devices,
                _ => counter,
            };
            if !matches!(reason, ByeReason::Stopping | ByeReason::Resume | ByeReason::Replaced) {
                self.refuse(counter, source, 1, text.clone());
            }
            if matches!(reason, ByeReason::Token | ByeReason::NotLetIn | ByeReason::Revoked) {
                self.authority.audit.note(AuditEvent::Refused, &source.to_string(), "", &text);
            }
            Message::Bye { reason, text: &text }.push(&mut pipe.outbox);
            flush(&mut pipe);
        }
        pipe.close();
    }

    /// A device with a token, or one that asks the user.
    fn enroll(&self, pipe: &mut Pipe, source: IpAddr, stranger: Place, deadline: Instant) -> Result<(), End> {
        // Inside: the certificate for a token, or why there is none.
        let first = await_message(pipe, deadline, MAX_SMALL_MESSAGE_BYTES, |message| match message {
            Some(Message::Enrol { secret, host, name, request }) => {
                let enrolled = self.authority.enroll(&secret, host, name, request);
                if enrolled.is_ok() {
                    let (source, subject) = (source.to_string(), named_host(host, name));
                    self.authority.audit.note(AuditEvent::Enrolled, &source, &subject, "by token");
                }
                Ok(Some(Ok(enrolled)))
            }
            Some(Message::Ask { commitment, host, name, request }) => {
                let (name, request) = (name.to_owned(), request.to_vec());
                Ok(Some(Err(Applicant { commitment, host, name, request })))
            }
            _ => Err(TlsError::Protocol("expected a token")),
        })?;
        let der = match first {
            Ok(Ok(der)) => der,
            // Its request for a certificate cannot be read.
            Ok(Err(EnrolmentError::Tls(error @ TlsError::Crypto { .. }))) => {
                return Err(bye(ByeReason::Token, &error.to_string()));
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(applicant) => self.ask_user(pipe, &applicant, source, stranger, deadline)?,
        };
        self.counts.note(|counts| counts.enrolled += 1);
        Message::Certificate { der: &der }.push(&mut pipe.outbox);
        flush(pipe);
        Ok(())
    }

    /// Who is it, and is it still let in?
    fn greet(
        &self,
        pipe: &mut Pipe,
        address: SocketAddr,
        deadline: Instant,
    ) -> Result<(DevicePeer, Place), End> {
        let no_certificate = || bye(ByeReason::Protocol, "it shows no certificate");
        let certificate =
            pipe.tls.peer_certificates().and_then(|chain| chain.first()).ok_or_else(no_certificate)?;
        let key = key_hash(certificate)?;
        // TLS proves that the certificate is signed here, and that the device has its key. Whether it was
        // revoked since is in the registry.
        let known = self.enrolled(&key)?;
        let (version, host, agent) = await_message(pipe, deadline, MAX_SMALL_MESSAGE_BYTES, |message| {
            let Some(Message::Hello { version, host, agent, .. }) = message else {
                return Err(TlsError::Protocol("expected a hello"));
            };
            Ok(Some((version, host, agent.to_owned())))
        })?;
        let version = agree_on_version(version, VERSION).map_err(|text| bye(ByeReason::Protocol, text))?;
        if host != known.host {
            return Err(bye(ByeReason::Protocol, "it says that it is another host than the one enrolled"));
        }
        let place = self.devices.enter(address.ip(), usize::MAX, MAX_DEVICES);
        let place = place.ok_or_else(|| bye(ByeReason::Busy, "too many devices are connected"))?;
        // If it came with its new certificate, the renewal arrived and the old key is good no longer.
        if let Err(error) = self.authority.registry.settle_key(host, &key) {
            log::warn!("cannot forget the old key of {}: {error}", known.name);
        }
        let is_renewal_due = self.authority.is_renewal_due(&known);
        Message::Welcome { version, window_bytes: WINDOW_BYTES, is_renewal_due }.push(&mut pipe.outbox);
        let name = cpumon_model::escape(&known.name);
        log::info!("{name} is connected from {address} ({agent})");
        let host = HostId(host);
        Ok((DevicePeer { host, key, is_renewal_asked: is_renewal_due, address, version }, place))
    }

    fn enrolled(&self, key: &[u8; 32]) -> Result<EnrolledHost, End> {
        // Not `Revoked` on an error: the device may well be enrolled.
        let known = self.authority.registry.find_key(key).map_err(|error| {
            log::warn!("cannot read who is enrolled, so a device is not let in: {error}");
            bye(ByeReason::Busy, "the receiver cannot read who is enrolled")
        })?;
        known.ok_or_else(|| bye(ByeReason::Revoked, "this device was revoked, or enrolled again elsewhere"))
    }

    fn attend(&self, pipe: &mut Pipe, peer: &DevicePeer) -> Result<(), End> {
        let mut turn = self.turns.begin(peer.host.0);
        let mut next_check = Instant::now();
        // Also within long work: a device must not hold a thread past its revocation, or past the receiver's end.
        let mut check = |turn: &DeviceTurn<'_>| {
            if Instant::now() < next_check {
                return Ok(());
            }
            next_check = Instant::now() + CHECK_EVERY;
            self.check(peer, turn)
        };
        loop {
            check(&turn)?;
            if turn.serve(CHECK_EVERY) {
                break;
            }
        }
        let mut session = DeviceSession::new(peer, self.sink.clone(), self.memory_of(peer.host));
        loop {
            check(&turn)?;
            let is_busy = self.take_turn(pipe, &mut session, peer, &mut || check(&turn))?;
            if session.received_at.elapsed() >= SILENCE {
                return Err(End::Gone);
            }
            let reads = may_read(pipe, &session);
            pipe.wait(if is_busy { WORK } else { CHECK_EVERY }, reads, None).map_err(TlsError::from)?;
        }
    }

    /// Refuses to continue if the receiver stops or the device was replaced or revoked.
    fn check(&self, peer: &DevicePeer, turn: &DeviceTurn<'_>) -> Result<(), End> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(bye(ByeReason::Stopping, "it stops"));
        }
        // A device that lost its network comes back before this side notices: the later connection is the living one.
        if turn.is_replaced() {
            return Err(bye(ByeReason::Replaced, "this device has connected again"));
        }
        let known = self.enrolled(&peer.key)?;
        // Only a welcome can ask for it, and a connection may last longer than the certificate.
        if !peer.is_renewal_asked && self.authority.is_renewal_due(&known) {
            return Err(bye(ByeReason::Resume, "its certificate is to be renewed"));
        }
        Ok(())
    }

    /// Takes what came, lets the session work, sends what there is to say. True: the session has work left.
    pub(super) fn take_turn(
        &self,
        pipe: &mut Pipe,
        session: &mut DeviceSession,
        peer: &DevicePeer,
        watch: AbortCheck<'_>,
    ) -> Result<bool, End> {
        let reads = may_read(pipe, session);
        pipe.pump(reads)?;
        let new_bytes = session.note_bytes(pipe.received_bytes);
        self.counts.note(|counts| counts.bytes += new_bytes);
        // Messages borrow the pipe, so the answers to them are gathered beside it.
        let mut answers = Vec::new();
        while let Some(bytes) = pipe.next_message(MAX_MESSAGE_BYTES)? {
            watch()?;
            match Message::decode(bytes).map_err(TlsError::from)? {
                Some(Message::Begin { channel, kind }) => session.begin(channel, kind)?,
                Some(Message::Record { channel, record }) => session.record(channel, record, watch)?,
                Some(Message::Packed { channel, packed }) => session.unpack(channel, packed, watch)?,
                Some(Message::Ping { token, clock }) => {
                    // Both stamps are as close to the wire as possible: the device subtracts the time between them.
                    let received_ns = wall_ns();
                    if let Some(clock) = clock {
                        session.clock(clock, received_ns);
                    }
                    Message::Pong { token, times: Some((received_ns, wall_ns())) }.push(&mut answers);
                }
                Some(Message::Renew { request }) => {
                    let der = self.authority.renew(peer.host.0, peer.key, request)?;
                    self.counts.note(|counts| counts.renewed += 1);
                    Message::Certificate { der: &der }.push(&mut answers);
                }
                Some(Message::Offer { number, hash, bytes, wall_ns, reason }) => {
                    session.offer(number, hash, bytes, wall_ns, reason)?;
                }
                Some(Message::Piece { number, offset, bytes }) => {
                    session.trace.as_mut().map_or(Ok(()), |trace| trace.piece(number, offset, bytes))?;
                }
                Some(Message::TraceAnswer { token, answer }) => {
                    session.trace.iter().for_each(|trace| trace.answered(token, answer));
                }
                // Types of later versions are skipped (docs/connection-format.md).
                _ => {}
            }
        }
        let is_busy = session.work(&mut answers, watch)?;
        if let Some((count, reason)) = session.take_refused() {
            let source = peer.address.ip().to_canonical();
            self.refuse(|counts| &mut counts.protocol_errors, source, count, reason);
        }
        pipe.outbox.append(&mut answers);
        pipe.pump(false)?;
        Ok(is_busy)
    }
}

/// Whether the socket may be read: not while the device's allowance is used up, nor while the device does not read its answers. TCP then
/// slows the device down.
fn may_read(pipe: &Pipe, session: &DeviceSession) -> bool {
    pipe.outbox.len() < MAX_WAITING_ANSWER_BYTES && session.bucket.has_left(mono_ns())
}
