//! What each CPU did: the ledger of the trace.

use cpumon_events::{CpuSpan, CpuState, InterruptSpan};
use cpumon_model::Interrupt;

/// The times of a CPU, which add up to the length of the range: idle + run + irq + softirq + unknown.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuAccount {
    /// Which.
    pub cpu: u16,
    /// Without a thread, ns.
    pub idle_ns: u64,
    /// With a thread, ns. Interrupts are part of it where they are not recorded.
    pub run_ns: u64,
    /// In hard interrupts, ns.
    pub irq_ns: u64,
    /// In soft interrupts, ns.
    pub softirq_ns: u64,
    /// No event says what it did, ns.
    pub unknown_ns: u64,
    /// Switches from a thread or from idle.
    pub switches: u64,
    /// Switches from another task than was switched to: events are missing.
    pub holes: u64,
    /// Events that the recorder lost.
    pub lost: u64,
}

impl CpuAccount {
    /// All times, ns.
    #[must_use]
    pub fn capacity_ns(&self) -> u64 {
        let known_ns = self.idle_ns.saturating_add(self.run_ns).saturating_add(self.unknown_ns);
        known_ns.saturating_add(self.irq_ns).saturating_add(self.softirq_ns)
    }

    /// Adds the times and counts of another.
    pub(crate) fn merge(&mut self, other: &Self) {
        // A damaged trace may claim any times.
        for (sum, part) in [
            (&mut self.idle_ns, other.idle_ns),
            (&mut self.run_ns, other.run_ns),
            (&mut self.irq_ns, other.irq_ns),
            (&mut self.softirq_ns, other.softirq_ns),
            (&mut self.unknown_ns, other.unknown_ns),
            (&mut self.switches, other.switches),
            (&mut self.holes, other.holes),
            (&mut self.lost, other.lost),
        ] {
            *sum = sum.saturating_add(part);
        }
    }
}

/// Each CPU that has any event; one without has none of the times.
#[derive(Debug, Default)]
pub(super) struct Cpus(Vec<Option<CpuAccount>>);

impl Cpus {
    pub(super) fn add(&mut self, span: &CpuSpan) {
        let ns = span.until_ns - span.from_ns;
        let account = self.of(span.cpu);
        match span.state {
            CpuState::Idle => account.idle_ns += ns,
            CpuState::Run(_) => account.run_ns += ns,
            CpuState::Unknown => account.unknown_ns += ns,
        }
    }

    /// Takes `ns` of what the CPU did, and gives it to the interrupt.
    pub(super) fn interrupt(&mut self, span: &InterruptSpan, ns: u64) {
        let account = self.of(span.cpu);
        let from = match span.state {
            CpuState::Idle => &mut account.idle_ns,
            CpuState::Run(_) => &mut account.run_ns,
            CpuState::Unknown => &mut account.unknown_ns,
        };
        let ns = ns.min(*from);
        *from -= ns;
        match span.interrupt {
            Interrupt::Hard(_) => account.irq_ns += ns,
            Interrupt::Soft(_) => account.softirq_ns += ns,
        }
    }

    pub(super) fn of(&mut self, cpu: u16) -> &mut CpuAccount {
        let at = usize::from(cpu);
        if at >= self.0.len() {
            self.0.resize(at + 1, None);
        }
        self.0[at].get_or_insert(CpuAccount { cpu, ..CpuAccount::default() })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = CpuAccount> {
        self.0.iter().flatten().copied()
    }
}
