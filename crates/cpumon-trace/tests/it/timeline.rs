//! The index of a trace: sums of any window are those of the report of that range, pictures show them, and memory has a limit.

use std::collections::BTreeMap;

use cpumon_model::WaitReason;
use cpumon_sched::{Interrupt, Leaves, SchedEvent, SchedEventKind, TraceTask};
use cpumon_trace::{
    Buckets, Compression, CpuWho, Delay, GroupKey, Overload, ReportBy, Timeline, TimelineLimits, TraceBehind,
    TraceRange, TraceReader, TraceSource, analyse,
};

use crate::cpu_time::cpu_ns;
use crate::seeded_rng::SeededRng;
use crate::support::{BEGAN_NS, end_ns, made_up, write, write_programs};

const READ: WaitReason = WaitReason::syscall(0);
const ALL: TimelineLimits = TimelineLimits { bytes: usize::MAX, from_ns: 0 };

fn read(events: &[SchedEvent], limits: TimelineLimits) -> Timeline {
    let bytes = write(events, Compression::None, 64);
    Timeline::read(&mut TraceReader::open(bytes.as_slice()).unwrap(), limits).unwrap()
}

/// With interrupts, moves between CPUs, lost events, and switches from a thread that was not switched to.
fn rough(seed: u64, count: usize) -> Vec<SchedEvent> {
    let mut rng = SeededRng(seed ^ 0x55);
    let mut events = made_up(seed, count);
    for at in (0..events.len()).rev() {
        let SchedEvent { at_ns, cpu, .. } = events[at];
        let kind = match rng.below(40) {
            0..3 => SchedEventKind::Interrupt { interrupt: Interrupt::Hard(3), ran_ns: rng.below(900) },
            3 => SchedEventKind::Interrupt { interrupt: Interrupt::Soft(3), ran_ns: rng.below(2_000) },
            4 => {
                let task = TraceTask(1 + u32::try_from(rng.below(16)).unwrap());
                SchedEventKind::Migrate { task, to_cpu: u16::try_from(rng.below(2)).unwrap() }
            }
            5 if rng.below(60) == 0 => SchedEventKind::Lost { count: 3, until_ns: at_ns + 40_000 },
            6 if rng.below(60) == 0 => {
                events.remove(at);
                continue;
            }
            _ => continue,
        };
        events.insert(at + 1, SchedEvent { at_ns, cpu, kind });
    }
    events
}

/// Times and counts of a thread, in one order for both.
type Figures = [u64; 11];

fn by_report(events: &[SchedEvent], range: TraceRange) -> (BTreeMap<u32, Figures>, Vec<[u64; 8]>) {
    let bytes = write(events, Compression::None, 64);
    let mut reader = TraceReader::open(bytes.as_slice()).unwrap();
    let (report, _) = analyse(&mut reader, range).unwrap();
    let rows = report.rows(ReportBy::Thread, reader.tasks());
    let figures = rows.iter().map(|row| {
        let GroupKey::Thread(key, _) = row.key else { panic!("{row:?}") };
        let figures = [
            row.totals.run_ns,
            row.totals.irq_ns,
            row.totals.softirq_ns,
            row.totals.ready_woken_ns,
            row.totals.ready_preempted_ns,
            row.blocked.total_ns(),
            row.totals.unknown_ns,
            row.totals.voluntary_switches,
            row.totals.involuntary_switches,
            row.totals.migrations,
            row.longest_delay().map_or(0, |longest| longest.ns),
        ];
        (key.tid - 100, figures)
    });
    let cpus = report.cpus().map(|cpu| {
        let unknown = [cpu.unknown_ns, cpu.holes, cpu.lost];
        [
            cpu.cpu.into(),
            cpu.idle_ns,
            cpu.run_ns,
            cpu.irq_ns,
            cpu.softirq_ns,
            unknown[0],
            unknown[1],
            unknown[2],
        ]
    });
    (figures.filter(|(_, figures)| *figures != [0; 11]).collect(), cpus.collect())
}

fn by_timeline(timeline: &Timeline, range: TraceRange) -> (BTreeMap<u32, Figures>, Vec<[u64; 8]>) {
    let rows = timeline.thread_rows(range.from_ns, range.until_ns);
    let figures = rows.iter().map(|row| {
        let totals = &row.totals;
        let figures = [
            totals.run_ns,
            totals.irq_ns,
            totals.softirq_ns,
            totals.ready_woken_ns,
            totals.ready_preempted_ns,
            totals.blocked_ns,
            totals.unknown_ns,
            totals.voluntary_switches,
            totals.involuntary_switches,
            totals.migrations,
            totals.longest_delay_ns,
        ];
        (timeline.threads().nth(row.thread as usize).unwrap().0, figures)
    });
    let sums = timeline.sums(range.from_ns, range.until_ns, &|_| true, &rows);
    let blocked: u64 = sums.blocked.iter().map(|reason| reason.ns).sum();
    assert_eq!(blocked, sums.totals.blocked_ns, "by reason");
    let cpus = sums.cpus.iter().map(|cpu| {
        let unknown = [cpu.unknown_ns, cpu.holes, cpu.lost];
        [
            cpu.cpu.into(),
            cpu.idle_ns,
            cpu.run_ns,
            cpu.irq_ns,
            cpu.softirq_ns,
            unknown[0],
            unknown[1],
            unknown[2],
        ]
    });
    (figures.filter(|(_, figures)| *figures != [0; 11]).collect(), cpus.collect())
}

#[test]
fn sums_of_any_window_are_those_of_the_report_of_that_range() {
    for seed in [3, 4, 5] {
        let events = rough(seed, 3_000);
        let timeline = read(&events, ALL);
        let length_ns = end_ns(&events) - BEGAN_NS;
        let mut rng = SeededRng(seed);
        let mut ranges = vec![(0, length_ns), (0, 1), (length_ns - 1, length_ns)];
        for _ in 0..12 {
            let (a, b) = (rng.below(length_ns), rng.below(length_ns));
            ranges.push((a.min(b), a.max(b) + 1));
        }
        for (from_ns, until_ns) in ranges {
            let range = TraceRange { from_ns, until_ns };
            assert_eq!(by_timeline(&timeline, range), by_report(&events, range), "{seed}: {range:?}");
        }
    }
}

#[test]
fn a_wait_is_charged_to_those_who_ran_as_in_the_report() {
    let events = made_up(8, 5_000);
    let timeline = read(&events, ALL);
    let bytes = write(&events, Compression::None, 64);
    let mut reader = TraceReader::open(bytes.as_slice()).unwrap();
    let (report, _) = analyse(&mut reader, TraceRange::default()).unwrap();
    let rows = report.rows(ReportBy::Thread, reader.tasks());
    let name = |who: &CpuWho| match who {
        CpuWho::Thread(_) => timeline.named(*who).name,
        other => format!("{other:?}").into(),
    };
    let mut all: BTreeMap<Box<str>, u64> = BTreeMap::new();
    let mut waits = 0;
    for place in 0..u32::try_from(timeline.threads().len()).unwrap() {
        let waited = timeline.named(CpuWho::Thread(place)).name;
        let row = rows.iter().find(|row| row.name == waited).unwrap();
        let behind = timeline.behind_thread(place, 0, u64::MAX);
        let found: BTreeMap<_, _> = behind.by.iter().map(|(who, ns)| (name(who), *ns)).collect();
        for (who, ns) in &row.behind {
            assert_eq!(found.get(who), Some(ns), "{waited} behind {who}");
            waits += 1;
        }
        let found_ns: u64 = found.values().sum();
        assert_eq!(found_ns + behind.rest_ns, row.totals.ready_woken_ns + row.totals.ready_preempted_ns);
        for (who, ns) in found {
            *all.entry(who).or_default() += ns;
        }
    }
    assert!(waits > 20, "{waits}");
    let culprits = timeline.culprits(0, u64::MAX, &|_| true);
    let culprits: BTreeMap<_, _> = culprits.by.iter().map(|(who, ns)| (name(who), *ns)).collect();
    assert_eq!(culprits, all, "all waits together");
}

/// The tasks are of three programs.
fn program_of(comm: &str) -> String {
    let number: u32 = comm.strip_prefix("task-").unwrap().parse().unwrap();
    format!("program-{}", number % 3)
}

/// Six processes of one program were six small culprits, and a smaller single one was first.
#[test]
fn a_report_ranks_whom_a_thread_waited_behind_by_program() {
    let events = made_up(8, 5_000);
    let timeline = read(&events, ALL);
    let bytes = write_programs(&events, Compression::None, 64, &|number| format!("program-{}", number % 3));
    let mut reader = TraceReader::open(bytes.as_slice()).unwrap();
    let (report, _) = analyse(&mut reader, TraceRange::default()).unwrap();
    let places = 0..u32::try_from(timeline.threads().len()).unwrap();
    let rows = report.rows(ReportBy::Thread, reader.tasks());
    for row in &rows {
        let is_it = |place: &u32| timeline.named(CpuWho::Thread(*place)).name == row.name;
        let behind = timeline.behind_thread(places.clone().find(is_it).unwrap(), 0, u64::MAX);
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for (who, ns) in behind.by {
            *expected.entry(program_of(&timeline.named(who).name)).or_default() += ns;
        }
        let found = row.behind.iter().map(|(program, ns)| (program.to_string(), *ns)).collect();
        assert_eq!(expected, found, "{}", row.name);
    }
    assert!(rows.len() > 10 && rows.iter().any(|row| row.behind.len() == 3));
}

#[test]
fn programs_delay_each_other_as_long_as_their_threads_do() {
    let events = rough(11, 6_000);
    let bytes = write_programs(&events, Compression::None, 64, &|number| format!("program-{}", number % 3));
    let timeline = Timeline::read(&mut TraceReader::open(bytes.as_slice()).unwrap(), ALL).unwrap();
    let (_, end_ns) = timeline.covers();
    let pairs = |from_ns, until_ns, threads: Option<&[u32]>| {
        let delays = timeline.delays(from_ns, until_ns, &|_| true, threads);
        assert_eq!(delays.until_ns, until_ns.min(end_ns));
        let of = |delay: &Delay| ((delay.waited.to_string(), delay.behind.to_string()), delay.ns);
        (delays.by.iter().map(of).collect::<BTreeMap<_, _>>(), delays.rest_ns)
    };
    // By hand: thread by thread.
    for (from_ns, until_ns) in [(0, end_ns), (end_ns / 3, end_ns / 2), (end_ns / 2, end_ns / 2 + 1)] {
        let mut expected: BTreeMap<(String, String), u64> = BTreeMap::new();
        let mut waited_ns = 0;
        for row in timeline.thread_rows(from_ns, until_ns) {
            let waited = program_of(&timeline.named(CpuWho::Thread(row.thread)).name);
            waited_ns += row.totals.ready_ns();
            for (who, ns) in timeline.behind_thread(row.thread, from_ns, until_ns).by {
                assert!(matches!(who, CpuWho::Thread(_)), "{who:?}");
                let behind = program_of(&timeline.named(who).name);
                *expected.entry((waited.clone(), behind)).or_default() += ns;
            }
        }
        let (found, rest_ns) = pairs(from_ns, until_ns, None);
        assert_eq!(found, expected, "{from_ns} to {until_ns}");
        assert_eq!(found.values().sum::<u64>() + rest_ns, waited_ns);
    }
    let (all, _) = pairs(0, end_ns, None);
    assert_eq!(all.len(), 9, "each behind each");
    // Two windows, two CPUs, or some threads and the others make all.
    let sum = |parts: [BTreeMap<(String, String), u64>; 2]| {
        let mut sum = BTreeMap::new();
        parts.into_iter().flatten().for_each(|(pair, ns)| *sum.entry(pair).or_default() += ns);
        sum
    };
    assert_eq!(sum([pairs(0, end_ns / 2, None).0, pairs(end_ns / 2, end_ns, None).0]), all);
    let places: Vec<u32> = (0..u32::try_from(timeline.threads().len()).unwrap()).collect();
    let (some, others) = places.split_at(5);
    // Named twice, it counts once.
    let some = [some, &some[..1]].concat();
    assert_eq!(sum([pairs(0, end_ns, Some(&some)).0, pairs(0, end_ns, Some(others)).0]), all);
    let of_cpu = |cpu| {
        let delays = timeline.delays(0, end_ns, &|number| number == cpu, None);
        delays
            .by
            .iter()
            .map(|delay| ((delay.waited.to_string(), delay.behind.to_string()), delay.ns))
            .collect()
    };
    assert_eq!(sum([of_cpu(0), of_cpu(1)]), all);
}

#[test]
fn a_picture_of_buckets_has_the_times_of_its_slices() {
    let events = rough(9, 20_000);
    let timeline = read(&events, ALL);
    let (_, length_ns) = timeline.covers();
    let buckets = Buckets { from_ns: 0, bucket_ns: length_ns / 64, count: 64, parts: 100 };
    for cpu in timeline.cpus() {
        let track = timeline.cpu_track(cpu, buckets).unwrap();
        assert!(!track.is_exact);
        let exact = timeline.cpu_track(cpu, Buckets { parts: usize::MAX, ..buckets }).unwrap();
        assert!(exact.is_exact && exact.from_ns.len() > 1_000);
        assert_eq!(track.queue, exact.queue);
        for (at, from_ns) in track.from_ns.iter().enumerate() {
            let until_ns = from_ns + buckets.bucket_ns;
            let (mut busy, mut by) = (0, BTreeMap::new());
            for (run, begin_ns) in exact.from_ns.iter().enumerate() {
                let end_ns = begin_ns + exact.length_ns[run];
                let ns = end_ns.min(until_ns).saturating_sub(*begin_ns.max(from_ns));
                if ns > 0 && exact.who[run] != CpuWho::Unknown.number() {
                    busy += ns;
                    *by.entry(exact.who[run]).or_insert(0) += ns;
                }
            }
            assert_eq!(u64::from(track.busy[at]), busy * 1_000 / buckets.bucket_ns, "{from_ns}");
            // Who is named has a good share: blocks count only their longest.
            let most = by.values().max().copied().unwrap_or(0);
            let named = by.get(&track.who[at]).copied().unwrap_or(0);
            assert!(named * 3 >= most, "{from_ns}: {named} of {most}");
        }
    }
    let rows = timeline.thread_rows(0, length_ns);
    let mut is_by_bucket = 0;
    for row in &rows {
        let track = |buckets| timeline.thread_track(row.thread, buckets, &mut Vec::new()).unwrap();
        let exact = track(Buckets { parts: usize::MAX, ..buckets });
        let track = track(buckets);
        if track.is_exact {
            continue;
        }
        is_by_bucket += 1;
        let ran = exact.state.iter().zip(&exact.length_ns).filter(|(state, _)| **state == 1);
        let exact_ns: u64 = ran.map(|(_, ns)| ns).sum();
        let shares: u64 = track.shares.iter().map(|shares| u64::from(shares[0])).sum();
        let by_bucket_ns = shares * buckets.bucket_ns / 1_000;
        assert!(exact_ns.abs_diff(by_bucket_ns) < 64 * (buckets.bucket_ns / 1_000 + 1));
    }
    assert!(is_by_bucket > 5);
}

fn switch(at_us: u64, cpu: u16, prev: u32, next: u32, leaves: Leaves) -> SchedEvent {
    let kind = SchedEventKind::Switch { prev: TraceTask(prev), next: TraceTask(next), leaves };
    SchedEvent { at_ns: BEGAN_NS + at_us * 1_000, cpu, kind }
}

fn wake(at_us: u64, on: u16, waker: u32, task: u32, cpu: u16) -> SchedEvent {
    let kind = SchedEventKind::Waking { task: TraceTask(task), waker: TraceTask(waker), cpu };
    SchedEvent { at_ns: BEGAN_NS + at_us * 1_000, cpu: on, kind }
}

/// Thread 1 runs on CPU 0 and wakes 2 there at 20 µs; 2 waits until 70 µs. CPU 1 is idle from 30 to 60 µs.
fn story() -> Timeline {
    read(
        &[
            switch(5, 0, 0, 1, Leaves::Ready),
            switch(5, 1, 0, 3, Leaves::Ready),
            switch(10, 0, 1, 2, Leaves::Ready),
            switch(15, 0, 2, 1, Leaves::Asleep(READ)),
            wake(20, 0, 1, 2, 0),
            switch(30, 1, 3, 0, Leaves::Asleep(READ)),
            wake(55, 0, 1, 3, 1),
            switch(60, 1, 0, 3, Leaves::Ready),
            switch(70, 0, 1, 2, Leaves::Asleep(READ)),
            switch(90, 0, 2, 0, Leaves::Asleep(READ)),
            switch(90, 1, 3, 0, Leaves::Dead),
        ],
        ALL,
    )
}

fn place(timeline: &Timeline, task: u32) -> u32 {
    let place = timeline.threads().position(|known| known == TraceTask(task));
    u32::try_from(place.unwrap()).unwrap()
}

#[test]
fn a_slice_says_who_woke_it_and_what_it_waited_behind() {
    let timeline = story();
    let (one, two) = (place(&timeline, 1), place(&timeline, 2));
    assert_eq!(timeline.who_at(0, 75_000), Some(CpuWho::Thread(two)));
    assert_eq!(timeline.who_at(1, 45_000), Some(CpuWho::Idle));
    let slice = timeline.slice(two, 75_000).unwrap();
    assert_eq!((slice.state, slice.from_ns, slice.length_ns, slice.cpu), ("running", 70_000, 20_000, 0));
    assert_eq!(
        (slice.before.as_deref(), slice.after.as_deref()),
        (Some("blocked: read"), Some("blocked: read"))
    );
    assert_eq!((slice.previous_ns, slice.next_ns), (Some(10_000), None));
    let wait = slice.wait.unwrap();
    assert_eq!((wait.from_ns, wait.length_ns, wait.is_woken), (20_000, 50_000, true));
    assert_eq!((wait.waker.map(|waker| waker.thread), wait.waker_cpu), (Some(one.into()), Some(0)));
    let by = |behind: &TraceBehind| behind.by.iter().map(|by| (by.who.thread, by.ns)).collect::<Vec<_>>();
    assert_eq!((by(&wait.behind), wait.behind.rest_ns), (vec![(one.into(), 50_000)], 0));
    // Who is blocked names the thread that ended it.
    let blocked = timeline.slice(two, 17_000).unwrap();
    assert_eq!((blocked.state, blocked.is_over), ("blocked", true));
    assert_eq!(blocked.woken_by.map(|waker| waker.thread), Some(one.into()));
    assert!(timeline.slice(two, 90_000).unwrap().woken_by.is_none(), "the trace ends first");
    // The waker's slice names both woken threads, and when they came.
    let slice = timeline.slice(one, 50_000).unwrap();
    let woke = slice.woke.iter().map(|woken| (woken.who.thread, woken.at_ns, woken.ran_ns, woken.cpu));
    let three = place(&timeline, 3);
    let expected =
        [(two.into(), 20_000, Some(70_000), Some(0)), (three.into(), 55_000, Some(60_000), Some(1))];
    assert_eq!(woke.collect::<Vec<_>>(), expected);
    assert_eq!(by(&slice.wait.unwrap().behind), [(two.into(), 5_000)], "it was pushed off");
    assert!(timeline.slice(three, 95_000).is_none(), "it is dead");
}

#[test]
fn idle_while_overloaded_counts_cpus_without_work_beside_a_queue() {
    let timeline = story();
    let ns = 1_000;
    // From 30 µs on CPU 1 is idle while thread 2 waits; from 55 µs on thread 3 waits for CPU 1, which so has work.
    let whole = Overload { wall_ns: 25 * ns, cpu_ns: 25 * ns, thread_ns: 25 * ns };
    assert_eq!(timeline.overload(0, u64::MAX), whole);
    let part = Overload { wall_ns: 9 * ns, cpu_ns: 9 * ns, thread_ns: 9 * ns };
    assert_eq!(timeline.overload(41 * ns, 50 * ns), part);
    // Parts add up to the whole, also across the sums that are made before.
    let timeline = read(&made_up(12, 20_000), ALL);
    let (_, until_ns) = timeline.covers();
    let whole = timeline.overload(0, until_ns);
    assert!(whole.wall_ns > 0 && whole.wall_ns < until_ns);
    let cuts: Vec<u64> = (0..=7).map(|at| until_ns * at / 7).collect();
    let sum: u64 = cuts.windows(2).map(|cut| timeline.overload(cut[0], cut[1]).wall_ns).sum();
    assert_eq!(sum, whole.wall_ns);
}

#[test]
fn a_limit_cuts_the_index_and_a_later_begin_goes_on() {
    let events = made_up(21, 120_000);
    let whole = read(&events, ALL);
    assert!(!whole.is_cut() && whole.events == events.len() as u64);
    let part = read(&events, TimelineLimits { bytes: 1 << 20, from_ns: 0 });
    let (_, cut_ns) = part.covers();
    assert!(part.is_cut() && part.events == whole.events && part.length_ns == whole.length_ns);
    assert!(part.bytes < 3 << 20 && whole.bytes > 2 * part.bytes, "{} {}", part.bytes, whole.bytes);
    let range = TraceRange { from_ns: cut_ns / 3, until_ns: cut_ns };
    assert_eq!(by_timeline(&part, range), by_timeline(&whole, range));
    let rest = read(&events, TimelineLimits { bytes: usize::MAX, from_ns: cut_ns });
    assert_eq!(rest.covers(), (cut_ns, whole.length_ns));
    let range = TraceRange { from_ns: cut_ns, until_ns: whole.length_ns - 5 };
    let (mut a, mut b) = (by_timeline(&rest, range), by_timeline(&whole, range));
    // A wait that began before the index is only known from there on, and a switch at its very begin is not its own.
    for figures in a.0.values_mut().chain(b.0.values_mut()) {
        figures[7..].fill(0);
    }
    assert_eq!(a, b);
}

/// Of a thread that woke another one a thousand times, all that it woke besides were left out.
#[test]
fn the_first_that_a_slice_woke_are_named_however_many_it_woke() {
    let begin = [
        switch(1, 1, 0, 2, Leaves::Ready),
        switch(2, 1, 2, 3, Leaves::Asleep(READ)),
        switch(3, 1, 3, 0, Leaves::Asleep(READ)),
        switch(5, 0, 0, 1, Leaves::Ready),
        wake(6, 0, 1, 3, 1),
        switch(7, 1, 0, 3, Leaves::Ready),
        switch(8, 1, 3, 0, Leaves::Asleep(READ)),
    ];
    let again = (0..1_100).map(|nth| 10 + 3 * nth).flat_map(|at| {
        let ends = switch(at + 2, 1, 2, 0, Leaves::Asleep(READ));
        [wake(at, 0, 1, 2, 1), switch(at + 1, 1, 0, 2, Leaves::Ready), ends]
    });
    let end = switch(4_000, 0, 1, 0, Leaves::Asleep(READ));
    let events: Vec<_> = begin.into_iter().chain(again).chain([end]).collect();
    let timeline = read(&events, ALL);
    let woke = timeline.slice(place(&timeline, 1), 50_000).unwrap().woke;
    assert_eq!((woke.len(), woke[0].who.thread, woke[0].at_ns), (64, place(&timeline, 3).into(), 6_000));
    assert_eq!(woke[63].at_ns, 10_000 + 3_000 * 62);
}

/// For each part of a wait its begin was searched again: 80,000 moves took 38 s.
#[test]
fn a_wait_with_many_moves_is_read_once() {
    const MOVES: u64 = 40_000;
    let moves = (1..=MOVES).map(|nth| {
        let kind = SchedEventKind::Migrate { task: TraceTask(2), to_cpu: u16::from(nth % 2 == 1) };
        SchedEvent { at_ns: BEGAN_NS + (20 + nth) * 1_000, cpu: 0, kind }
    });
    let begin = [
        switch(5, 0, 0, 1, Leaves::Ready),
        switch(10, 0, 1, 2, Leaves::Ready),
        switch(15, 0, 2, 1, Leaves::Asleep(READ)),
        wake(20, 0, 1, 2, 0),
    ];
    let end = [switch(MOVES + 30, 0, 1, 2, Leaves::Ready), switch(MOVES + 40, 0, 2, 1, Leaves::Asleep(READ))];
    let events: Vec<_> = begin.into_iter().chain(moves).chain(end).collect();
    let mut timeline = Timeline::default();
    let read_ns = cpu_ns(|| timeline = read(&events, ALL));
    let (two, wait_ns) = (place(&timeline, 2), (MOVES + 10) * 1_000);
    let mut found = (0, 0);
    let sums_ns = cpu_ns(|| {
        let rows = timeline.thread_rows(0, u64::MAX);
        let totals = &rows.iter().find(|row| row.thread == two).unwrap().totals;
        found = (totals.longest_delay_at_ns, totals.longest_delay_ns);
    });
    assert_eq!(found, (20_000, wait_ns));
    for at_us in [21, MOVES / 2, MOVES + 35] {
        let slice_ns = cpu_ns(|| {
            let wait = timeline.slice(two, at_us * 1_000).unwrap().wait.unwrap();
            found = (wait.from_ns, wait.length_ns);
        });
        assert_eq!(found, (20_000, wait_ns), "at {at_us} µs");
        assert!(slice_ns < 10 * read_ns, "at {at_us} µs: {slice_ns} of {read_ns} ns");
    }
    // Reading is the measure, because a test knows neither machine nor optimization.
    assert!(sums_ns < 10 * read_ns, "{sums_ns} of {read_ns} ns");
}
