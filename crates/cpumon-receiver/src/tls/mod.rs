//! The receiver's side of TLS: the listener, its limits, and what a connection calls.

pub(crate) mod ending;
mod handler;
pub(crate) mod limits;
mod server;
#[cfg(test)]
mod tests;

pub use handler::{Acks, Handler, Peer, Refusal, Session};
pub use limits::{ServerLimits, ServerStats, SourceRefusals};
pub use server::TlsServer;
