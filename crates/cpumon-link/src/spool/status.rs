//! How a spool is doing: counts for people, cumulative since it was opened unless they say otherwise.

use cpumon_wire::spool::GapReason;

/// What became of a snapshot.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is in the spool: on the disk, or in memory until the next write.
    Kept,
    /// It is lost, and counted; the next one that is kept is preceded by a hole.
    Lost(GapReason),
}

/// Counts of a spool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolStatus {
    /// Snapshots kept.
    pub kept: u64,
    /// Snapshots that could not be kept.
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
