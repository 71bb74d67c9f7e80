//! Events that wait for their turn: recorders write what each CPU did in parts, so those of all CPUs are sorted here.

use super::decoder::RawEvent;
use crate::cost::Bound;

/// Events that wait at most. A recorder that leaves more between two moments at which all is known has its events handed out early;
/// those that are late then are counted.
const EVENTS: Bound = Bound { free: 1 << 17, times: 1, most: 2 << 20 };
/// In any packed file an event has about as many bytes.
const EVENT_BYTES: u64 = 4;
/// Events that a decoder gives in one step, mostly: the list grows by this and a quarter, because twice as much would be empty memory.
const STEP_EVENTS: usize = 1 << 16;
/// Waiting events are sorted and moved when one in so many is new: a recorder may say after each event that all up to some time is known.
const NEW_SHARE: usize = 4;

/// Events by time.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) events: Vec<RawEvent>,
    sorted: usize,
    most: usize,
    /// The first ones have their turn.
    ready: usize,
    /// All events up to here were handed out.
    known_ns: u64,
    /// Time of the earliest that is more than a name.
    first_ns: Option<u64>,
}

impl Held {
    /// For a file of this length.
    pub(super) fn new(file_bytes: u64) -> Self {
        let most = EVENTS.of(file_bytes / EVENT_BYTES);
        Self { events: Vec::new(), sorted: 0, most, ready: 0, known_ns: 0, first_ns: None }
    }

    /// The list, with space for the next ones.
    pub(super) fn space(&mut self) -> &mut Vec<RawEvent> {
        let waiting = self.events.len();
        if self.events.capacity() - waiting < STEP_EVENTS {
            self.events.reserve_exact(STEP_EVENTS + waiting / 4);
        }
        &mut self.events
    }

    /// Whether more wait than ever should.
    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= self.most
    }

    /// All events up to this time were added. Those have their turn, and half of a full store.
    pub(super) fn sync(&mut self, until_ns: u64) {
        self.known_ns = self.known_ns.max(until_ns);
        let new = self.events.len() - self.sorted;
        let is_end = until_ns == u64::MAX;
        if !is_end && !self.is_full() && new * NEW_SHARE <= self.sorted {
            return;
        }
        let new = self.events[self.sorted..].iter().filter(|event| event.kind.is_event());
        self.first_ns = new.map(|event| event.at_ns).chain(self.first_ns).min();
        // Stable: events of one CPU at one time are in order, and runs that are sorted already cost little.
        self.events.sort_by_key(|event| event.at_ns);
        self.sorted = self.events.len();
        let ready = self.events.partition_point(|event| event.at_ns <= self.known_ns);
        self.ready = if self.is_full() { ready.max(self.sorted / 2) } else { ready };
    }

    /// The earliest event that is more than a name, if it has its turn.
    pub(super) fn first_ns(&self) -> Option<u64> {
        let last = self.events.get(self.ready.checked_sub(1)?)?;
        self.first_ns.filter(|first_ns| *first_ns <= last.at_ns)
    }

    /// Hands out those that have their turn.
    pub(super) fn drain(&mut self) -> std::vec::Drain<'_, RawEvent> {
        let ready = std::mem::take(&mut self.ready);
        self.sorted -= ready;
        self.events.drain(..ready)
    }
}

#[cfg(test)]
mod tests {
    use super::super::decoder::{Named, RawKind};
    use super::*;

    fn name(at_ns: u64) -> RawEvent {
        RawEvent { at_ns, cpu: 0, kind: RawKind::Called(Named { tid: 1, name: [0; 16] }) }
    }

    fn exit(at_ns: u64) -> RawEvent {
        RawEvent { at_ns, cpu: 0, kind: RawKind::Exit { tid: 1 } }
    }

    /// A mark for every few bytes sorted and moved all that waited: 8 ms for each.
    #[test]
    fn marks_do_not_sort_what_waits_again_and_again() {
        let mut held = Held::new(1 << 30);
        held.events.extend((0..100_000).map(|_| name(u64::MAX - 1)));
        held.sync(0);
        let (mut out, mut sorts) = (0, 0);
        for at_ns in 1..=100_000 {
            held.events.push(exit(at_ns));
            let before = held.sorted;
            held.sync(at_ns);
            sorts += u32::from(held.sorted != before);
            out += held.drain().len();
        }
        held.sync(u64::MAX);
        let rest: Vec<u64> = held.drain().map(|event| event.at_ns).collect();
        assert!(rest.is_sorted() && out + rest.len() == 200_000, "{out} {}", rest.len());
        assert!(sorts <= 5, "{sorts}");
    }

    #[test]
    fn the_first_event_is_found_among_names() {
        let mut held = Held::new(0);
        held.events.extend([name(5), name(7), exit(30), exit(20), name(40)]);
        held.sync(10);
        assert_eq!(held.first_ns(), None, "only names have their turn");
        held.events.extend([name(50), exit(45)]);
        held.sync(25);
        assert_eq!(held.first_ns(), Some(20));
        let out: Vec<u64> = held.drain().map(|event| event.at_ns).collect();
        assert_eq!(out, [5, 7, 20]);
    }

    #[test]
    fn a_small_file_holds_few_events_however_it_is_packed() {
        let (small, large) = (Held::new(100_000), Held::new(1 << 40));
        assert_eq!((small.most, large.most), ((1 << 17) + 25_000, 2 << 20));
        assert_eq!(large.most * size_of::<RawEvent>(), 144 << 20);
    }
}
