//! The spool: snapshots on the device's own disk. In: frames of snapshots, a directory. Out: segments there, and the
//! snapshots of a directory in order, with every hole. Why: what nobody receives now is not lost.
//!
//! # Overview
//! [`Spool`] writes: it numbers what it accepts, bounds what it keeps, coalesces writes, and goes on when the disk is full
//! or fails. [`SpoolReader`] reads a directory, also one that is being written. The bytes are `cpumon_wire::spool`'s matter
//! (docs/spool-format.md), what they promise stands in docs/durability.md. A spool that a stream empties is a
//! [`Backlog`](crate::Backlog): what a receiver has acknowledged is deleted.

mod backlog;
mod error;
mod files;
mod lock;
mod options;
mod read;
mod recover;
mod refusal;
mod segment;
mod state;
mod status;
mod sync;
mod unwritten;
mod write;

pub use error::SpoolError;
pub use options::{SpoolOptions, SyncPolicy};
pub use read::{ReadReport, SpoolEvent, SpoolReader};
pub use status::{Kept, SpoolStatus};
pub use write::Spool;
