//! What the scheduler's events report of one thread beyond [`Counters`](crate::Counters): [`SchedTimes`], cumulative, and
//! [`SchedDelta`], over an interval. Known where the source measures [`Fields::SCHED`](crate::Fields::SCHED).

use crate::{WaitReason, Waits};

/// Cumulative times and counts of one thread since it was first seen, but for `longest_delay_ns` and `open_wait`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedTimes {
    /// The part of the run delay that came after a wakeup, ns; the rest came after preemption.
    pub delay_after_wakeup_ns: u64,
    /// Time neither running nor runnable, ns, the open wait included.
    pub blocked_ns: u64,
    /// Times it was woken.
    pub wakeups: u64,
    /// Times it ran on another CPU than before.
    pub migrations: u64,
    /// The longest single run delay since the snapshot before, ns. Not cumulative: a maximum, never summed.
    pub longest_delay_ns: u64,
    /// `blocked_ns` by reason; known where [`Fields::WAITS`](crate::Fields::WAITS) is measured.
    pub waits: Waits,
    /// What it waits for at the end of the pass; [`WaitReason::NONE`] while it runs or is ready.
    pub open_wait: WaitReason,
}

/// What [`SchedTimes`] grew by.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct SchedDelta {
    /// Run delay after wakeups in the interval, ns.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub delay_after_wakeup_ns: i64,
    /// Blocked time in the interval, ns.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub blocked_ns: i64,
    /// Wakeups in the interval.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub wakeups: i64,
    /// Migrations in the interval.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub migrations: i64,
    /// Longest single run delay that ended in the interval or was open at its end, ns; a process shows its threads' longest.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub longest_delay_ns: i64,
    /// Blocked time by reason in the interval.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub waits: Waits,
    /// What it waited for at the interval's end. A process has none.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub open_wait: WaitReason,
}

impl SchedDelta {
    /// The longest single run delay, ns; `None`: there was none, or it is not measured.
    #[must_use]
    pub fn longest_ns(&self) -> Option<u64> {
        u64::try_from(self.longest_delay_ns).ok().filter(|&ns| ns > 0)
    }
}

impl SchedTimes {
    /// What was added since `earlier`, and whether a counter fell; that one counts 0. Blocked time may fall by the length
    /// of a collection pass: an open wait is counted up to the pass, and the thread may have woken meanwhile.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> (SchedDelta, bool) {
        let grown = |now: u64, then: u64| signed(now.saturating_sub(then));
        // Blocked time is not among them: it may fall without an error.
        let fell = self.delay_after_wakeup_ns < earlier.delay_after_wakeup_ns
            || self.wakeups < earlier.wakeups
            || self.migrations < earlier.migrations;
        let blocked_ns = self.blocked_ns.saturating_sub(earlier.blocked_ns);
        let mut waits = self.waits.since(&earlier.waits);
        // More only if a wait was counted to one reason and turned out to be of another: the sum is right.
        waits.keep_within(blocked_ns);
        let delta = SchedDelta {
            delay_after_wakeup_ns: grown(self.delay_after_wakeup_ns, earlier.delay_after_wakeup_ns),
            blocked_ns: signed(blocked_ns),
            wakeups: grown(self.wakeups, earlier.wakeups),
            migrations: grown(self.migrations, earlier.migrations),
            // A maximum since the snapshot before: there is nothing to subtract.
            longest_delay_ns: signed(self.longest_delay_ns),
            waits,
            open_wait: self.open_wait,
        };
        (delta, fell)
    }

    /// Times of a thread that no event reports: nothing is known.
    #[must_use]
    pub fn unwatched() -> Self {
        Self { open_wait: WaitReason::UNWATCHED, ..Self::default() }
    }

    /// Whether the scheduler's events report the thread.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.open_wait != WaitReason::UNWATCHED
    }

    /// Lets the open wait go on for `ns`: for a thread of which nothing was received, because it went on sleeping.
    pub fn go_on_waiting(&mut self, ns: u64) {
        if self.open_wait.is_some() && self.is_watched() {
            self.blocked_ns = self.blocked_ns.saturating_add(ns);
            self.waits.add(self.open_wait, ns);
        }
    }
}

impl std::ops::AddAssign<&SchedDelta> for SchedDelta {
    /// Sums, but takes the longer of the longest delays; the open wait stays.
    fn add_assign(&mut self, other: &SchedDelta) {
        self.delay_after_wakeup_ns = self.delay_after_wakeup_ns.saturating_add(other.delay_after_wakeup_ns);
        self.blocked_ns = self.blocked_ns.saturating_add(other.blocked_ns);
        self.wakeups = self.wakeups.saturating_add(other.wakeups);
        self.migrations = self.migrations.saturating_add(other.migrations);
        self.longest_delay_ns = self.longest_delay_ns.max(other.longest_delay_ns);
        self.waits += &other.waits;
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUTEX: WaitReason = WaitReason::syscall(202);

    #[test]
    fn sums_take_the_longer_of_the_longest_delays() {
        let mut sum = SchedDelta { longest_delay_ns: 5, wakeups: 1, blocked_ns: 3, ..SchedDelta::default() };
        sum.waits.add(FUTEX, 3);
        let mut more = SchedDelta { longest_delay_ns: 4, wakeups: 2, blocked_ns: 9, ..SchedDelta::default() };
        more.waits.add(FUTEX, 1);
        more.waits.add(WaitReason::DISK, 8);
        sum += &more;
        assert_eq!((sum.longest_delay_ns, sum.wakeups, sum.blocked_ns), (5, 3, 12));
        assert_eq!((sum.waits.of(FUTEX), sum.waits.longest()), (4, Some((WaitReason::DISK, 8))));
    }

    #[test]
    fn an_open_wait_goes_on_and_a_ready_thread_does_not_wait() {
        let mut sleeping = SchedTimes { open_wait: FUTEX, blocked_ns: 10, ..SchedTimes::default() };
        sleeping.waits.add(FUTEX, 10);
        let before = sleeping;
        sleeping.go_on_waiting(7);
        assert_eq!((sleeping.blocked_ns, sleeping.waits.of(FUTEX)), (17, 17));
        let (delta, fell) = sleeping.since(&before);
        assert_eq!((delta.blocked_ns, delta.waits.of(FUTEX), fell), (7, 7, false));
        let mut ready = SchedTimes::default();
        ready.go_on_waiting(7);
        assert_eq!(ready, SchedTimes::default());
        let mut unwatched = SchedTimes::unwatched();
        unwatched.go_on_waiting(7);
        assert_eq!((unwatched, unwatched.is_watched()), (SchedTimes::unwatched(), false));
    }

    #[test]
    fn a_wait_that_turned_out_shorter_is_no_counter_reset() {
        let before = SchedTimes { blocked_ns: 10, wakeups: 2, ..SchedTimes::default() };
        let (delta, fell) = SchedTimes { blocked_ns: 9, wakeups: 2, ..SchedTimes::default() }.since(&before);
        assert_eq!((delta.blocked_ns, fell), (0, false));
        let (_, fell) = SchedTimes { blocked_ns: 20, wakeups: 1, ..SchedTimes::default() }.since(&before);
        assert!(fell);
    }
}
