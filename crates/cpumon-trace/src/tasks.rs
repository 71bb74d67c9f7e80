//! Names of the tasks of a trace: threads, their processes and programs, in bounded memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hash;

use cpumon_model::{ProcessKey, ThreadKey};
use cpumon_sched::{TraceGroup, TraceIdentity, TraceTask};
use foldhash::fast::RandomState;

use crate::limits::Bound;

/// Most tasks whose identities are held: about the kernel's largest number of threads at one time, as many as fit in a hash table of 2^22
/// places.
const MAX_TASKS: usize = (1 << 22) / 8 * 7;
/// Memory for identities and names, bytes: a compressed file of 24 MB can name 4 million programs of 255 bytes.
const MEMORY: Bound = Bound { free: 16 << 20, times: 16, most: MAX_BYTES };
const MAX_BYTES: usize = 512 << 20;
/// Memory of an entry beside its name: the allocation's, and what the table leaves empty.
const ENTRY_BYTES: usize = 32;
/// Most control groups whose names are held.
const MAX_GROUPS: usize = 1 << 18;
/// Most levels of nested control groups.
const MAX_DEPTH: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskNames<'t> {
    pub thread: ThreadKey,
    pub process: ProcessKey,
    pub comm: Cow<'t, str>,
    /// Name of the executable, or of the process's first thread.
    pub program: Cow<'t, str>,
    /// Number of its control group, for [`Tasks::group_path`].
    pub group: u64,
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
    identities: HashMap<TraceTask, TraceIdentity, RandomState>,
    /// Executables, by process: threads that are seen for the first time later have none of their own.
    programs: HashMap<ProcessKey, Program, RandomState>,
    groups: HashMap<u64, TraceGroup, RandomState>,
    memory: NameMemory,
}

#[derive(Debug)]
struct NameMemory {
    /// Memory of all names, bytes.
    bytes: usize,
    /// Most memory that names may take, bytes.
    limit: usize,
    /// Most memory for the part of the file that was read so far, bytes.
    allowed: usize,
    /// Identities and names that were left out, because there are too many.
    left_out: u64,
}

impl Default for NameMemory {
    fn default() -> Self {
        Self { bytes: 0, limit: MAX_BYTES, allowed: MAX_BYTES, left_out: 0 }
    }
}

impl NameMemory {
    /// Puts an entry into a table of at most `most` entries; it replaces an entry with the same key. Without space it is left out, and
    /// counted.
    fn put<K: Hash + Eq, V>(
        &mut self,
        table: &mut HashMap<K, V, RandomState>,
        most: usize,
        (key, value): (K, V),
        name_of: fn(&V) -> &[u8],
    ) {
        let bytes_of = |value: &V| entry_bytes::<(K, V)>(name_of(value));
        let old = table.get(&key).map(bytes_of);
        let bytes = self.bytes - old.unwrap_or(0) + bytes_of(&value);
        if (old.is_none() && table.len() >= most) || bytes > self.limit.min(self.allowed) {
            self.left_out += 1;
            return;
        }
        self.bytes = bytes;
        table.insert(key, value);
    }
}

impl Tasks {
    /// Takes an identity. Older ones may come later: those of two CPUs are not in order.
    pub fn set(&mut self, identity: TraceIdentity) {
        if identity.is_executable {
            self.set_program(identity.process, identity.at_ns, &identity.program);
        }
        let known = self.identities.get(&identity.task);
        if known.is_none_or(|known| known.at_ns <= identity.at_ns) {
            let entry = (identity.task, identity);
            self.memory.put(&mut self.identities, MAX_TASKS, entry, |identity| &identity.program);
        }
    }

    /// The process runs this executable since then (ns on the trace's clock), by its name, which is hostile. An older one may come later.
    pub fn set_program(&mut self, process: ProcessKey, since_ns: u64, name: &[u8]) {
        let known = self.programs.get(&process);
        if known.is_none_or(|known| known.since_ns <= since_ns) {
            let entry = (process, Program { since_ns, name: name.into() });
            self.memory.put(&mut self.programs, MAX_TASKS, entry, |program| &program.name);
        }
    }

    /// Names that take more memory than this are left out from now on, and counted. 0 for a second reading: the first one already has
    /// the names.
    pub fn limit(&mut self, bytes: usize) {
        self.memory.limit = self.memory.limit.min(bytes);
    }

    /// An empty list for a file of `bytes` bytes. Names may take 16 MiB of memory and 16 bytes for each byte of the file, but at most 512
    /// MiB.
    pub fn of_file(bytes: u64) -> Self {
        let mut tasks = Self::default();
        tasks.allow(bytes);
        tasks
    }

    /// Sets the memory limit for a file with `read_bytes` bytes read so far.
    pub(crate) fn allow(&mut self, read_bytes: u64) {
        self.memory.allowed = MEMORY.of(read_bytes);
    }

    /// Memory of all identities and names, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.bytes
    }

    /// Who this is; `None` for idle and for what the trace does not name.
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

    /// All tasks with a name, ascending: a table has them in another order each time.
    pub fn named(&self) -> Vec<TraceTask> {
        let mut named: Vec<TraceTask> = self.identities.keys().copied().collect();
        named.sort_unstable();
        named
    }

    pub fn set_group(&mut self, group: TraceGroup) {
        self.memory.put(&mut self.groups, MAX_GROUPS, (group.group, group), |group| &group.name);
    }

    /// The path of a control group from its hierarchy's root on; `None` if the trace does not name it.
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
    pub fn left_out(&self) -> u64 {
        self.memory.left_out
    }
}

/// Memory of an entry of this type with its name.
fn entry_bytes<T>(name: &[u8]) -> usize {
    size_of::<T>() + name.len() + ENTRY_BYTES
}
#[cfg(test)]
mod tests {
    use cpumon_model::Comm;

    use super::*;
    use crate::file::format::FileHeader;
    use crate::file::reader::TraceReader;
    use crate::file::writer::{Compression, TraceWriter};
    use crate::source::TraceSource;

    fn program(number: u32, name_bytes: usize) -> TraceIdentity {
        TraceIdentity {
            task: TraceTask(number),
            at_ns: 0,
            thread: ThreadKey { tid: number, start_ns: 1 },
            process: ProcessKey { pid: number, start_ns: 1 },
            program: vec![b'x'; name_bytes].into(),
            group: 0,
            comm: Comm::new(b"x"),
            is_executable: true,
            is_kernel: false,
        }
    }

    fn with_space_for(programs: usize) -> Tasks {
        let one = entry_bytes::<(TraceTask, TraceIdentity)>(&[0; 255])
            + entry_bytes::<(ProcessKey, Program)>(&[0; 255]);
        let mut tasks = Tasks::default();
        tasks.limit(programs * one);
        tasks
    }

    #[test]
    fn names_beyond_the_memory_limit_are_left_out_and_counted() {
        let mut tasks = with_space_for(3);
        (1..=10).for_each(|number| tasks.set(program(number, 255)));
        assert_eq!((tasks.named().len(), tasks.programs.len(), tasks.left_out()), (3, 3, 14));
        // Replaces an entry: only the difference counts.
        tasks.set(program(2, 255));
        assert_eq!((tasks.bytes(), tasks.left_out()), (tasks.memory.limit, 14));
        tasks.set(program(2, 0));
        assert_eq!(tasks.bytes(), tasks.memory.limit - 2 * 255);
        tasks.set_group(TraceGroup { group: 1, parent: 2, name: [b'x'; 255].into() });
        assert_eq!((tasks.groups.len(), tasks.left_out()), (1, 14));
        tasks.set_group(TraceGroup { group: 3, parent: 2, name: [b'x'; 255].into() });
        assert_eq!((tasks.groups.len(), tasks.left_out()), (1, 15));
    }

    #[test]
    fn a_trace_whose_names_are_left_out_is_not_whole() {
        let mut writer = TraceWriter::new(Vec::new(), &FileHeader::default(), Compression::Zstd(1)).unwrap();
        (1..=10).for_each(|number| writer.identity(&program(number, 255)));
        let file = writer.finish(1, 0).unwrap().0;
        for (space, unnamed) in [(10, 0), (4, 12)] {
            let mut reader = TraceReader::open(file.as_slice()).unwrap();
            *reader.tasks_mut() = with_space_for(space);
            let ending = reader.read(&mut |_| {}).unwrap();
            assert_eq!((ending.unnamed, ending.is_whole()), (unnamed, unnamed == 0));
        }
    }
}
