//! [`Past`]: what a store can be asked. `cpumon_store::Reader` implements it; another engine may later.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use cpumon_model::{HostId, Interval, ProcessInfo, ProcessKey};
use cpumon_store::legacy::SetOrder;
use cpumon_store::{
    DamageReport, Gap, HostRecord, Plan, Query, Reader, Resolution, Segment, StoreError, StoredProcess,
    TraceRecord,
};

use crate::time::{Available, TimeRange};

/// What a process is, and its parent's pid.
pub type KnownProcess = (Arc<ProcessInfo>, u32);

/// What was recorded.
pub trait Past: Send {
    /// Every host, by name.
    fn hosts(&self) -> Result<Vec<HostRecord>, StoreError>;
    /// The container or unit of each control group that a process was in, by its path.
    fn cgroup_containers(&self) -> Result<HashMap<Box<str>, Box<str>>, StoreError>;
    /// The host of this name or id.
    fn find_host(&self, text: &str) -> Result<HostRecord, StoreError>;
    /// What is stored of a host; `None`: nothing.
    fn available(&self, host: HostId) -> Result<Option<Available>, StoreError>;
    /// How to walk a range in `points` steps; `None`: the store has nothing of this host.
    fn plan(&self, host: HostId, range: TimeRange, points: usize) -> Result<Option<Plan>, StoreError>;
    /// Walks intervals, or sums of them, in order of time.
    fn for_each_segment(
        &self,
        query: &Query,
        resolution: Option<Resolution>,
        visit: &mut dyn FnMut(&Segment<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;
    /// Walks intervals in order of time.
    fn for_each_interval(
        &self,
        query: &Query,
        visit: &mut dyn FnMut(&Interval) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;
    /// Gaps that the receiver recorded, at most `limit`.
    fn losses(&self, host: HostId, range: TimeRange, limit: usize) -> Result<Vec<Gap>, StoreError>;
    /// Gaps that were recorded, and gaps between intervals, at most `limit`.
    fn gaps(&self, host: HostId, range: TimeRange, limit: usize) -> Result<Vec<Gap>, StoreError>;
    /// What a process is; `None`: it was never stored.
    fn process(&self, host: HostId, key: ProcessKey) -> Result<Option<KnownProcess>, StoreError>;
    /// Visits every process of a host of which the name is stored, once for each description it had.
    fn each_process(&self, host: HostId, visit: &mut dyn FnMut(&StoredProcess<'_>))
    -> Result<(), StoreError>;
    /// When processes began; those that are not known are left out.
    fn began(&self, host: HostId, keys: &[ProcessKey]) -> Result<HashMap<ProcessKey, i64>, StoreError>;
    /// How the original receiver numbered the rows of an imported interval, by its end; `None`: it was measured.
    fn legacy_order(&self, host: HostId, end_wall_ns: i64) -> Result<Option<SetOrder>, StoreError>;
    /// The hours of a range whose threads are not in sums, in order.
    fn hours_without_threads(&self, host: HostId, range: TimeRange) -> Result<Vec<TimeRange>, StoreError>;
    /// Traces of a host, or of all, whose time touches a range, at most `limit`.
    fn traces(
        &self,
        host: Option<HostId>,
        range: TimeRange,
        limit: usize,
    ) -> Result<Vec<TraceRecord>, StoreError>;
    /// What could not be read since it was opened. Answers were given without it.
    fn damage(&self) -> DamageReport;
}

impl Past for Reader {
    fn hosts(&self) -> Result<Vec<HostRecord>, StoreError> {
        self.hosts()
    }

    fn cgroup_containers(&self) -> Result<HashMap<Box<str>, Box<str>>, StoreError> {
        self.cgroup_containers()
    }

    fn find_host(&self, text: &str) -> Result<HostRecord, StoreError> {
        self.find_host(text)
    }

    fn available(&self, host: HostId) -> Result<Option<Available>, StoreError> {
        let ends = self.time_range(host)?;
        Ok(ends.map(|(first_ns, last_ns)| Available { first_ns, last_ns }))
    }

    fn plan(&self, host: HostId, range: TimeRange, points: usize) -> Result<Option<Plan>, StoreError> {
        self.plan(host, range, points)
    }

    fn for_each_segment(
        &self,
        query: &Query,
        resolution: Option<Resolution>,
        visit: &mut dyn FnMut(&Segment<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.for_each_segment(query, resolution, visit)
    }

    fn for_each_interval(
        &self,
        query: &Query,
        visit: &mut dyn FnMut(&Interval) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.for_each_interval(query, visit)
    }

    fn losses(&self, host: HostId, range: TimeRange, limit: usize) -> Result<Vec<Gap>, StoreError> {
        self.losses(host, range, limit)
    }

    fn gaps(&self, host: HostId, range: TimeRange, limit: usize) -> Result<Vec<Gap>, StoreError> {
        self.gaps(host, range, limit)
    }

    fn process(&self, host: HostId, key: ProcessKey) -> Result<Option<KnownProcess>, StoreError> {
        self.process(host, key)
    }

    fn traces(
        &self,
        host: Option<HostId>,
        range: TimeRange,
        limit: usize,
    ) -> Result<Vec<TraceRecord>, StoreError> {
        self.traces(host, range, limit)
    }

    fn each_process(
        &self,
        host: HostId,
        visit: &mut dyn FnMut(&StoredProcess<'_>),
    ) -> Result<(), StoreError> {
        self.each_process(host, visit)
    }

    fn began(&self, host: HostId, keys: &[ProcessKey]) -> Result<HashMap<ProcessKey, i64>, StoreError> {
        self.began(host, keys)
    }

    fn legacy_order(&self, host: HostId, end_wall_ns: i64) -> Result<Option<SetOrder>, StoreError> {
        self.legacy_order(host, end_wall_ns)
    }

    fn hours_without_threads(&self, host: HostId, range: TimeRange) -> Result<Vec<TimeRange>, StoreError> {
        self.hours_without_threads(host, range)
    }

    fn damage(&self) -> DamageReport {
        self.damage()
    }
}

/// Opens a reader of the past: each thread reads with one of its own.
pub type OpenPast = Box<dyn Fn() -> Result<Box<dyn Past>, StoreError> + Send + Sync>;

/// Opens readers of a store's file.
#[must_use]
pub fn open_store(path: PathBuf) -> OpenPast {
    Box::new(move || Ok(Box::new(Reader::open(&path)?)))
}
