//! A trace for Perfetto: per-CPU bundles of the scheduler's events in its compact form, and who the threads are.
//!
//! The switches are those that the tracker finds, not the raw ones: time that no event explains is on a thread of its own, *unknown*, because
//! Perfetto charges it to who left. Field numbers are those of Perfetto's public schema.

use std::collections::HashMap;
use std::io::{self, Write};

use cpumon_model::{Leaves, SchedEvent, SchedEventKind, TraceTask, WaitReason};
use cpumon_trace::{
    CpuSpan, CpuState, Ending, SpanSink, ThreadSpan, TraceSource, Tracker, UNKNOWN_TID, push_varint,
};

use super::error::TraceExportError;
use super::protobuf::Message;
use super::survey::TraceSurvey;
use crate::ExportError;

/// Events of a CPU that are put into one packet.
const BUNDLE_EVENTS: usize = 4096;
/// Events of all CPUs that wait for their packets. With more, packets are small: a damaged trace may have any number of CPUs.
const MAX_WAITING: usize = 1 << 20;
/// Names that are put into one packet, bytes: all of them may be hundreds of MB.
const TREE_BYTES: usize = 1 << 20;
/// All packets are of one writer.
const SEQUENCE: u64 = 1;
const UNKNOWN_NAME: &str = "unknown";
const IDLE_NAME: &str = "swapper";
/// The kernel whose bits of states are used below: without a version Perfetto takes those of Linux 4.4.
const STATES_OF: &str = "6.0";

// `TracePacket`.
const FTRACE_EVENTS: u64 = 1;
const PROCESS_TREE: u64 = 2;
const CLOCK_SNAPSHOT: u64 = 6;
const TIMESTAMP: u64 = 8;
const SEQUENCE_ID: u64 = 10;
const SYSTEM_INFO: u64 = 45;

/// `Trace.packet`.
const PACKET: u64 = 1;

// `BuiltinClock`.
const REALTIME: u64 = 1;
const BOOTTIME: u64 = 6;

/// Not a state of a task: it was runnable when it left.
const PREEMPTED: u64 = 0x100;
/// `CLONE_THREAD` of `task_newtask`.
const CLONE_THREAD: u64 = 0x10000;

/// Writes a trace as Perfetto's protobuf. `survey` is of the same trace.
pub fn trace_perfetto(
    survey: &TraceSurvey,
    trace: &mut impl TraceSource,
    out: &mut dyn Write,
) -> Result<Ending, TraceExportError> {
    trace.limit_names(0);
    let began = trace.header().began;
    let shift_ns = began.boot_ns.wrapping_sub(began.mono_ns);
    let shift_ns = if began.boot_ns == 0 { 0 } else { shift_ns };
    let began_ns = began.mono_ns.wrapping_add(shift_ns);
    let mut sink = Perfetto {
        survey,
        out,
        shift_ns,
        cpus: Vec::new(),
        waiting: 0,
        result: Ok(()),
        leaves: Leaves::Ready,
    };
    sink.system();
    if began.wall_ns > 0 {
        sink.clocks(began_ns, began.wall_ns.unsigned_abs());
    }
    sink.threads(began_ns);
    let mut tracker = Tracker::new(began.mono_ns, sink);
    if !trace.is_watched_from_begin() {
        tracker = tracker.with_unknown_begin();
    }
    let ending = trace.read(&mut |event| {
        tracker.sink().event(&event);
        tracker.event(&event);
    })?;
    let ending = survey.ending_of(ending, tracker.unfollowed());
    let mut sink = tracker.finish(ending.known_until_ns);
    sink.end(ending.known_until_ns);
    sink.result.map_err(ExportError::from)?;
    Ok(ending)
}

/// The events of a CPU that are not written yet, and what it does.
#[derive(Debug, Default)]
struct Cpu {
    /// What it switched to last; `None` before its first event.
    now: Option<CpuState>,
    is_begun: bool,
    /// How who was there left, at the start of the span that is still open.
    leaves: u64,
    events: usize,
    switches: Columns,
    wakings: Columns,
    /// Names of this bundle, and where they are in it.
    names: Message,
    indexes: HashMap<TraceTask, u64>,
    others: Message,
}

/// Packed numbers of `CompactSched`, one field each.
#[derive(Debug, Default)]
struct Columns {
    at_ns: u64,
    fields: [Vec<u8>; 5],
}

impl Columns {
    fn add(&mut self, at_ns: u64, values: [u64; 4]) {
        // Times never go back on a CPU.
        push_varint(&mut self.fields[0], at_ns.saturating_sub(self.at_ns));
        self.at_ns = self.at_ns.max(at_ns);
        for (field, value) in self.fields[1..].iter_mut().zip(values) {
            push_varint(field, value);
        }
    }

    /// Writes the fields with these numbers.
    fn take(&mut self, message: &mut Message, numbers: [u64; 5]) {
        for (field, number) in std::mem::take(self).fields.iter().zip(numbers) {
            if !field.is_empty() {
                message.bytes(number, field);
            }
        }
    }
}

impl Cpu {
    /// Where the name of a task is in this bundle.
    fn name(&mut self, task: TraceTask, name: &str) -> u64 {
        let next = self.indexes.len() as u64;
        *self.indexes.entry(task).or_insert_with(|| {
            self.names.bytes(5, name.as_bytes());
            next
        })
    }

    /// `FtraceEventBundle`.
    fn take(&mut self, cpu: u16) -> Message {
        let mut compact = std::mem::take(&mut self.names);
        self.indexes.clear();
        self.switches.take(&mut compact, [1, 2, 3, 4, 6]);
        self.wakings.take(&mut compact, [7, 9, 8, 10, 11]);
        self.events = 0;
        let mut bundle = std::mem::take(&mut self.others);
        bundle.number(1, cpu.into()).message(4, &compact);
        bundle
    }
}

struct Perfetto<'s, 'w> {
    survey: &'s TraceSurvey,
    out: &'w mut dyn Write,
    /// From the trace's clock to the time since boot.
    shift_ns: u64,
    cpus: Vec<Cpu>,
    /// Events of all CPUs that are not written yet.
    waiting: usize,
    /// Nothing is written behind an error.
    result: io::Result<()>,
    /// Of the switch that is being tracked.
    leaves: Leaves,
}

impl Perfetto<'_, '_> {
    fn write(&mut self, mut packet: Message) {
        if self.result.is_err() {
            return;
        }
        packet.number(SEQUENCE_ID, SEQUENCE);
        let mut out = Message::default();
        out.message(PACKET, &packet);
        self.result = self.out.write_all(&out.0);
    }

    fn system(&mut self) {
        let (mut names, mut system, mut packet) =
            (Message::default(), Message::default(), Message::default());
        names.bytes(1, b"Linux").bytes(3, STATES_OF.as_bytes());
        system.message(1, &names);
        packet.message(SYSTEM_INFO, &system);
        self.write(packet);
    }

    fn clocks(&mut self, boot_ns: u64, wall_ns: u64) {
        let (mut snapshot, mut packet) = (Message::default(), Message::default());
        for (clock, at_ns) in [(BOOTTIME, boot_ns), (REALTIME, wall_ns)] {
            let mut reading = Message::default();
            reading.number(1, clock).number(2, at_ns);
            snapshot.message(1, &reading);
        }
        packet.number(TIMESTAMP, boot_ns).message(CLOCK_SNAPSHOT, &snapshot);
        self.write(packet);
    }

    /// Who was there before the trace. Those that begin in it are named when they do.
    fn threads(&mut self, began_ns: u64) {
        let survey = self.survey;
        let mut tree = Message::default();
        for task in survey.tasks().iter().filter(|task| !survey.is_born(*task)) {
            let Some(names) = survey.names(task) else { continue };
            let (tid, pid) = (names.thread.tid, names.process.pid);
            if tid == pid {
                let mut process = Message::default();
                process.number(1, pid.into()).bytes(3, names.program.as_bytes());
                tree.message(1, &process);
            }
            let mut thread = Message::default();
            thread.number(1, tid.into()).bytes(2, names.comm.as_bytes()).number(3, pid.into());
            tree.message(2, &thread);
            if tree.0.len() >= TREE_BYTES {
                self.tree(began_ns, &std::mem::take(&mut tree));
            }
        }
        self.tree(began_ns, &tree);
    }

    fn tree(&mut self, began_ns: u64, tree: &Message) {
        let mut packet = Message::default();
        packet.number(TIMESTAMP, began_ns).message(PROCESS_TREE, tree);
        self.write(packet);
    }

    fn cpu_at(&mut self, cpu: u16) -> &mut Cpu {
        let at = usize::from(cpu);
        if at >= self.cpus.len() {
            self.cpus.resize_with(at + 1, Cpu::default);
        }
        &mut self.cpus[at]
    }

    fn name(&self, task: TraceTask) -> (u64, String) {
        match task {
            TraceTask::IDLE => (0, IDLE_NAME.to_owned()),
            TraceTask::UNKNOWN => (UNKNOWN_TID.into(), UNKNOWN_NAME.to_owned()),
            task => {
                let names = self.survey.names(task);
                let name = names.map_or_else(|| format!("task {}", task.0), |names| names.comm.into_owned());
                (self.survey.tid(task).into(), name)
            }
        }
    }

    /// What is written as it comes: switches follow from spans.
    fn event(&mut self, event: &SchedEvent) {
        let at_ns = event.at_ns.wrapping_add(self.shift_ns);
        match event.kind {
            SchedEventKind::Switch { leaves, .. } => self.leaves = leaves,
            SchedEventKind::Waking { task, cpu: target, .. } => {
                let (tid, name) = self.name(task);
                let cpu = self.cpu_at(event.cpu);
                let index = cpu.name(task, &name);
                cpu.wakings.add(at_ns, [target.into(), tid, 0, index]);
                self.count(event.cpu);
            }
            SchedEventKind::Born { task, parent } => self.born(event, task, parent),
            _ => {}
        }
    }

    /// `task_newtask`: a new life of a thread id.
    fn born(&mut self, event: &SchedEvent, task: TraceTask, parent: TraceTask) {
        let ((tid, name), (parent, _)) = (self.name(task), self.name(parent));
        let is_thread = self.survey.names(task).is_some_and(|names| names.process.pid != names.thread.tid);
        let (mut new, mut ftrace) = (Message::default(), Message::default());
        new.number(1, tid).bytes(2, name.as_bytes());
        new.number(3, if is_thread { CLONE_THREAD } else { 0 });
        ftrace.number(1, event.at_ns.wrapping_add(self.shift_ns)).number(2, parent).message(235, &new);
        self.cpu_at(event.cpu).others.message(2, &ftrace);
        self.count(event.cpu);
    }

    fn switch(&mut self, span: &CpuSpan) {
        let (cpu, state) = (span.cpu, span.state);
        if self.cpu_at(cpu).now == Some(state) {
            return;
        }
        let task = match state {
            CpuState::Unknown => TraceTask::UNKNOWN,
            CpuState::Idle => TraceTask::IDLE,
            CpuState::Run(task) => task,
        };
        let (tid, name) = self.name(task);
        let at_ns = span.from_ns.wrapping_add(self.shift_ns);
        let cpu = self.cpu_at(cpu);
        let index = cpu.name(task, &name);
        if !cpu.is_begun {
            // Perfetto takes nothing from the first compact switch of a CPU but who comes, and begins no slice.
            cpu.is_begun = true;
            cpu.switches.add(at_ns, [0, tid, 0, index]);
        }
        cpu.switches.add(at_ns, [cpu.leaves, tid, 0, index]);
        (cpu.now, cpu.leaves) = (Some(state), PREEMPTED);
        self.count(span.cpu);
    }

    fn count(&mut self, number: u16) {
        self.waiting += 1;
        let is_full = self.waiting >= MAX_WAITING;
        let cpu = self.cpu_at(number);
        cpu.events += 1;
        if is_full || cpu.events >= BUNDLE_EVENTS {
            self.flush(number);
        }
    }

    fn flush(&mut self, number: u16) {
        let cpu = self.cpu_at(number);
        let events = cpu.events;
        let bundle = cpu.take(number);
        self.waiting -= events;
        let mut packet = Message::default();
        packet.message(FTRACE_EVENTS, &bundle);
        self.write(packet);
    }

    /// Ends the last slice of each CPU.
    fn end(&mut self, end_ns: u64) {
        for number in 0..self.cpus.len() {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            let cpu = self.cpu_at(number);
            if cpu.is_begun && cpu.now != Some(CpuState::Idle) {
                let state = CpuState::Idle;
                self.switch(&CpuSpan {
                    cpu: number,
                    state,
                    from_ns: end_ns,
                    until_ns: end_ns,
                    is_over: true,
                });
            }
            if self.cpu_at(number).events > 0 {
                self.flush(number);
            }
        }
    }
}

/// The bits of a state.
fn state_of(leaves: Leaves) -> u64 {
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

impl SpanSink for Perfetto<'_, '_> {
    fn thread(&mut self, _: &ThreadSpan) {}

    fn bytes(&self, _: usize) -> usize {
        // By CPU, and limited.
        0
    }

    fn cpu(&mut self, span: &CpuSpan) {
        self.switch(span);
        if span.is_over {
            // Who runs next is known when its span ends.
            let leaves = state_of(self.leaves);
            let is_known = matches!(span.state, CpuState::Run(_));
            let cpu = self.cpu_at(span.cpu);
            cpu.leaves = if is_known { leaves } else { PREEMPTED };
            // The same thread may come again.
            cpu.now = cpu.now.filter(|now| matches!(now, CpuState::Idle | CpuState::Unknown));
        }
    }

    fn left(&mut self, _: usize, _: Leaves, _: u64) {}

    fn moved(&mut self, _: usize, _: u64) {}

    fn hole(&mut self, _: u16, _: u64) {}

    fn unknown_wakeup(&mut self, _: usize, _: u64) {}

    fn lost(&mut self, _: u16, _: u64, _: u64) {}
}
