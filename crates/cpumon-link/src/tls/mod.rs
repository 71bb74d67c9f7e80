//! The secure stream: TLS 1.3 over TCP, both sides with a certificate. In: records of a [`Backlog`](crate::Backlog) on a
//! device. Out: the same records on the receiver, once each, and acknowledgements on the way back. Why: datagrams get lost
//! and anyone can send them.
//!
//! A device keeps a [`DeviceIdentity`] for each receiver that enrolled it ([`enroll`] with a token, [`ask`] with the user's consent); [`Uplink`] is its thread that sends.
//! With feature `desk`: `Authority` signs certificates and keeps tokens and hosts, `StreamServer` listens.
//!
//! Verification has no switch: a receiver must show a certificate under the pinned key, a device one that the receiver signed
//! and still knows.

#[cfg(all(test, feature = "desk"))]
mod ask_tests;
#[cfg(feature = "desk")]
mod authority;
mod code;
mod connect;
pub(crate) mod crypto;
mod enrol;
mod error;
pub(crate) mod files;
#[cfg(feature = "desk")]
mod handler;
mod identity;
#[cfg(feature = "desk")]
mod interview;
#[cfg(feature = "desk")]
pub(crate) mod limits;
#[cfg(all(test, feature = "desk"))]
mod packed_tests;
mod pipe;
#[cfg(feature = "desk")]
mod registry;
#[cfg(feature = "desk")]
mod requests;
#[cfg(feature = "desk")]
mod server;
mod session;
#[cfg(all(test, feature = "desk"))]
mod tests;
mod token;
mod uplink;

#[cfg(feature = "desk")]
pub use authority::{Authority, DEVICE_VALID_FOR};
pub use code::{Code, fingerprint};
#[cfg(feature = "desk")]
pub use crypto::BeaconSigner;
pub use crypto::random;
pub use enrol::{ask, enroll};
pub use error::TlsError;
#[cfg(feature = "desk")]
pub use handler::{Acks, Handler, Peer, Refusal, Session};
pub use identity::DeviceIdentity;
#[cfg(feature = "desk")]
pub use limits::{ServerLimits, ServerStats, SourceRefusals};
#[cfg(feature = "desk")]
pub use registry::{EnrolledHost, Registry};
#[cfg(feature = "desk")]
pub use requests::{Decision, PendingRequest, REQUEST_WAITS, Requests};
#[cfg(feature = "desk")]
pub use server::StreamServer;
pub use token::Token;
pub use uplink::{Receiver, Uplink, UplinkOptions, UplinkStatus};

/// TCP port of the secure stream unless the user says otherwise.
pub const DEFAULT_TLS_PORT: u16 = 3002;
