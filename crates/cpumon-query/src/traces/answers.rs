//! Answers about timelines of traces. Times are ns since the begin of the trace, below 2^53; threads are numbered by the index.

use cpumon_trace::{
    Behind, CpuAccount, CpuWho, Delay, Delays, Overload, ThreadRow, ThreadTotals, Timeline, TraceBehind,
    TraceReason, TraceThread, WindowSums,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::json::Nanos;
use crate::time::Page;

/// Facts about a trace, and the part that the receiver has in memory.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceHead {
    /// Name of the machine. Hostile.
    host: Box<str>,
    /// When the trace began; null: the file does not say.
    began_ns: Option<Nanos>,
    /// Length of the trace.
    length_ns: u64,
    /// Start of the part in memory.
    from_ns: u64,
    /// End of the part in memory.
    until_ns: u64,
    /// Whether the part ends before the trace because its memory was used up; `part` gives the rest.
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
    /// Number of the CPU; null: several CPUs together.
    cpu: Option<u16>,
    /// Sum of all times.
    capacity_ns: u64,
    /// Time with a thread.
    run_ns: u64,
    /// Time without a thread.
    idle_ns: u64,
    /// Time in hard interrupts.
    irq_ns: u64,
    /// Time in soft interrupts.
    softirq_ns: u64,
    /// Time that no event explains.
    unknown_ns: u64,
    /// Switches from a thread that was not switched to: events are missing.
    holes: u64,
    /// Events that the recorder lost.
    lost: u64,
}

/// A thread in a window.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceThreadRow {
    /// The thread.
    #[serde(flatten)]
    who: TraceThread,
    /// Its totals in the window.
    #[serde(flatten)]
    totals: ThreadTotals,
}

/// Threads of a window.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceThreads {
    /// Threads that match, before `offset` and `limit`.
    total: usize,
    /// Threads of the page.
    rows: Vec<TraceThreadRow>,
}

/// One thread in a window, in detail.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceThreadPage {
    /// The thread and its totals.
    row: TraceThreadRow,
    /// Blocked time by reason, the most first.
    blocked: Vec<TraceReason>,
    /// Its antagonists.
    behind: TraceBehind,
}

/// What an area adds up to.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceSums {
    /// Start of the area's part in memory.
    from_ns: u64,
    /// End of the area's part in memory.
    until_ns: u64,
    /// Ledger of each CPU.
    cpus: Vec<TraceLedger>,
    /// Sum over these CPUs.
    all: TraceLedger,
    /// Number of threads in the area.
    threads: usize,
    /// Sum over these threads.
    totals: ThreadTotals,
    /// Blocked time by reason, the most first.
    blocked: Vec<TraceReason>,
    /// Threads that ran while these waited.
    culprits: TraceBehind,
    /// Idle CPUs while threads waited behind others, over all CPUs.
    idle_while_overloaded: Overload,
}

/// Pairs of programs: one waited while the other ran.
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

/// Makes a clause a sentence: capital letter and full stop.
fn sentence(mut clause: String) -> String {
    if let Some(first) = clause.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    clause + "."
}

impl TraceHead {
    /// Describes a timeline.
    pub fn new(timeline: &Timeline) -> Self {
        let (from_ns, until_ns) = timeline.covers();
        let header = &timeline.header;
        let sums = timeline.sums(from_ns, until_ns, &|_| true, &[]);
        Self {
            host: header.host.clone(),
            began_ns: (header.began.wall_ns > 0).then_some(Nanos(header.began.wall_ns)),
            length_ns: timeline.length_ns,
            from_ns,
            until_ns,
            is_cut: timeline.is_cut(),
            events: timeline.events,
            cpus: timeline.cpus().collect(),
            threads: timeline.threads().len(),
            has_interrupts: timeline.has_interrupts,
            bytes: timeline.bytes,
            problems: timeline.ending.problems(0).into_iter().map(sentence).collect(),
            sums: TraceLedger::all(&sums),
        }
    }
}

impl TraceLedger {
    fn new(cpu: &CpuAccount) -> Self {
        Self {
            cpu: Some(cpu.cpu),
            capacity_ns: cpu.capacity_ns(),
            run_ns: cpu.run_ns,
            idle_ns: cpu.idle_ns,
            irq_ns: cpu.irq_ns,
            softirq_ns: cpu.softirq_ns,
            unknown_ns: cpu.unknown_ns,
            holes: cpu.holes,
            lost: cpu.lost,
        }
    }

    fn each(sums: &WindowSums) -> Vec<Self> {
        sums.cpus.iter().map(Self::new).collect()
    }

    fn all(sums: &WindowSums) -> Self {
        Self { cpu: None, ..Self::new(&CpuAccount::sum(&sums.cpus)) }
    }
}

impl TraceThreadRow {
    fn new(timeline: &Timeline, row: &ThreadRow) -> Self {
        Self { who: timeline.named(CpuWho::Thread(row.thread)), totals: row.totals.clone() }
    }
}

impl TraceThreads {
    /// A page of threads; `total` is the number of threads that match.
    pub fn new<'r>(timeline: &Timeline, total: usize, rows: impl Iterator<Item = &'r ThreadRow>) -> Self {
        Self { total, rows: rows.map(|row| TraceThreadRow::new(timeline, row)).collect() }
    }
}

impl TraceThreadPage {
    /// A thread with its blocked time and its antagonists.
    pub fn new(timeline: &Timeline, row: &ThreadRow, sums: &WindowSums, behind: &Behind) -> Self {
        Self {
            row: TraceThreadRow::new(timeline, row),
            blocked: sums.blocked.clone(),
            behind: timeline.named_behind(behind),
        }
    }
}

impl TraceSums {
    /// What an area of this many threads adds up to.
    pub fn new(
        timeline: &Timeline,
        threads: usize,
        sums: &WindowSums,
        culprits: &Behind,
        overload: Overload,
    ) -> Self {
        Self {
            from_ns: sums.from_ns,
            until_ns: sums.until_ns,
            cpus: TraceLedger::each(sums),
            all: TraceLedger::all(sums),
            threads,
            totals: sums.totals.clone(),
            blocked: sums.blocked.clone(),
            culprits: timeline.named_behind(culprits),
            idle_while_overloaded: overload,
        }
    }
}

impl TraceDelays {
    /// A page of `delays`.
    pub fn new(delays: Delays, page: Page) -> Self {
        let total = delays.by.len();
        let all_ns = delays.by.iter().fold(0_u64, |sum, delay| sum.saturating_add(delay.ns));
        Self {
            total,
            rows: page.of(delays.by).collect(),
            all_ns,
            rest_ns: delays.rest_ns,
            until_ns: delays.until_ns,
        }
    }
}
