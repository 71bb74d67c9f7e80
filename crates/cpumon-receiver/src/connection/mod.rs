//! Connections of enrolled devices: their records become intervals, and what is stored is acknowledged.

mod channel;
mod listener;
mod memory;
mod receipts;
mod session;

pub use listener::{ConnectionListener, ListenerInfo, leave_address};
