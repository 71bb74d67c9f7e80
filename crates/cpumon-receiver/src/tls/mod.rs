//! The receiver's side of TLS. Here: through which traits a listener gives records of devices away and takes acknowledgements, and how a
//! connection ends. `server` listens, `connection` serves one device within `limits`, `session` takes its records by `channel`.

mod channel;
mod connection;
pub(crate) mod limits;
mod server;
mod session;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cpumon_link::tls::TlsError;
use cpumon_link::tls::pipe::Pipe;
use cpumon_wire::connection::{AttachmentState, ByeReason, ChannelKind, ClockReport, Message, TraceAnswer};

use crate::enrollment::EnrollmentError;

pub use self::limits::{ServerLimits, ServerStats};
pub use self::server::TlsServer;
pub(crate) use self::server::{ConnectionListener, ListenerInfo, leave_address};

/// Why a device's connection is ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For the program.
    pub reason: ByeReason,
    /// For people.
    pub text: String,
}

/// Asked again and again within long work; an error ends it, and the connection: the receiver stops, the device was revoked, or it
/// has connected again.
pub type Watch<'a> = &'a mut dyn FnMut() -> Result<(), Refusal>;

/// A device that showed its certificate.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The machine that was enrolled: its records may speak for no other.
    pub host: [u8; 16],
    /// Its name when it was enrolled.
    pub name: String,
    /// Where it connects from.
    pub address: SocketAddr,
    /// Its program and version, as it says.
    pub agent: String,
    /// The version that both sides speak.
    pub version: u16,
}

/// A file that a device offers.
#[derive(Copy, Clone, Debug)]
pub struct Offer<'a> {
    /// Its number on the connection.
    pub number: u32,
    /// SHA-256 of it.
    pub hash: [u8; 32],
    /// Its length.
    pub bytes: u64,
    /// When what it shows happened, by the device's clock.
    pub wall_ns: i64,
    /// Why it was written.
    pub reason: &'a str,
}

/// Makes sessions.
pub trait Handler: Send + Sync {
    /// A device has connected.
    fn open(&self, peer: &Peer) -> Box<dyn Session>;
}

/// What a receiver does with one connection. Dropped when it ends.
pub trait Session {
    /// A channel begins.
    ///
    /// # Errors
    /// It makes no sense: the connection ends.
    fn begin(&mut self, channel: u32, kind: ChannelKind) -> Result<(), Refusal>;
    /// A record arrived.
    ///
    /// # Errors
    /// As above.
    fn record(&mut self, channel: u32, record: &[u8], watch: Watch<'_>) -> Result<(), Refusal>;
    /// The device compared its clock with this receiver's, which was `wall_ns` when the report came.
    fn clock(&mut self, report: ClockReport, wall_ns: i64);
    /// The device offers a file; the answer comes with [`Session::work`].
    ///
    /// # Errors
    /// As above.
    fn offer(&mut self, offer: Offer<'_>) -> Result<(), Refusal> {
        let _ = offer;
        Ok(())
    }
    /// A part of a file arrived.
    ///
    /// # Errors
    /// As above.
    fn piece(&mut self, number: u32, offset: u64, bytes: &[u8]) -> Result<(), Refusal> {
        let _ = (number, offset, bytes);
        Ok(())
    }
    /// The device answers a request for a trace.
    fn trace_answer(&mut self, token: u64, answer: TraceAnswer) {
        let _ = (token, answer);
    }
    /// Snapshots that were acknowledged and then could not be used, since the last call: how many, and why the last one.
    fn refused(&mut self) -> Option<(u64, String)> {
        None
    }
    /// Called often. True: there is work of its own, call again soon.
    ///
    /// # Errors
    /// The connection should end.
    fn work(&mut self, acks: &mut Acks<'_>, watch: Watch<'_>) -> Result<bool, Refusal>;
}

/// Where a session puts its acknowledgements.
#[derive(Debug)]
pub struct Acks<'a> {
    out: &'a mut Vec<u8>,
}

#[cfg(test)]
impl<'a> Acks<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }
}

impl Acks<'_> {
    /// See [`Message::Attachment`].
    pub fn attachment(&mut self, number: u32, state: AttachmentState, received: u64, text: &str) {
        Message::Attachment { number, state, received, text }.push(self.out);
    }

    /// See [`Message::TakeTrace`].
    pub fn take_trace(&mut self, token: u64) {
        Message::TakeTrace { token }.push(self.out);
    }

    /// See [`Message::Ack`].
    pub fn ack(&mut self, channel: u32, received: u64, committed: u64) {
        Message::Ack { channel, received, committed }.push(self.out);
    }
}

/// How often an idle thread checks whether it is to end, or its device was revoked.
pub(crate) const CHECK_EVERY: Duration = Duration::from_millis(250);
/// How long sending the last message may take.
const GOODBYE: Duration = Duration::from_millis(250);

pub(crate) enum End {
    /// The device closed it, or the network did.
    Gone,
    /// This side ended it.
    Bye(Refusal),
}

impl From<TlsError> for End {
    fn from(error: TlsError) -> Self {
        match error {
            // A request for a certificate that cannot be read is one of the last kind.
            TlsError::Message(_) | TlsError::Protocol(_) | TlsError::Crypto { .. } => {
                Self::Bye(Refusal { reason: ByeReason::Protocol, text: error.to_string() })
            }
            TlsError::File { .. } => {
                log::warn!("cannot enrol: {error}");
                bye(ByeReason::Busy, "the receiver cannot keep the enrolment")
            }
            // The socket or TLS failed, so no last message can be sent.
            _ => Self::Gone,
        }
    }
}

impl From<EnrollmentError> for End {
    fn from(error: EnrollmentError) -> Self {
        match error {
            EnrollmentError::Tls(error) => error.into(),
            EnrollmentError::TokenRefused(_) | EnrollmentError::WasRevoked => {
                bye(ByeReason::Token, &error.to_string())
            }
            _ => bye(ByeReason::Protocol, &error.to_string()),
        }
    }
}

pub(crate) fn bye(reason: ByeReason, text: &str) -> End {
    End::Bye(refusal(reason, text))
}

pub(crate) fn refusal(reason: ByeReason, text: &str) -> Refusal {
    Refusal { reason, text: text.to_owned() }
}

/// Sends what there is, as far as the other side takes it in a moment.
pub(crate) fn flush(pipe: &mut Pipe) {
    let end = Instant::now() + GOODBYE;
    // Nothing is read: the end is decided, and what comes now changes nothing.
    while pipe.pump(false).is_ok() && (pipe.tls.wants_write() || !pipe.outbox.is_empty()) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || pipe.wait(left, false, None).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
