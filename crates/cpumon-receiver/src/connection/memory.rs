//! [`Memory`]: what is remembered of a host over all its connections, so that a new connection counts and shows nothing twice.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use cpumon_model::{BootId, ClockWatch, HostClock, Interval, LossCounts};
use cpumon_wire::spool::{Gap, GapReason};

/// Holes of a host that are remembered, so that they are counted once.
const MAX_GAPS: usize = 64;

/// What is remembered of a host over all its connections.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// What was counted since the receiver started.
    pub(super) loss: LossCounts,
    /// Comparisons of its clock with this one's, and what follows from them.
    pub(super) watch: ClockWatch,
    pub(super) clock: Option<HostClock>,
    /// The newest interval that was shown: its boot, its end on the monotonic clock.
    pub(super) shown: Option<(BootId, u64)>,
    /// The newest holes that were counted: begin, reason, snapshots. After a cut they come again.
    pub(super) gaps: VecDeque<(i64, GapReason, u64)>,
}

impl Memory {
    /// Counts a hole that the device reports, and one that was counted before as far as it grew.
    pub(super) fn count_gap(&mut self, gap: &Gap) {
        let key = (gap.begin_wall_ns, gap.reason);
        // A hole that grows comes again with the same begin: only the growth is new.
        if let Some(known) = self.gaps.iter_mut().find(|known| (known.0, known.1) == key) {
            self.loss.snapshots_lost += gap.count().saturating_sub(known.2);
            known.2 = known.2.max(gap.count());
            return;
        }
        if self.gaps.len() >= MAX_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back((key.0, key.1, gap.count()));
        self.loss.snapshots_lost += gap.count();
    }

    /// Whether an interval is newer than what was shown; if so it counts as shown from now on.
    pub(super) fn shows(&mut self, interval: &Interval) -> bool {
        let is_old = |(boot, mono_ns)| boot == interval.boot && interval.end.mono_ns <= mono_ns;
        if self.shown.is_some_and(is_old) {
            return false;
        }
        self.shown = Some((interval.boot, interval.end.mono_ns));
        true
    }
}

/// Shared by the connections of one host.
pub(super) type Shared = Arc<Mutex<Memory>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_that_comes_again_is_counted_once_and_grows() {
        let mut memory = Memory::default();
        let hole = |begin_wall_ns, last| Gap { first: 1, last, begin_wall_ns, ..Gap::default() };
        for gap in [hole(5, 10), hole(5, 10), hole(5, 8), hole(5, 11), hole(90, 2)] {
            memory.count_gap(&gap);
        }
        assert_eq!(memory.loss.snapshots_lost, 11 + 2);
        for begin in 100..300 {
            memory.count_gap(&hole(begin, 1));
        }
        assert_eq!(memory.gaps.len(), MAX_GAPS);
    }
}
