//! Answers about timelines of traces. Times are ns since the begin of the trace, below 2^53; threads are numbered by the index.

mod convert;

use cpumon_trace::{Delay, Overload, ThreadTotals, TraceBehind, TraceThread};
use serde::Serialize;
use utoipa::ToSchema;

use crate::json::Nanos;

pub use convert::TrackList;

/// What a trace is, and what the receiver has of it in memory.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceHead {
    /// Name of the machine. Hostile.
    host: Box<str>,
    /// When it began; null: the file does not say.
    began_ns: Option<Nanos>,
    /// Length of the trace.
    length_ns: u64,
    /// The part in memory begins here.
    from_ns: u64,
    /// And ends here.
    until_ns: u64,
    /// It ends before the trace, because the memory for it was used up: `part` gives what follows.
    is_cut: bool,
    /// Events of the whole trace.
    events: u64,
    /// CPUs with events.
    cpus: Vec<u16>,
    /// Threads.
    threads: usize,
    /// Whether interrupts were recorded.
    has_interrupts: bool,
    /// Memory of the part, bytes.
    bytes: usize,
    /// What the file lacks, a sentence each.
    problems: Vec<String>,
    /// The ledger of the part.
    sums: TraceLedger,
}

/// Times of CPUs: capacity = idle + run + irq + softirq + unknown.
#[derive(Copy, Clone, Debug, Default, Serialize, ToSchema)]
pub struct TraceLedger {
    /// Number of the CPU; null: of several.
    cpu: Option<u16>,
    /// All times.
    capacity_ns: u64,
    /// With a thread.
    run_ns: u64,
    /// Without.
    idle_ns: u64,
    /// In hard interrupts.
    irq_ns: u64,
    /// In soft interrupts.
    softirq_ns: u64,
    /// No event says.
    unknown_ns: u64,
    /// Switches from a thread that was not switched to: events are missing.
    holes: u64,
    /// Events that the recorder lost.
    lost: u64,
}

/// One CPU.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceCpuTrack {
    /// Its number.
    cpu: u16,
    /// Parts are single slices, each with its length; else they are buckets.
    is_exact: bool,
    /// Begins of the parts, ascending. Idle times have none.
    from_ns: Vec<u64>,
    /// Lengths; empty for buckets.
    length_ns: Vec<u64>,
    /// Number of the thread, or of a bucket the one that ran longest; −1: unknown, −2: not followed.
    who: Vec<i64>,
    /// Of buckets: thousandths in which a thread ran.
    busy: Vec<u16>,
    /// Of buckets: thousandths that are unknown.
    unknown: Vec<u16>,
    /// Hundredths of a thread that waited in its queue, in the mean of each of the `count` buckets.
    queue: Vec<u32>,
}

/// One thread.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct TraceThreadTrack {
    /// Its number.
    thread: u32,
    /// Parts are single states, each with its length; else they are buckets.
    is_exact: bool,
    /// Begins of the parts, ascending.
    from_ns: Vec<u64>,
    /// Lengths; empty for buckets.
    length_ns: Vec<u64>,
    /// Of single states: 0 unknown, 1 running, 2 ready since a wakeup, 3 ready since it was pushed off, 4 blocked.
    state: Vec<u8>,
    /// For what it was blocked: a place in `reasons`, −1 if it was not. Of buckets: the main one.
    reason: Vec<i32>,
    /// The CPU it was on, or waited for.
    cpu: Vec<u16>,
    /// Of buckets: thousandths in each state, in the order running, woken, preempted, blocked, unknown.
    shares: Vec<[u16; 5]>,
}

/// All CPUs together, by bucket.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceOverview {
    /// Thousandths of all CPUs.
    busy: Vec<u16>,
    /// Hundredths of threads that waited.
    queue: Vec<u32>,
}

/// What is drawn of a window.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceTracks {
    /// Begin of the first bucket.
    from_ns: u64,
    /// Length of each.
    bucket_ns: u64,
    /// How many.
    count: usize,
    /// CPUs, as they were named.
    cpus: Vec<TraceCpuTrack>,
    /// Threads, as they were named.
    threads: Vec<TraceThreadTrack>,
    /// All CPUs; null unless asked for.
    all: Option<TraceOverview>,
    /// Names of wait reasons.
    reasons: Vec<String>,
    /// Who the threads of this answer are.
    names: Vec<TraceThread>,
}

/// A thread in a window.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceThreadRow {
    /// Who.
    #[serde(flatten)]
    who: TraceThread,
    /// What it did.
    #[serde(flatten)]
    totals: ThreadTotals,
}

/// Threads of a window.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceThreads {
    /// Threads that match, before `offset` and `limit`.
    total: usize,
    /// Those of the page.
    rows: Vec<TraceThreadRow>,
}

/// Time blocked for one reason.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceReason {
    /// Its name.
    reason: String,
    /// How long.
    ns: u64,
}

/// One thread in a window, in detail.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceThreadPage {
    /// Who, and what it did.
    row: TraceThreadRow,
    /// Blocked time by reason, the most first.
    blocked: Vec<TraceReason>,
    /// Its antagonists.
    behind: TraceBehind,
}

/// What an area adds up to.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceSums {
    /// Its part in memory begins here.
    from_ns: u64,
    /// And ends here.
    until_ns: u64,
    /// Each CPU.
    cpus: Vec<TraceLedger>,
    /// All of these together.
    all: TraceLedger,
    /// Threads that count.
    threads: usize,
    /// All of them together.
    totals: ThreadTotals,
    /// Blocked time by reason, the most first.
    blocked: Vec<TraceReason>,
    /// Who ran while they waited.
    culprits: TraceBehind,
    /// Of all CPUs.
    idle_while_overloaded: Overload,
}

/// Who delayed whom, by program.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceDelays {
    /// Pairs, before `offset` and `limit`.
    total: usize,
    /// The requested rows, longest time first.
    rows: Vec<Delay>,
    /// Sum over all pairs, ns.
    all_ns: u64,
    /// Time waited before `until_ns` that no pair accounts for, ns: the CPU was idle, who ran is unknown, or a limit was reached.
    rest_ns: u64,
    /// The answer covers the window up to here; it ends early if there was too much to compare.
    until_ns: u64,
}
