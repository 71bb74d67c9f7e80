//! A connection's thread, from the handshake to the last message: who it is, what it may ask for, and the messages of a [`Device`].

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cpumon_files::AuditEvent;
use cpumon_link::tls::TlsError;
use cpumon_link::tls::connect::{await_message, shake_hands};
use cpumon_link::tls::crypto::key_hash;
use cpumon_link::tls::pipe::Pipe;
use cpumon_model::limits::{Bucket, Place, Places, Rate};
use cpumon_wire::connection::{
    ALPN_ENROL, ALPN_SNAPSHOTS, ByeReason, MAX_MESSAGE_BYTES, MAX_SMALL_MESSAGE_BYTES, Message, VERSION,
    agree_on_version,
};
use cpumon_wire::packed::Unpacker;
use rustls::{ServerConfig, ServerConnection};

use super::limits::{Counter, InTurn, ServerLimits, ServerStats};
use super::{Acks, CHECK_EVERY, End, Handler, Offer, Peer, Refusal, Session, Watch, bye, flush, refusal};
use crate::clock::{mono_ns, wall_ns};
use crate::enrollment::consent::{Applicant, Consent, PendingDevices};
use crate::enrollment::{Authority, EnrolledHost, EnrollmentError, named_host};

/// How often a session with work of its own is called.
const WORK: Duration = Duration::from_millis(25);
/// So much time's worth of bytes may come at once.
const BURST_MS: u64 = 4_000;
/// A buffer for records keeps so many bytes.
const KEPT_BYTES: usize = 256 << 10;
/// Channels of one connection that may come packed, the past and the present; an older one gives way.
const MAX_PACKED_CHANNELS: usize = 2;

/// What all threads share.
pub(super) struct Shared {
    pub(super) config: Arc<ServerConfig>,
    pub(super) authority: Arc<Authority>,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) limits: ServerLimits,
    pub(super) stats: Arc<ServerStats>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) pending: PendingDevices,
    /// Connections without a certificate.
    pub(super) unidentified: Places,
    pub(super) in_turn: InTurn,
}

/// What a device was let in with.
struct Credential {
    /// Hash of its public key.
    key: [u8; 32],
    /// The welcome asked it to renew its certificate.
    is_renewal_asked: bool,
}

/// What somebody without a certificate comes with.
enum First {
    /// A token; the certificate for it, or why there is none.
    Token(Result<Vec<u8>, EnrollmentError>),
    /// Nothing.
    Asks(Applicant),
}

impl Shared {
    /// From the handshake to the end.
    pub(super) fn serve(self: Arc<Self>, socket: TcpStream, address: SocketAddr, stranger: Place) {
        // One deadline for handshake and first message: sending a byte at a time does not prolong it.
        let (source, deadline) = (address.ip().to_canonical(), Instant::now() + self.limits.handshake_time);
        let hello = ServerConnection::new(Arc::clone(&self.config))
            .map_err(TlsError::from)
            .and_then(|tls| Ok(Pipe::new(socket, tls.into())?))
            .and_then(|mut pipe| shake_hands(&mut pipe, deadline).map(|()| pipe));
        let mut pipe = match hello {
            Ok(pipe) => pipe,
            Err(error) => {
                self.stats.refuse(|counts| &mut counts.handshakes_failed, source, 1, error.to_string());
                return;
            }
        };
        let protocol_errors: Counter = |counts| &mut counts.protocol_errors;
        let refused_devices: Counter = |counts| &mut counts.refused_devices;
        let end: Result<(), (End, Counter)> = match pipe.tls.alpn_protocol() {
            Some(ALPN_ENROL) => self
                .enroll(&mut pipe, source, stranger, deadline)
                .map_err(|refusal| (refusal, (|counts| &mut counts.refused_tokens) as Counter)),
            Some(ALPN_SNAPSHOTS) => match self.greet(&mut pipe, address, deadline) {
                Ok((peer, credential)) => {
                    // From here on it counts as a device, and its place among the strangers is free.
                    drop(stranger);
                    let end = self.attend(&mut pipe, &peer, &credential);
                    end.map_err(|end| (end, protocol_errors))
                }
                Err(end) => Err((end, refused_devices)),
            },
            _ => Err((bye(ByeReason::Protocol, "it names no protocol that is spoken here"), protocol_errors)),
        };
        if let Err((End::Bye(refusal), counter)) = end {
            let is_fault =
                !matches!(refusal.reason, ByeReason::Stopping | ByeReason::Resume | ByeReason::Replaced);
            // One that was let in and then revoked has sent nothing wrong.
            let is_revoked = refusal.reason == ByeReason::Revoked;
            let counter: Counter = match refusal.reason {
                ByeReason::NotLetIn => |counts| &mut counts.requests_refused,
                _ if is_revoked => refused_devices,
                _ => counter,
            };
            if is_fault {
                self.stats.refuse(counter, source, 1, refusal.text.clone());
            }
            if matches!(refusal.reason, ByeReason::Token | ByeReason::NotLetIn | ByeReason::Revoked) {
                self.authority.audit.note(AuditEvent::Refused, &source.to_string(), "", &refusal.text);
            }
            send_last_message(&mut pipe, &refusal);
        }
        pipe.close();
    }

    /// Somebody with a token, perhaps, or one who asks the user.
    fn enroll(&self, pipe: &mut Pipe, source: IpAddr, stranger: Place, deadline: Instant) -> Result<(), End> {
        let first =
            await_message(pipe, deadline, MAX_SMALL_MESSAGE_BYTES, |bytes| match Message::decode(bytes)? {
                Some(Message::Enrol { secret, host, name, request }) => {
                    let enrolled = self.authority.enroll(&secret, host, name, request);
                    if enrolled.is_ok() {
                        let (source, subject) = (source.to_string(), named_host(host, name));
                        self.authority.audit.note(AuditEvent::Enrolled, &source, &subject, "by token");
                    }
                    Ok(Some(First::Token(enrolled)))
                }
                Some(Message::Ask { commitment, host, name, request }) => {
                    Ok(Some(First::Asks(Applicant::new(commitment, host, name, request))))
                }
                _ => Err(TlsError::Protocol("expected a token")),
            });
        match first? {
            First::Token(Ok(der)) => {
                self.stats.counts.note(|counts| counts.enrolled += 1);
                Message::Certificate { der: &der }.push(&mut pipe.outbox);
                flush(pipe);
                Ok(())
            }
            First::Asks(applicant) => {
                let consent = Consent {
                    authority: &self.authority,
                    takes_requests: self.limits.takes_requests,
                    stats: &self.stats,
                    stop: &self.stop,
                    pending: &self.pending,
                };
                consent.ask_user(pipe, &applicant, source, stranger, deadline)
            }
            // Its request for a certificate cannot be read.
            First::Token(Err(EnrollmentError::Tls(error @ TlsError::Crypto { .. }))) => {
                Err(bye(ByeReason::Token, &error.to_string()))
            }
            First::Token(Err(error)) => Err(error.into()),
        }
    }

    /// Who is it, and is it still let in?
    fn greet(
        &self,
        pipe: &mut Pipe,
        address: SocketAddr,
        deadline: Instant,
    ) -> Result<(Peer, Credential), End> {
        let no_certificate = || bye(ByeReason::Protocol, "it shows no certificate");
        let certificate =
            pipe.tls.peer_certificates().and_then(|chain| chain.first()).ok_or_else(no_certificate)?;
        let key = key_hash(certificate)?;
        // TLS proves that the certificate is signed here, and that the device has its key. Whether it was
        // revoked since is in the registry.
        let known = self.enrolled(&key).map_err(End::Bye)?;
        let (version, host, agent) = await_message(pipe, deadline, MAX_SMALL_MESSAGE_BYTES, |bytes| {
            let Some(Message::Hello { version, host, agent, .. }) = Message::decode(bytes)? else {
                return Err(TlsError::Protocol("expected a hello"));
            };
            Ok(Some((version, host, agent.to_owned())))
        })?;
        let version = agree_on_version(version, VERSION).map_err(|text| bye(ByeReason::Protocol, text))?;
        if host != known.host {
            return Err(bye(ByeReason::Protocol, "it says that it is another host than the one enrolled"));
        }
        // Devices that pass this at one moment may exceed the limit by a few: it only bounds memory.
        if self.stats.counts.note(|counts| counts.devices) >= self.limits.max_devices as u64 {
            return Err(bye(ByeReason::Busy, "too many devices are connected"));
        }
        // If it came with its new certificate, the renewal arrived and the old key is good no longer.
        if let Err(error) = self.authority.registry.settle_key(host, &key) {
            log::warn!("cannot forget the old key of {}: {error}", known.name);
        }
        let is_renewal_due = self.authority.is_renewal_due(&known);
        Message::Welcome { version, window_bytes: self.limits.window_bytes, is_renewal_due }
            .push(&mut pipe.outbox);
        let credential = Credential { key, is_renewal_asked: is_renewal_due };
        Ok((Peer { host, name: known.name, address, agent, version }, credential))
    }

    fn enrolled(&self, key: &[u8; 32]) -> Result<EnrolledHost, Refusal> {
        // Not `Revoked` on an error: the device may well be enrolled.
        let known = self.authority.registry.find_key(key).map_err(|error| {
            log::warn!("cannot read who is enrolled, so no device is let in: {error}");
            refusal(ByeReason::Busy, "the receiver cannot read who is enrolled")
        })?;
        known.ok_or_else(|| {
            refusal(ByeReason::Revoked, "this device was revoked, or enrolled again elsewhere")
        })
    }

    /// A device's connection, to its end.
    fn attend(&self, pipe: &mut Pipe, peer: &Peer, credential: &Credential) -> Result<(), End> {
        /// A connected device, counted.
        struct Connected<'a>(&'a ServerStats);
        impl Drop for Connected<'_> {
            fn drop(&mut self) {
                self.0.counts.note(|counts| counts.devices -= 1);
            }
        }
        self.stats.counts.note(|counts| counts.devices += 1);
        // A guard, because `?` leaves this function in several places.
        let _connected = Connected(&self.stats);
        let number = self.in_turn.add(peer.host);
        let mut next_check = Instant::now();
        // Also within long work: a device must not hold a thread past its revocation, or past the receiver's end.
        let mut check = || {
            if Instant::now() < next_check {
                return Ok(());
            }
            next_check = Instant::now() + CHECK_EVERY;
            self.check(peer, credential, number)
        };
        let _served = loop {
            check().map_err(End::Bye)?;
            if let Some(served) = self.in_turn.begin(peer.host, number, CHECK_EVERY) {
                break served;
            }
        };
        let bucket =
            Bucket::new(Rate { amount: self.limits.bytes_per_second, seconds: 1, burst_ms: BURST_MS });
        let mut device = Device::new(self.handler.open(peer), bucket);
        loop {
            check().map_err(End::Bye)?;
            let is_busy = self.turn(pipe, &mut device, &credential.key, peer, &mut check)?;
            if device.received_at.elapsed() >= self.limits.silence {
                return Err(End::Gone);
            }
            // While the allowance is used up the socket is not read: TCP then slows the device down.
            pipe.wait(if is_busy { WORK } else { CHECK_EVERY }, device.bucket.has_left(mono_ns()), None)
                .map_err(TlsError::from)?;
        }
    }

    /// Whether the connection may go on.
    fn check(&self, peer: &Peer, credential: &Credential, number: u64) -> Result<(), Refusal> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(refusal(ByeReason::Stopping, "it stops"));
        }
        // A device that lost its network comes back before this side notices: the later connection is the living one.
        if self.in_turn.is_replaced(peer.host, number) {
            return Err(refusal(ByeReason::Replaced, "this device has connected again"));
        }
        let known = self.enrolled(&credential.key)?;
        // Only a welcome can ask for it, and a connection may last longer than the certificate.
        if !credential.is_renewal_asked && self.authority.is_renewal_due(&known) {
            return Err(refusal(ByeReason::Resume, "its certificate is to be renewed"));
        }
        Ok(())
    }

    /// Takes what came, lets the session work, sends what there is to say. True: the session has work left.
    fn turn(
        &self,
        pipe: &mut Pipe,
        device: &mut Device,
        key: &[u8; 32],
        peer: &Peer,
        watch: Watch<'_>,
    ) -> Result<bool, End> {
        pipe.pump(device.bucket.has_left(mono_ns()))?;
        let new_bytes = pipe.received_bytes - device.counted_bytes;
        if new_bytes > 0 {
            device.counted_bytes = pipe.received_bytes;
            device.received_at = Instant::now();
            device.bucket.spend(new_bytes, mono_ns());
            self.stats.counts.note(|counts| counts.bytes += new_bytes);
        }
        // Messages borrow the pipe, so the answers to them are gathered beside it.
        let mut answers = Vec::new();
        while let Some(bytes) = pipe.next_message(MAX_MESSAGE_BYTES)? {
            watch().map_err(End::Bye)?;
            match Message::decode(bytes).map_err(TlsError::from)? {
                Some(Message::Begin { channel, kind }) => {
                    device.session.begin(channel, kind).map_err(End::Bye)?;
                    device.begin(channel);
                }
                Some(Message::Record { channel, record }) => {
                    device.session.record(channel, record, watch).map_err(End::Bye)?;
                }
                Some(Message::Packed { channel, packed }) => device.unpack(channel, packed, watch)?,
                Some(Message::Ping { token, clock }) => {
                    // Both stamps are as close to the wire as possible: the device subtracts the time between
                    // them.
                    let received_ns = wall_ns();
                    if let Some(clock) = clock {
                        device.session.clock(clock, received_ns);
                    }
                    Message::Pong { token, times: Some((received_ns, wall_ns())) }.push(&mut answers);
                }
                Some(Message::Renew { request }) => {
                    let der = self.authority.renew(peer.host, *key, request)?;
                    self.stats.counts.note(|counts| counts.renewed += 1);
                    Message::Certificate { der: &der }.push(&mut answers);
                }
                Some(Message::Offer { number, hash, bytes, wall_ns, reason }) => {
                    let offer = Offer { number, hash, bytes, wall_ns, reason };
                    device.session.offer(offer).map_err(End::Bye)?;
                }
                Some(Message::Piece { number, offset, bytes }) => {
                    device.session.piece(number, offset, bytes).map_err(End::Bye)?;
                }
                Some(Message::TraceAnswer { token, answer }) => device.session.trace_answer(token, answer),
                // Types of later versions are skipped (docs/connection-format.md).
                _ => {}
            }
        }
        let is_busy = device.session.work(&mut Acks { out: &mut answers }, watch).map_err(End::Bye)?;
        if let Some((count, reason)) = device.session.refused() {
            let source = peer.address.ip().to_canonical();
            self.stats.refuse(|counts| &mut counts.protocol_errors, source, count, reason);
        }
        pipe.outbox.append(&mut answers);
        pipe.pump(false)?;
        Ok(is_busy)
    }
}

fn send_last_message(pipe: &mut Pipe, refusal: &Refusal) {
    Message::Bye { reason: refusal.reason, text: &refusal.text }.push(&mut pipe.outbox);
    flush(pipe);
}

/// One connected device.
struct Device {
    session: Box<dyn Session>,
    bucket: Bucket,
    counted_bytes: u64,
    received_at: Instant,
    /// Of channels whose records come packed, what came before; begun with the channel.
    unpackers: Vec<(u32, Box<Unpacker>)>,
    record: Vec<u8>,
}

impl Device {
    fn new(session: Box<dyn Session>, bucket: Bucket) -> Self {
        let received_at = Instant::now();
        Self { session, bucket, counted_bytes: 0, received_at, unpackers: Vec::new(), record: Vec::new() }
    }

    fn begin(&mut self, channel: u32) {
        if self.unpackers.len() >= MAX_PACKED_CHANNELS {
            self.unpackers.remove(0);
        }
        self.unpackers.push((channel, Box::default()));
    }

    /// A packed record. It costs the device as much as if it came as it is.
    fn unpack(&mut self, channel: u32, packed: &[u8], watch: Watch<'_>) -> Result<(), End> {
        let Some((_, unpacker)) = self.unpackers.iter_mut().find(|known| known.0 == channel) else {
            return Err(bye(ByeReason::Protocol, "a record of no channel"));
        };
        let mut ended = None;
        let mut goes_on = || {
            ended = watch().err();
            ended.is_none()
        };
        let unpacked = unpacker.unpack_while(packed, &mut self.record, &mut goes_on);
        let cost = match (unpacked, ended) {
            (_, Some(refusal)) => return Err(End::Bye(refusal)),
            (Err(error), None) => return Err(bye(ByeReason::Protocol, &error.to_string())),
            (Ok(cost), None) => cost,
        };
        // The bytes on the wire are counted already; the rest is what unpacking costs beyond them.
        self.bucket.spend(cost.saturating_sub(packed.len() as u64), mono_ns());
        let taken = self.session.record(channel, &self.record, watch).map_err(End::Bye);
        // A full snapshot comes seldom.
        self.record.clear();
        self.record.shrink_to(KEPT_BYTES);
        taken
    }
}
