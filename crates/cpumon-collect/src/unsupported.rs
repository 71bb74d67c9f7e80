//! Platforms without a source: the receiver's side of cpumon builds and runs where nothing can be measured yet.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cpumon_model::{ClockReading, HostInfo, Moment, SourceKind};

use crate::{
    Check, CollectError, Diagnosis, DoctorOptions, Opened, RetainedCapabilities, SourceOptions, Topic,
    TraceRecorderOptions, TraceSink,
};

/// There is no source here.
pub(crate) fn open(_options: &SourceOptions) -> Result<Opened, CollectError> {
    Err(CollectError::Unsupported)
}

/// No source can describe the host here.
pub(crate) fn host_info(_options: &SourceOptions) -> Result<HostInfo, CollectError> {
    Err(CollectError::Unsupported)
}

/// Nothing can be measured, which is one finding.
pub(crate) fn diagnose(_options: &DoctorOptions) -> Diagnosis {
    let check = Check::new(Topic::Probes, "source", "measuring this machine");
    Diagnosis { checks: vec![check.missing(CollectError::Unsupported.to_string(), "")] }
}

/// Nothing was opened with any right.
pub(crate) fn confine_files(_allowed: &crate::AllowedPaths) -> std::io::Result<String> {
    Ok("nothing holds files back here".to_owned())
}

pub(crate) fn confine_calls(_calls: crate::Calls) -> std::io::Result<String> {
    Ok("nothing holds system calls back here".to_owned())
}

pub(crate) fn drop_capabilities(_kind: SourceKind, _keep: RetainedCapabilities) -> std::io::Result<String> {
    Ok("none".to_owned())
}

/// The C library's own affair.
pub(crate) fn give_memory_back() {}

/// Likewise.
pub(crate) fn give_large_lists_back() {}

/// Now. The monotonic clock counts from when it was first asked.
pub(crate) fn now() -> Moment {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let passed = FIRST.get_or_init(Instant::now).elapsed();
    let mono_ns = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wall_ns = i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX);
    Moment { mono_ns, boot_ns: mono_ns, wall_ns }
}

/// Cannot be made: there are no clocks to read.
pub(crate) enum ClockReader {}

impl ClockReader {
    pub(crate) fn open() -> Result<Self, CollectError> {
        Err(CollectError::Unsupported)
    }

    pub(crate) fn read(&mut self, _into: &mut Vec<ClockReading>) -> Result<(), CollectError> {
        match *self {}
    }

    pub(crate) fn steal_ns(&mut self) -> Result<u64, CollectError> {
        match *self {}
    }

    pub(crate) fn tick_ns() -> u64 {
        0
    }
}

/// Cannot be made: nothing records switches here.
pub(crate) enum Recorder {}

impl Recorder {
    pub(crate) fn open(
        _options: TraceRecorderOptions,
        _sink: Rc<RefCell<dyn TraceSink>>,
    ) -> Result<Self, CollectError> {
        Err(CollectError::Unsupported)
    }

    pub(crate) fn drain(&mut self) -> Result<f64, CollectError> {
        match *self {}
    }

    pub(crate) fn stop(&mut self) -> Result<(), CollectError> {
        match *self {}
    }

    pub(crate) fn lost(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn malformed(&self) -> u64 {
        match *self {}
    }
}
