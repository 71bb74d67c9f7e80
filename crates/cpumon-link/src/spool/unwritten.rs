//! [`Unwritten`]: snapshots that are accepted and in memory only. In: what is accepted, written, acknowledged, dropped. Out: how long
//! the oldest waits, and the hole that it takes if the disk never takes it.

use std::collections::VecDeque;
use std::time::Instant;

/// One snapshot.
#[derive(Copy, Clone, Debug)]
pub(super) struct Wait {
    number: u64,
    /// Number of the first one in the hole before it, or its own.
    pub(super) first: u64,
    /// When the last snapshot before that was made.
    pub(super) begin_wall_ns: i64,
    pub(super) since: Instant,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    waits: VecDeque<Wait>,
}

impl Unwritten {
    /// It is accepted.
    pub(super) fn accepted(&mut self, number: u64, first: u64, begin_wall_ns: i64) {
        self.waits.push_back(Wait { number, first, begin_wall_ns, since: Instant::now() });
    }

    /// Those up to this number need not be written any more.
    pub(super) fn forget(&mut self, number: u64) {
        while self.waits.front().is_some_and(|wait| wait.number <= number) {
            self.waits.pop_front();
        }
    }

    /// The oldest.
    pub(super) fn oldest(&self) -> Option<&Wait> {
        self.waits.front()
    }
}
