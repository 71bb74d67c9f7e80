//! What the spans of a trace add up to: a file for each question. Here is what all of them share: one pass over the events of a trace
//! through the tracker into an analysis, and the memory that an analysis may take beside a place for each thread.

pub(crate) mod durations;
pub(crate) mod history;
#[cfg(test)]
mod memory_tests;
pub(crate) mod ready;
pub(crate) mod report;
pub(crate) mod series;
pub(crate) mod snapshots;
pub(crate) mod wakers;

use std::collections::HashMap;

use cpumon_events::SpanSink;

use crate::file::ReadError;
use crate::source::{Ending, TraceSource};

/// A part of a trace, ns since its start.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TraceRange {
    pub from_ns: u64,
    pub until_ns: u64,
}

impl Default for TraceRange {
    fn default() -> Self {
        Self { from_ns: 0, until_ns: u64::MAX }
    }
}

impl TraceRange {
    /// On the clock of a trace that began at this time.
    fn on_clock(self, began_ns: u64) -> Self {
        Self {
            from_ns: began_ns.saturating_add(self.from_ns),
            until_ns: began_ns.saturating_add(self.until_ns),
        }
    }

    /// The part of a time that is in it; without one it ends before it begins.
    fn cut(self, from_ns: u64, until_ns: u64) -> (u64, u64) {
        (from_ns.max(self.from_ns), until_ns.min(self.until_ns))
    }

    fn has(self, at_ns: u64) -> bool {
        (self.from_ns..=self.until_ns).contains(&at_ns)
    }
}

/// An analysis that has seen all of a trace.
struct Tracked<S> {
    sink: S,
    /// Whether the trace is whole.
    ending: Ending,
    events: u64,
}

fn track<S: SpanSink>(reader: &mut impl TraceSource, sink: S) -> Result<Tracked<S>, ReadError> {
    let mut tracker = reader.tracker(sink);
    let mut events = 0;
    let mut ending = reader.read(&mut |event| {
        events += 1;
        tracker.event(&event);
    })?;
    ending.unfollowed = tracker.unfollowed();
    Ok(Tracked { sink: reader.finish(tracker, ending.known_until_ns), ending, events })
}

/// Memory of lists of whom threads waited behind, of histograms and the like, bytes. Half of what a tracker may take with them.
const MAX_BYTES: usize = 512 << 20;

/// Memory of a table, without what its entries refer to.
fn table_bytes<K, V, S>(table: &HashMap<K, V, S>) -> usize {
    // An eighth of its places stays empty, and each has a byte beside it.
    table.capacity().div_ceil(7) * 8 * (size_of::<(K, V)>() + 1)
}

/// Counts memory, and items left out because none was left.
#[derive(Debug, Default)]
struct Memory {
    bytes: usize,
    /// Items left out because no memory was left.
    left_out: u64,
}

impl Memory {
    /// Takes so many bytes. False: there are none left, and something is left out.
    fn take(&mut self, bytes: usize) -> bool {
        let is_taken = self.bytes + bytes <= MAX_BYTES;
        if is_taken {
            self.bytes += bytes;
        } else {
            self.left_out += 1;
        }
        is_taken
    }

    fn give_back(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
