//! What a trace's first reading is for: who its tasks are, and which of them began in it.

use std::collections::HashSet;

use cpumon_model::{SchedEventKind, TraceTask};
use cpumon_trace::{Ending, ReadError, TaskNames, Tasks, TraceSource};

/// Ids of threads of which the trace has no name: above the kernel's largest (2^22).
const UNNAMED: u32 = 1 << 23;

/// What is known of a trace once it has been read.
pub struct TraceSurvey<S> {
    trace: S,
    born: HashSet<TraceTask>,
    ending: Ending,
}

impl<S: TraceSource> TraceSurvey<S> {
    /// Reads a trace.
    pub fn new(mut trace: S) -> Result<Self, ReadError> {
        let mut born = HashSet::new();
        let ending = trace.read(&mut |event| {
            if let SchedEventKind::Born { task, .. } = event.kind {
                born.insert(task);
            }
        })?;
        Ok(Self { trace, born, ending })
    }

    /// How the reading ended.
    #[must_use]
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    pub(super) fn tasks(&self) -> &Tasks {
        self.trace.tasks()
    }

    pub(super) fn is_born(&self, task: TraceTask) -> bool {
        self.born.contains(&task)
    }

    pub(super) fn names(&self, task: TraceTask) -> Option<TaskNames<'_>> {
        self.tasks().find(task)
    }

    /// The thread's id; of a task without a name one that the kernel does not use.
    pub(super) fn tid(&self, task: TraceTask) -> u32 {
        if task == TraceTask::IDLE {
            return 0;
        }
        self.names(task)
            .map_or(UNNAMED.saturating_add(task.0).min(i32::MAX.unsigned_abs()), |names| names.thread.tid)
    }
}
