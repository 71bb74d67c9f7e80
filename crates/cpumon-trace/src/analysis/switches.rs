//! How often threads left a CPU, and moved to another.

use cpumon_model::Leaves;

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SwitchCounts {
    /// To wait, or for good.
    pub(crate) voluntary: u64,
    /// Pushed off, or it yielded.
    pub(crate) involuntary: u64,
    pub(crate) migrations: u64,
    /// Times it came, and it is not known when it was woken.
    pub(crate) unknown_wakeups: u64,
}

impl SwitchCounts {
    pub(super) fn left(&mut self, leaves: Leaves) {
        match leaves {
            Leaves::Ready => self.involuntary += 1,
            Leaves::Asleep(_) | Leaves::Dead => self.voluntary += 1,
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.migrations += other.migrations;
        self.unknown_wakeups += other.unknown_wakeups;
    }
}
