//! [`Opened`]: a running source with the reason why it was chosen.

use cpumon_model::{Probes, SourceKind};

use crate::Source;

/// A source that runs, and why it is this one.
pub struct Opened {
    /// Fills snapshots, one for each pass.
    pub source: Box<dyn Source + Send>,
    /// Which source it is: BPF or procfs.
    pub kind: SourceKind,
    /// Why this one, one line: `procfs: BPF needs CAP_BPF and CAP_PERFMON (EPERM on bpf())`; and what it goes without.
    pub reason: String,
    /// What it watches; less than what was asked for where a probe does not load.
    pub probes: Probes,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened")
            .field("kind", &self.kind)
            .field("reason", &self.reason)
            .field("probes", &self.probes)
            .finish_non_exhaustive()
    }
}
