//! [`TraceSources`]: how a trace of a host can be had now, and how far a recording of this machine is.

use std::time::Duration;

/// What a user can ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceSources {
    /// The receiver records this host on request.
    pub can_record: bool,
    /// A flight recorder has the last seconds of it.
    pub can_take: bool,
    /// How long that is, if it is known.
    pub last: Option<Duration>,
    /// What is missing, and how to get there; empty if nothing is.
    pub how: String,
    /// The last recording on request.
    pub recording: Option<Recording>,
}

/// A recording on request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Counts them since the receiver started, from 1.
    pub number: u64,
    /// How far it is.
    pub phase: Phase,
    /// Until it ends.
    pub left: Duration,
    /// Events so far.
    pub events: u64,
    /// Events that did not fit in the buffers.
    pub lost: u64,
    /// Bytes written so far.
    pub bytes: u64,
}

/// How far a recording is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Under way.
    #[default]
    Recording,
    /// Complete, and on its way to the store. The text says what it waits for.
    Storing(String),
    /// Stored as this trace.
    Stored(i64),
    /// There is no trace; why.
    Failed(String),
}
