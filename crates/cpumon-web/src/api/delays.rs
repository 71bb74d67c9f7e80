//! Run-delay histograms as JSON. In and out: the model's, without loss.

use std::sync::Arc;

use cpumon_model as model;
use cpumon_model::{DelayOf, ProcessKey, ThreadKey};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Id and start, ns since boot: the identity of a process or thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct TaskKey {
    /// pid or tid.
    pub id: u32,
    /// Its start.
    pub start_ns: u64,
}

/// How long single waits for a CPU took, counted by length: of a CPU, of a process, or with `thread` of one of its threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Delays {
    /// CPU number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// A process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<TaskKey>,
    /// A thread of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<TaskKey>,
    /// Bucket and count, ascending. Buckets are log-linear: 8 for each power of two, so that a length is known to within an eighth.
    pub buckets: Vec<(u8, u64)>,
}

fn process_of(key: ProcessKey) -> TaskKey {
    TaskKey { id: key.pid, start_ns: key.start_ns }
}

impl From<&model::Delays> for Delays {
    fn from(from: &model::Delays) -> Self {
        let (cpu, process, thread) = match from.of {
            DelayOf::Cpu(cpu) => (Some(cpu), None, None),
            DelayOf::Process(key) => (None, Some(process_of(key)), None),
            DelayOf::Thread(key, thread) => {
                let thread = TaskKey { id: thread.tid, start_ns: thread.start_ns };
                (None, Some(process_of(key)), Some(thread))
            }
        };
        Self { cpu, process, thread, buckets: from.histogram.iter().collect() }
    }
}

impl Delays {
    /// `None`: it belongs to no task.
    fn owner(&self) -> Option<DelayOf> {
        let process = self.process.map(|key| ProcessKey { pid: key.id, start_ns: key.start_ns });
        let thread = self.thread.map(|key| ThreadKey { tid: key.id, start_ns: key.start_ns });
        match (self.cpu, process, thread) {
            (Some(cpu), ..) => Some(DelayOf::Cpu(cpu)),
            (None, Some(process), Some(thread)) => Some(DelayOf::Thread(process, thread)),
            (None, Some(process), None) => Some(DelayOf::Process(process)),
            (None, None, _) => None,
        }
    }
}

/// Ascending by owner, as the model has them.
pub(super) fn to_model(from: &[Delays]) -> Vec<model::Delays> {
    let row = |row: &Delays| {
        let histogram = Arc::new(row.buckets.iter().copied().collect());
        row.owner().map(|of| model::Delays { of, histogram })
    };
    let mut rows: Vec<_> = from.iter().filter_map(row).collect();
    rows.sort_by_key(|row| row.of);
    rows.dedup_by_key(|row| row.of);
    rows
}
