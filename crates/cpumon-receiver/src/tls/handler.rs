//! The traits through which a receiver's program takes the records of devices and acknowledges them.

use std::net::SocketAddr;

use cpumon_wire::connection::{AttachmentState, ByeReason, ChannelKind, ClockReport, Message, TraceAnswer};

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
    pub(super) out: &'a mut Vec<u8>,
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
