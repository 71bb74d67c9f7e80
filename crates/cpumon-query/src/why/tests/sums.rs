//! Long ranges, of which sums of minutes or hours are read.

use cpumon_model::{Delta, Interval, Ledger, Life, Moment, ProcessInterval, WaitFor, WaitedOn};
use cpumon_store::{ActiveTimes, Segment, SumRow};
use foldhash::HashSet;

use super::super::WhyTarget;
use super::super::facts::Facts;
use super::super::part::{ShortRuns, WhyPart};
use super::super::states::{StateTimes, SubjectRows, WaitClass};
use super::super::threads::ThreadSums;
use super::scene::{BEGIN_NS, MS, SECOND_NS, Scene, USUAL, key, syscall, thread_key};
use crate::time::TimeRange;

const HOUR_NS: i64 = 3_600 * SECOND_NS;

fn at(second: i64) -> i64 {
    BEGIN_NS + second * SECOND_NS
}

/// An hour of a machine with two CPUs, of which process 1 was active from second 600 to 1,800.
fn hour(life: Life, idle_ns: i64) -> WhyPart {
    let begin = Moment { wall_ns: BEGIN_NS, ..Moment::default() };
    let mono_ns = HOUR_NS.unsigned_abs();
    let delta = Delta {
        run_ns: 100 * SECOND_NS,
        run_delay_ns: 800 * SECOND_NS,
        voluntary_switches: 50,
        ..Delta::default()
    };
    let interval = Interval {
        fields: USUAL,
        begin,
        end: Moment { wall_ns: BEGIN_NS + HOUR_NS, mono_ns, ..begin },
        ledger: Ledger { capacity_ns: 2 * HOUR_NS, idle_ns, ..Ledger::default() },
        processes: vec![ProcessInterval { key: key(1), life, delta, ..ProcessInterval::default() }],
        ..Interval::default()
    };
    let times = Some(ActiveTimes { first_ns: at(600), last_ns: at(1_800), max_end_ns: at(700) });
    let sums = [SumRow { times, ..SumRow::default() }];
    let segment = Segment { max_busy_ppm: Some(0), processes: &sums, ..Segment::of(&interval) };
    let mut part = WhyPart::new(TimeRange { since_ns: BEGIN_NS, until_ns: BEGIN_NS + HOUR_NS });
    part.add(&segment);
    part.end();
    part
}

fn rows() -> SubjectRows {
    SubjectRows { keys: Some(HashSet::from_iter([key(1)])), ..SubjectRows::default() }
}

fn times(part: &WhyPart) -> StateTimes {
    StateTimes::of(part, &rows(), &|_| false)
}

/// A job of 20 minutes is not a small part of the hours around it.
#[test]
fn a_process_of_a_sum_was_there_while_it_was_active() {
    let part = hour(Life::Alive, 0);
    assert!(part.has_sums && !part.processes[&key(1)].began, "a sum does not know what began");
    assert_eq!(times(&part).present_ns, (1_200 * SECOND_NS).unsigned_abs());
    assert!(hour(Life::Born, 0).processes[&key(1)].began);
}

/// Sums have only the longest waits.
#[test]
fn run_delay_of_a_sum_counts_without_waits_if_the_cpus_were_busy() {
    let ready_ns = |idle_ns: i64| times(&hour(Life::Alive, idle_ns)).ready_ns();
    assert_eq!(ready_ns(0), (800 * SECOND_NS).unsigned_abs());
    assert_eq!(ready_ns(HOUR_NS), (50 * MS).unsigned_abs(), "1 ms for each switch");
}

/// Threads are not read: who ended a wait for another thread can have been busy only if the process was.
#[test]
fn a_pool_of_a_sum_is_no_lock() {
    let class = |run_s: i64, on: WaitedOn| {
        let mut part = hour(Life::Alive, 0);
        let seen = part.processes.get_mut(&key(1)).unwrap();
        seen.delta = Delta { run_ns: run_s * SECOND_NS, ..Delta::default() };
        let ns = (4_000 * SECOND_NS).unsigned_abs();
        part.waits = vec![WaitFor { waiter: key(1), kind: syscall("futex"), on, ns, count: 100_000 }];
        let (target, rows, threads) = (WhyTarget::default(), rows(), ThreadSums::default());
        let facts = Facts::new(&target, &rows, &part, None, &threads);
        facts.times.waits[0].class
    };
    for on in [WaitedOn::Thread(thread_key(9)), WaitedOn::Others] {
        assert_eq!(class(300, on), WaitClass::Asleep, "{on:?}");
        assert_eq!(class(2_000, on), WaitClass::Unknown, "{on:?}");
    }
}

/// Three minutes of intervals say which threads there were: for an hour their times count twenty times, but no thread has more than its process.
#[test]
fn threads_of_a_part_stand_for_those_of_all_of_it() {
    let mut whole = hour(Life::Alive, HOUR_NS);
    let scene = Scene { cpu_softirq: [100, 0], ..Scene::new() }.with(1, "shop", 2, 400);
    let intervals: Vec<Interval> = (1..=180).map(|second| scene.interval(second)).collect();
    let mut detail = WhyPart::new(TimeRange { since_ns: at(0), until_ns: at(180) });
    let mut threads = ThreadSums::default();
    for interval in &intervals {
        detail.add(&Segment::of(interval));
        threads.add(interval);
    }
    threads.extend_to(&whole, whole.scale_of(&detail));
    let seen = &threads.each[&thread_key(1)];
    assert_eq!(seen.delta.run_ns, 20 * 180 * 2 * MS);
    assert_eq!(seen.delta.run_delay_ns, 800 * SECOND_NS, "of 1,440 s that the part would make");
    assert_eq!((seen.intervals, seen.length_ns), (180, HOUR_NS.unsigned_abs()));
    whole.add_detail(&detail);
    assert_eq!((whole.detail, whole.cpus.len()), (Some(detail.range), 2));
    // A lock, which sums alone take for a pool that waits for work.
    let waits = |ns: i64| WaitFor {
        ns: ns.unsigned_abs(),
        waiter: key(1),
        kind: syscall("futex"),
        on: WaitedOn::Thread(thread_key(1)),
        count: 90_000,
    };
    whole.waits = vec![waits(1_000 * SECOND_NS)];
    let (target, rows) = (WhyTarget::default(), rows());
    let class = |threads: &ThreadSums| Facts::new(&target, &rows, &whole, None, threads).times.waits[0].class;
    assert_eq!((class(&threads), class(&ThreadSums::default())), (WaitClass::Lock, WaitClass::Asleep));
}

/// Sums count the time of short-lived processes, not the processes.
#[test]
fn short_processes_of_a_part_stand_for_those_of_all_of_it() {
    let mut whole = hour(Life::Alive, HOUR_NS);
    let scene = Scene { short: Some(("date", 1, 50, 900)), ..Scene::new() };
    let mut detail = WhyPart::new(TimeRange { since_ns: at(0), until_ns: at(1) });
    detail.add(&Segment::of(&scene.interval(1)));
    let (key, runs) = detail.short.iter().next().unwrap();
    whole.short.insert(key.clone(), ShortRuns { count: 0, ..runs.clone() });
    whole.add_detail(&detail);
    assert_eq!(whole.short.values().map(|runs| runs.count).collect::<Vec<_>>(), [50 * 3_600]);
}
