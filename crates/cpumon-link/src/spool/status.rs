//! [`SpoolStatus`]: counts of a spool, cumulative since it was opened unless a field says otherwise.

use cpumon_wire::spool::GapReason;

/// What [`Spool::append`](super::Spool::append) did with a snapshot.
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
    /// Why the last of them could not.
    pub lost_reason: GapReason,
    /// Snapshots that were dropped because the spool was full, the oldest first.
    pub dropped: u64,
    /// Segments set aside when the spool was opened, because something in them is damaged.
    pub damaged_segments: u64,
    /// Bytes of a last record that the writer before left unfinished, and that were cut off.
    pub cut_bytes: u64,
    /// Segments now.
    pub segments: u64,
    /// Bytes now, in files and in memory.
    pub bytes: u64,
    /// Snapshots in memory that are not yet written to the disk.
    pub waiting: u64,
    /// Bytes written to the disk.
    pub written_bytes: u64,
    /// Writes that this took.
    pub writes: u64,
    /// Times that the disk refused a write or a sync.
    pub disk_errors: u64,
    /// The disk's last answer, as long as it refuses.
    pub trouble: Option<String>,
}
