//! Decodes the packets about the scheduler. `FtraceEventBundle` has the events of a CPU, singly or as columns (`CompactSched`): switches
//! and wakeups as packed numbers, with names by their place in a table. `ProcessTree` has the names of threads and their processes.

use cpumon_model::varint::take as take_varint;
use cpumon_sched::{Leaves, name};

use super::packets::{ProtobufValue, Small, fields};
use crate::decoder::{NamedThread, RawEvent, RawKind, RawTrace, UNKNOWN, UNKNOWN_TID, push};
use crate::tracepoints::{DamagedTracepoint, TRACEPOINTS, leaves};

// Of the bundle.
const CPU: u64 = 1;
const EVENT: u64 = 2;
const LOST_EVENTS: u64 = 3;
const COMPACT: u64 = 4;

/// Events of one bundle: a packet that is made for this could have many times more than any recorder writes.
const MAX_EVENTS: usize = 1 << 17;

/// Bits of task states of Linux 4.14 and later, and of older kernels.
const STATES: [(u64, char); 8] =
    [(1, 'S'), (2, 'D'), (4, 'T'), (8, 't'), (0x10, 'X'), (0x20, 'Z'), (0x40, 'P'), (0x80, 'I')];
const OLD_STATES: [(u64, char); 10] = [
    (1, 'S'),
    (2, 'D'),
    (4, 'T'),
    (8, 't'),
    (0x10, 'X'),
    (0x20, 'Z'),
    (0x40, 'x'),
    (0x80, 'K'),
    (0x100, 'W'),
    (0x200, 'P'),
];

#[derive(Copy, Clone, Debug)]
struct BundleCpu {
    /// Thread to which the CPU was given last.
    current: NamedThread,
    /// Time of the latest event; 0 if there is none.
    newest_ns: u64,
}

#[derive(Debug)]
pub(super) struct Bundles {
    cpus: Vec<BundleCpu>,
    states: &'static [(u64, char)],
    has_wakings: bool,
    pub(super) has_switches: bool,
}

const UNNAMED: NamedThread = NamedThread { tid: UNKNOWN, name: [0; 16] };

impl Bundles {
    pub(super) fn new() -> Self {
        Self { cpus: Vec::new(), states: &STATES, has_wakings: false, has_switches: false }
    }

    /// Takes the release of the kernel, such as `4.9.1-android`.
    pub(super) fn set_release(&mut self, release: &[u8]) {
        let release = String::from_utf8_lossy(release);
        let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().ok());
        if let (Some(Some(major)), Some(Some(minor))) = (numbers.next(), numbers.next()) {
            self.states = if (major, minor) < (4, 14) { &OLD_STATES } else { &STATES };
        }
    }

    /// Takes a bundle. `None`: it is damaged; what was read before stays.
    pub(super) fn take(&mut self, bytes: &[u8], out: &mut RawTrace<'_>) -> Option<()> {
        let (mut number, mut has_lost, mut compact) = (0, false, None);
        // The CPU may be behind its events.
        fields(bytes, |field, value| {
            match (field, value) {
                (CPU, ProtobufValue::Number(cpu)) => number = cpu,
                (LOST_EVENTS, ProtobufValue::Number(lost)) => has_lost = lost != 0,
                (COMPACT, ProtobufValue::Bytes(bytes)) => compact = Some(bytes),
                _ => {}
            }
            Some(())
        })?;
        let number = u16::try_from(number).ok()?;
        let at = usize::from(number);
        if at >= self.cpus.len() {
            self.cpus.resize(at + 1, BundleCpu { current: UNNAMED, newest_ns: 0 });
        }
        let before = self.cpus[at];
        if has_lost {
            self.cpus[at].current = UNNAMED;
        }
        let first = out.events.len();
        let mut add = |at_ns, kind| {
            push(out.events, RawEvent { at_ns, cpu: number, kind });
            (out.events.len() - first < MAX_EVENTS).then_some(())
        };
        let result = self.events(at, bytes, compact, &mut add);
        let new = &out.events[first..];
        self.has_switches |= new.iter().any(|event| matches!(event.kind, RawKind::Switch { .. }));
        let times = || new.iter().map(|event| event.at_ns);
        let until_ns = times().min();
        self.cpus[at].newest_ns = before.newest_ns.max(times().max().unwrap_or(0));
        // What was lost in front of the CPU's first event is no part of the trace.
        if let Some(until_ns) = until_ns.filter(|_| has_lost && before.newest_ns > 0) {
            // Perfetto does not say how many.
            out.lose(number, 1, before.newest_ns, until_ns);
        }
        result
    }

    fn events(
        &mut self,
        at: usize,
        bytes: &[u8],
        compact: Option<&[u8]>,
        add: &mut dyn FnMut(u64, RawKind) -> Option<()>,
    ) -> Option<()> {
        if let Some(compact) = compact {
            let has_wakings = &mut self.has_wakings;
            visit_compact(compact, self.states, &mut self.cpus[at].current, &mut |at_ns, kind| {
                *has_wakings |= matches!(kind, RawKind::Waking { .. });
                add(at_ns, kind)
            })?;
        }
        fields(bytes, |field, value| {
            let (EVENT, ProtobufValue::Bytes(event)) = (field, value) else { return Some(()) };
            match self.event(event).ok()? {
                Some((at_ns, kind)) => {
                    if let RawKind::Switch { next, .. } = kind {
                        self.cpus[at].current = next;
                    }
                    add(at_ns, kind)
                }
                None => Some(()),
            }
        })
    }

    /// `FtraceEvent`; `None` if it is none of the scheduler.
    fn event(&mut self, bytes: &[u8]) -> Result<Option<(u64, RawKind)>, DamagedTracepoint> {
        let (mut at_ns, mut current, mut found) = (0, UNKNOWN, None);
        fields(bytes, |field, value| {
            match (field, value) {
                (1, ProtobufValue::Number(time)) => at_ns = time,
                (2, ProtobufValue::Number(tid)) => current = tid_of(tid),
                (field, ProtobufValue::Bytes(event)) => found = Some((field, event)),
                _ => {}
            }
            Some(())
        })
        .ok_or(DamagedTracepoint)?;
        let Some((number, event)) = found else { return Ok(None) };
        let known = TRACEPOINTS.iter().find(|known| known.1 == number);
        let Some((.., tracepoint, numbers)) = known else { return Ok(None) };
        let event = Small::parse(event).ok_or(DamagedTracepoint)?;
        if !tracepoint.is_new(&mut self.has_wakings) {
            return Ok(None);
        }
        // A field that is missing is 0.
        let number = |at: usize| numbers.get(at).map(|(_, field)| event.number(*field));
        let text = |at: usize| numbers.get(at).map_or(&[][..], |(_, field)| event.text(*field));
        let read = tracepoint.read(number, |at| number(at).map(tid_of), text, || current, self.states);
        read.map(|kind| Some((at_ns, kind))).ok_or(DamagedTracepoint)
    }
}

/// Names of one bundle. Each event could have its own.
const MAX_NAMES: usize = 1 << 17;

/// Numbers of the fields: time, thread, name, and the state or the CPU.
const SWITCH: [u64; 4] = [1, 3, 6, 2];
const WAKING: [u64; 4] = [7, 8, 11, 9];
const NAMES: u64 = 5;

/// The columns of one kind of event. Times are since the event before.
#[derive(Copy, Clone, Debug, Default)]
struct CompactColumns<'b> {
    at_ns: u64,
    columns: [&'b [u8]; 4],
}

#[derive(Copy, Clone, Debug)]
struct CompactRow {
    at_ns: u64,
    tid: u32,
    name: u64,
    last: u64,
}

impl CompactColumns<'_> {
    /// The next event; `None` if there is no more, or it is not whole.
    fn next(&mut self) -> Option<CompactRow> {
        let [time, tid, name, last] = &mut self.columns;
        self.at_ns = self.at_ns.checked_add(take_varint(time)?)?;
        Some(CompactRow {
            at_ns: self.at_ns,
            tid: tid_of(take_varint(tid)?),
            name: take_varint(name)?,
            last: take_varint(last)?,
        })
    }

    fn is_empty(&self) -> bool {
        self.columns[0].is_empty()
    }
}

/// A thread id. Negative ones and those that cpumon itself writes for unknown time are no thread.
fn tid_of(number: u64) -> u32 {
    u32::try_from(number).ok().filter(|tid| *tid != UNKNOWN_TID).unwrap_or(UNKNOWN)
}

/// Visits the events in the order of their time. `current` is who the CPU was given last. `None`: the message is damaged.
fn visit_compact(
    bytes: &[u8],
    states: &[(u64, char)],
    current: &mut NamedThread,
    add: &mut dyn FnMut(u64, RawKind) -> Option<()>,
) -> Option<()> {
    let (mut switches, mut wakings, mut names) =
        (CompactColumns::default(), CompactColumns::default(), Vec::new());
    fields(bytes, |number, value| {
        let ProtobufValue::Bytes(bytes) = value else { return None };
        if number == NAMES {
            names.push(name(bytes));
            return (names.len() <= MAX_NAMES).then_some(());
        }
        for (columns, numbers) in [(&mut switches, SWITCH), (&mut wakings, WAKING)] {
            if let Some(at) = numbers.iter().position(|known| *known == number) {
                columns.columns[at] = bytes;
            }
        }
        Some(())
    })?;
    let named = |row: &CompactRow| {
        let name = usize::try_from(row.name).ok().and_then(|at| names.get(at)).copied()?;
        Some(NamedThread { tid: row.tid, name })
    };
    let mut waking = wakings.next();
    let mut switch = switches.next();
    loop {
        match (switch, waking) {
            (Some(row), other) if other.is_none_or(|other| row.at_ns < other.at_ns) => {
                let next = named(&row)?;
                let prev = std::mem::replace(current, next);
                // Not a switch if they are the same: the first event of a trace only says who is there, and the last one up to when.
                if prev.tid == next.tid {
                    add(row.at_ns, RawKind::Same)?;
                } else {
                    let is_known = prev.tid != UNKNOWN;
                    let leaves = if is_known { leaves(row.last, states) } else { Leaves::Ready };
                    add(row.at_ns, RawKind::Switch { prev, next, leaves })?;
                }
                switch = switches.next();
            }
            (_, Some(row)) => {
                let cpu = u16::try_from(row.last).ok()?;
                add(row.at_ns, RawKind::Waking { task: named(&row)?, waker: current.tid, cpu })?;
                waking = wakings.next();
            }
            _ => break,
        }
    }
    (switches.is_empty() && wakings.is_empty()).then_some(())
}

/// Processes and threads of one tree: the kernel's largest number is 32 times this.
const MAX_ENTRIES: usize = 1 << 17;
/// Pid of kthreadd, the parent of all kernel threads.
const KTHREADD: u64 = 2;

/// Takes what was known at this time. `None`: it is damaged.
pub(super) fn take_processes(bytes: &[u8], at_ns: u64, events: &mut Vec<RawEvent>) -> Option<()> {
    let mut add = |at_ns, kind| push(events, RawEvent { at_ns, cpu: 0, kind });
    let mut entries = 0;
    fields(bytes, |field, value| {
        let ProtobufValue::Bytes(message) = value else { return Some(()) };
        entries += 1;
        if entries > MAX_ENTRIES {
            return None;
        }
        match field {
            1 => {
                let (process, command) = (Small::parse(message)?, first_text(message)?);
                let pid = tid_of(process.number(1));
                add(at_ns, RawKind::Belongs { tid: pid, pid, is_new: false });
                if process.number(2) == KTHREADD || process.number(8) != 0 || process.number(1) == KTHREADD {
                    add(at_ns, RawKind::Kernel { pid });
                }
                // A process that set its title has it there as one text, with spaces before its arguments.
                let command = command.split(|byte| *byte == b' ').next().unwrap_or_default();
                // Any name that an event has is better.
                add(0, RawKind::Called(NamedThread { tid: pid, name: name(base(command)) }));
            }
            2 => {
                let thread = Small::parse(message)?;
                let (tid, pid) = (tid_of(thread.number(1)), tid_of(thread.number(3)));
                if pid != 0 {
                    add(at_ns, RawKind::Belongs { tid, pid, is_new: false });
                }
                add(at_ns, RawKind::Called(NamedThread { tid, name: name(thread.text(2)) }));
            }
            _ => {}
        }
        Some(())
    })
}

/// The first part of the command line: later ones are its arguments.
fn first_text(process: &[u8]) -> Option<&[u8]> {
    let mut first = None;
    fields(process, |field, value| {
        if let (3, ProtobufValue::Bytes(text)) = (field, value) {
            first = first.or(Some(text));
        }
        Some(())
    })?;
    Some(first.unwrap_or_default())
}

fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}
