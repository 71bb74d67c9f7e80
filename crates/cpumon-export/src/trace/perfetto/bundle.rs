//! Output of one CPU: `FtraceEventBundle`, with switches and wakeups in the compact form; the state of its thread
//! meanwhile; and the few kinds of protobuf fields that a Perfetto trace needs.

use std::collections::HashMap;

use cpumon_model::WaitReason;
use cpumon_model::varint::push as push_varint;
use cpumon_trace::{CpuState, Leaves, ThreadState, TraceTask};

/// Not a state of a task: it was runnable when it left.
const PREEMPTED: u64 = 0x100;
/// *Parked*, for unknown states: Perfetto counts a bit without a meaning as an error, and no trace of cpumon has this one otherwise.
pub(super) const UNKNOWN: u64 = 0x40;
/// `CLONE_THREAD` of `task_newtask`.
const CLONE_THREAD: u64 = 0x10000;

#[derive(Clone, Debug)]
pub(super) struct NamedTask {
    pub(super) task: TraceTask,
    pub(super) tid: u64,
    pub(super) name: String,
}

/// The events of a CPU that are not written yet, and its state.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    /// State after its last switch; `None` before its first event, and where the same thread may come again.
    pub(super) now: Option<CpuState>,
    /// Slot of the thread that came last.
    pub(super) came: Option<usize>,
    /// The last thread and when it left, if the switch is not written yet.
    pub(super) left: Option<(TraceTask, u64)>,
    /// How the current thread leaves.
    pub(super) leaves: u64,
    /// Whether a switch of this CPU was written.
    pub(super) is_begun: bool,
    /// Events that are not written yet.
    pub(super) events: usize,
    switches: CompactFields,
    wakings: CompactFields,
    /// Names of this bundle, and where they are in it.
    names: Message,
    indexes: HashMap<TraceTask, u64>,
    others: Message,
}

/// Packed numbers of `CompactSched`, one field each.
#[derive(Debug, Default)]
struct CompactFields {
    at_ns: u64,
    fields: [Vec<u8>; 5],
}

impl CompactFields {
    fn add(&mut self, at_ns: u64, values: [u64; 4]) {
        // Times never go back on a CPU.
        push_varint(&mut self.fields[0], at_ns.saturating_sub(self.at_ns));
        self.at_ns = self.at_ns.max(at_ns);
        for (field, value) in self.fields[1..].iter_mut().zip(values) {
            push_varint(field, value);
        }
    }

    /// Moves the columns into `message`, as fields with these numbers.
    fn take(&mut self, message: &mut Message, numbers: [u64; 5]) {
        for (field, number) in std::mem::take(self).fields.iter().zip(numbers) {
            if !field.is_empty() {
                message.bytes(number, field);
            }
        }
    }
}

impl Bundle {
    /// Where the name of a task is in this bundle.
    fn name(&mut self, who: &NamedTask) -> u64 {
        let next = self.indexes.len() as u64;
        *self.indexes.entry(who.task).or_insert_with(|| {
            self.names.bytes(5, who.name.as_bytes());
            next
        })
    }

    /// The current thread leaves as [`Bundle::leaves`] says; the next one counts as preempted unless that is changed.
    pub(super) fn switch(&mut self, at_ns: u64, next: &NamedTask) {
        let index = self.name(next);
        if !self.is_begun {
            // Perfetto reads only `next` from a CPU's first compact switch and opens no slice for it.
            self.is_begun = true;
            self.switches.add(at_ns, [0, next.tid, 0, index]);
        }
        self.switches.add(at_ns, [self.leaves, next.tid, 0, index]);
        (self.leaves, self.left) = (PREEMPTED, None);
        self.events += 1;
    }

    pub(super) fn waking(&mut self, at_ns: u64, woken: &NamedTask, target: u16) {
        let index = self.name(woken);
        self.wakings.add(at_ns, [target.into(), woken.tid, 0, index]);
        self.events += 1;
    }

    /// A `sched_waking` that may be earlier than others of this CPU.
    pub(super) fn late_waking(&mut self, at_ns: u64, waker_tid: u64, woken: &NamedTask, target: u16) {
        let mut waking = Message::default();
        waking.bytes(1, woken.name.as_bytes()).number(2, woken.tid).number(4, 1).number(5, target.into());
        self.other(at_ns, waker_tid, 20, &waking);
    }

    /// `task_newtask`: a new life of a thread id.
    pub(super) fn born(&mut self, at_ns: u64, parent_tid: u64, child: &NamedTask, is_thread: bool) {
        let mut new = Message::default();
        new.number(1, child.tid).bytes(2, child.name.as_bytes());
        new.number(3, if is_thread { CLONE_THREAD } else { 0 });
        self.other(at_ns, parent_tid, 235, &new);
    }

    fn other(&mut self, at_ns: u64, tid: u64, field: u64, event: &Message) {
        let mut ftrace = Message::default();
        ftrace.number(1, at_ns).number(2, tid).message(field, event);
        self.others.message(2, &ftrace);
        self.events += 1;
    }

    /// Takes the events as a `FtraceEventBundle`.
    pub(super) fn take(&mut self, cpu: u16) -> Message {
        let mut compact = std::mem::take(&mut self.names);
        // Not cleared: each of any number of CPUs would keep its space.
        self.indexes = HashMap::new();
        self.switches.take(&mut compact, [1, 2, 3, 4, 6]);
        self.wakings.take(&mut compact, [7, 9, 8, 10, 11]);
        self.events = 0;
        let mut bundle = std::mem::take(&mut self.others);
        bundle.number(1, cpu.into()).message(4, &compact);
        bundle
    }
}

/// State bits for the way in which a thread leaves its CPU.
pub(super) fn state_of(leaves: Leaves) -> u64 {
    match leaves {
        Leaves::Ready => PREEMPTED,
        Leaves::Dead => 0x10,
        Leaves::Asleep(WaitReason::DISK | WaitReason::PAGE_FAULT) => 2,
        Leaves::Asleep(WaitReason::STOPPED) => 4,
        Leaves::Asleep(WaitReason::TRACED) => 8,
        Leaves::Asleep(WaitReason::KERNEL) => 0x80,
        Leaves::Asleep(_) => 1,
    }
}

#[derive(Debug)]
pub(super) struct PerfettoThread {
    pub(super) task: TraceTask,
    pub(super) state: Option<ThreadState>,
    /// CPU on which, and time at which, the thread entered `state`.
    pub(super) cpu: u16,
    pub(super) since_ns: u64,
    pub(super) waker: TraceTask,
    /// Whether Perfetto shows the thread in some state.
    pub(super) is_known: bool,
    /// It is ready since its last wakeup, which may wait to be written.
    pub(super) is_waking: bool,
}

impl Default for PerfettoThread {
    fn default() -> Self {
        let (task, waker) = (TraceTask::UNKNOWN, TraceTask::UNKNOWN);
        Self { task, state: None, cpu: 0, since_ns: 0, waker, is_known: false, is_waking: false }
    }
}

const VARINT: u64 = 0;
const BYTES: u64 = 2;

/// The encoded fields of a protobuf message.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    /// Adds a varint; negative numbers are not needed.
    pub(super) fn number(&mut self, field: u64, value: u64) -> &mut Self {
        push_varint(&mut self.0, field << 3 | VARINT);
        push_varint(&mut self.0, value);
        self
    }

    /// Adds a text, bytes, another message, or packed numbers.
    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        push_varint(&mut self.0, field << 3 | BYTES);
        push_varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn message(&mut self, field: u64, message: &Self) -> &mut Self {
        self.bytes(field, &message.0)
    }
}
