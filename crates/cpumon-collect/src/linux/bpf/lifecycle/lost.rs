//! The probe's count of lost exits: sums in which no thread's CPU time is missing.

use super::super::records::{LostExits, TaskRecord};

impl LostExits {
    /// Counts a thread in.
    pub(crate) fn add(&mut self, task: &TaskRecord) {
        self.count += 1;
        self.run_ns += task.run_ns;
        self.utime_ns += task.utime_ns;
        self.stime_ns += task.stime_ns;
        self.run_delay_ns += task.run_delay_ns;
        self.voluntary_switches += task.voluntary_switches;
        self.involuntary_switches += task.involuntary_switches;
    }

    pub(crate) fn plus(mut self, other: &Self) -> Self {
        self.add(&other.as_task());
        self.count = self.count.saturating_sub(1).saturating_add(other.count);
        self.execs += other.execs;
        self
    }
}
