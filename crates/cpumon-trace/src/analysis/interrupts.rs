//! What interrupts took of the threads that they interrupted.

use cpumon_model::Interrupt;

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

    pub(super) fn add(&mut self, interrupt: Interrupt, ns: u64) {
        match interrupt {
            Interrupt::Hard(_) => self.irq_ns += ns,
            Interrupt::Soft(_) => self.softirq_ns += ns,
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.irq_ns = self.irq_ns.saturating_add(other.irq_ns);
        self.softirq_ns = self.softirq_ns.saturating_add(other.softirq_ns);
        self.count += other.count;
    }
}
