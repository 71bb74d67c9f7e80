//! Who is let in: the receiver's identity and the certificates that it signs, enrolled hosts, and devices that ask with a token or without.

mod admission;
mod authority;
mod registry;

use cpumon_link::tls::TlsError;

pub(crate) use self::admission::ShownRequest;
pub use self::admission::{BoundHost, Decision, PendingRequest, REQUEST_WAITS, Requests, TokenScope};
pub use self::authority::Authority;
pub(crate) use self::authority::{key_of_request, named_host};
pub use self::registry::{DEVICE_VALID_FOR, EnrolledHost, Registry};

/// An operation on tokens, requests or enrolled hosts that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolmentError {
    /// A file, a key, a certificate or a code cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the token {0}; `cpumon token` makes a new one")]
    TokenRefused(&'static str),
    /// No more tokens are made until some are used or have expired.
    #[error("{0} tokens are unused already: use some or let them expire")]
    TooManyTokens(usize),
    /// A host that was revoked, and is not let in again by this token or decision.
    #[error(
        "this host was revoked: on the receiver, `cpumon token --host HOST --again` or `cpumon hosts accept CODE --again` lets it in again"
    )]
    WasRevoked,
    /// A certificate was to be renewed with a key that is not enrolled, or no longer.
    #[error("not enrolled")]
    NotEnrolled,
    #[error("{wanted}: no waiting device has this {by}; `cpumon hosts pending` lists those that wait")]
    NoDeviceWaiting {
        wanted: String,
        /// What the text may be: a code, or also a name or an id.
        by: &'static str,
    },
    #[error("{0}: several waiting devices have it; reject them by id and let them ask again")]
    SeveralWait(String),
    #[error("no receiver acts on it: it must run with this state directory, with --tls and --discovery")]
    NoReceiver,
    #[error("{0}: no enrolled host has this name or id; `cpumon hosts enrolled` lists them")]
    UnknownHost(String),
    #[error("{0}: several enrolled hosts have this name; give the id (`cpumon hosts enrolled` lists them)")]
    AmbiguousHost(String),
}
