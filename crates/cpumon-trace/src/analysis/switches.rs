//! How often threads left a CPU, and moved to another.

use cpumon_model::Leaves;

use super::slots::Slots;

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
    pub(super) fn merge(&mut self, other: &Self) {
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.migrations += other.migrations;
        self.unknown_wakeups += other.unknown_wakeups;
    }
}

#[derive(Debug, Default)]
pub(super) struct Switches(Slots<SwitchCounts>);

impl Switches {
    pub(super) fn left(&mut self, slot: usize, leaves: Leaves) {
        let counts = self.0.at(slot);
        match leaves {
            Leaves::Ready => counts.involuntary += 1,
            Leaves::Asleep(_) | Leaves::Dead => counts.voluntary += 1,
        }
    }

    pub(super) fn moved(&mut self, slot: usize) {
        self.0.at(slot).migrations += 1;
    }

    pub(super) fn unknown_wakeup(&mut self, slot: usize) {
        self.0.at(slot).unknown_wakeups += 1;
    }

    pub(super) fn get(&self, slot: usize) -> SwitchCounts {
        self.0.get(slot).copied().unwrap_or_default()
    }
}
