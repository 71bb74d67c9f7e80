//! Threads that ended in a living process: the process's total less the sum over its live threads gives
//! cumulative counters of the ended ones, which never fall and never exceed the truth. /proc shows no thread
//! after its end, but the process keeps its time, so that even threads which no pass ever saw are counted.

use cpumon_model::Counters;

use crate::split::Split;

/// What the ended threads of one process ran.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Ended {
    total: Counters,
    before: Counters,
}

impl Ended {
    pub(super) fn total(&self) -> &Counters {
        &self.total
    }

    /// What was counted so far is older than the source.
    pub(super) fn begin_here(&mut self) {
        self.before = self.total;
    }

    /// What they ran since the source was opened.
    pub(super) fn since_opened(&self) -> Counters {
        let (total, before) = (&self.total, &self.before);
        Counters {
            user_ns: total.user_ns.saturating_sub(before.user_ns),
            system_ns: total.system_ns.saturating_sub(before.system_ns),
            run_ns: total.run_ns.saturating_sub(before.run_ns),
            run_delay_ns: total.run_delay_ns.saturating_sub(before.run_delay_ns),
            voluntary_switches: total.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: total.involuntary_switches.saturating_sub(before.involuntary_switches),
        }
    }

    /// Adds the last known counters of threads that were found gone.
    pub(super) fn add(&mut self, last_known: &Counters) {
        self.total += last_known;
    }

    /// How much more run time than known the ended threads had, at least. `process_ns` must have been read before the
    /// live threads, so that what they run meanwhile makes the answer smaller, not larger.
    pub(super) fn missing_ns(&self, process_ns: u64, live: &Counters) -> u64 {
        process_ns.saturating_sub(live.run_ns).saturating_sub(self.total.run_ns)
    }

    /// Adds run time of unknown threads. `user_ns` and `system_ns` are the whole process's; what is left of them after
    /// live and ended threads gives the proportion.
    pub(super) fn add_unseen(&mut self, run_ns: u64, user_ns: u64, system_ns: u64, live: &Counters) {
        let before = Split { user_ns: self.total.user_ns, system_ns: self.total.system_ns };
        let user = user_ns.saturating_sub(live.user_ns);
        let system = system_ns.saturating_sub(live.system_ns);
        self.total.run_ns = self.total.run_ns.saturating_add(run_ns);
        let split = before.advance(user, system, self.total.run_ns);
        (self.total.user_ns, self.total.system_ns) = (split.user_ns, split.system_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(user_ns: u64, system_ns: u64) -> Counters {
        Counters { user_ns, system_ns, run_ns: user_ns + system_ns, ..Counters::default() }
    }

    #[test]
    fn what_the_process_ran_beyond_its_threads_is_that_of_ended_ones() {
        let mut ended = Ended::default();
        assert_eq!(ended.missing_ns(100, &run(60, 40)), 0);
        assert_eq!(ended.missing_ns(90, &run(60, 40)), 0, "live threads ran on while being read");
        assert_eq!(ended.missing_ns(150, &run(60, 40)), 50);
        ended.add_unseen(50, 100, 50, &run(60, 40));
        assert_eq!(*ended.total(), run(40, 10));
        // One of the live threads ends, nothing unseen is left.
        ended.add(&run(30, 30));
        assert_eq!(ended.missing_ns(150, &run(30, 10)), 0);
        assert_eq!(*ended.total(), run(70, 40));
    }

    #[test]
    fn parts_never_fall() {
        let mut ended = Ended::default();
        ended.add(&run(10, 90));
        ended.add_unseen(10, 1_000_000, 0, &Counters::default());
        assert_eq!(*ended.total(), run(20, 90));
    }
}
