//! What only Linux has: on other systems every call says so, and nothing pretends to work.

#![expect(clippy::unnecessary_wraps, reason = "on Linux these calls can fail")]

use std::cell::RefCell;
use std::rc::Rc;

use cpumon_model::{ClockReading, SourceKind};

use crate::{CollectError, RetainedCapabilities, TraceRecorderOptions, TraceSink};

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
