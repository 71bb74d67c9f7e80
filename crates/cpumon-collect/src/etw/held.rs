//! Events that wait for their turn. The system merges the buffers of all CPUs by time, but one that is flushed late comes late.

use cpumon_events::windows::KernelEvent;

/// So many events wait at most. With more, the older half has its turn early.
const MAX_HELD: usize = 1 << 15;

/// An event that has not had its turn.
#[derive(Copy, Clone, Debug)]
pub(super) struct HeldEvent {
    pub(super) at_ns: u64,
    /// The place among those of one time.
    number: u64,
    pub(super) cpu: u16,
    pub(super) event: KernelEvent,
}

// 6 MiB for all that wait between an instant and its snapshot, at most.
const _: () = assert!(size_of::<HeldEvent>() <= 96);

/// Events by time.
#[derive(Debug, Default)]
pub(super) struct Held {
    events: Vec<HeldEvent>,
    number: u64,
    is_sorted: bool,
}

impl Held {
    pub(super) fn push(&mut self, at_ns: u64, cpu: u16, event: KernelEvent) {
        self.number += 1;
        let is_next = self.events.last().is_none_or(|last| last.at_ns <= at_ns);
        self.is_sorted = (self.is_sorted || self.events.is_empty()) && is_next;
        self.events.push(HeldEvent { at_ns, number: self.number, cpu, event });
    }

    /// No more fit.
    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= MAX_HELD
    }

    /// Twice as many as should wait.
    pub(super) fn is_overfull(&self) -> bool {
        self.events.len() >= 2 * MAX_HELD
    }

    /// Hands out the events up to this time in their order.
    pub(super) fn take(&mut self, until_ns: u64, out: &mut dyn FnMut(&HeldEvent)) {
        self.sort();
        let count = self.events.partition_point(|event| event.at_ns <= until_ns);
        self.events.drain(..count).for_each(|event| out(&event));
    }

    /// Hands out the older half.
    pub(super) fn take_half(&mut self, out: &mut dyn FnMut(&HeldEvent)) {
        self.sort();
        let half = self.events.len() / 2;
        self.events.drain(..half).for_each(|event| out(&event));
    }

    fn sort(&mut self) {
        if !std::mem::replace(&mut self.is_sorted, true) {
            // By number too: a stable sort would need memory.
            self.events.sort_unstable_by_key(|event| (event.at_ns, event.number));
        }
    }
}
