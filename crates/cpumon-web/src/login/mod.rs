//! Logins: off loopback, names of processes and users would be open to the network without one.

mod check;
mod gate;
mod key;
mod secret;
mod sessions;
mod streams;
mod tokens;

pub(crate) use check::{OPEN, Peer, check, peer_of};
pub(crate) use gate::Gate;
pub(crate) use key::{Key, check_key};
pub use secret::random_key;
pub use tokens::{TokenEntry, TokenError, TokenFile};
