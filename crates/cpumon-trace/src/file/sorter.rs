//! Puts the events of all CPUs in the order of their time. A file has them sorted for each CPU, and says now and then up to
//! which time it has all: so the sorter holds what lies between two such marks, and no more.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use cpumon_sched::{SchedEvent, SchedEventKind};

use super::columns::ColumnPlaces;
use super::events::{Context, EventFields};
use crate::limits::Bound;

/// Memory of chunks that wait for their turn, bytes. A recorder writes a mark at least once a second. Where a file fills this memory
/// without a mark, all waiting events are handed out, and later ones may be out of order.
const HELD: Bound = Bound { free: 32 << 20, times: 24, most: 256 << 20 };

/// Events that are decoded at a time.
const BATCH: u32 = 64;

/// Where in a chunk the next event is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum ChunkLayout {
    /// Its events follow each other; from this byte on.
    Rows(usize),
    Columns(ColumnPlaces),
}

impl Default for ChunkLayout {
    fn default() -> Self {
        Self::Rows(0)
    }
}

/// How far a chunk is decoded.
#[derive(Copy, Clone, Default)]
struct ChunkPosition {
    layout: ChunkLayout,
    context: Context,
    left: u32,
    /// An event could not be read: where the next one begins is not known.
    is_broken: bool,
}

impl ChunkPosition {
    /// Hands out the next `most` events, or fewer if the chunk has no more.
    #[inline]
    fn decode(&mut self, bytes: &[u8], most: u32, out: &mut impl FnMut(SchedEvent)) {
        let most = if self.is_broken { 0 } else { most.min(self.left) };
        let left = self.left - most;
        match &mut self.layout {
            ChunkLayout::Rows(at) => {
                let mut rest = bytes.get(*at..).unwrap_or_default();
                self.left -= decode(&mut self.context, &mut rest, most, out);
                *at = bytes.len() - rest.len();
            }
            ChunkLayout::Columns(places) => {
                let mut rest = places.rest(bytes);
                self.left -= decode(&mut self.context, &mut rest, most, out);
                places.go_on(&rest);
            }
        }
        self.is_broken |= self.left > left;
    }

    /// Whether the chunk had exactly the announced events, once nothing more can be decoded.
    fn is_end_of(&self, bytes: &[u8]) -> bool {
        let is_read = match &self.layout {
            ChunkLayout::Rows(at) => *at == bytes.len(),
            ChunkLayout::Columns(places) => places.is_read(),
        };
        is_read && self.left == 0
    }
}

/// Decodes up to `most` events; returns how many there were.
#[inline]
fn decode(
    context: &mut Context,
    from: &mut impl EventFields,
    most: u32,
    out: &mut impl FnMut(SchedEvent),
) -> u32 {
    for count in 0..most {
        let Some(event) = context.take(from) else { return count };
        out(event);
    }
    most
}

#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    position: ChunkPosition,
    /// Time of the last event, once it was asked for: to find it, all events are decoded.
    end_ns: Option<u64>,
}

impl Chunk {
    /// Memory of the chunk while it waits, bytes, with its place in the queue. A queue has up to twice the places that it needs.
    fn held_bytes(&self) -> usize {
        size_of::<Self>() + 2 * size_of::<Box<Self>>() + self.bytes.capacity()
    }

    fn end_ns(&mut self) -> u64 {
        let Self { bytes, position, end_ns } = self;
        *end_ns.get_or_insert_with(|| {
            let mut rest = *position;
            rest.decode(bytes, u32::MAX, &mut |_| ());
            rest.context.at_ns
        })
    }
}

/// Events of a CPU are missing from here on, because the file is damaged.
#[derive(Copy, Clone)]
struct OpenGap {
    from_ns: u64,
    /// Syncs since the damage.
    syncs: u8,
}

/// Events of one CPU that wait to be sorted.
#[derive(Default)]
struct SorterQueue {
    head: Option<SchedEvent>,
    /// Decoded events; `next` is the place of the one behind `head`.
    batch: Vec<SchedEvent>,
    next: usize,
    /// Chunk from which `batch` was decoded.
    chunk: Option<Box<Chunk>>,
    /// Each behind a pointer: a list has places for four at least, and there may be as many lists as CPUs.
    waiting: VecDeque<Box<Chunk>>,
    gap: Option<OpenGap>,
}

#[derive(Default)]
struct SorterCounts {
    malformed: u64,
    held_bytes: usize,
}

#[derive(Default)]
pub(super) struct Sorter {
    queues: Vec<SorterQueue>,
    /// The CPUs with events, by the time of their first one.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    counts: SorterCounts,
    last_ns: u64,
    /// Events that came after one with a later time was handed out.
    pub(super) late: u64,
    pub(super) synced_ns: u64,
    has_gaps: bool,
}

impl SorterQueue {
    /// Moves to the next event. Returns its time.
    #[inline]
    fn advance(&mut self, counts: &mut SorterCounts) -> Option<u64> {
        loop {
            if let Some(event) = self.batch.get(self.next) {
                self.next += 1;
                self.head = Some(*event);
                return Some(event.at_ns);
            }
            if !self.decode() && !self.next_chunk(counts) {
                self.head = None;
                return None;
            }
        }
    }

    /// Decodes the next batch; false if the chunk has no more events.
    fn decode(&mut self) -> bool {
        self.batch.clear();
        self.next = 0;
        if let Some(chunk) = &mut self.chunk {
            let Chunk { bytes, position, .. } = &mut **chunk;
            position.decode(bytes, BATCH, &mut |event| self.batch.push(event));
        }
        !self.batch.is_empty()
    }

    fn next_chunk(&mut self, counts: &mut SorterCounts) -> bool {
        if let Some(done) = std::mem::replace(&mut self.chunk, self.waiting.pop_front()) {
            counts.malformed += u64::from(!done.position.is_end_of(&done.bytes));
            counts.held_bytes -= done.held_bytes();
        }
        self.chunk.is_some()
    }

    /// Time of the last event that waits.
    fn end_ns(&mut self) -> Option<u64> {
        let last = self.waiting.back_mut().or(self.chunk.as_mut())?;
        self.head.is_some().then(|| last.end_ns())
    }
}

impl Sorter {
    /// Number of chunks that do not hold the events they announce.
    pub(super) fn malformed(&self) -> u64 {
        self.counts.malformed
    }

    /// Adds the unpacked bytes of a chunk with `count` events.
    pub(super) fn add(
        &mut self,
        cpu: u16,
        base_ns: u64,
        count: u32,
        (bytes, layout): (Vec<u8>, ChunkLayout),
    ) {
        if self.has_gaps {
            self.close_gap(cpu.into(), base_ns);
        }
        let position =
            ChunkPosition { layout, context: Context::new(cpu, base_ns), left: count, is_broken: false };
        self.put(cpu, Chunk { bytes, position, end_ns: None });
    }

    fn put(&mut self, cpu: u16, chunk: Chunk) {
        let at = usize::from(cpu);
        if at >= self.queues.len() {
            self.queues.resize_with(at + 1, SorterQueue::default);
        }
        self.counts.held_bytes += chunk.held_bytes();
        let queue = &mut self.queues[at];
        queue.waiting.push_back(Box::new(chunk));
        if queue.head.is_none()
            && let Some(first_ns) = queue.advance(&mut self.counts)
        {
            self.heads.push(Reverse((first_ns, at)));
        }
    }

    /// Whether more is held than a recorder ever leaves without a mark in a file of this length.
    pub(super) fn is_full(&self, read_bytes: u64) -> bool {
        self.counts.held_bytes > HELD.of(read_bytes)
    }

    /// Notes that all events up to this time were added.
    pub(super) fn sync(&mut self, at_ns: u64) {
        self.synced_ns = self.synced_ns.max(at_ns);
        if self.has_gaps {
            self.has_gaps = false;
            for at in 0..self.queues.len() {
                let Some(gap) = self.queues[at].gap else { continue };
                self.close_gap(at, at_ns);
                // Events of the damaged part were written before the first sync behind it, but may be later than the time of that.
                if gap.syncs == 0 {
                    self.queues[at].gap = Some(OpenGap { from_ns: gap.from_ns.max(at_ns), syncs: 1 });
                    self.has_gaps = true;
                }
            }
        }
    }

    /// A part of the file cannot be read. The CPUs of the missing events are unknown, so each CPU gets a gap: up to the highest with
    /// events, and all below `cpus`. Returns their number.
    pub(super) fn open_gaps(&mut self, cpus: u16) -> u64 {
        self.has_gaps = true;
        if self.queues.len() < cpus.into() {
            self.queues.resize_with(cpus.into(), SorterQueue::default);
        }
        for queue in &mut self.queues {
            let from_ns = match queue.gap {
                Some(gap) => gap.from_ns,
                // What the last sync covers was in the file before it.
                None => queue.end_ns().unwrap_or(0).max(self.synced_ns),
            };
            queue.gap = Some(OpenGap { from_ns, syncs: 0 });
        }
        self.queues.len() as u64
    }

    /// Closes the open gaps at this time: no more events are added.
    pub(super) fn end_gaps(&mut self, until_ns: u64) {
        for at in 0..self.queues.len() {
            if self.queues[at].gap.is_some_and(|gap| gap.from_ns < until_ns) {
                self.close_gap(at, until_ns);
            }
        }
    }

    /// The time of the last event that waits, if any is later than the last sync.
    pub(super) fn unsynced_ns(&mut self) -> Option<u64> {
        let last_ns = self.queues.iter_mut().filter_map(SorterQueue::end_ns).max();
        last_ns.filter(|last_ns| *last_ns > self.synced_ns)
    }

    /// Puts a mark in the place of the missing events, up to this time.
    fn close_gap(&mut self, at: usize, until_ns: u64) {
        let Some(gap) = self.queues.get_mut(at).and_then(|queue| queue.gap.take()) else { return };
        let cpu = u16::try_from(at).unwrap_or(u16::MAX);
        let (at_ns, until_ns) = (gap.from_ns, until_ns.max(gap.from_ns));
        let mark = SchedEvent { at_ns, cpu, kind: SchedEventKind::Lost { count: 0, until_ns } };
        let (mut bytes, mut context) = (Vec::new(), Context::new(cpu, at_ns));
        context.push(&mut bytes, &mark);
        let position =
            ChunkPosition { context: Context::new(cpu, at_ns), left: 1, ..ChunkPosition::default() };
        self.put(cpu, Chunk { bytes, position, end_ns: None });
    }

    /// Hands out all events up to this time, in order.
    pub(super) fn emit(&mut self, until_ns: u64, out: &mut impl FnMut(SchedEvent)) {
        while let Some(mut first) = self.heads.peek_mut() {
            let Reverse((first_ns, at)) = *first;
            if first_ns > until_ns {
                return;
            }
            let queue = &mut self.queues[at];
            if let Some(event) = queue.head {
                self.late += u64::from(event.at_ns < self.last_ns);
                self.last_ns = self.last_ns.max(event.at_ns);
                out(event);
            }
            match queue.advance(&mut self.counts) {
                Some(next_ns) => *first = Reverse((next_ns, at)),
                None => drop(PeekMut::pop(first)),
            }
        }
    }
}
