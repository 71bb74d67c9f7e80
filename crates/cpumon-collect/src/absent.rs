//! Stubs of functions that exist only on Linux: on other systems every call returns an error.

#![expect(clippy::unnecessary_wraps, reason = "on Linux these calls can fail")]

use cpumon_model::{ClockReading, Probes, SourceKind};

use crate::{CollectError, RetainedCapabilities, TraceItem, TraceRecorderOptions};

/// The probes of a program that measures for others, and their list: none, because other systems want rights for them.
pub const USUAL_PROBES: (&str, Probes) = ("none", Probes::empty());

/// Does nothing: only Linux can restrict the files of a thread.
pub fn confine_files(_allowed: &crate::AllowedPaths) -> std::io::Result<String> {
    Ok("nothing holds files back here".to_owned())
}

/// Does nothing: only Linux can restrict the system calls of a process.
pub fn confine_calls(_calls: crate::Calls) -> std::io::Result<String> {
    Ok("nothing holds system calls back here".to_owned())
}

/// Does nothing: only Linux has capabilities.
pub fn drop_capabilities(_kind: SourceKind, _keep: RetainedCapabilities) -> std::io::Result<String> {
    Ok("none".to_owned())
}

/// Does nothing: the C library decides when memory is returned.
pub fn give_memory_back() {}

/// Does nothing: other systems have no such allocator setting.
pub fn give_large_lists_back() {}

/// Cannot be made: there are no clocks to read.
pub enum ClockReader {}

impl ClockReader {
    /// Fails with [`CollectError::Unsupported`].
    pub fn open() -> Result<Self, CollectError> {
        Err(CollectError::Unsupported)
    }

    pub fn read(&mut self, _into: &mut Vec<ClockReading>) -> Result<(), CollectError> {
        match *self {}
    }

    pub fn steal_ns(&mut self) -> Result<u64, CollectError> {
        match *self {}
    }

    pub fn tick_ns(&self) -> u64 {
        match *self {}
    }
}

/// Has no values: context switches can be recorded on Linux only.
pub enum TraceRecorder {}

impl TraceRecorder {
    /// Refuses.
    pub fn open(_options: TraceRecorderOptions) -> Result<Self, CollectError> {
        Err(CollectError::Unsupported)
    }

    /// Never called.
    pub fn drain(&mut self, _out: &mut dyn FnMut(TraceItem)) -> Result<f64, CollectError> {
        match *self {}
    }

    /// Never called.
    pub fn stop(&mut self, _out: &mut dyn FnMut(TraceItem)) -> Result<(), CollectError> {
        match *self {}
    }

    pub fn lost(&self) -> u64 {
        match *self {}
    }

    pub fn malformed(&self) -> u64 {
        match *self {}
    }
}
