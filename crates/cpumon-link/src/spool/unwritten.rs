//! [`Unwritten`]: snapshots that are accepted but in memory only: how long the oldest has waited, and the hole that it becomes
//! if the disk never takes it.

use std::collections::VecDeque;
use std::time::Instant;

/// A snapshot that is in memory only.
#[derive(Copy, Clone, Debug)]
pub(super) struct Wait {
    number: u64,
    /// Number of the first one in the hole before it, or its own.
    pub(super) first: u64,
    /// When the last snapshot before that was made.
    pub(super) begin_wall_ns: i64,
    pub(super) since: Instant,
}

/// The snapshots in memory, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    waits: VecDeque<Wait>,
}

impl Unwritten {
    /// Adds a snapshot that was accepted.
    pub(super) fn accepted(&mut self, number: u64, first: u64, begin_wall_ns: i64) {
        self.waits.push_back(Wait { number, first, begin_wall_ns, since: Instant::now() });
    }

    /// Those up to this number need not be written any more.
    pub(super) fn forget(&mut self, number: u64) {
        while self.waits.front().is_some_and(|wait| wait.number <= number) {
            self.waits.pop_front();
        }
    }

    /// The snapshot that has waited longest.
    pub(super) fn oldest(&self) -> Option<&Wait> {
        self.waits.front()
    }
}
