//! [`Progress`]: what a receiver has stored of a spool, and where reading goes on. The writing and the reading side of a spool
//! share it.

use std::collections::VecDeque;

use cpumon_wire::connection::MAX_MESSAGE_BYTES;
use cpumon_wire::spool::{Gap, GapReason, RECORD_HEADER_BYTES, State};

/// Longest payload that fits a message of the connection, bytes.
pub(super) const MAX_SENT_BYTES: usize = MAX_MESSAGE_BYTES - RECORD_HEADER_BYTES - 64;

/// What a receiver has stored, and where reading is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// A connection empties this spool.
    pub(super) is_drained: bool,
    /// Every snapshot up to this number is on a receiver's disk.
    pub(super) acked: u64,
    /// The same, as the state file says.
    pub(super) noted: u64,
    /// Start of the hole before the oldest segment; 0: there is none, or it begins with the spool.
    pub(super) dropped_begin_wall_ns: i64,
    /// Why it is there; [`GapReason::Unknown`]: the spool had reached its size.
    pub(super) dropped_reason: GapReason,
    /// That hole, as it was given out last and is not acknowledged yet.
    pub(super) given_hole: Option<Gap>,
    pub(super) positions: VecDeque<Position>,
}

impl Progress {
    /// Restores what the state file recorded.
    pub(super) fn of(state: Option<&State>) -> Self {
        let Some(state) = state else { return Self::default() };
        Self {
            acked: state.acked,
            noted: state.acked,
            dropped_begin_wall_ns: state.dropped_begin_wall_ns,
            dropped_reason: state.dropped_reason,
            ..Self::default()
        }
    }
}

/// Where reading goes on.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Position {
    /// Number of the next record to give out.
    pub(super) cursor: u64,
    /// The segment's first number.
    pub(super) segment: u64,
    pub(super) offset: u64,
    /// When the last snapshot before it was made; 0: not known.
    pub(super) wall_ns: i64,
    /// Something before it could not be read: only a full snapshot can follow.
    pub(super) is_broken: bool,
}
