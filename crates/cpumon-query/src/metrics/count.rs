//! Numbers of a series: none of them ever falls, whatever a host sends.

use std::ops::AddAssign;

/// A sum of ns that is shown as a counter. A negative amount, which only a broken or hostile sender and a clock's rounding make, is
/// owed: later amounts pay it back before the counter grows again. So `shown` never falls, and `shown` less `owed` is the exact sum.
/// In 128 bits, because 512 CPUs fill 64 bits within 14 months.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) shown: u128,
    pub(super) owed: u128,
}

impl Count {
    pub(super) fn add(&mut self, ns: i64) {
        if ns < 0 {
            self.owed = self.owed.saturating_add(ns.unsigned_abs().into());
            return;
        }
        let ns = u128::from(ns.unsigned_abs());
        let paid = ns.min(self.owed);
        self.owed -= paid;
        self.shown = self.shown.saturating_add(ns - paid);
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.shown = self.shown.saturating_add(other.shown);
        self.owed = self.owed.saturating_add(other.owed);
    }
}

/// The growth of a counter that begins again when its owner is started again.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Rising {
    pub(super) sum: u64,
    last: u64,
}

impl Rising {
    pub(super) fn see(&mut self, value: u64) {
        let grown = value.checked_sub(self.last).unwrap_or(value);
        self.sum = self.sum.saturating_add(grown);
        self.last = value;
    }
}

/// CPU time of one label. The run time is exact and its split into modes is sampled, so the split is scaled to the run time as the
/// kernel scales it for /proc (`cputime_adjust` in kernel/sched/cputime.c): both modes only grow, and their sum is the run time.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct CpuTime {
    /// Run time of rows whose split is measured.
    split: Count,
    user_sampled: u128,
    system_sampled: u128,
    system: u128,
    /// Run time of which the split is not known.
    pub(super) unknown: Count,
}

impl CpuTime {
    pub(super) fn add(&mut self, run_ns: i64, user_ns: i64, system_ns: i64) {
        // Before: neither mode may fall below what was shown.
        let user = self.user();
        self.split.add(run_ns);
        self.user_sampled = self.user_sampled.saturating_add(user_ns.max(0).unsigned_abs().into());
        self.system_sampled = self.system_sampled.saturating_add(system_ns.max(0).unsigned_abs().into());
        let run = self.split.shown;
        let sampled = self.user_sampled.saturating_add(self.system_sampled);
        // Without a tick in system mode, all time is user time, as in the kernel. Rounding is no fault: only the sum must be exact.
        let share = if sampled == 0 { 0.0 } else { self.system_sampled as f64 / sampled as f64 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a time")]
        let aim = (run as f64 * share) as u128;
        self.system = self.system.max(aim.min(run.saturating_sub(user)));
    }

    pub(super) fn user(&self) -> u128 {
        self.split.shown.saturating_sub(self.system)
    }

    pub(super) fn system(&self) -> u128 {
        self.system
    }

    /// Negative amounts that were not paid back yet.
    pub(super) fn owed(&self) -> u128 {
        self.split.owed.saturating_add(self.unknown.owed)
    }

    /// All that is shown.
    pub(super) fn shown(&self) -> u128 {
        self.split.shown.saturating_add(self.unknown.shown)
    }
}

impl AddAssign for CpuTime {
    fn add_assign(&mut self, other: Self) {
        self.split += other.split;
        self.unknown += other.unknown;
        self.user_sampled = self.user_sampled.saturating_add(other.user_sampled);
        self.system_sampled = self.system_sampled.saturating_add(other.system_sampled);
        self.system = self.system.saturating_add(other.system);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_amount_is_owed_and_the_counter_does_not_fall() {
        let mut count = Count::default();
        let shown: Vec<_> = [10, -4, 3, 5, -20, i64::MAX, i64::MIN]
            .into_iter()
            .map(|ns| {
                count.add(ns);
                (count.shown, count.owed)
            })
            .collect();
        let most = u128::from(i64::MAX.unsigned_abs());
        let expected = [(10, 0), (10, 4), (10, 1), (14, 0), (14, 20), (most - 6, 0), (most - 6, most + 1)];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_counter_that_begins_again_goes_on() {
        let mut rising = Rising::default();
        let sums: Vec<_> = [5, 9, 2, 2, 8]
            .into_iter()
            .map(|value| {
                rising.see(value);
                rising.sum
            })
            .collect();
        assert_eq!(sums, [5, 9, 11, 11, 17]);
    }

    #[test]
    fn modes_are_scaled_to_the_run_time_and_never_fall() {
        let mut time = CpuTime::default();
        let mut shown = Vec::new();
        // No tick; a tick of 4 ms in system mode while 1 ms ran; then user mode.
        for (run, user, system) in [(3, 0, 0), (1, 0, 4), (8, 8, 0), (4, 0, 0), (-2, 0, 0), (4, 4, 4)] {
            time.add(run, user, system);
            shown.push((time.user(), time.system()));
        }
        // Nothing of the 3 ms of user time goes to system mode when the first tick is there.
        assert_eq!(shown, [(3, 0), (3, 1), (8, 4), (11, 5), (11, 5), (11, 7)]);
        assert_eq!((time.shown(), time.owed()), (18, 0));
        let mut both = time;
        both += time;
        assert_eq!((both.user(), both.system(), both.shown()), (22, 14, 36));
    }
}
