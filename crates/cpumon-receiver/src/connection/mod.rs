//! Connections of enrolled devices: their records become intervals, and what is stored is acknowledged.

mod channel;
mod listener;
mod memory;
mod receipts;
mod sent_trace;
mod session;

#[cfg(test)]
pub(crate) use self::sent_trace::SentTrace;
pub use listener::{ConnectionListener, ListenerInfo, leave_address};
