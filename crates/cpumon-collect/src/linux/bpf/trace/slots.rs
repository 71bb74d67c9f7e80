//! The rings of events: slots.h writes them, this process reads them where they are.

use std::sync::atomic::Ordering;

use cpumon_model::SchedEvent;
use libbpf_rs::MapHandle;

use super::super::sched::Shared;
use super::records::{EventRecord, KIND_AT, READ_AT, RingState, WRITTEN_AT, event, is_written};
use crate::CollectError;

const SLOT_BYTES: usize = size_of::<EventRecord>();

pub(super) struct Slots {
    states: Shared<RingState>,
    events: Shared<EventRecord>,
    /// Of each ring; a power of two.
    per_ring: u64,
    /// Of each ring: what was claimed when the pass began, and what was read.
    ends: Vec<(u64, u64)>,
}

impl Slots {
    pub(super) fn map(states: &MapHandle, events: &MapHandle, slots: u32) -> Result<Self, CollectError> {
        let states = Shared::map_first(states, "ring_states", true, usize::MAX)?;
        let events = Shared::map_first(events, "events", false, usize::MAX)?;
        let ends = vec![(0, 0); states.len()];
        Ok(Self { states, events, per_ring: slots.into(), ends })
    }

    /// Notes how far each ring is written. What is claimed later is left to the next pass: who its tasks are may not have been read.
    /// Returns how full the fullest is, 0 to 1.
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

    /// `None` as long as it is being written.
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
