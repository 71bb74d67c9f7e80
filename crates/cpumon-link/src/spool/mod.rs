//! The spool: snapshots on the device's own disk, in segment files, so that they survive while no receiver is reachable.
//!
//! # Overview
//! [`Spool`] writes: it numbers the snapshots it accepts, bounds its size, coalesces writes, and goes on when the disk is full
//! or fails. [`SpoolReader`] reads a directory, also one that is being written. `cpumon_wire::spool` defines the bytes
//! (docs/spool-format.md), docs/durability.md the guarantees. As a [`Backlog`](crate::Backlog), a spool deletes what a receiver
//! has acknowledged.

mod backlog;
mod error;
mod files;
mod open;
mod options;
mod progress;
mod read;
mod recover;
mod segment;
mod state;
mod status;
mod sync;
mod unwritten;
mod write;

pub use error::SpoolError;
pub use options::{SpoolOptions, SyncPolicy};
pub use read::{ReadReport, SpoolEvent, SpoolReader};
pub use status::{Appended, SpoolStatus};
pub use write::Spool;
