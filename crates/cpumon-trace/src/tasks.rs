//! Who the tasks of a trace are.

use std::borrow::Cow;
use std::collections::HashMap;

use cpumon_model::{ProcessKey, ThreadKey, TraceIdentity, TraceTask};
use foldhash::fast::FixedState;

/// Tasks of which a trace may report who they are. The kernel's largest number of threads at one time.
const MAX_TASKS: usize = 1 << 22;

/// A task with its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskNames<'t> {
    /// Thread id and start.
    pub thread: ThreadKey,
    /// Process id and start.
    pub process: ProcessKey,
    /// Name of the thread.
    pub comm: Cow<'t, str>,
    /// Name of the executable, or of the process's first thread.
    pub program: Cow<'t, str>,
    /// It works for the kernel only.
    pub is_kernel: bool,
}

/// What a process runs since its last exec.
#[derive(Debug)]
struct Program {
    since_ns: u64,
    name: Box<[u8]>,
}

/// Identities by number; the newest of each task counts.
#[derive(Debug, Default)]
pub struct Tasks {
    identities: HashMap<TraceTask, TraceIdentity, FixedState>,
    /// Executables, by process: threads that are seen for the first time later have none of their own.
    programs: HashMap<ProcessKey, Program, FixedState>,
    /// Identities that were left out, because there are too many.
    left_out: u64,
}

impl Tasks {
    /// Takes an identity. Older ones may come later: those of two CPUs are not in order.
    pub fn set(&mut self, identity: TraceIdentity) {
        if self.identities.len() >= MAX_TASKS && !self.identities.contains_key(&identity.task) {
            self.left_out += 1;
            return;
        }
        if identity.is_executable
            && self.programs.get(&identity.process).is_none_or(|known| known.since_ns <= identity.at_ns)
        {
            let program = Program { since_ns: identity.at_ns, name: identity.program.clone() };
            self.programs.insert(identity.process, program);
        }
        if self.identities.get(&identity.task).is_none_or(|known| known.at_ns <= identity.at_ns) {
            self.identities.insert(identity.task, identity);
        }
    }

    /// Who this is; `None` for idle and for what the trace does not name.
    #[must_use]
    pub fn find(&self, task: TraceTask) -> Option<TaskNames<'_>> {
        let identity = self.identities.get(&task)?;
        let executable = self.programs.get(&identity.process).map(|program| &program.name);
        let program = executable.unwrap_or(&identity.program);
        Some(TaskNames {
            thread: identity.thread,
            process: identity.process,
            comm: identity.comm.to_str_lossy(),
            program: String::from_utf8_lossy(program),
            is_kernel: identity.is_kernel,
        })
    }

    /// All that have a name, in no order.
    pub fn iter(&self) -> impl Iterator<Item = TraceTask> {
        self.identities.keys().copied()
    }

    /// Identities that were left out, because there are too many.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}
