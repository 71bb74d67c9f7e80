//! The receiver's side of TLS: the listener, its limits, and what a connection calls.

mod device;
pub(crate) mod ending;
mod handler;
mod in_turn;
pub(crate) mod limits;
mod server;
#[cfg(test)]
mod tests;

pub use handler::{Acks, Handler, Offer, Peer, Refusal, Session, Watch};
pub use limits::{ServerLimits, ServerStats, SourceRefusals};
pub use server::TlsServer;
