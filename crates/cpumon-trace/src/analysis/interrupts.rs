//! What interrupts took of the threads that they interrupted.

use cpumon_model::Interrupt;

use super::slots::Slots;

/// Of a thread or group.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct InterruptTimes {
    /// In hard interrupts, ns.
    pub irq_ns: u64,
    /// In soft interrupts, ns: without the hard ones that interrupted these.
    pub softirq_ns: u64,
    /// Interrupts of both kinds.
    pub count: u64,
}

impl InterruptTimes {
    /// Both kinds, ns.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.irq_ns.saturating_add(self.softirq_ns)
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.irq_ns = self.irq_ns.saturating_add(other.irq_ns);
        self.softirq_ns = self.softirq_ns.saturating_add(other.softirq_ns);
        self.count += other.count;
    }
}

#[derive(Debug, Default)]
pub(super) struct Interrupts {
    threads: Slots<InterruptTimes>,
    pub(super) is_recorded: bool,
}

impl Interrupts {
    pub(super) fn add(&mut self, slot: usize, interrupt: Interrupt, ns: u64) {
        let times = self.threads.at(slot);
        match interrupt {
            Interrupt::Hard(_) => times.irq_ns += ns,
            Interrupt::Soft(_) => times.softirq_ns += ns,
        }
    }

    pub(super) fn count(&mut self, slot: usize) {
        self.threads.at(slot).count += 1;
    }

    pub(super) fn get(&self, slot: usize) -> InterruptTimes {
        self.threads.get(slot).copied().unwrap_or_default()
    }
}
