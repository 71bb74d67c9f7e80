//! Events that wait for their turn: recorders write what each CPU did in parts, so those of all CPUs are sorted here.

use super::decoder::RawEvent;

/// So many events wait at most, 72 bytes each. A recorder that leaves more between two moments at which all is
/// known has its events handed out early; those that are late then are counted.
const MAX_HELD: usize = 2 << 20;

/// Events by time.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) events: Vec<RawEvent>,
    sorted: usize,
}

impl Held {
    /// Whether more wait than ever should.
    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= MAX_HELD
    }

    /// Sorts, and says how many of the first events have their turn: those up to `until_ns`, and half of a full store.
    pub(super) fn ready(&mut self, until_ns: u64) -> usize {
        if self.sorted != self.events.len() {
            // Stable: events of one CPU at one time are in order, and runs that are sorted already cost little.
            self.events.sort_by_key(|event| event.at_ns);
            self.sorted = self.events.len();
        }
        let ready = self.events.partition_point(|event| event.at_ns <= until_ns);
        if self.is_full() { ready.max(self.events.len() / 2) } else { ready }
    }

    /// Hands out the first events.
    pub(super) fn drain(&mut self, count: usize) -> std::vec::Drain<'_, RawEvent> {
        self.sorted = self.sorted.saturating_sub(count);
        self.events.drain(..count)
    }
}
