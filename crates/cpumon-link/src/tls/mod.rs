//! TLS 1.3 over TCP, both sides with a certificate: the device's side, and what device and receiver share. In: records of a
//! [`Backlog`](crate::Backlog) on a device. Out: the same records at the receiver, once each, and acknowledgements on the way back.
//! Datagrams get lost and anyone can send them; this connection is for those who need better.
//!
//! A device keeps a [`DeviceIdentity`] for each receiver that enrolled it ([`enroll`] with a token, [`ask`] with the user's consent);
//! [`Uplink`] is its thread that sends. The receiver's side (certificate authority, listener) is the crate `cpumon-receiver`;
//! [`pipe`], [`connect`], [`crypto`] and [`files`] are public for it.
//!
//! Verification has no switch: a receiver must show a certificate under the pinned key, a device one that the receiver signed
//! and still knows.

pub mod connect;
pub mod crypto;
mod enrol;
pub mod files;
pub mod identity;
pub mod pipe;
mod session;
mod uplink;

use std::io;
use std::path::PathBuf;

use cpumon_wire::connection::{ByeReason, MessageError};

pub use self::crypto::random;
pub use self::enrol::{Code, Token, Transcript, ask, enroll, fingerprint};
pub use self::identity::DeviceIdentity;
pub use self::uplink::{AttachmentOptions, Receiver, Uplink, UplinkOptions, UplinkStatus};

pub const DEFAULT_TLS_PORT: u16 = 3002;

/// An error of an identity, a group key, a TLS connection or an enrolment, on either side.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file of an identity, a group key, a token or an enrolled host could not be read or written.
    #[error("cannot {operation} {}: {error}", path.display())]
    File { operation: &'static str, path: PathBuf, error: io::Error },
    /// A file of an identity or an enrolled host lacks a part, or has one that cannot be read.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error(
        "this device is not enrolled with {address} (no identity for it in {}): `cpumon token` on the receiver prints the line to enter here",
        dir.display()
    )]
    NotEnrolled {
        address: String,
        /// Where identities are stored.
        dir: PathBuf,
    },
    /// A key or certificate could not be made or used.
    #[error("cannot {operation}: {reason}")]
    Crypto { operation: &'static str, reason: String },
    #[error("this is not a token: {0}")]
    Token(&'static str),
    #[error("{0}: this is no code; a device shows ten digits, such as 12345-67890")]
    Code(String),
    /// The user of the device says that the receiver did not show its code.
    #[error("not enrolled: the code was not entered at your receiver, so someone else has answered")]
    NotAgreed,
    #[error("cannot connect to {address}: {error}")]
    Connect { address: String, error: io::Error },
    #[error("the connection broke: {0}")]
    Io(io::Error),
    #[error(
        "the receiver at {address} is not the one that this device was enrolled with: its key is another one \
         (if its identity was replaced, enrol again)"
    )]
    WrongKey { address: String },
    /// TLS refuses the other side, or the other side refuses us.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// The other side answers in another protocol, such as HTTP.
    #[error("the other side does not speak TLS: this must be the port that `cpumon serve --tls` listens on")]
    NotTls,
    /// The other side sent a message that cannot be decoded.
    #[error("unexpected message: {0}")]
    Message(MessageError),
    /// The other side says something at the wrong time.
    #[error("{0}")]
    Protocol(&'static str),
    #[error("the receiver says: {text}")]
    Bye { reason: ByeReason, text: String },
    #[error("no answer within {seconds} s")]
    Silent { seconds: u64 },
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

// By hand and not by `#[from]`, which would also make them causes: their texts are in the message already.
impl From<io::Error> for TlsError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error)
    }
}

impl From<MessageError> for TlsError {
    fn from(error: MessageError) -> Self {
        Self::Message(error)
    }
}

impl TlsError {
    /// Makes the error for `operation` with a key or certificate.
    pub fn crypto<E: ToString>(operation: &'static str) -> impl Fn(E) -> Self {
        move |error| Self::Crypto { operation, reason: error.to_string() }
    }
}
