//! How it looks as bytes. In: snapshots and intervals on one side, datagrams and segments on the other. Out: the other one.
//! Why: byte layouts are known in this room only; it opens no socket and asks no clock.
//!
//! # Overview
//! [`v1`] speaks the original's protocol both ways. [`v2`] carries cumulative counters, so that a lost frame costs
//! resolution and never CPU time. What a receiver makes of both is in the crate `cpumon-receiver`.
//! [`sealed`] puts v2 frames under a key that a group shares. [`spool`] is how snapshots lie on a device's disk until somebody has them.
//! [`stream`] is what agent and receiver say to each other over TLS (docs/stream-format.md). [`dns_sd`] is how they find each other
//! (docs/discovery.md).
//! The layouts are written down in docs/wire-format.md and docs/spool-format.md.

mod datagrams;
pub mod dns_sd;
mod error;
pub mod packed;
pub mod sealed;
pub mod spool;
pub mod stream;
pub mod v1;
pub mod v2;

pub use datagrams::Datagrams;
pub use error::{DecodeError, Reason};
