//! The BPF source. In: the kernel's task iterator and exit probes. Out: snapshots.

use cpumon_model::Snapshot;

use crate::{CollectError, Source, SourceOptions};

/// Measures with BPF.
pub(crate) struct BpfSource {}

impl BpfSource {
    /// Loads and attaches the programs.
    pub(crate) fn open(_options: &SourceOptions) -> Result<Self, CollectError> {
        Err(CollectError::BpfUnavailable { reason: "this build has no BPF programs".to_owned() })
    }
}

impl Source for BpfSource {
    fn snapshot(&mut self, _into: &mut Snapshot) -> Result<(), CollectError> {
        Ok(())
    }
}
