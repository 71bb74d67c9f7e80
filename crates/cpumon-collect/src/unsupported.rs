//! Platforms without a source: the receiver's side of cpumon builds and runs where nothing can be measured yet.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cpumon_model::{HostInfo, Moment};

pub use super::absent::{
    ClockReader, TraceRecorder, USUAL_PROBES, confine_calls, confine_files, drop_capabilities,
    give_large_lists_back, give_memory_back,
};
use crate::{Check, CollectError, Diagnosis, DoctorOptions, Opened, SourceChoice, SourceOptions, Topic};

/// The names of sources that can be asked for.
pub(crate) const SOURCES: &[(&str, SourceChoice)] = &[("auto", SourceChoice::Auto)];

/// Fails with [`CollectError::Unsupported`].
pub fn open(_options: &SourceOptions) -> Result<Opened, CollectError> {
    Err(CollectError::Unsupported)
}

/// Fails with [`CollectError::Unsupported`].
pub fn host_info(_options: &SourceOptions) -> Result<HostInfo, CollectError> {
    Err(CollectError::Unsupported)
}

/// Fails with [`CollectError::NotHere`].
pub fn read_cycles(_into: &mut crate::nt::CycleSnapshot) -> Result<(), CollectError> {
    Err(CollectError::NotHere { what: "cycles of processes" })
}

/// One finding: this machine cannot be measured.
pub fn diagnose(_options: &DoctorOptions) -> Diagnosis {
    let check = Check::new(Topic::Probes, "source", "measuring this machine");
    Diagnosis { checks: vec![check.missing(CollectError::Unsupported.to_string(), "")] }
}

/// Now. The monotonic clock counts from when it was first asked.
pub fn now() -> Moment {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let passed = FIRST.get_or_init(Instant::now).elapsed();
    let mono_ns = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wall_ns = i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX);
    Moment { mono_ns, boot_ns: mono_ns, wall_ns }
}
