//! Words that differ between operating systems for the same counter: a deferred procedure call of Windows is what a soft interrupt is
//! on Linux. Names of columns stay the same everywhere, so that a mixed fleet compares; only labels and help texts change.

use crate::{HostInfo, SourceKind};

/// A label and what it means.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Beside a value.
    pub label: &'static str,
    /// Where space is short.
    pub short: &'static str,
    /// In a few words.
    pub help: &'static str,
}

/// What a host's own system calls it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Time of hard interrupts.
    pub irq: Term,
    /// Time of what interrupts put off.
    pub softirq: Term,
}

impl Terms {
    /// Linux, and hosts of which the system is not known.
    pub const LINUX: Self = Self {
        irq: Term { label: "irq", short: "irq", help: "hard interrupts" },
        softirq: Term { label: "softirq", short: "sirq", help: "soft interrupts" },
    };
    /// Windows.
    pub const WINDOWS: Self = Self {
        irq: Term { label: "ISR", short: "ISR", help: "interrupt service routines (irq on Linux)" },
        softirq: Term { label: "DPC", short: "DPC", help: "deferred procedure calls (softirq on Linux)" },
    };

    /// What the host that this source measures calls it.
    #[must_use]
    pub const fn of(source: SourceKind) -> Self {
        if source.is_windows() { Self::WINDOWS } else { Self::LINUX }
    }

    /// What this host calls it, where what is shown may be sums, which have no source.
    #[must_use]
    pub fn of_host(info: &HostInfo) -> Self {
        if info.is_windows() { Self::WINDOWS } else { Self::LINUX }
    }

    /// The term for a CPU mode or a line of the ledger, by the name of its column; `None`: every system calls it the same.
    #[must_use]
    pub fn of_column(&self, name: &str) -> Option<&Term> {
        match name {
            "irq_ns" | "ledger_irq_ns" => Some(&self.irq),
            "softirq_ns" | "ledger_softirq_ns" => Some(&self.softirq),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_windows_has_its_own_words() {
        for source in [SourceKind::Nt, SourceKind::Toolhelp] {
            assert_eq!(Terms::of(source).softirq.label, "DPC");
        }
        for source in [SourceKind::Bpf, SourceKind::Procfs, SourceKind::V1, SourceKind::Unknown] {
            assert_eq!(Terms::of(source), Terms::LINUX);
        }
        for (kernel, label) in [("Windows 10.0.19045", "ISR"), ("Linux 6.18.4", "irq"), ("", "irq")] {
            let info = HostInfo { kernel: kernel.into(), ..HostInfo::default() };
            let terms = Terms::of_host(&info);
            assert_eq!(terms.of_column("ledger_irq_ns").map(|term| term.label), Some(label), "{kernel}");
            assert_eq!(terms.of_column("user_ns"), None);
        }
    }
}
