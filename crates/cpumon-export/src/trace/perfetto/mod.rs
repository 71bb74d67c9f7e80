//! A trace for Perfetto: per-CPU bundles of the scheduler's events in its compact form, and the names of the threads.
//!
//! The switches are those that the tracker finds, not the raw ones: time that no event explains is on a thread of its own, *unknown*,
//! because Perfetto would charge it to the thread that left. Perfetto derives the states of threads from switches and wakeups, so these
//! are written such that it finds the tracker's. Field numbers are those of Perfetto's public schema.

mod bundle;

use std::collections::BTreeMap;
use std::io::{self, Write};

use cpumon_trace::{
    CpuSpan, CpuState, Ending, Leaves, SchedEvent, SchedEventKind, SpanSink, ThreadSpan, ThreadState,
    TraceSource, TraceTask, Wakeup,
};
use cpumon_trace_import::UNKNOWN_TID;

use super::TraceSurvey;
use crate::ExportError;
use bundle::{Bundle, Message, NamedTask, PerfettoThread, UNKNOWN, state_of};

/// Events of a CPU that are put into one packet.
const BUNDLE_EVENTS: usize = 4096;
/// Events of all CPUs that wait for their packets. With more, packets are small: a damaged trace may have any number of CPUs.
const MAX_WAITING: usize = 1 << 20;
/// Bytes of names in one packet: all names may be hundreds of MB.
const TREE_BYTES: usize = 1 << 20;
/// Most threads without known state that wait for an unknown CPU. Beyond it, the oldest keep their last state.
const MAX_FORGOTTEN: usize = 1 << 20;
/// `trusted_packet_sequence_id`: all packets are of one writer.
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

/// Writes a trace as Perfetto's protobuf. `survey` is of the same trace.
pub fn trace_perfetto(
    survey: &TraceSurvey,
    trace: &mut impl TraceSource,
    out: &mut dyn Write,
) -> Result<Ending, ExportError> {
    trace.tasks_mut().limit(0);
    let began = trace.header().began;
    let shift_ns = began.boot_ns.wrapping_sub(began.mono_ns);
    let shift_ns = if began.boot_ns == 0 { 0 } else { shift_ns };
    let began_ns = began.mono_ns.wrapping_add(shift_ns);
    let mut sink = Perfetto {
        began_ns: began.mono_ns,
        survey,
        out,
        shift_ns,
        cpus: Vec::new(),
        waiting: 0,
        result: Ok(()),
        prev: None,
        birth: None,
        is_hole: false,
        woken: None,
        wakings: Vec::new(),
        threads: Vec::new(),
        births: BTreeMap::new(),
        forgotten: BTreeMap::new(),
    };
    sink.system();
    if began.wall_ns > 0 {
        sink.clocks(began_ns, began.wall_ns.unsigned_abs());
    }
    sink.threads(began_ns);
    let mut tracker = trace.tracker(sink);
    let ending = trace.read(&mut |event| {
        tracker.sink().before(&event);
        tracker.event(&event);
        tracker.sink().after(&event);
    })?;
    let ending = survey.ending_of(ending, tracker.unfollowed());
    let mut sink = trace.finish(tracker, ending.known_until_ns);
    sink.end(ending.known_until_ns);
    sink.result?;
    Ok(ending)
}

#[derive(Copy, Clone, Debug)]
struct Waking {
    /// Place of the thread in `threads`.
    slot: usize,
    at_ns: u64,
    later_ns: u64,
    cpu: u16,
    target: u16,
}

struct Perfetto<'s, 'w> {
    survey: &'s TraceSurvey,
    out: &'w mut dyn Write,
    began_ns: u64,
    /// From the trace's clock to the time since boot.
    shift_ns: u64,
    cpus: Vec<Bundle>,
    /// Events of all CPUs that are not written yet.
    waiting: usize,
    /// After an error nothing more is written.
    result: io::Result<()>,
    /// The task that leaves with the current switch, and how.
    prev: Option<(TraceTask, Leaves)>,
    /// The task that begins with the current event, and its parent.
    birth: Option<(TraceTask, TraceTask)>,
    /// Whether another thread leaves than had come.
    is_hole: bool,
    /// Slot of the thread that the current event woke, and the delay of its wakeup in the output: 1 ns if it fell asleep
    /// at the same time, else 0.
    woken: Option<(usize, u64)>,
    /// Wakeups of one time that are not written yet.
    wakings: Vec<Waking>,
    /// Index: slot in the tracker.
    threads: Vec<PerfettoThread>,
    /// Parents of threads that were not woken yet.
    births: BTreeMap<TraceTask, TraceTask>,
    /// From when on nothing is known of a thread, by its place.
    forgotten: BTreeMap<(u64, usize), TraceTask>,
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

    /// Writes the tasks that existed before the trace. Those that begin in it are named then.
    fn threads(&mut self, began_ns: u64) {
        let survey = self.survey;
        let mut tree = Message::default();
        for task in survey.tasks.named().into_iter().filter(|task| !survey.is_born(*task)) {
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

    fn cpu_at(&mut self, cpu: u16) -> &mut Bundle {
        let at = usize::from(cpu);
        if at >= self.cpus.len() {
            self.cpus.resize_with(at + 1, Bundle::default);
        }
        &mut self.cpus[at]
    }

    fn named(&self, task: TraceTask) -> NamedTask {
        let (tid, name) = match task {
            TraceTask::IDLE => (0, IDLE_NAME.to_owned()),
            TraceTask::UNKNOWN => (UNKNOWN_TID, UNKNOWN_NAME.to_owned()),
            task => {
                let names = self.survey.names(task);
                let name = names.map_or_else(|| format!("task {}", task.0), |names| names.comm.into_owned());
                (self.survey.tid(task), name)
            }
        };
        NamedTask { task, tid: tid.into(), name }
    }

    /// Time since boot. Earlier events than the trace count from its begin, in the tracker too.
    fn shifted(&self, at_ns: u64) -> u64 {
        at_ns.max(self.began_ns).wrapping_add(self.shift_ns)
    }

    fn before(&mut self, event: &SchedEvent) {
        (self.prev, self.birth, self.is_hole, self.woken) = (None, None, false, None);
        if self.wakings.last().is_some_and(|last| event.at_ns.max(self.began_ns) > last.at_ns) {
            self.write_wakings();
        }
        match event.kind {
            SchedEventKind::Switch { prev, leaves, .. } => {
                self.prev = Some((prev, leaves));
            }
            SchedEventKind::Born { task, parent } if event.at_ns > self.began_ns => {
                self.birth = Some((task, parent));
            }
            _ => {}
        }
    }

    fn after(&mut self, event: &SchedEvent) {
        let SchedEventKind::Waking { task, cpu: target, .. } = event.kind else { return };
        // Not while it runs, nor while events are missing.
        let Some((slot, later_ns)) = self.woken else { return };
        let at_ns = event.at_ns.max(self.began_ns);
        let waking = Waking { slot, at_ns, later_ns, cpu: event.cpu, target };
        if let Some(parent) = self.births.remove(&task) {
            self.born(event.cpu, self.shifted(at_ns).saturating_add(later_ns), parent, &self.named(task));
        }
        self.wakings.push(waking);
    }

    fn write_wakings(&mut self) {
        let mut wakings = std::mem::take(&mut self.wakings);
        for waking in wakings.drain(..) {
            if !self.threads[waking.slot].is_waking {
                continue;
            }
            let woken = self.named(self.threads[waking.slot].task);
            let at_ns = self.shifted(waking.at_ns).saturating_add(waking.later_ns);
            self.cpu_at(waking.cpu).waking(at_ns, &woken, waking.target);
            self.count(waking.cpu);
        }
        self.wakings = wakings;
    }

    /// A thread begins when it is first woken, some µs after its birth: Perfetto takes it as ready from its begin. It is written 1 ns before,
    /// for at the same time it could come behind the switch to it.
    fn born(&mut self, cpu: u16, at_ns: u64, parent: TraceTask, child: &NamedTask) {
        let names = self.survey.names(child.task);
        let is_thread = names.is_some_and(|names| names.process.pid != names.thread.tid);
        let parent = self.named(parent).tid;
        let at_ns = at_ns.saturating_sub(1);
        self.cpu_at(cpu).born(at_ns, parent, child, is_thread);
        self.count(cpu);
    }

    fn switch(&mut self, number: u16, at_ns: u64, state: CpuState) {
        if self.cpu_at(number).now == Some(state) {
            return;
        }
        let at_ns = self.shifted(at_ns);
        let task = match state {
            CpuState::Unknown => TraceTask::UNKNOWN,
            CpuState::Idle => TraceTask::IDLE,
            CpuState::Run(task) => task,
        };
        let next = self.named(task);
        if let Some(parent) = self.births.remove(&task) {
            self.born(number, at_ns, parent, &next);
        }
        let cpu = self.cpu_at(number);
        cpu.switch(at_ns, &next);
        cpu.now = Some(state);
        self.count(number);
    }

    /// In no time a thread comes to a CPU that does nothing known, and leaves in a state.
    fn pass(&mut self, number: u16, at_ns: u64, task: TraceTask, leaves: u64) {
        self.switch(number, at_ns, CpuState::Run(task));
        self.cpu_at(number).leaves = leaves;
    }

    /// Nothing is known of a CPU in this time.
    fn unknown(&mut self, number: u16, from_ns: u64, until_ns: u64) {
        let until_ns = until_ns.max(from_ns.saturating_add(1));
        let from = self.forgotten.range((from_ns, 0)..(until_ns, 0));
        let passing: Vec<_> = from.map(|(&(at_ns, slot), &task)| (at_ns, slot, task)).collect();
        if let Some(slot) = self.cpu_at(number).came.take() {
            // It left unseen, and will come elsewhere.
            let thread = &mut self.threads[slot];
            let is_here = thread.state == Some(ThreadState::Running) && thread.cpu == number;
            if thread.is_known && is_here && thread.since_ns <= from_ns {
                thread.is_known = false;
                let task = thread.task;
                self.pass(number, from_ns, task, UNKNOWN);
            }
        }
        let first = passing.partition_point(|(at_ns, ..)| *at_ns == from_ns);
        for (at_ns, _, task) in &passing[..first] {
            // It may be the one that ran.
            self.pass(number, *at_ns, *task, UNKNOWN);
        }
        self.switch(number, from_ns, CpuState::Unknown);
        for (at_ns, _, task) in &passing[first..] {
            self.pass(number, *at_ns, *task, UNKNOWN);
            self.switch(number, *at_ns, CpuState::Unknown);
        }
        for (at_ns, slot, _) in passing {
            self.forgotten.remove(&(at_ns, slot));
        }
    }

    /// Counts an event of a CPU; writes the bundle when it is full.
    fn count(&mut self, number: u16) {
        self.waiting += 1;
        if self.waiting >= MAX_WAITING || self.cpu_at(number).events >= BUNDLE_EVENTS {
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

    /// Ends the last slice of each CPU: the latest event is the end of the trace.
    fn end(&mut self, end_ns: u64) {
        self.write_wakings();
        for (task, parent) in std::mem::take(&mut self.births) {
            let child = self.named(task);
            self.born(0, self.shifted(end_ns), parent, &child);
        }
        for number in 0..self.cpus.len() {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            let cpu = self.cpu_at(number);
            if cpu.is_begun {
                cpu.now = None;
                self.switch(number, end_ns, CpuState::Idle);
            }
            if self.cpu_at(number).events > 0 {
                self.flush(number);
            }
        }
    }

    /// Makes a thread's state unknown from then on. Perfetto takes states only from switches, so the thread passes an unknown CPU.
    fn forget(&mut self, slot: usize, at_ns: u64) {
        let thread = &mut self.threads[slot];
        if std::mem::take(&mut thread.is_known) && !self.births.contains_key(&thread.task) {
            // At the same time it could precede the event that it must follow.
            let at_ns = at_ns.saturating_add(u64::from(at_ns == thread.since_ns));
            self.forgotten.insert((at_ns, slot), thread.task);
            if self.forgotten.len() > MAX_FORGOTTEN {
                self.forgotten.pop_first();
            }
        }
    }
}

impl SpanSink for Perfetto<'_, '_> {
    fn thread(&mut self, span: &ThreadSpan) {
        if span.slot >= self.threads.len() {
            self.threads.resize_with(span.slot + 1, PerfettoThread::default);
        }
        self.threads[span.slot].task = span.task;
        match (span.state, self.threads[span.slot].state) {
            (ThreadState::Unknown, _) => self.forget(span.slot, span.from_ns),
            // It was woken on its way to sleep, which shows when it comes again.
            (ThreadState::ReadyWoken, Some(ThreadState::Blocked(_))) => {
                let woken = self.named(span.task);
                let waker = self.named(self.threads[span.slot].waker).tid;
                let at_ns = self.shifted(span.from_ns);
                let at_ns = at_ns.saturating_add(1);
                self.cpu_at(span.cpu).late_waking(at_ns, waker, &woken, span.cpu);
                self.count(span.cpu);
            }
            _ => {}
        }
    }

    fn bytes(&self, threads: usize) -> usize {
        // Waiting births take as much for each thread; the rest is limited.
        threads.saturating_mul(size_of::<PerfettoThread>() + 2 * size_of::<TraceTask>())
    }

    fn cpu(&mut self, span: &CpuSpan) {
        let CpuSpan { cpu: number, state, from_ns, until_ns, is_over } = *span;
        if state == CpuState::Unknown {
            self.unknown(number, from_ns, until_ns);
        } else {
            self.switch(number, from_ns, state);
        }
        let Some((prev, leaves)) = self.prev.filter(|_| is_over) else { return };
        match state {
            CpuState::Run(_) => self.cpu_at(number).leaves = state_of(leaves),
            CpuState::Unknown if self.is_hole && prev.is_thread() => {
                self.pass(number, until_ns, prev, state_of(leaves));
            }
            CpuState::Idle | CpuState::Unknown => {}
        }
        let cpu = self.cpu_at(number);
        cpu.left = Some((prev, until_ns));
        // The same thread may come again.
        cpu.now = cpu.now.filter(|now| !matches!(now, CpuState::Run(_)));
    }

    fn woken(&mut self, wakeup: &Wakeup) {
        if let Some(thread) = self.threads.get_mut(wakeup.slot) {
            thread.waker = wakeup.waker;
        }
    }

    fn entered(&mut self, slot: usize, state: ThreadState, cpu: u16, at_ns: u64) {
        if let Some((task, parent)) = self.birth.take()
            && self.threads.get(slot).is_none_or(|thread| thread.state.is_none())
        {
            self.births.insert(task, parent);
        }
        let Some(thread) = self.threads.get_mut(slot) else { return };
        thread.state = Some(state);
        if state != ThreadState::Unknown {
            // Perfetto takes events of the same time in no certain order.
            self.woken =
                (state == ThreadState::ReadyWoken).then_some((slot, u64::from(at_ns <= thread.since_ns)));
            thread.is_waking = self.woken.is_some() || thread.is_waking && state.is_ready();
            (thread.is_known, thread.cpu, thread.since_ns) = (true, cpu, at_ns);
            if state == ThreadState::Running {
                self.cpu_at(cpu).came = Some(slot);
            }
            return;
        }
        let task = thread.task;
        if self.cpu_at(cpu).left == Some((task, at_ns)) {
            self.threads[slot].is_known = false;
            self.cpu_at(cpu).leaves = UNKNOWN;
        } else {
            self.forget(slot, at_ns);
        }
    }

    fn hole(&mut self, _: u16, _: u64) {
        self.is_hole = true;
    }

    fn lost(&mut self, number: u16, _: u64, at_ns: u64) {
        // Also where the CPU is known again at once.
        self.unknown(number, at_ns, at_ns);
    }
}
