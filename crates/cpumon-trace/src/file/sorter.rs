//! Puts the events of all CPUs in the order of their time. A file has them sorted for each CPU, and says now and then up to
//! which time it has all: so the sorter holds what lies between two such marks, and no more.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use cpumon_model::SchedEvent;

use super::events::Context;

/// Undecoded events that wait for their turn, bytes. A recorder writes a mark several times a second; a file that goes on for
/// this long without one is handed out chunk by chunk, out of order.
const MAX_HELD_BYTES: usize = 256 << 20;

struct Chunk {
    bytes: Vec<u8>,
    at: usize,
    context: Context,
    left: u32,
}

/// The events of one CPU that wait.
#[derive(Default)]
struct Queue {
    head: Option<SchedEvent>,
    chunks: VecDeque<Chunk>,
}

#[derive(Default)]
pub(super) struct Sorter {
    queues: Vec<Queue>,
    /// The CPUs with events, by the time of their first one.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    held_bytes: usize,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    /// Chunks that hold other than they announce.
    pub(super) malformed: u64,
    last_ns: u64,
    /// Events that came after one with a later time was handed out.
    pub(super) late: u64,
}

impl Sorter {
    /// An empty buffer for [`Sorter::add`].
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a chunk of events.
    pub(super) fn add(&mut self, cpu: u16, base_ns: u64, count: u32, bytes: Vec<u8>) {
        let at = usize::from(cpu);
        if at >= self.queues.len() {
            self.queues.resize_with(at + 1, Queue::default);
        }
        self.held_bytes += bytes.len();
        let chunk = Chunk { bytes, at: 0, context: Context::new(cpu, base_ns), left: count };
        self.queues[at].chunks.push_back(chunk);
        if self.queues[at].head.is_none() {
            self.advance(at);
            if let Some(event) = &self.queues[at].head {
                self.heads.push(Reverse((event.at_ns, at)));
            }
        }
    }

    /// Whether more is held than a recorder ever leaves without a mark.
    pub(super) fn is_full(&self) -> bool {
        self.held_bytes > MAX_HELD_BYTES
    }

    /// Hands out all events up to this time, in order.
    pub(super) fn emit(&mut self, until_ns: u64, out: &mut impl FnMut(SchedEvent)) {
        while let Some(Reverse((first_ns, at))) = self.heads.pop() {
            if first_ns > until_ns {
                self.heads.push(Reverse((first_ns, at)));
                return;
            }
            // As long as no other CPU comes first.
            let until_ns =
                self.heads.peek().map_or(until_ns, |Reverse((other_ns, _))| until_ns.min(*other_ns));
            while let Some(event) = self.queues[at].head.filter(|event| event.at_ns <= until_ns) {
                self.late += u64::from(event.at_ns < self.last_ns);
                self.last_ns = self.last_ns.max(event.at_ns);
                out(event);
                self.advance(at);
            }
            if let Some(event) = &self.queues[at].head {
                self.heads.push(Reverse((event.at_ns, at)));
            }
        }
    }

    #[inline]
    fn advance(&mut self, at: usize) {
        let queue = &mut self.queues[at];
        while let Some(chunk) = queue.chunks.front_mut() {
            let mut rest = &chunk.bytes[chunk.at..];
            if chunk.left > 0 {
                if let Some(event) = chunk.context.take(&mut rest) {
                    chunk.at = chunk.bytes.len() - rest.len();
                    chunk.left -= 1;
                    queue.head = Some(event);
                    return;
                }
                self.malformed += 1;
            } else if !rest.is_empty() {
                self.malformed += 1;
            }
            if let Some(chunk) = queue.chunks.pop_front() {
                self.held_bytes -= chunk.bytes.len();
                let mut bytes = chunk.bytes;
                bytes.clear();
                self.spare.push(bytes);
            }
        }
        queue.head = None;
    }
}
