//! What an uplink reports of itself.

/// How an uplink is doing. Counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UplinkStatus {
    /// The receiver that is connected now.
    pub connected_to: Option<String>,
    /// Connections that were made.
    pub connections: u64,
    /// Attempts that failed, and connections that broke.
    pub failures: u64,
    /// Why the last one did.
    pub last_error: String,
    /// Records that were sent, those sent again included.
    pub records: u64,
    /// Bytes on the wire, with what TLS adds and without TCP.
    pub wire_bytes: u64,
    /// Snapshots that no receiver has acknowledged yet.
    pub waiting: u64,
    /// Bytes that the backlog holds.
    pub waiting_bytes: u64,
    /// Snapshots that were lost in the backlog, and reported as gaps.
    pub lost: u64,
    /// Number of the last snapshot that is on a receiver's disk.
    pub acked: u64,
    /// Bytes that the backlog wrote to a disk.
    pub written_bytes: u64,
    /// The past is being sent beside the present.
    pub is_backfilling: bool,
    /// Files that a receiver has stored ([`attachments`](crate::attachments)).
    pub attachments_stored: u64,
    /// Files that a receiver refused.
    pub attachments_refused: u64,
    /// Searches of the subnet for a receiver that did not answer where it should be.
    pub searches: u64,
    /// Answers to them that no well-behaved receiver sends.
    pub ignored_answers: u64,
}
