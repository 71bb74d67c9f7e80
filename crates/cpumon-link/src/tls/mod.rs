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

mod candidates;
mod code;
pub mod connect;
pub mod crypto;
mod enrol;
mod error;
pub mod files;
pub mod identity;
pub mod pipe;
mod session;
mod token;
mod uplink;

pub use code::{Code, Transcript, fingerprint};
pub use crypto::random;
pub use enrol::{AskedReceiver, AskingDevice, ask, enroll};
pub use error::TlsError;
pub use identity::DeviceIdentity;
pub use token::Token;
pub use uplink::{AttachmentOptions, Receiver, Uplink, UplinkOptions, UplinkStatus};

/// Default TCP port of TLS connections.
pub const DEFAULT_TLS_PORT: u16 = 3002;
