//! What each CPU did: the ledger of the trace.

use crate::state::{CpuSpan, CpuState};

/// The times of a CPU, which add up to the length of the range: idle + run + unknown.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuAccount {
    /// Which.
    pub cpu: u16,
    /// Without a thread, ns.
    pub idle_ns: u64,
    /// With a thread, ns: interrupts are part of it.
    pub run_ns: u64,
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
        self.idle_ns.saturating_add(self.run_ns).saturating_add(self.unknown_ns)
    }

    /// Adds the times and counts of another.
    pub(crate) fn merge(&mut self, other: &Self) {
        // A damaged trace may claim any times.
        for (sum, part) in [
            (&mut self.idle_ns, other.idle_ns),
            (&mut self.run_ns, other.run_ns),
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
