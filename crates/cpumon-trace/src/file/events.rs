//! Contents of chunks as bytes, made of numbers in LEB128 (seven bits a byte, the lowest first). Events of one CPU: a tag, the time since
//! the event before, and only what does not follow from that. Identities of tasks and names of control groups, out of band: once for each,
//! and again when it changes.

use cpumon_model::varint::{push as push_varint, take as take_varint};
use cpumon_model::{Comm, ProcessKey, ThreadKey, WaitReason};
use cpumon_sched::{Interrupt, Leaves, SchedEvent, SchedEventKind, TraceGroup, TraceIdentity, TraceTask};

const SWITCH: u8 = 0;
const WAKING: u8 = 1;
const MIGRATE: u8 = 2;
const BORN: u8 = 3;
const EXIT: u8 = 4;
const LOST: u8 = 5;
const INTERRUPT: u8 = 6;
const KIND: u8 = 7;

// Of a switch.
const LEAVES_SHIFT: u8 = 3;
const READY: u8 = 0;
const ASLEEP: u8 = 1;
const DEAD: u8 = 2;
/// The task that leaves is the one that came last; it is not stored.
const PREV_FOLLOWS: u8 = 1 << 5;
/// The reason is that of the last switch with one.
const SAME_REASON: u8 = 1 << 6;
const TO_IDLE: u8 = 1 << 7;

// Of a wakeup or birth.
/// The waker or parent is the task that came last; it is not stored.
const BY_CURRENT: u8 = 1 << 3;
/// The wakeup is to this CPU; the CPU is not stored.
const HERE: u8 = 1 << 4;

// Of an interrupt.
const SOFT: u8 = 1 << 3;

/// How many tasks, and how many other numbers behind them, follow the time of an event with this tag.
#[inline]
pub(super) fn fields(tag: u8) -> (u8, u8) {
    let without = |flag| u8::from(tag & flag == 0);
    match tag & KIND {
        SWITCH => {
            let has_reason = tag >> LEAVES_SHIFT & 3 == ASLEEP && tag & SAME_REASON == 0;
            (without(PREV_FOLLOWS) + without(TO_IDLE), has_reason.into())
        }
        WAKING => (1 + without(BY_CURRENT), without(HERE)),
        MIGRATE => (1, 1),
        BORN => (1 + without(BY_CURRENT), 0),
        EXIT => (1, 0),
        LOST | INTERRUPT => (0, 2),
        _ => (0, 0),
    }
}

/// Where the fields of events are, in the order of the events.
pub(super) trait EventFields {
    fn tag(&mut self) -> Option<u8>;

    fn time_ns(&mut self) -> Option<u64>;

    fn task_number(&mut self) -> Option<u64>;

    fn other(&mut self) -> Option<u64>;

    #[inline]
    fn task(&mut self) -> Option<TraceTask> {
        u32::try_from(self.task_number()?).ok().map(TraceTask)
    }
}

impl EventFields for &[u8] {
    #[inline]
    fn tag(&mut self) -> Option<u8> {
        let (&tag, rest) = self.split_first()?;
        *self = rest;
        Some(tag)
    }

    #[inline]
    fn time_ns(&mut self) -> Option<u64> {
        take_varint(self)
    }

    #[inline]
    fn task_number(&mut self) -> Option<u64> {
        take_varint(self)
    }

    #[inline]
    fn other(&mut self) -> Option<u64> {
        take_varint(self)
    }
}

/// State from which the next event's omitted fields are filled in.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Context {
    cpu: u16,
    /// Time of the last event, ns.
    pub(super) at_ns: u64,
    current: TraceTask,
    reason: WaitReason,
}

impl Context {
    pub(super) fn new(cpu: u16, base_ns: u64) -> Self {
        Self { cpu, at_ns: base_ns, current: TraceTask::UNKNOWN, reason: WaitReason::NONE }
    }

    /// Writes an event. A time before the previous event is moved up to that event.
    pub(super) fn push(&mut self, out: &mut Vec<u8>, event: &SchedEvent) {
        let at_ns = event.at_ns.max(self.at_ns);
        let passed_ns = at_ns - self.at_ns;
        self.at_ns = at_ns;
        match event.kind {
            SchedEventKind::Switch { prev, next, leaves } => {
                self.push_switch(out, passed_ns, prev, next, leaves);
            }
            SchedEventKind::Waking { task, waker, cpu } => {
                let tag = self.by(WAKING, waker) | if cpu == self.cpu { HERE } else { 0 };
                begin(out, tag, passed_ns, task);
                push_unless(out, tag & BY_CURRENT != 0, waker.0.into());
                push_unless(out, tag & HERE != 0, cpu.into());
            }
            SchedEventKind::Migrate { task, to_cpu } => {
                begin(out, MIGRATE, passed_ns, task);
                push_varint(out, to_cpu.into());
            }
            SchedEventKind::Born { task, parent } => {
                let tag = self.by(BORN, parent);
                begin(out, tag, passed_ns, task);
                push_unless(out, tag & BY_CURRENT != 0, parent.0.into());
            }
            SchedEventKind::Exit { task } => begin(out, EXIT, passed_ns, task),
            SchedEventKind::Interrupt { interrupt, ran_ns } => {
                let (soft, number) = match interrupt {
                    Interrupt::Hard(number) => (0, number),
                    Interrupt::Soft(number) => (SOFT, number),
                };
                out.push(INTERRUPT | soft);
                push_varint(out, passed_ns);
                push_varint(out, number.into());
                push_varint(out, ran_ns);
            }
            SchedEventKind::Lost { count, until_ns } => {
                out.push(LOST);
                push_varint(out, passed_ns);
                push_varint(out, count);
                push_varint(out, until_ns.saturating_sub(at_ns));
                self.current = TraceTask::UNKNOWN;
            }
        }
    }

    fn by(&self, kind: u8, who: TraceTask) -> u8 {
        if who == self.current { kind | BY_CURRENT } else { kind }
    }

    fn push_switch(
        &mut self,
        out: &mut Vec<u8>,
        passed_ns: u64,
        prev: TraceTask,
        next: TraceTask,
        leaves: Leaves,
    ) {
        let mut tag = SWITCH;
        if prev == self.current {
            tag |= PREV_FOLLOWS;
        }
        if next == TraceTask::IDLE {
            tag |= TO_IDLE;
        }
        let mut new_reason = None;
        tag |= match leaves {
            Leaves::Ready => READY,
            Leaves::Dead => DEAD,
            Leaves::Asleep(reason) => {
                if reason == self.reason {
                    tag |= SAME_REASON;
                } else {
                    (self.reason, new_reason) = (reason, Some(reason));
                }
                ASLEEP
            }
        } << LEAVES_SHIFT;
        out.push(tag);
        push_varint(out, passed_ns);
        push_unless(out, tag & PREV_FOLLOWS != 0, prev.0.into());
        push_unless(out, tag & TO_IDLE != 0, next.0.into());
        if let Some(reason) = new_reason {
            push_varint(out, reason.code());
        }
        self.current = next;
    }

    /// Takes the next event; `None` if there is none.
    #[inline]
    pub(super) fn take(&mut self, from: &mut impl EventFields) -> Option<SchedEvent> {
        let tag = from.tag()?;
        self.at_ns = self.at_ns.checked_add(from.time_ns()?)?;
        let at_ns = self.at_ns;
        let kind = match tag & KIND {
            SWITCH => self.take_switch(tag, from)?,
            WAKING => {
                let task = from.task()?;
                let waker = self.take_other(tag, from)?;
                let cpu = if tag & HERE == 0 { u16::try_from(from.other()?).ok()? } else { self.cpu };
                SchedEventKind::Waking { task, waker, cpu }
            }
            MIGRATE => {
                SchedEventKind::Migrate { task: from.task()?, to_cpu: u16::try_from(from.other()?).ok()? }
            }
            BORN => SchedEventKind::Born { task: from.task()?, parent: self.take_other(tag, from)? },
            EXIT => SchedEventKind::Exit { task: from.task()? },
            LOST => {
                let (count, length_ns) = (from.other()?, from.other()?);
                self.current = TraceTask::UNKNOWN;
                SchedEventKind::Lost { count, until_ns: at_ns.checked_add(length_ns)? }
            }
            INTERRUPT => {
                let (number, ran_ns) = (u16::try_from(from.other()?).ok()?, from.other()?);
                let interrupt =
                    if tag & SOFT == 0 { Interrupt::Hard(number) } else { Interrupt::Soft(number) };
                SchedEventKind::Interrupt { interrupt, ran_ns }
            }
            _ => return None,
        };
        Some(SchedEvent { at_ns, cpu: self.cpu, kind })
    }

    fn take_switch(&mut self, tag: u8, from: &mut impl EventFields) -> Option<SchedEventKind> {
        let prev = if tag & PREV_FOLLOWS == 0 { from.task()? } else { self.current };
        let next = if tag & TO_IDLE == 0 { from.task()? } else { TraceTask::IDLE };
        let leaves = match tag >> LEAVES_SHIFT & 3 {
            READY => Leaves::Ready,
            ASLEEP => {
                if tag & SAME_REASON == 0 {
                    self.reason = WaitReason::from_code(from.other()?);
                }
                Leaves::Asleep(self.reason)
            }
            DEAD => Leaves::Dead,
            _ => return None,
        };
        self.current = next;
        Some(SchedEventKind::Switch { prev, next, leaves })
    }

    fn take_other(&self, tag: u8, from: &mut impl EventFields) -> Option<TraceTask> {
        if tag & BY_CURRENT == 0 { from.task() } else { Some(self.current) }
    }
}

fn begin(out: &mut Vec<u8>, tag: u8, passed_ns: u64, task: TraceTask) {
    out.push(tag);
    push_varint(out, passed_ns);
    push_varint(out, task.0.into());
}

fn push_unless(out: &mut Vec<u8>, follows: bool, value: u64) {
    if !follows {
        push_varint(out, value);
    }
}

const IS_KERNEL: u64 = 1;
const IS_EXECUTABLE: u64 = 2;
/// Longest name of an executable: `NAME_MAX` of Linux.
const MAX_PROGRAM_BYTES: usize = 255;
/// Longest name of a directory: `NAME_MAX` of Linux.
const MAX_GROUP_BYTES: usize = 255;

pub(super) fn push_identity(out: &mut Vec<u8>, identity: &TraceIdentity) {
    let flags =
        (u64::from(identity.is_kernel) * IS_KERNEL) | (u64::from(identity.is_executable) * IS_EXECUTABLE);
    let (thread, process) = (identity.thread, identity.process);
    for value in [
        identity.task.0.into(),
        identity.at_ns,
        flags,
        thread.tid.into(),
        thread.start_ns,
        process.pid.into(),
        process.start_ns,
        identity.group,
    ] {
        push_varint(out, value);
    }
    let program = &identity.program[..identity.program.len().min(MAX_PROGRAM_BYTES)];
    for text in [identity.comm.as_bytes(), program] {
        push_varint(out, text.len() as u64);
        out.extend_from_slice(text);
    }
}

/// Takes one from the front of `bytes`; `None` if there is none.
pub(super) fn take_identity(bytes: &mut &[u8]) -> Option<TraceIdentity> {
    let task = TraceTask(u32::try_from(take_varint(bytes)?).ok()?);
    let (at_ns, flags) = (take_varint(bytes)?, take_varint(bytes)?);
    let thread = ThreadKey { tid: u32::try_from(take_varint(bytes)?).ok()?, start_ns: take_varint(bytes)? };
    let process = ProcessKey { pid: u32::try_from(take_varint(bytes)?).ok()?, start_ns: take_varint(bytes)? };
    let group = take_varint(bytes)?;
    let comm = Comm::new(take_text(bytes, Comm::MAX_BYTES)?);
    let program = take_text(bytes, MAX_PROGRAM_BYTES)?.into();
    let (is_kernel, is_executable) = (flags & IS_KERNEL != 0, flags & IS_EXECUTABLE != 0);
    Some(TraceIdentity { task, at_ns, thread, process, group, comm, program, is_executable, is_kernel })
}

pub(super) fn push_group(out: &mut Vec<u8>, group: &TraceGroup) {
    push_varint(out, group.group);
    push_varint(out, group.parent);
    let name = &group.name[..group.name.len().min(MAX_GROUP_BYTES)];
    push_varint(out, name.len() as u64);
    out.extend_from_slice(name);
}

/// Takes one from the front of `bytes`; `None` if there is none.
pub(super) fn take_group(bytes: &mut &[u8]) -> Option<TraceGroup> {
    let (group, parent) = (take_varint(bytes)?, take_varint(bytes)?);
    Some(TraceGroup { group, parent, name: take_text(bytes, MAX_GROUP_BYTES)?.into() })
}

fn take_text<'b>(bytes: &mut &'b [u8], most: usize) -> Option<&'b [u8]> {
    let length = usize::try_from(take_varint(bytes)?).ok().filter(|length| *length <= most)?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn task() -> impl Strategy<Value = TraceTask> {
        prop_oneof![
            Just(TraceTask::IDLE),
            Just(TraceTask::UNKNOWN),
            (1_u32..5).prop_map(TraceTask),
            any::<u32>().prop_map(TraceTask)
        ]
    }

    fn leaves() -> impl Strategy<Value = Leaves> {
        prop_oneof![
            Just(Leaves::Ready),
            Just(Leaves::Dead),
            (0_u16..8).prop_map(|plain| Leaves::Asleep(WaitReason(plain))),
            (0_u16..500).prop_map(|call| Leaves::Asleep(WaitReason::syscall(call))),
        ]
    }

    pub(crate) fn kind() -> impl Strategy<Value = SchedEventKind> {
        prop_oneof![
            (task(), task(), leaves()).prop_map(|(prev, next, leaves)| SchedEventKind::Switch {
                prev,
                next,
                leaves
            }),
            (task(), task(), 0_u16..4).prop_map(|(task, waker, cpu)| SchedEventKind::Waking {
                task,
                waker,
                cpu
            }),
            (task(), any::<u16>()).prop_map(|(task, to_cpu)| SchedEventKind::Migrate { task, to_cpu }),
            (task(), task()).prop_map(|(task, parent)| SchedEventKind::Born { task, parent }),
            task().prop_map(|task| SchedEventKind::Exit { task }),
            (any::<bool>(), any::<u16>(), any::<u64>()).prop_map(|(is_soft, number, ran_ns)| {
                let interrupt = if is_soft { Interrupt::Soft(number) } else { Interrupt::Hard(number) };
                SchedEventKind::Interrupt { interrupt, ran_ns }
            }),
        ]
    }

    proptest! {
        #[test]
        fn events_come_back(kinds in prop::collection::vec((kind(), 0_u64..1 << 40), 0..60), lost in 0_u64..1 << 50) {
            let (mut out, mut at_ns, mut events) = (Vec::new(), 77, Vec::new());
            let mut context = Context::new(3, at_ns);
            for (kind, passed_ns) in kinds {
                at_ns += passed_ns;
                events.push(SchedEvent { at_ns, cpu: 3, kind });
            }
            events.push(SchedEvent { at_ns, cpu: 3, kind: SchedEventKind::Lost { count: lost, until_ns: at_ns + lost } });
            for event in &events {
                context.push(&mut out, event);
            }
            let (mut rest, mut context) = (out.as_slice(), Context::new(3, 77));
            for event in events {
                prop_assert_eq!(context.take(&mut rest), Some(event));
            }
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn a_switch_between_two_that_wait_for_the_same_takes_four_bytes() {
        let mut out = Vec::new();
        let mut context = Context::new(0, 0);
        let switch = |prev, next| SchedEventKind::Switch {
            prev: TraceTask(prev),
            next: TraceTask(next),
            leaves: Leaves::Asleep(WaitReason::syscall(0)),
        };
        context.push(&mut out, &SchedEvent { at_ns: 1_000, cpu: 0, kind: switch(1, 2) });
        out.clear();
        context.push(&mut out, &SchedEvent { at_ns: 2_500, cpu: 0, kind: switch(2, 1) });
        assert_eq!(out.len(), 4, "{out:?}");
    }
}
