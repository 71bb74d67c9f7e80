//! Who the tasks of a trace are.

use std::borrow::Cow;
use std::collections::HashMap;

use cpumon_model::{ProcessKey, ThreadKey, TraceGroup, TraceIdentity, TraceTask};
use foldhash::fast::FixedState;

/// Tasks of which a trace may report who they are. The kernel's largest number of threads at one time.
const MAX_TASKS: usize = 1 << 22;
/// Control groups of which a trace may report names.
const MAX_GROUPS: usize = 1 << 18;
/// Control groups one inside the other.
const MAX_DEPTH: usize = 32;

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
    /// Number of its control group, for [`Tasks::group_path`].
    pub group: u64,
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
    /// By number.
    groups: HashMap<u64, TraceGroup, FixedState>,
    /// Identities and names that were left out, because there are too many.
    left_out: u64,
}

impl Tasks {
    /// Takes an identity. Older ones may come later: those of two CPUs are not in order.
    pub fn set(&mut self, identity: TraceIdentity) {
        if self.identities.len() >= MAX_TASKS && !self.identities.contains_key(&identity.task) {
            self.left_out += 1;
            return;
        }
        if identity.is_executable {
            self.set_program(identity.process, identity.at_ns, &identity.program);
        }
        if self.identities.get(&identity.task).is_none_or(|known| known.at_ns <= identity.at_ns) {
            self.identities.insert(identity.task, identity);
        }
    }

    /// The process runs this since then.
    pub(crate) fn set_program(&mut self, process: ProcessKey, since_ns: u64, name: &[u8]) {
        if self.programs.len() >= MAX_TASKS && !self.programs.contains_key(&process) {
            self.left_out += 1;
        } else if self.programs.get(&process).is_none_or(|known| known.since_ns <= since_ns) {
            self.programs.insert(process, Program { since_ns, name: name.into() });
        }
    }

    /// Who this is; `None` for idle and for what the trace does not name.
    #[must_use]
    pub fn find(&self, task: TraceTask) -> Option<TaskNames<'_>> {
        let identity = self.identities.get(&task)?;
        let executable = self.programs.get(&identity.process).map(|program| &program.name);
        let program = String::from_utf8_lossy(executable.unwrap_or(&identity.program));
        let comm = identity.comm.to_str_lossy();
        Some(TaskNames {
            thread: identity.thread,
            process: identity.process,
            // On Windows most threads have no name.
            comm: if comm.is_empty() { program.clone() } else { comm },
            program,
            group: identity.group,
            is_kernel: identity.is_kernel,
        })
    }

    /// All that have a name, in no order.
    pub fn iter(&self) -> impl Iterator<Item = TraceTask> {
        self.identities.keys().copied()
    }

    /// Takes the name of a control group.
    pub fn set_group(&mut self, group: TraceGroup) {
        if self.groups.len() >= MAX_GROUPS && !self.groups.contains_key(&group.group) {
            self.left_out += 1;
            return;
        }
        self.groups.insert(group.group, group);
    }

    /// The path of a control group from its hierarchy's root on; `None` if the trace does not name it.
    #[must_use]
    pub fn group_path(&self, group: u64) -> Option<String> {
        let mut parts = Vec::new();
        let mut at = self.groups.get(&group)?;
        // A damaged file may have a circle.
        while parts.len() < MAX_DEPTH {
            if at.parent == 0 {
                break;
            }
            parts.push(String::from_utf8_lossy(&at.name));
            let Some(parent) = self.groups.get(&at.parent) else { break };
            at = parent;
        }
        parts.reverse();
        Some(format!("/{}", parts.join("/")))
    }

    /// Identities and names of groups that were left out, because there are too many.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}
