//! Traces as files of other programs: rows of slices, and Perfetto.
//!
//! A trace is read twice: names may come after the events of a task, and both formats have them in front.

mod perfetto;
mod slices;

use std::collections::HashSet;

use cpumon_model::{SchedEventKind, TraceTask};
use cpumon_trace::{Ending, ReadError, TaskNames, Tasks, TraceSource};

pub use perfetto::trace_perfetto;
pub use slices::trace_slices;

/// Ids of threads without a name in the trace: above the kernel's largest (2^22).
const UNNAMED: u32 = 1 << 23;

/// Threads that began in the trace and are known to have. Further ones count as from before it.
const MAX_BORN: usize = (1 << 22) / 8 * 7;

/// Facts about a trace that has been read once.
pub struct TraceSurvey {
    tasks: Tasks,
    born: HashSet<TraceTask>,
    pub ending: Ending,
    pub events: u64,
}

impl TraceSurvey {
    /// Reads a trace; only this survey stays in memory.
    pub fn new(mut trace: impl TraceSource) -> Result<Self, ReadError> {
        let (mut born, mut left_out, began_ns) = (HashSet::new(), 0, trace.header().began.mono_ns);
        let mut events = 0;
        let mut ending = trace.read(&mut |event| {
            events += 1;
            let SchedEventKind::Born { task, .. } = event.kind else { return };
            // Tasks born before the trace existed when it began.
            if event.at_ns <= began_ns {
                return;
            }
            if born.len() < MAX_BORN {
                born.insert(task);
            } else {
                left_out += u64::from(!born.contains(&task));
            }
        })?;
        ending.unfollowed = left_out;
        Ok(Self { tasks: std::mem::take(trace.tasks_mut()), born, ending, events })
    }

    /// How a second reading, which has no names, ended: names that the first one lacked are missing in it too.
    fn ending_of(&self, again: Ending, unfollowed: u64) -> Ending {
        let unfollowed = self.ending.unfollowed.saturating_add(unfollowed);
        Ending { unnamed: self.ending.unnamed, unfollowed, ..again }
    }

    fn is_born(&self, task: TraceTask) -> bool {
        self.born.contains(&task)
    }

    fn names(&self, task: TraceTask) -> Option<TaskNames<'_>> {
        self.tasks.find(task)
    }

    /// The thread's id; of a task without a name one that the kernel does not use.
    fn tid(&self, task: TraceTask) -> u32 {
        if task == TraceTask::IDLE {
            return 0;
        }
        self.names(task)
            .map_or(UNNAMED.saturating_add(task.0).min(i32::MAX.unsigned_abs()), |names| names.thread.tid)
    }
}
