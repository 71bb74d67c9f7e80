//! Errors of keys, certificates and connections, each with the object it happened to.

use std::io;
use std::path::PathBuf;

use cpumon_wire::connection::{ByeReason, MessageError};

/// An error of an identity, an enrolment or a TLS connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file of an identity could not be read or written.
    #[error("cannot {operation} {}: {error}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// A file of an identity does not hold what it should.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is missing or wrong.
        reason: String,
    },
    /// No identity for a receiver.
    #[error(
        "this device is not enrolled with {address} (no identity for it in {}): `cpumon token` on the receiver prints the line to enter here",
        dir.display()
    )]
    NotEnrolled {
        /// The receiver's address.
        address: String,
        /// Where identities are stored.
        dir: PathBuf,
    },
    /// A key or certificate could not be made or used.
    #[error("cannot {operation}: {reason}")]
    Crypto {
        /// What was tried.
        operation: &'static str,
        /// Why not.
        reason: String,
    },
    /// A token that cannot be one.
    #[error("this is not a token: {0}")]
    Token(&'static str),
    /// A token that the receiver does not take.
    #[error("the token {0}; `cpumon token` makes a new one")]
    TokenRefused(&'static str),
    /// A host that was revoked, and is not let in again by this token or decision.
    #[error(
        "this host was revoked: on the receiver, `cpumon token --host HOST --again` or `cpumon hosts accept CODE --again` lets it in again"
    )]
    WasRevoked,
    /// A code that cannot be one.
    #[error("{0}: this is no code; a device shows ten digits, such as 12345-67890")]
    Code(String),
    /// No device waits to be enrolled under this code or name.
    #[error("{0}: no device waits with this; `cpumon hosts pending` lists those that do")]
    NoDeviceWaiting(String),
    /// Two devices wait with this.
    #[error("{0}: several devices wait with this; reject them by id, and let them ask again")]
    SeveralWait(String),
    /// No receiver acts on what the user decided.
    #[error("no receiver acts on it: it must run with this state directory, with --tls and --discovery")]
    NoReceiver,
    /// The user of the device says that the receiver did not show its code.
    #[error("not enrolled: the code was not entered at your receiver, so someone else has answered")]
    NotAgreed,
    /// A host that is not enrolled.
    #[error("{0}: no enrolled host has this name or id")]
    UnknownHost(String),
    /// Two enrolled hosts have the name.
    #[error("{0}: several enrolled hosts have this name; give the id")]
    AmbiguousHost(String),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Bind {
        /// The address.
        address: std::net::SocketAddr,
        /// The system's answer.
        error: io::Error,
    },
    /// No connection.
    #[error("cannot connect to {address}: {error}")]
    Connect {
        /// The receiver's address.
        address: String,
        /// The system's answer.
        error: io::Error,
    },
    /// The subnet cannot be searched, or a search on it cannot be answered.
    #[error(transparent)]
    Discovery(#[from] crate::LinkError),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Io(io::Error),
    /// The receiver shows another key than the pinned one.
    #[error(
        "the receiver at {address} is not the one that this device was enrolled with: its key is another one \
         (if its identity was replaced, enrol again)"
    )]
    WrongKey {
        /// The receiver's address.
        address: String,
    },
    /// TLS refuses the other side, or the other side refuses us.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// The other side says what makes no sense.
    #[error("unexpected message: {0}")]
    Message(MessageError),
    /// The other side says something at the wrong time.
    #[error("{0}")]
    Protocol(&'static str),
    /// The receiver ends the connection.
    #[error("the receiver says: {text}")]
    Bye {
        /// Why.
        reason: ByeReason,
        /// In its words.
        text: String,
    },
    /// The other side is silent.
    #[error("no answer within {seconds} s")]
    Silent {
        /// How long was waited.
        seconds: u64,
    },
    /// A thread could not be started.
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
    pub fn crypto(operation: &'static str) -> impl Fn(rcgen::Error) -> Self {
        move |error| Self::Crypto { operation, reason: error.to_string() }
    }
}
