//! The trace that a decoder's events become. Recorders write what each CPU did in parts, so events wait for their turn in [`Imported`], which
//! sorts those of all CPUs, numbers the tasks and hands out the events.

use std::collections::BTreeMap;

use cpumon_model::Moment;
use cpumon_sched::{Name, SchedEvent, up_to_zero};
use cpumon_trace::limits::{Bound, EVENTS};
use cpumon_trace::{Ending, FileHeader, ReadError, StoppedCpu, Tasks, TraceFacts};

use crate::decoder::{Decoder, DecoderStep, RawEvent, RawKind, RawTrace};
use crate::numbering::Numbering;

const TOO_MANY: &str = "its packed parts become more events than any recorder writes in a file of its length";

/// Sorts and numbers what a decoder gives.
pub(crate) struct Imported<'t> {
    decoder: Box<dyn Decoder + 't>,
    pub(crate) facts: TraceFacts,
    stopping: Stopping,
    numbering: Numbering,
    held: WaitingEvents,
    left_events: usize,
    is_read: bool,
    ending: Ending,
}

impl<'t> Imported<'t> {
    /// Reads up to the first event: the trace begins with it.
    pub(crate) fn new(
        decoder: Box<dyn Decoder + 't>,
        header: FileHeader,
        file_bytes: u64,
    ) -> Result<Self, ReadError> {
        let mut imported = Self {
            decoder,
            facts: TraceFacts { header, tasks: Tasks::of_file(file_bytes), ..TraceFacts::default() },
            stopping: Stopping::default(),
            numbering: Numbering::new(file_bytes),
            held: WaitingEvents::new(file_bytes),
            left_events: EVENTS.of(file_bytes),
            is_read: false,
            ending: Ending::default(),
        };
        let first_ns = loop {
            if let Some(first_ns) = imported.held.first_ns() {
                break first_ns;
            }
            if imported.is_read {
                break 0;
            }
            if imported.held.is_full() {
                // The names at the front are applied, so that they do not fill the list.
                for event in imported.held.drain() {
                    imported.numbering.number(&event, &mut imported.facts.tasks);
                }
            }
            imported.step()?;
        };
        imported.ending.known_until_ns = first_ns;
        begin_at(&mut imported.facts.header.began, first_ns);
        Ok(imported)
    }

    /// Hands out every event in the order of their time, up to the end of the trace or its first damage.
    pub(crate) fn read(&mut self, out: &mut impl FnMut(SchedEvent)) -> Result<Ending, ReadError> {
        loop {
            for raw in self.held.drain() {
                self.stopping.note(&raw);
                if raw.kind == RawKind::Same {
                    self.ending.known_until_ns = self.ending.known_until_ns.max(raw.at_ns);
                }
                let Some(event) = self.numbering.number(&raw, &mut self.facts.tasks) else { continue };
                let known_ns = &mut self.ending.known_until_ns;
                self.ending.late += u64::from(event.at_ns < *known_ns);
                *known_ns = (*known_ns).max(event.at_ns);
                out(event);
            }
            if self.is_read {
                break;
            }
            self.step()?;
        }
        self.facts.stopped = self.stopping.stopped(self.ending.known_until_ns);
        // With those that the decoder left out.
        self.ending.unnamed += self.facts.tasks.left_out();
        // With gaps it was read to its end all the same.
        if self.ending.damaged_at.is_none() || self.ending.gaps > 0 {
            self.ending.ended_ns = Some(self.ending.known_until_ns);
        }
        Ok(self.ending)
    }

    fn step(&mut self) -> Result<(), ReadError> {
        let before = self.held.events.len();
        let mut out = RawTrace { events: self.held.space(), ending: &mut self.ending };
        let step = self.decoder.step(&mut out)?;
        let new = self.held.events.len() - before;
        self.left_events = self.left_events.checked_sub(new).ok_or(ReadError::Unusable(TOO_MANY))?;
        match step {
            DecoderStep::More if !self.held.is_full() => {}
            DecoderStep::More => self.held.sync(0),
            DecoderStep::Until(until_ns) => self.held.sync(until_ns),
            DecoderStep::End => {
                self.is_read = true;
                self.held.sync(u64::MAX);
            }
        }
        Ok(())
    }
}

/// Moves the moment to this time of the trace's clock; other clocks where the file has them.
fn begin_at(began: &mut Moment, at_ns: u64) {
    if began.wall_ns != 0 {
        let ahead_ns = i128::from(at_ns) - i128::from(began.mono_ns);
        let moved = |ns: i128| ns.saturating_add(ahead_ns).max(0);
        began.boot_ns = u64::try_from(moved(began.boot_ns.into())).unwrap_or(u64::MAX);
        began.wall_ns = i64::try_from(moved(began.wall_ns.into())).unwrap_or(i64::MAX);
    }
    began.mono_ns = at_ns;
}

/// Events that wait at most. A recorder that leaves more between two moments at which all is known has its events handed out early;
/// those that are late then are counted.
const WAITING: Bound = Bound { free: 1 << 17, times: 1, most: 2 << 20 };
/// In any packed file an event has about as many bytes.
const EVENT_BYTES: u64 = 4;
/// Events that a decoder gives in one step, mostly: the list grows by this and a quarter, because twice as much would be empty memory.
const STEP_EVENTS: usize = 1 << 16;
/// Waiting events are sorted and moved once the new ones exceed a quarter of the sorted ones: a recorder may say after each event that all
/// up to some time is known.
const NEW_SHARE: usize = 4;

#[derive(Debug)]
struct WaitingEvents {
    events: Vec<RawEvent>,
    sorted: usize,
    most: usize,
    /// Number of events at the front that can be handed out.
    ready: usize,
    /// All events up to this time were handed out.
    known_ns: u64,
    /// Time of the earliest that is more than a name.
    first_ns: Option<u64>,
}

impl WaitingEvents {
    fn new(file_bytes: u64) -> Self {
        let most = WAITING.of(file_bytes / EVENT_BYTES);
        Self { events: Vec::new(), sorted: 0, most, ready: 0, known_ns: 0, first_ns: None }
    }

    /// The list of events, with capacity for the next step.
    fn space(&mut self) -> &mut Vec<RawEvent> {
        let waiting = self.events.len();
        if self.events.capacity() - waiting < STEP_EVENTS {
            self.events.reserve_exact(STEP_EVENTS + waiting / 4);
        }
        &mut self.events
    }

    fn is_full(&self) -> bool {
        self.events.len() >= self.most
    }

    /// All events up to this time were added. Those have their turn, and half of a full store.
    fn sync(&mut self, until_ns: u64) {
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
    fn first_ns(&self) -> Option<u64> {
        let last = self.events.get(self.ready.checked_sub(1)?)?;
        self.first_ns.filter(|first_ns| *first_ns <= last.at_ns)
    }

    /// Removes and returns the events that can be handed out.
    fn drain(&mut self) -> std::vec::Drain<'_, RawEvent> {
        let ready = std::mem::take(&mut self.ready);
        self.sorted -= ready;
        self.events.drain(..ready)
    }
}

/// A CPU that stays online has this thread for less, ns: for some microseconds mostly. A recording may end meanwhile.
const LEAST_NS: u64 = 10_000_000;

/// Which CPUs went offline and did not come back: those on which the thread that stops them is, `migration/N`, with the time of their last
/// event. The kernel hands out no event of a CPU that is offline, so no recorder has the switch away from it.
#[derive(Debug, Default)]
struct Stopping(BTreeMap<u16, u64>);

impl Stopping {
    fn note(&mut self, event: &RawEvent) {
        match event.kind {
            RawKind::Switch { next, .. } if stops(&next.name, event.cpu) => {
                self.0.insert(event.cpu, event.at_ns);
            }
            RawKind::Switch { .. } | RawKind::Lost { .. } => {
                self.0.remove(&event.cpu);
            }
            kind if kind.is_event() || kind == RawKind::Same => {
                if let Some(last_ns) = self.0.get_mut(&event.cpu) {
                    *last_ns = event.at_ns.max(*last_ns);
                }
            }
            _ => {}
        }
    }

    /// Those that have no event since long before the end.
    fn stopped(&self, end_ns: u64) -> Vec<StoppedCpu> {
        let is_long_ago = |since_ns: u64| end_ns.saturating_sub(since_ns) > LEAST_NS;
        let stopped = self.0.iter().filter(|(_, since_ns)| is_long_ago(**since_ns));
        stopped.map(|(&cpu, &since_ns)| StoppedCpu { cpu, since_ns }).collect()
    }
}

/// Whether this is the name of the thread that stops the CPU.
fn stops(name: &Name, cpu: u16) -> bool {
    let number = up_to_zero(name).strip_prefix(b"migration/");
    number.is_some_and(|number| number == cpu.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoder::NamedThread;

    fn name(at_ns: u64) -> RawEvent {
        RawEvent { at_ns, cpu: 0, kind: RawKind::Called(NamedThread { tid: 1, name: [0; 16] }) }
    }

    fn exit(at_ns: u64) -> RawEvent {
        RawEvent { at_ns, cpu: 0, kind: RawKind::Exit { tid: 1 } }
    }

    /// A mark for every few bytes sorted and moved all that waited: 8 ms for each.
    #[test]
    fn marks_do_not_sort_what_waits_again_and_again() {
        let mut held = WaitingEvents::new(1 << 30);
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
        let mut held = WaitingEvents::new(0);
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
        let (small, large) = (WaitingEvents::new(100_000), WaitingEvents::new(1 << 40));
        assert_eq!((small.most, large.most), ((1 << 17) + 25_000, 2 << 20));
        assert_eq!(large.most * size_of::<RawEvent>(), 144 << 20);
    }
}
