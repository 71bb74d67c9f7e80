//! `FtraceEventBundle`: what a CPU did, as columns and as single events.

use cpumon_model::Interrupt;

use super::super::bytes::name;
use super::super::decoder::{Named, RawEvent, RawKind, UNKNOWN, push};
use super::super::tracepoints::{CLONE_THREAD, Damaged, leaves};
use super::compact::{self, tid_of};
use super::wire::{Small, Value, fields};
use crate::file::reader::Ending;

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

/// What is known of a CPU.
#[derive(Copy, Clone, Debug)]
struct Cpu {
    /// Who it was given to last.
    current: Named,
    /// Its latest event; 0: none.
    newest_ns: u64,
}

/// Reads bundles.
#[derive(Debug)]
pub(super) struct Bundles {
    cpus: Vec<Cpu>,
    states: &'static [(u64, char)],
    has_wakings: bool,
    pub(super) has_switches: bool,
}

const UNNAMED: Named = Named { tid: UNKNOWN, name: [0; 16] };

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
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        events: &mut Vec<RawEvent>,
        ending: &mut Ending,
    ) -> Option<()> {
        let (mut number, mut has_lost, mut compact) = (0, false, None);
        // The CPU may be behind its events.
        fields(bytes, |field, value| {
            match (field, value) {
                (CPU, Value::Number(cpu)) => number = cpu,
                (LOST_EVENTS, Value::Number(lost)) => has_lost = lost != 0,
                (COMPACT, Value::Bytes(bytes)) => compact = Some(bytes),
                _ => {}
            }
            Some(())
        })?;
        let number = u16::try_from(number).ok()?;
        let at = usize::from(number);
        if at >= self.cpus.len() {
            self.cpus.resize(at + 1, Cpu { current: UNNAMED, newest_ns: 0 });
        }
        let before = self.cpus[at];
        if has_lost {
            self.cpus[at].current = UNNAMED;
        }
        let first = events.len();
        let mut add = |at_ns, kind| {
            push(events, RawEvent { at_ns, cpu: number, kind });
            (events.len() - first < MAX_EVENTS).then_some(())
        };
        let result = self.events(at, bytes, compact, &mut add);
        let new = &events[first..];
        self.has_switches |= new.iter().any(|event| matches!(event.kind, RawKind::Switch { .. }));
        let times = || new.iter().map(|event| event.at_ns);
        let until_ns = times().min();
        self.cpus[at].newest_ns = before.newest_ns.max(times().max().unwrap_or(0));
        // What was lost in front of the CPU's first event is no part of the trace.
        if let Some(until_ns) = until_ns.filter(|_| has_lost && before.newest_ns > 0) {
            // Perfetto does not say how many.
            ending.lost = ending.lost.saturating_add(1);
            let until_ns = until_ns.max(before.newest_ns);
            events.push(RawEvent {
                at_ns: before.newest_ns,
                cpu: number,
                kind: RawKind::Lost { count: 1, until_ns },
            });
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
            compact::visit(compact, self.states, &mut self.cpus[at].current, &mut |at_ns, kind| {
                *has_wakings |= matches!(kind, RawKind::Waking { .. });
                add(at_ns, kind)
            })?;
        }
        fields(bytes, |field, value| {
            let (EVENT, Value::Bytes(event)) = (field, value) else { return Some(()) };
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
    fn event(&mut self, bytes: &[u8]) -> Result<Option<(u64, RawKind)>, Damaged> {
        let (mut at_ns, mut current, mut found) = (0, UNKNOWN, None);
        fields(bytes, |field, value| {
            match (field, value) {
                (1, Value::Number(time)) => at_ns = time,
                (2, Value::Number(tid)) => current = tid_of(tid),
                (field, Value::Bytes(event)) => found = Some((field, event)),
                _ => {}
            }
            Some(())
        })
        .ok_or(Damaged)?;
        let Some((kind, event)) = found else { return Ok(None) };
        Ok(self.kind(kind, event, current)?.map(|kind| (at_ns, kind)))
    }

    fn kind(&mut self, kind: u64, event: &[u8], current: u32) -> Result<Option<RawKind>, Damaged> {
        if !matches!(kind, 4 | 17 | 20 | 24 | 25 | 36 | 37 | 114 | 235 | 236 | 238 | 239 | 491) {
            return Ok(None);
        }
        let event = Small::parse(event).ok_or(Damaged)?;
        let thread = |tid, text| Named { tid: tid_of(event.number(tid)), name: name(event.text(text)) };
        let small = |field| u16::try_from(event.number(field)).map_err(|_| Damaged);
        let line = || small(1);
        Ok(Some(match kind {
            4 => RawKind::Switch {
                prev: thread(2, 1),
                next: thread(6, 5),
                leaves: leaves(event.number(4), self.states),
            },
            // What follows a waking.
            17 if self.has_wakings => return Ok(None),
            17 | 20 | 114 => {
                self.has_wakings |= kind == 20;
                RawKind::Waking { task: thread(2, 1), waker: current, cpu: small(5)? }
            }
            24 => RawKind::Enter(Interrupt::Soft(line()?)),
            25 => RawKind::Return(Interrupt::Soft(line()?)),
            36 => RawKind::Enter(Interrupt::Hard(line()?)),
            37 => RawKind::Return(Interrupt::Hard(line()?)),
            235 => {
                let is_thread = event.number(3) & CLONE_THREAD != 0;
                RawKind::Born { task: thread(1, 2), parent: current, is_thread }
            }
            236 => RawKind::Called(thread(1, 3)),
            238 => RawKind::Exit { tid: tid_of(event.number(2)) },
            239 => RawKind::Born { task: thread(4, 3), parent: tid_of(event.number(2)), is_thread: false },
            _ => RawKind::Migrate { tid: tid_of(event.number(2)), to_cpu: small(5)? },
        }))
    }
}
