//! Who the threads of a timeline are, and those that an answer is about by name.

use std::borrow::Cow;

use cpumon_model::{ProcessKey, ThreadKey, TraceTask};

use super::Timeline;
use super::behind::Behind;
use super::cpus::CpuWho;
use crate::tasks::TaskNames;

/// Antagonists that are named.
const SHOWN: usize = 20;

/// Who a thread is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadNames<'t> {
    /// Its number in the trace.
    pub task: TraceTask,
    /// Thread id and start; `None`: the trace does not name it.
    pub thread: Option<ThreadKey>,
    /// Process id and start.
    pub process: Option<ProcessKey>,
    /// Name of the thread. Hostile.
    pub comm: Cow<'t, str>,
    /// Name of the executable, which its threads share. Hostile.
    pub program: Cow<'t, str>,
    /// It works for the kernel only.
    pub is_kernel: bool,
}

/// Who a thread is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema))]
pub struct TraceThread {
    /// Its number; −1: unknown, −2: a thread that is not followed, −3: none, the CPU was idle.
    pub thread: i64,
    /// Thread id; null: the trace does not say.
    pub tid: Option<u32>,
    /// Process id.
    pub pid: Option<u32>,
    /// Name. Hostile.
    pub name: Box<str>,
    /// Name of its program. Hostile.
    pub program: Box<str>,
    /// It works for the kernel only.
    pub is_kernel: bool,
}

/// Time and whom it is of.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema))]
pub struct TraceShare {
    /// Who.
    pub who: TraceThread,
    /// How long.
    pub ns: u64,
}

/// Whom threads waited behind.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema))]
pub struct TraceBehind {
    /// The longest first, 20 at most.
    pub by: Vec<TraceShare>,
    /// Time for which no thread is named: the CPU was idle or unknown, or there was too much to compare.
    pub rest_ns: u64,
    /// Threads that are not named here.
    pub more: usize,
}

impl CpuWho {
    /// Number of the thread, or of what is none, as in [`TraceThread::thread`].
    pub fn number(self) -> i64 {
        match self {
            Self::Thread(thread) => thread.into(),
            Self::Unknown => -1,
            Self::Other => -2,
            Self::Idle => -3,
        }
    }
}

impl Timeline {
    /// All threads, by place.
    pub fn threads(&self) -> impl ExactSizeIterator<Item = ThreadNames<'_>> {
        self.tasks_of.iter().map(|task| self.names_of(*task))
    }

    /// Who a thread is; `None`: no thread has this place.
    pub fn names(&self, place: u32) -> Option<ThreadNames<'_>> {
        self.tasks_of.get(usize::try_from(place).ok()?).map(|task| self.names_of(*task))
    }

    fn names_of(&self, task: TraceTask) -> ThreadNames<'_> {
        let Some(names) = self.tasks.find(task) else {
            let (comm, program) = (format!("task {}", task.0).into(), "".into());
            return ThreadNames { task, thread: None, process: None, comm, program, is_kernel: false };
        };
        let TaskNames { thread, process, comm, program, is_kernel, .. } = names;
        ThreadNames { task, thread: Some(thread), process: Some(process), comm, program, is_kernel }
    }

    /// Who has a CPU, by name.
    pub fn named(&self, who: CpuWho) -> TraceThread {
        let (names, otherwise) = match who {
            CpuWho::Thread(place) => (self.names(place), "unknown"),
            CpuWho::Unknown => (None, "unknown"),
            CpuWho::Other => (None, "not followed"),
            CpuWho::Idle => (None, "idle"),
        };
        let names = names.as_ref();
        TraceThread {
            thread: who.number(),
            tid: names.and_then(|names| names.thread).map(|key| key.tid),
            pid: names.and_then(|names| names.process).map(|key| key.pid),
            name: names.map_or(otherwise, |names| &names.comm).into(),
            program: names.map_or("", |names| &names.program).into(),
            is_kernel: names.is_some_and(|names| names.is_kernel),
        }
    }

    /// The first 20 antagonists, by name.
    pub fn named_behind(&self, behind: &Behind) -> TraceBehind {
        let by = behind.by.iter().take(SHOWN);
        TraceBehind {
            by: by.map(|(who, ns)| TraceShare { who: self.named(*who), ns: *ns }).collect(),
            rest_ns: behind.rest_ns,
            more: behind.by.len().saturating_sub(SHOWN),
        }
    }
}
