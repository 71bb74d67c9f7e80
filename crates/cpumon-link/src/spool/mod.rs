//! The spool: snapshots on the device's own disk, in segment files, so that they survive while no receiver is reachable.
//!
//! # Overview
//! [`Spool`] writes: it numbers the snapshots it accepts, bounds its size, coalesces writes, and goes on when the disk is full
//! or fails. [`SpoolReader`] reads a directory, also one that is being written. `cpumon_wire::spool` defines the bytes
//! (docs/spool-format.md), docs/durability.md the guarantees. As a [`Backlog`](crate::Backlog), a spool deletes what a receiver
//! has acknowledged.

mod backlog;
mod open;
mod read;
mod segment;
mod state;
mod write;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cpumon_wire::spool::GapReason;

pub use self::read::{ReadReport, SpoolEvent, SpoolReader};
pub use self::write::Spool;

/// When accepted snapshots are written to disk and synced.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Each snapshot is on the disk (written and fdatasync(2)) before the next one is made.
    Always,
    /// Snapshots are gathered in memory and written together this often, with one fdatasync(2) by a thread of its own.
    Every(Duration),
    /// Snapshots stay in memory until the spool is closed: the disk is not touched before.
    AtEnd,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolOptions {
    /// Directory of the spool; created if it is missing.
    pub dir: PathBuf,
    /// Most bytes of it, in files and in memory together; the oldest snapshots go first.
    pub max_bytes: u64,
    pub sync: SyncPolicy,
    /// Time between two snapshots: what would be due before the next one is written with this one.
    pub interval: Duration,
}

impl SpoolOptions {
    /// Smallest allowed size, bytes.
    pub const MIN_BYTES: u64 = 64 << 10;
    pub const DEFAULT_BYTES: u64 = 256 << 20;
    /// Default time between two writes.
    pub const DEFAULT_EVERY: Duration = Duration::from_secs(10);

    /// A spool of the usual size, written every ten seconds, with a snapshot each second.
    pub fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            max_bytes: Self::DEFAULT_BYTES,
            sync: SyncPolicy::Every(Self::DEFAULT_EVERY),
            interval: Duration::from_secs(1),
        }
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is in the spool: on the disk, or in memory until the next write.
    Stored,
    /// It is lost and counted; a hole precedes the next one that is stored.
    Lost(GapReason),
}

/// Counts of a spool since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolStatus {
    /// Snapshots accepted, on the disk or in memory.
    pub stored: u64,
    /// Snapshots that could not be stored.
    pub lost: u64,
    /// Why the last of the lost snapshots could not be stored.
    pub lost_reason: GapReason,
    /// Snapshots that were dropped because the spool was full, the oldest first.
    pub dropped: u64,
    /// Segments set aside when the spool was opened, because something in them is damaged.
    pub damaged_segments: u64,
    /// Bytes of a last record that the writer before left unfinished, and that were cut off.
    pub cut_bytes: u64,
    /// Current number of segments.
    pub segments: u64,
    /// Current size, in files and in memory together.
    pub bytes: u64,
    /// Snapshots in memory that are not yet written to the disk.
    pub waiting: u64,
    pub written_bytes: u64,
    pub writes: u64,
    /// Times that the disk refused a write or a sync.
    pub disk_errors: u64,
    /// The disk's last answer, as long as it refuses.
    pub trouble: Option<Arc<str>>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    #[error("cannot {operation} {}: {error}", path.display())]
    Io { operation: &'static str, path: PathBuf, error: io::Error },
    #[error("{} is being written by {holder}", path.display())]
    Locked {
        path: PathBuf,
        /// `pid N`, or `another process` if its number could not be read.
        holder: String,
    },
    #[error("{} holds no recording: there is no *.segment file in it", path.display())]
    Empty { path: PathBuf },
    /// The directory holds snapshots of another machine, which must not be sent as this one's.
    #[error("{} holds snapshots of another machine: choose another directory, or `cpumon import` it first", path.display())]
    Foreign { path: PathBuf },
    #[error("a spool of {bytes} bytes is too small: it needs at least {least}")]
    TooSmall { bytes: u64, least: u64 },
}

fn failed(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> SpoolError {
    move |error| SpoolError::Io { operation, path: path.into(), error }
}
