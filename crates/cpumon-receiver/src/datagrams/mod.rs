//! Datagrams: the receiving thread, and the group's keys that open them.

mod group_keys;
mod receive;

pub use group_keys::KeyPlan;
pub use receive::{Receiving, run};
