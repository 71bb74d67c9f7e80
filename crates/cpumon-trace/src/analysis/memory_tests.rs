//! What analyses take of traces that were made to cost memory: no more than they count, and the tracker's limit counts that.

use cpumon_sched::{
    CpuSpan, Interrupt, Leaves, SchedEvent, SchedEventKind, SpanSink, ThreadSpan, TraceTask, Tracker,
};

use super::durations::{AllDurations, DurationOf, LongestWaits};
use super::history::TraceHistory;
use super::report::{Report, ReportBy};
use super::series::Series;
use super::wakers::Wakers;
use super::{TraceRange, Tracked, track};
use crate::held_memory::taken_by;
use crate::source::{TraceFacts, TraceSource};
use crate::tasks::Tasks;
use crate::{Ending, ReadError, Timeline, TimelineLimits};

const THREADS: u32 = 8_000;
/// Numbers of the threads that others wait behind.
const BUSY: u32 = 2 * THREADS;
/// What has a fixed size, or a limit of its own.
const FREE_BYTES: usize = 1 << 20;

type Out<'o> = &'o mut dyn FnMut(SchedEvent);
type Events = fn(Out<'_>);

fn wake(at_ns: u64, number: u32, cpu: u16) -> SchedEvent {
    let kind = SchedEventKind::Waking { task: TraceTask(number), waker: TraceTask::IDLE, cpu };
    SchedEvent { at_ns, cpu, kind }
}

fn switch(at_ns: u64, cpu: u16, prev: u32, next: u32, leaves: Leaves) -> SchedEvent {
    let kind = SchedEventKind::Switch { prev: TraceTask(prev), next: TraceTask(next), leaves };
    SchedEvent { at_ns, cpu, kind }
}

/// Ever new threads, each known by its number alone.
fn only_named(out: Out<'_>) {
    (1..=THREADS).for_each(|number| out(wake(number.into(), number, 0)));
}

/// Numbers as only a file has that was made for it.
fn far_apart(out: Out<'_>) {
    (1..=THREADS).for_each(|number| out(wake(number.into(), number.wrapping_mul(77_777_777) | 1 << 31, 0)));
}

/// All wait behind 600 others on the first CPU, then behind 20 others on each of nine further CPUs.
fn behind_many(out: Out<'_>) {
    (1..=THREADS).for_each(|number| out(wake(1, number, 0)));
    let mut at_ns = 10;
    for round in 0..10_u16 {
        let slices = if round == 0 { 600 } else { 20 };
        for nth in 0..slices {
            at_ns += 10;
            out(switch(at_ns, round, BUSY + nth, BUSY + nth + 1, Leaves::Ready));
        }
        for number in 1..=THREADS {
            let kind = SchedEventKind::Migrate { task: TraceTask(number), to_cpu: round + 1 };
            out(SchedEvent { at_ns: at_ns + 1, cpu: round, kind });
        }
        at_ns += 2;
    }
}

/// Each thread waits, runs and is interrupted, 30 times with 30 lengths.
fn of_all_lengths(out: Out<'_>) {
    let mut at_ns = 1;
    for number in 1..=THREADS / 10 {
        for turn in 0..30 {
            out(wake(at_ns, number, 0));
            at_ns += 1 << turn;
            out(switch(at_ns, 0, 0, number, Leaves::Ready));
            at_ns += 4;
            let kind = SchedEventKind::Interrupt { interrupt: Interrupt::Hard(1), ran_ns: 1 };
            out(SchedEvent { at_ns, cpu: 0, kind });
            at_ns += 1;
            out(switch(at_ns, 0, number, 0, Leaves::Asleep(cpumon_model::WaitReason(turn + 20))));
        }
    }
}

/// An empty trace with these events.
struct Made(Events, TraceFacts);

impl Made {
    fn new(events: Events) -> Self {
        Self(events, TraceFacts { is_watched_from_begin: true, ..TraceFacts::default() })
    }
}

impl TraceSource for Made {
    fn facts(&self) -> &TraceFacts {
        &self.1
    }
    fn facts_mut(&mut self) -> &mut TraceFacts {
        &mut self.1
    }
    fn read(&mut self, out: &mut impl FnMut(SchedEvent)) -> Result<Ending, ReadError> {
        let mut until_ns = 0;
        self.0(&mut |event| {
            until_ns = event.at_ns + 1;
            out(event);
        });
        Ok(Ending { ended_ns: Some(until_ns), known_until_ns: until_ns, ..Ending::default() })
    }
}

const WORST: [(&str, Events); 4] = [
    ("only named", only_named),
    ("far apart", far_apart),
    ("behind many", behind_many),
    ("of all lengths", of_all_lengths),
];

/// Feeds the worst traces to an analysis. It must not hold more memory than it counts, a tenth and [`FREE_BYTES`] aside.
fn check<S: SpanSink>(what: &str, sink: &dyn Fn(TraceRange) -> S) {
    for (events_of, events) in WORST {
        let range = TraceRange::default().on_clock(0);
        let (tracker, taken) = taken_by(|| {
            let mut tracker = Tracker::new(0, sink(range));
            events(&mut |event| tracker.event(&event));
            tracker.cut(1 << 62);
            tracker
        });
        let counted = tracker.bytes(tracker.threads());
        let held = taken.left;
        assert!(held < counted / 10 * 11 + FREE_BYTES, "{what}, {events_of}: holds {held}, counts {counted}");
    }
}

#[test]
fn analyses_take_no_more_memory_than_they_count() {
    check("report", &Report::new);
    check("waits", &|range| LongestWaits::new(range, 20));
    check("wakers", &Wakers::new);
    for every_ns in [1 << 30, 1 << 40] {
        check("series", &|range| Series::new(range, every_ns, true));
    }
    check("history", &TraceHistory::new);
    for of in [DurationOf::Ready, DurationOf::Blocked, DurationOf::OffCpu, DurationOf::Run] {
        check("histogram", &|range| AllDurations::new(range, of));
    }
}

/// Each thread takes 1 MB.
#[derive(Default)]
struct Heavy {
    cpu_ns: u64,
}

impl SpanSink for Heavy {
    fn cpu(&mut self, span: &CpuSpan) {
        self.cpu_ns += span.until_ns - span.from_ns;
    }
    fn bytes(&self, threads: usize) -> usize {
        threads << 20
    }
    fn thread(&mut self, _span: &ThreadSpan) {}
}

#[test]
fn threads_beyond_the_memory_are_counted_and_cpus_have_their_time() {
    let events = |out: Out<'_>| {
        for number in 1..2_000 {
            out(switch(u64::from(number) * 10, 0, number, number + 1, Leaves::Ready));
        }
    };
    let Tracked { sink, ending, .. } =
        track(&mut Made::new(events), TraceRange::default(), |_| Heavy::default()).unwrap();
    assert_eq!(sink.cpu_ns, 19_991);
    // Each thread is named twice, as the one that comes and as the one that leaves.
    assert_eq!(ending.unfollowed, 2 * 2_000 - 2 - 2 * 1_023 + 1);
    assert!(!ending.is_whole());
}

/// A thread with a number and nothing else took 730 bytes before.
#[test]
fn a_report_of_threads_that_are_only_named_takes_few_bytes_for_each() {
    let count = THREADS as usize;
    let (report, made) = taken_by(|| crate::analyse(&mut Made::new(only_named), TraceRange::default()));
    let (report, _) = report.unwrap();
    assert!(made.most < 300 * count, "{}", made.most / count);
    let (rows, shown) = taken_by(|| report.groups(ReportBy::Thread, &Tasks::default()).iter().count());
    assert_eq!(rows, count);
    assert!(shown.most < 200 * count, "{}", shown.most / count);
}

/// The index ends where its memory is used up, whatever the threads cost.
#[test]
fn a_timeline_takes_little_more_than_its_limit() {
    let limits = TimelineLimits { bytes: 2 << 20, from_ns: 0 };
    for (events_of, events) in &WORST {
        let (timeline, taken) = taken_by(|| Timeline::read(&mut Made::new(*events), limits).unwrap());
        assert!(timeline.is_cut() && taken.most < limits.bytes / 2 * 3, "{events_of}: {taken:?}");
        assert!(timeline.bytes < limits.bytes / 4 * 5, "{events_of}: {}", timeline.bytes);
        assert!(timeline.threads().next().is_some());
    }
}
