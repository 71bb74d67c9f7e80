//! How answers are made from timelines.

use std::collections::BTreeSet;

use cpumon_trace::CpuAccount;

use crate::json::Nanos;
use crate::time::Page;
use crate::traces::{
    Behind, CpuTrack, CpuWho, Delays, Overload, ThreadRow, ThreadState, ThreadTrack, Timeline, WindowSums,
};

use super::{
    TraceCpuTrack, TraceDelays, TraceHead, TraceLedger, TraceOverview, TraceReason, TraceSums,
    TraceThreadPage, TraceThreadRow, TraceThreadTrack, TraceThreads, TraceTracks,
};

/// The number of a state; docs are in [`TraceThreadTrack`].
fn state_code(state: ThreadState) -> u8 {
    match state {
        ThreadState::Unknown | ThreadState::Dead => 0,
        ThreadState::Running => 1,
        ThreadState::ReadyWoken => 2,
        ThreadState::ReadyPreempted => 3,
        ThreadState::Blocked(_) => 4,
    }
}

fn reason_of(state: ThreadState) -> Option<String> {
    Some(state.reason()?.name().into_owned())
}

/// A clause as a sentence.
fn sentence(mut clause: String) -> String {
    if let Some(first) = clause.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    clause + "."
}

impl TraceHead {
    /// Describes a timeline.
    #[must_use]
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

impl TraceCpuTrack {
    fn new(cpu: u16, track: &CpuTrack) -> Self {
        let parts = &track.parts;
        let by_bucket = |value: &dyn Fn(usize) -> u16| {
            if track.is_exact { Vec::new() } else { (0..parts.len()).map(value).collect() }
        };
        Self {
            cpu,
            is_exact: track.is_exact,
            from_ns: parts.iter().map(|part| part.from_ns).collect(),
            length_ns: if track.is_exact {
                parts.iter().map(|part| part.until_ns - part.from_ns).collect()
            } else {
                Vec::new()
            },
            who: parts.iter().map(|part| part.who.number()).collect(),
            busy: by_bucket(&|at| parts[at].busy),
            unknown: by_bucket(&|at| parts[at].unknown),
            queue: track.queue.clone(),
        }
    }
}

impl TraceThreadTrack {
    fn new(thread: u32, track: &ThreadTrack, reasons: &mut Vec<String>) -> Self {
        let mut made = Self { thread, is_exact: track.is_exact, ..Self::default() };
        for part in &track.parts {
            made.from_ns.push(part.from_ns);
            made.cpu.push(part.cpu);
            let place = reason_of(part.state).map(|reason| {
                let known = reasons.iter().position(|known| *known == reason);
                known.unwrap_or_else(|| {
                    reasons.push(reason);
                    reasons.len() - 1
                })
            });
            made.reason.push(place.and_then(|place| i32::try_from(place).ok()).unwrap_or(-1));
            if track.is_exact {
                made.length_ns.push(part.until_ns - part.from_ns);
                made.state.push(state_code(part.state));
            } else {
                made.shares.push(part.shares);
            }
        }
        made
    }
}

/// Tracks of a window being gathered.
pub struct TrackList<'t> {
    timeline: &'t Timeline,
    who: BTreeSet<i64>,
    made: TraceTracks,
}

impl<'t> TrackList<'t> {
    /// A window of these buckets, without tracks.
    #[must_use]
    pub fn new(timeline: &'t Timeline, buckets: crate::traces::Buckets) -> Self {
        let made = TraceTracks {
            from_ns: buckets.from_ns,
            bucket_ns: buckets.bucket_ns,
            count: buckets.count,
            cpus: Vec::new(),
            threads: Vec::new(),
            all: None,
            reasons: Vec::new(),
            names: Vec::new(),
        };
        Self { timeline, who: BTreeSet::new(), made }
    }

    /// Adds the track of a CPU.
    pub fn cpu(&mut self, cpu: u16, track: &CpuTrack) {
        let made = TraceCpuTrack::new(cpu, track);
        self.who.extend(&made.who);
        self.made.cpus.push(made);
    }

    /// Adds the track of a thread.
    pub fn thread(&mut self, thread: u32, track: &ThreadTrack) {
        self.who.insert(thread.into());
        self.made.threads.push(TraceThreadTrack::new(thread, track, &mut self.made.reasons));
    }

    /// Adds all CPUs together.
    pub fn overview(&mut self, busy: Vec<u16>, queue: Vec<u32>) {
        self.made.all = Some(TraceOverview { busy, queue });
    }

    /// The tracks, with the names of their threads.
    #[must_use]
    pub fn finish(mut self) -> TraceTracks {
        let threads = self.who.iter().filter_map(|who| u32::try_from(*who).ok());
        self.made.names = threads.map(|place| self.timeline.named(CpuWho::Thread(place))).collect();
        self.made
    }
}

impl TraceThreadRow {
    fn new(timeline: &Timeline, row: &ThreadRow) -> Self {
        Self { who: timeline.named(CpuWho::Thread(row.thread)), totals: row.totals.clone() }
    }
}

impl TraceThreads {
    /// A page of threads; `total`: how many match.
    pub fn new<'r>(timeline: &Timeline, total: usize, rows: impl Iterator<Item = &'r ThreadRow>) -> Self {
        Self { total, rows: rows.map(|row| TraceThreadRow::new(timeline, row)).collect() }
    }
}

fn reasons_of(sums: &WindowSums) -> Vec<TraceReason> {
    let reason = |(reason, ns): &(cpumon_model::WaitReason, u64)| TraceReason {
        reason: reason.name().into_owned(),
        ns: *ns,
    };
    sums.blocked.iter().map(reason).collect()
}

impl TraceThreadPage {
    /// A thread, its blocked time and its antagonists.
    #[must_use]
    pub fn new(timeline: &Timeline, row: &ThreadRow, sums: &WindowSums, behind: &Behind) -> Self {
        Self {
            row: TraceThreadRow::new(timeline, row),
            blocked: reasons_of(sums),
            behind: timeline.named_behind(behind),
        }
    }
}

impl TraceSums {
    /// What an area of this many threads adds up to.
    #[must_use]
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
            blocked: reasons_of(sums),
            culprits: timeline.named_behind(culprits),
            idle_while_overloaded: overload,
        }
    }
}

impl TraceDelays {
    /// A page of the pairs.
    #[must_use]
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
