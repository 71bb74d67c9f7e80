//! What a [`Spool`] does when its disk refuses a write: it drops the oldest segments for space, and records the remaining hole
//! and its reason in the state file, whose blocks are allocated from the start.

use std::io;

use cpumon_wire::spool::{Gap, GapReason};

use super::error::is_no_space;
use super::write::Spool;

impl Spool {
    pub(super) fn trouble(&mut self, error: &io::Error, operation: &str) {
        self.refused = if is_no_space(error) { GapReason::NoSpace } else { GapReason::DiskFailed };
        self.status.disk_errors += 1;
        let words = format!("cannot {operation} in {}: {error}", self.options.dir.display());
        if self.status.trouble.is_none() {
            log::warn!("{words}; it stays in memory and is tried again");
        }
        self.status.trouble = Some(words);
    }

    /// The disk did not take everything. What is on it ends there, so that it can go as soon as a receiver has it: what follows begins
    /// with a full snapshot.
    pub(super) fn refuse(&mut self, error: &io::Error) {
        self.trouble(error, "write the log");
        if self.segments.back().is_some_and(|newest| newest.written > 0) {
            self.is_open = false;
        }
    }

    /// Writes what is pending. While the disk has no space for it and `is_needed`, a spool that a connection empties drops its
    /// oldest segment. False if something is still pending.
    pub(super) fn write_newest(&mut self, is_needed: &dyn Fn(&Self) -> bool) -> bool {
        while !self.write() {
            let may_drop =
                self.progress.is_drained && self.refused == GapReason::NoSpace && self.segments.len() > 1;
            if !may_drop || !is_needed(self) || !self.drop_oldest(GapReason::NoSpace) {
                return false;
            }
        }
        true
    }

    /// Where numbers go on if nothing more can be written. What only waits its time is not accepted yet: its numbers are used again, or
    /// they would appear as a hole. What the disk refuses is accepted, and is a hole if it stays in memory.
    pub(super) fn next_after_a_kill(&self) -> u64 {
        if self.lost.is_some() || self.is_closing || self.status.trouble.is_some() {
            return self.next;
        }
        let unwritten: u64 = self.segments.iter().map(|segment| segment.pending_snapshots).sum();
        self.next.saturating_sub(unwritten).max(self.progress.acked + 1)
    }

    /// The hole behind what is on the disk, if nothing more can be written: what the disk refuses, and what was lost since.
    pub(super) fn hole_after_a_kill(&self) -> Option<Gap> {
        let refused = self.unwritten.oldest().filter(|_| self.status.trouble.is_some());
        let Some(oldest) = refused else { return self.lost };
        let last_wall_ns = self.last_wall_ns.unwrap_or(oldest.begin_wall_ns);
        Some(Gap {
            first: oldest.first.max(self.progress.acked + 1),
            last: self.next.saturating_sub(1),
            begin_wall_ns: oldest.begin_wall_ns,
            end_wall_ns: self.lost.map_or(last_wall_ns, |lost| lost.end_wall_ns),
            reason: self.refused,
        })
    }
}
