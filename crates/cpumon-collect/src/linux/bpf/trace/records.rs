//! The records of trace.bpf.c and their meaning; and the rings of events: slots.h writes them, this process reads them in place.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use cpumon_model::{Comm, ProcessKey, ThreadKey};
use cpumon_sched::{
    Interrupt, Leaves, SchedEvent, SchedEventKind, TraceGroup, TraceIdentity, TraceTask, up_to_zero,
};
use libbpf_rs::MapHandle;

use super::super::records::task::whole_us;
use super::super::records::{RunClock, layouts, read_plain, same_layout};
use super::super::sched::{MappedArray, reason_of};
use crate::{CollectError, TraceItem};

const SWITCH: u8 = 1;
const WAKING: u8 = 2;
const MIGRATE: u8 = 3;
const BORN: u8 = 4;
const EXIT: u8 = 5;
const LOST: u8 = 6;
const TASK: u8 = 7;
const PROGRAM: u8 = 8;
const INTERRUPT: u8 = 9;
const GROUP: u8 = 10;

const LEAVES_ASLEEP: u8 = 1;
const LEAVES_DEAD: u8 = 2;

const INTERRUPT_SOFT: u8 = 1;

include!(concat!(env!("OUT_DIR"), "/trace.rs"));

/// `ODD_ROUND`.
const ODD_ROUND: u8 = 0x80;

/// Offset of `kind`, which the probe writes last.
const KIND_AT: usize = offset_of!(EventRecord, kind);

const WRITTEN_AT: usize = offset_of!(RingState, written);
const READ_AT: usize = offset_of!(RingState, read);

/// Reads a record of a ring buffer: who a task is, or the name of a group. `None`: it is neither.
pub(super) fn entry(bytes: &[u8]) -> Option<TraceItem> {
    Some(match *bytes.get(offset_of!(TaskEntry, kind))? {
        TASK => {
            let entry: TaskEntry = read_plain(bytes)?;
            TraceItem::Identity(identity(&entry, &entry.process_comm))
        }
        PROGRAM => {
            let entry: ProgramEntry = read_plain(bytes)?;
            TraceItem::Identity(identity(&entry.task, &entry.program))
        }
        GROUP => {
            let GroupEntry { group, parent, name, .. } = read_plain(bytes)?;
            TraceItem::Group(TraceGroup { group, parent, name: up_to_zero(&name).into() })
        }
        _ => return None,
    })
}

/// Whether a slot was written in this round through its ring.
fn is_written(slot: &[u8], is_odd_round: bool) -> bool {
    slot.get(KIND_AT).is_some_and(|kind| kind & !ODD_ROUND != 0 && (kind & ODD_ROUND != 0) == is_odd_round)
}

/// Reads a slot; `None` if it has no event.
pub(super) fn event(slot: &[u8]) -> Option<SchedEvent> {
    let record: EventRecord = read_plain(slot)?;
    let (task, other) = (TraceTask(record.task), TraceTask(record.other));
    // Only losses use the upper half.
    let value = u16::try_from(record.value & 0xffff).unwrap_or_default();
    let kind = match record.kind & !ODD_ROUND {
        SWITCH => {
            let leaves = match record.leaves {
                LEAVES_ASLEEP => Leaves::Asleep(reason_of(value)),
                LEAVES_DEAD => Leaves::Dead,
                _ => Leaves::Ready,
            };
            SchedEventKind::Switch { prev: task, next: other, leaves }
        }
        WAKING => SchedEventKind::Waking { task, waker: other, cpu: value },
        MIGRATE => SchedEventKind::Migrate { task, to_cpu: value },
        BORN => SchedEventKind::Born { task, parent: other },
        EXIT => SchedEventKind::Exit { task },
        INTERRUPT => {
            let of = if record.leaves == INTERRUPT_SOFT { Interrupt::Soft } else { Interrupt::Hard };
            SchedEventKind::Interrupt { interrupt: of(value), ran_ns: record.task.into() }
        }
        LOST => {
            let span_ns = u64::from(record.value) << 32 | u64::from(record.other);
            let until_ns = record.at_ns.saturating_add(span_ns);
            SchedEventKind::Lost { count: record.task.into(), until_ns }
        }
        _ => return None,
    };
    Some(SchedEvent { at_ns: record.at_ns, cpu: record.cpu, kind })
}

fn identity(entry: &TaskEntry, program: &[u8]) -> TraceIdentity {
    TraceIdentity {
        task: TraceTask(entry.task),
        at_ns: entry.at_ns,
        thread: ThreadKey { tid: entry.tid, start_ns: whole_us(entry.start_ns) },
        process: ProcessKey { pid: entry.pid, start_ns: whole_us(entry.process_start_ns) },
        comm: Comm::new(&entry.comm),
        group: entry.group,
        program: up_to_zero(program).into(),
        is_executable: entry.kind == PROGRAM,
        is_kernel: entry.is_kernel != 0,
    }
}

const SLOT_BYTES: usize = size_of::<EventRecord>();

pub(super) struct RingSlots {
    states: MappedArray<RingState>,
    events: MappedArray<EventRecord>,
    /// Slots of each ring; a power of two.
    per_ring: u64,
    /// For each ring: slots claimed when the pass began, and slots read.
    ends: Vec<(u64, u64)>,
}

impl RingSlots {
    pub(super) fn map(states: &MapHandle, events: &MapHandle, slots: u32) -> Result<Self, CollectError> {
        let states = MappedArray::map_first(states, "ring_states", true, usize::MAX)?;
        let events = MappedArray::map_first(events, "events", false, usize::MAX)?;
        let ends = vec![(0, 0); states.len()];
        Ok(Self { states, events, per_ring: slots.into(), ends })
    }

    /// Notes the end of each ring. Slots claimed later are left to the next pass, because the identities of their tasks
    /// may not have been read. Returns the fill of the fullest ring, 0 to 1.
    pub(super) fn begin(&mut self) -> f64 {
        let mut most = 0;
        for (ring, (end, read)) in self.ends.iter_mut().enumerate() {
            *end = self.states.atomic(ring, WRITTEN_AT).map_or(0, |written| written.load(Ordering::Acquire));
            most = most.max(*end - *read);
        }
        most as f64 / self.per_ring as f64
    }

    /// Hands out the events up to there. Returns how many slots made no sense.
    pub(super) fn take(&mut self, out: &mut impl FnMut(SchedEvent)) -> u64 {
        let mut malformed = 0;
        for ring in 0..self.ends.len() {
            let (end, mut read) = self.ends[ring];
            // An event that is being written at this moment ends the pass: the next one takes it.
            while read < end
                && let Some(slot) = self.slot(ring, read)
            {
                event(&slot).map_or_else(|| malformed += 1, &mut *out);
                read += 1;
            }
            self.ends[ring].1 = read;
            if let Some(behind) = self.states.atomic(ring, READ_AT) {
                behind.store(read, Ordering::Release);
            }
        }
        malformed
    }

    /// `None` while the probe writes the slot.
    fn slot(&self, ring: usize, number: u64) -> Option<[u8; SLOT_BYTES]> {
        let place = number & (self.per_ring - 1);
        let at = usize::try_from(ring as u64 * self.per_ring + place).ok()?;
        let word = |offset, order| Some(self.events.atomic(at, offset)?.load(order).to_ne_bytes());
        // The one with the kind first: once that is seen, the others are.
        let kind = word(KIND_AT, Ordering::Acquire)?;
        let (before, after) = (word(0, Ordering::Relaxed)?, word(KIND_AT + 8, Ordering::Relaxed)?);
        let mut slot = [0; SLOT_BYTES];
        for (to, from) in slot.chunks_exact_mut(8).zip([before, kind, after]) {
            to.copy_from_slice(&from);
        }
        is_written(&slot, number & self.per_ring != 0).then_some(slot)
    }
}
