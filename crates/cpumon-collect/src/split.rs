//! The user/system split. The kernel samples the split at the clock tick but knows the run time exactly; its own `cputime_adjust`
//! (kernel/sched/cputime.c) scales the samples to the run time for /proc, then cuts the result down to ticks. This does the same
//! without the cut: user and system time add up to the run time and never fall.

use cpumon_model::Counters;

/// The last split of one task. Zero for a new one.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
}

impl Split {
    /// The split of `run_ns` in the proportion `user : system` (ticks or ns, as long as both are the same), not falling
    /// behind this one in either part. A run time that fell starts over.
    pub(crate) fn advance(self, user: u64, system: u64, run_ns: u64) -> Self {
        // A run time below the old split starts over: the old parts do not fit into it.
        let before =
            if self.user_ns.saturating_add(self.system_ns) > run_ns { Self::default() } else { self };
        let sum = u128::from(user) + u128::from(system);
        // ns times ns overflow 64 bits after some seconds of run time.
        let share = (u128::from(run_ns) * u128::from(system)).checked_div(sum).unwrap_or(0);
        // Neither part may fall, or a rate would be negative: the share is clamped between the former values of both parts.
        let highest = run_ns - before.user_ns;
        let system_ns = u64::try_from(share).unwrap_or(u64::MAX).clamp(before.system_ns, highest);
        Self { user_ns: run_ns - system_ns, system_ns }
    }

    pub(crate) fn of(counters: &Counters) -> Self {
        Self { user_ns: counters.user_ns, system_ns: counters.system_ns }
    }
}

/// Turns user and system time that were sampled at the tick into a split of the run time, not behind that of `before`, the settled
/// counters of the same task. User time is cut to whole µs, the rest counts as system time: the split is sampled anyway, and small
/// numbers are short on the wire.
pub(crate) fn settle(counters: &mut Counters, before: &Counters) {
    // The run time did not grow, so its split must not move.
    if before.user_ns.checked_add(before.system_ns) == Some(counters.run_ns) {
        (counters.user_ns, counters.system_ns) = (before.user_ns, before.system_ns);
        return;
    }
    let split = Split::of(before).advance(counters.user_ns, counters.system_ns, counters.run_ns);
    // `before.user_ns` is whole µs, so cutting does not fall behind it.
    counters.user_ns = split.user_ns - split.user_ns % 1_000;
    counters.system_ns = counters.run_ns - counters.user_ns;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn run_time_is_split_in_proportion() {
        let split = Split::default().advance(3, 1, 1000);
        assert_eq!(split, Split { user_ns: 750, system_ns: 250 });
        // No tick has hit it yet: all time counts as user time, as in the kernel.
        assert_eq!(Split::default().advance(0, 0, 77), Split { user_ns: 77, system_ns: 0 });
        // The proportion swings to user, but earlier system time stays.
        assert_eq!(split.advance(9, 0, 1100), Split { user_ns: 850, system_ns: 250 });
    }

    proptest! {
        #[test]
        fn parts_add_up_and_never_fall(steps in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u32>()), 1..50)) {
            let (mut split, mut run_ns) = (Split::default(), 0_u64);
            for (user, system, more) in steps {
                run_ns += u64::from(more);
                let next = split.advance(user, system, run_ns);
                prop_assert_eq!(next.user_ns + next.system_ns, run_ns);
                prop_assert!(next.user_ns >= split.user_ns && next.system_ns >= split.system_ns);
                split = next;
            }
        }
    }
}
