//! Byte layouts of everything that travels or is stored on a device. In: snapshots and intervals on one side, bytes on the other. Out: the
//! other one. Byte layouts are known in this crate only; it opens no socket and reads no clock.
//!
//! # Overview
//! [`v1`] speaks the original's protocol both ways. [`v2`] carries cumulative counters, so that a lost frame costs
//! resolution and never CPU time. What a receiver makes of both is in the crate `cpumon-receiver`.
//! [`encrypted`] puts v2 frames under a key that a group shares. [`spool`] is how snapshots are stored on a device's disk until a receiver has them.
//! [`connection`] is the messages of agent and receiver over TLS (docs/connection-format.md). [`dns_sd`] is how they find each other
//! (docs/discovery.md).
//! The layouts are written down in docs/wire-format.md and docs/spool-format.md.
#![warn(missing_docs)]

pub mod connection;
mod datagrams;
pub mod dns_sd;
pub mod encrypted;
mod error;
mod fields;
pub mod packed;
pub mod spool;
pub mod v1;
pub mod v2;

pub use datagrams::Datagrams;
pub use error::{DecodeError, Reason};
