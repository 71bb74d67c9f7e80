//! Numbers threads and completes interrupts. The kernel uses a thread id again, so each life of one gets a number of its own, and a name.
//! Recorders mark where an interrupt begins and where it ends; a trace has it as one event, at its end.

use std::collections::HashMap;

use cpumon_model::{Comm, ProcessKey, ThreadKey, WaitReason};
use cpumon_sched::{
    Interrupt, Leaves, Name, ProgramName, SchedEvent, SchedEventKind, Slots, TraceIdentity, TraceTask,
    up_to_zero,
};
use cpumon_trace::Tasks;
use cpumon_trace::limits::Bound;
use foldhash::fast::RandomState;

use crate::decoder::{NamedThread, RawEvent, RawKind, UNKNOWN};

/// Threads that are followed at one time: at most about the kernel's largest thread id, as many as fit in a hash table of 2^22 places.
/// Further ones are unknown.
const THREADS: Bound = Bound { free: 1 << 16, times: 1, most: (1 << 22) / 8 * 7 };
/// In any packed file the events of a thread have more bytes.
const THREAD_BYTES: u64 = 16;

#[derive(Copy, Clone, Debug)]
struct Life {
    task: TraceTask,
    /// `None`: the trace does not say; the thread counts as a process of its own.
    pid: Option<u32>,
    name: Name,
    /// When it began, if within the trace.
    start_ns: u64,
    /// Where it ran last, of recorders that do not say when it moves.
    cpu: Option<u16>,
    /// No event of the thread was seen yet.
    is_new: bool,
    is_dead: bool,
}

#[derive(Clone, Debug, Default)]
struct Process {
    start_ns: u64,
    /// Name of its first thread.
    name: Name,
    /// Executable, where the recorder reports it.
    program: Option<Box<ProgramName>>,
    is_kernel: bool,
}

/// Threads and processes by id, as of the last event.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    lives: HashMap<u32, Life, RandomState>,
    processes: HashMap<u32, Process, RandomState>,
    numbers: u32,
    interrupts: OpenInterrupts,
    most: usize,
}

impl Numbering {
    pub(super) fn new(file_bytes: u64) -> Self {
        Self { most: THREADS.of(file_bytes / THREAD_BYTES), ..Self::default() }
    }

    /// Replaces the thread ids of an event with numbers; `None` if no event results, as for a thread's name or the start of an interrupt.
    pub(super) fn number(&mut self, event: &RawEvent, tasks: &mut Tasks) -> Option<SchedEvent> {
        let at_ns = event.at_ns;
        let kind = match event.kind {
            RawKind::Switch { prev, next, leaves } => {
                let from = self.seen(prev, at_ns, tasks);
                let leaves = self.leave(prev.tid, leaves);
                let to = self.seen(next, at_ns, tasks);
                SchedEventKind::Switch { prev: from, next: to, leaves }
            }
            RawKind::Waking { task, waker, cpu } => SchedEventKind::Waking {
                task: self.seen(task, at_ns, tasks),
                waker: self.find(waker, at_ns, tasks),
                cpu,
            },
            RawKind::Readied { tid, waker } => {
                let task = self.seen(NamedThread { tid, name: Name::default() }, at_ns, tasks);
                let waker = self.find(waker, at_ns, tasks);
                let last = self.lives.get(&tid).and_then(|life| life.cpu);
                SchedEventKind::Waking { task, waker, cpu: last.unwrap_or(event.cpu) }
            }
            RawKind::Comes { tid } => {
                self.find(tid, at_ns, tasks);
                let life = self.lives.get_mut(&tid)?;
                let before = life.cpu.replace(event.cpu)?;
                if life.is_dead || before == event.cpu {
                    return None;
                }
                SchedEventKind::Migrate { task: life.task, to_cpu: event.cpu }
            }
            RawKind::Migrate { tid, to_cpu } => {
                SchedEventKind::Migrate { task: self.find(tid, at_ns, tasks), to_cpu }
            }
            RawKind::Born { task, parent, is_thread } => {
                let from = self.find(parent, at_ns, tasks);
                let task = self.born(task, is_thread.then_some(parent), at_ns, tasks);
                SchedEventKind::Born { task, parent: from }
            }
            RawKind::Exit { tid } => SchedEventKind::Exit { task: self.find(tid, at_ns, tasks) },
            RawKind::Lost { count, until_ns } => {
                self.interrupts.forget(event.cpu);
                SchedEventKind::Lost { count, until_ns }
            }
            RawKind::Enter(interrupt) => {
                self.interrupts.enter(event.cpu, interrupt, at_ns);
                return None;
            }
            RawKind::Return(interrupt) => {
                let ran_ns = self.interrupts.leave(event.cpu, interrupt, at_ns)?;
                SchedEventKind::Interrupt { interrupt, ran_ns }
            }
            RawKind::Interrupt { interrupt, ran_ns } => SchedEventKind::Interrupt { interrupt, ran_ns },
            RawKind::Same => return None,
            RawKind::Called(named) => {
                self.call(named, at_ns, tasks);
                return None;
            }
            RawKind::Belongs { tid, pid, is_new } => {
                if is_new {
                    self.begin_new(tid, at_ns);
                }
                self.belong(tid, pid, at_ns, tasks);
                return None;
            }
            RawKind::Runs { pid, program, is_new } => {
                self.run(pid, program, is_new.then_some(at_ns), tasks);
                return None;
            }
            RawKind::Kernel { pid } => {
                if let Some(process) = self.process(pid) {
                    process.is_kernel = true;
                }
                return None;
            }
        };
        Some(SchedEvent { at_ns, cpu: event.cpu, kind })
    }

    /// The task of an event that does something to it.
    fn seen(&mut self, named: NamedThread, at_ns: u64, tasks: &mut Tasks) -> TraceTask {
        if self.lives.get(&named.tid).is_some_and(|life| life.is_dead) {
            self.begin(named.tid, at_ns);
            self.identify(named.tid, at_ns, tasks);
        }
        let task = self.call(named, at_ns, tasks);
        if let Some(life) = self.lives.get_mut(&named.tid) {
            life.is_new = false;
        }
        task
    }

    /// The task of an event that only mentions it.
    fn find(&mut self, tid: u32, at_ns: u64, tasks: &mut Tasks) -> TraceTask {
        self.call(NamedThread { tid, name: Name::default() }, at_ns, tasks)
    }

    /// A thread of the process that thread `beside` is of, or of one of its own.
    fn born(&mut self, named: NamedThread, beside: Option<u32>, at_ns: u64, tasks: &mut Tasks) -> TraceTask {
        self.begin_new(named.tid, at_ns);
        if let Some(beside) = beside.filter(|beside| *beside != 0 && *beside != UNKNOWN) {
            let pid = self.lives.get(&beside).and_then(|life| life.pid).unwrap_or(beside);
            self.belong(named.tid, pid, at_ns, tasks);
        }
        self.call(named, at_ns, tasks)
    }

    /// A thread with this id begins its life. 0: it began before the trace.
    fn begin(&mut self, tid: u32, start_ns: u64) -> Option<&mut Life> {
        if self.lives.len() >= self.most && !self.lives.contains_key(&tid) {
            return None;
        }
        self.numbers = self.numbers.checked_add(1).filter(|number| *number != u32::MAX)?;
        let task = TraceTask(self.numbers);
        let is_new = start_ns > 0;
        let life =
            Life { task, pid: None, name: Name::default(), start_ns, cpu: None, is_new, is_dead: false };
        if start_ns > 0 {
            self.processes.remove(&tid);
        }
        self.lives.insert(tid, life);
        self.lives.get_mut(&tid)
    }

    fn process(&mut self, pid: u32) -> Option<&mut Process> {
        if self.processes.len() >= self.most && !self.processes.contains_key(&pid) {
            return None;
        }
        Some(self.processes.entry(pid).or_default())
    }

    /// The thread has this name. An empty one says nothing.
    fn call(&mut self, named: NamedThread, at_ns: u64, tasks: &mut Tasks) -> TraceTask {
        match named.tid {
            0 => return TraceTask::IDLE,
            UNKNOWN => return TraceTask::UNKNOWN,
            _ => {}
        }
        if !self.lives.contains_key(&named.tid) {
            if self.begin(named.tid, 0).is_none() {
                return TraceTask::UNKNOWN;
            }
            self.identify(named.tid, 0, tasks);
        }
        let Some(life) = self.lives.get_mut(&named.tid) else { return TraceTask::UNKNOWN };
        let task = life.task;
        if life.name == named.name || named.name[0] == 0 {
            return task;
        }
        life.name = named.name;
        self.identify(named.tid, at_ns, tasks);
        task
    }

    /// A thread begins now; several events may say so.
    fn begin_new(&mut self, tid: u32, at_ns: u64) {
        let is_thread = tid != 0 && tid != UNKNOWN;
        if is_thread && self.lives.get(&tid).is_none_or(|life| !life.is_new) {
            self.begin(tid, at_ns);
        }
    }

    /// As of `at_ns`, and since its begin: a recording may say so at its end only.
    fn belong(&mut self, tid: u32, pid: u32, at_ns: u64, tasks: &mut Tasks) {
        if tid == 0 || tid == UNKNOWN {
            return;
        }
        if !self.lives.contains_key(&tid) {
            self.begin(tid, 0);
        }
        if let Some(life) = self.lives.get_mut(&tid) {
            life.pid = Some(pid);
            self.identify(tid, at_ns, tasks);
        }
    }

    fn run(&mut self, pid: u32, program: ProgramName, since_ns: Option<u64>, tasks: &mut Tasks) {
        let Some(process) = self.process(pid) else { return };
        if let Some(start_ns) = since_ns {
            *process = Process { start_ns, ..Process::default() };
        }
        process.program = Some(Box::new(program));
        let key = ProcessKey { pid, start_ns: process.start_ns };
        tasks.set_program(key, since_ns.unwrap_or(0), up_to_zero(&program));
    }

    fn identify(&mut self, tid: u32, at_ns: u64, tasks: &mut Tasks) {
        let Some(life) = self.lives.get(&tid).copied() else { return };
        let pid = life.pid.unwrap_or(tid);
        let is_first = pid == tid;
        let Some(process) = self.process(pid) else { return };
        if is_first && process.program.is_none() {
            (process.start_ns, process.name) = (life.start_ns, life.name);
        }
        let program = process.program.as_ref().map_or(&process.name[..], |program| &program[..]);
        tasks.set(TraceIdentity {
            task: life.task,
            at_ns,
            thread: ThreadKey { tid, start_ns: life.start_ns },
            process: ProcessKey { pid, start_ns: process.start_ns },
            group: 0,
            comm: Comm::new(up_to_zero(&life.name)),
            program: up_to_zero(program).into(),
            // The name of the first thread is that of all: the others may be seen before it is known.
            is_executable: is_first && process.program.is_none(),
            is_kernel: process.is_kernel,
        });
    }

    fn leave(&mut self, tid: u32, leaves: Leaves) -> Leaves {
        let Some(life) = self.lives.get_mut(&tid) else { return leaves };
        life.is_dead = leaves == Leaves::Dead;
        let process = self.processes.get(&life.pid.unwrap_or(tid));
        match leaves {
            Leaves::Asleep(WaitReason::OTHER) if process.is_some_and(|process| process.is_kernel) => {
                Leaves::Asleep(WaitReason::KERNEL)
            }
            other => other,
        }
    }
}

/// Interrupts of a CPU one inside the other. The kernel has two or three; an entry without an exit takes a place too.
const MAX_DEPTH: usize = 16;

#[derive(Debug, Default)]
struct OpenInterrupts {
    cpus: Slots<Vec<(Interrupt, u64)>>,
}

impl OpenInterrupts {
    fn enter(&mut self, cpu: u16, interrupt: Interrupt, at_ns: u64) {
        let open = self.cpus.at(cpu.into());
        if open.len() == MAX_DEPTH {
            open.remove(0);
        }
        open.push((interrupt, at_ns));
    }

    /// How long it took; `None` if its begin was not recorded.
    fn leave(&mut self, cpu: u16, interrupt: Interrupt, at_ns: u64) -> Option<u64> {
        let open = self.cpus.at(cpu.into());
        let at = open.iter().rposition(|(known, _)| *known == interrupt)?;
        let (_, since_ns) = open[at];
        // What began inside it ended there, unseen.
        open.truncate(at);
        at_ns.checked_sub(since_ns)
    }

    /// Events of the CPU were lost: what has begun may be another one that ends.
    fn forget(&mut self, cpu: u16) {
        self.cpus.at(cpu.into()).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_known_by_its_begin() {
        let (hard, soft) = (Interrupt::Hard(4), Interrupt::Soft(1));
        let mut open = OpenInterrupts::default();
        assert_eq!(open.leave(1, soft, 5), None, "it began before the trace");
        open.enter(1, soft, 10);
        open.enter(1, hard, 12);
        assert_eq!(open.leave(0, hard, 13), None, "another CPU");
        assert_eq!(open.leave(1, hard, 13), Some(1));
        assert_eq!(open.leave(1, soft, 20), Some(10));
        open.enter(1, soft, 30);
        open.enter(1, hard, 31);
        assert_eq!(open.leave(1, soft, 40), Some(10), "the exit of the hard one is missing");
        assert_eq!(open.leave(1, hard, 50), None);
        open.enter(1, soft, 60);
        open.forget(1);
        assert_eq!(open.leave(1, soft, 70), None);
        for at_ns in 0..100 {
            open.enter(1, hard, at_ns);
        }
        assert_eq!(open.cpus.at(1).len(), MAX_DEPTH);
    }
}
