//! Rows beyond what a part may have: sums stay exact, and what did most keeps its name.

use std::sync::Arc;

use cpumon_model::{
    CgroupInterval, CpuInterval, CpuLimit, Delta, Interval, Life, Moment, ProcessInfo, ProcessInterval,
    ProcessKey, ThreadInterval, ThreadKey, WaitFor, WaitKind,
};
use cpumon_store::Segment;

use super::super::Why;
use super::super::part::{MAX_PROCESSES, MAX_SHORT, MAX_SHORT_NAMES, MAX_WAITS, WhyPart};
use super::super::threads::{MAX_THREADS, ThreadSums};
use super::scene::{Scene, key, on, syscall, why_shop};
use crate::time::TimeRange;

fn pid(at: usize) -> u32 {
    u32::try_from(at).unwrap() + 1
}

fn process(at: usize, life: Life) -> ProcessInterval {
    ProcessInterval {
        key: ProcessKey { pid: pid(at), start_ns: 7 },
        parent_pid: pid(at),
        info: Arc::new(ProcessInfo { name: format!("p{at}").into(), ..ProcessInfo::default() }),
        life,
        delta: Delta { run_ns: i64::try_from(at).unwrap() + 1, ..Delta::default() },
        ..ProcessInterval::default()
    }
}

fn interval(processes: Vec<ProcessInterval>) -> Interval {
    let end = Moment { mono_ns: 1_000, boot_ns: 1_000, wall_ns: 1_000 };
    Interval { end, processes, ..Interval::default() }
}

fn part(intervals: &[Interval]) -> WhyPart {
    let mut part = WhyPart::new(TimeRange { since_ns: 0, until_ns: 1_000 });
    for interval in intervals {
        part.add(&Segment::of(interval));
    }
    part.end();
    part
}

fn run_ns(part: &WhyPart) -> i64 {
    let processes = part.processes.values().map(|seen| seen.delta.run_ns);
    processes.chain(part.short.values().map(|runs| runs.delta.run_ns)).sum()
}

/// So many processes that one row for each and kind of wait is too many.
#[test]
fn waits_that_are_left_out_are_named() {
    let wait = |at: usize| {
        let waiter = ProcessKey { pid: pid(at), start_ns: 7 };
        WaitFor { waiter, kind: syscall("read"), on: on(1), ns: 5_000_000, count: 1 }
    };
    let answer = |count: usize| {
        let mut scene = Scene::busy().with(1, "shop", 90, 880);
        scene.waits.extend((1..count).map(wait));
        why_shop(&scene).sure.not_measured.join("; ")
    };
    let words = "some processes, waits, CPUs or control groups: there are too many";
    assert!(!answer(100).contains(words), "{}", answer(100));
    assert!(answer(MAX_WAITS + 100).contains(words), "{}", answer(MAX_WAITS + 100));
}

#[test]
fn of_too_many_processes_those_that_did_most_stay() {
    let count = 4 * MAX_PROCESSES;
    let rows = (0..count).map(|at| process(at, Life::Alive)).collect();
    let part = part(&[interval(rows)]);
    assert!(part.is_cut && part.processes.len() <= MAX_PROCESSES, "{}", part.processes.len());
    assert!(part.processes.contains_key(&ProcessKey { pid: pid(count - 1), start_ns: 7 }));
    assert!(part.short.len() <= MAX_SHORT + MAX_SHORT_NAMES + 1, "{}", part.short.len());
    let count = i64::try_from(count).unwrap();
    assert_eq!(run_ns(&part), count * (count + 1) / 2);
}

#[test]
fn too_many_short_processes_are_added_up_by_name_and_then_without_one() {
    let count = 2 * (MAX_SHORT + MAX_SHORT_NAMES);
    let rows = (0..count).map(|at| process(at, Life::BornEnded)).collect();
    let part = part(&[interval(rows)]);
    assert!(part.is_cut && part.short.len() <= MAX_SHORT + MAX_SHORT_NAMES + 1, "{}", part.short.len());
    let count = i64::try_from(count).unwrap();
    assert_eq!(run_ns(&part), count * (count + 1) / 2);
    let started: u64 = part.short.values().map(|runs| runs.count).sum();
    assert_eq!(started, count.unsigned_abs());
}

fn group(path: &str, limit: CpuLimit) -> CgroupInterval {
    CgroupInterval { path: path.into(), limit, ..CgroupInterval::default() }
}

/// Long texts and numbers from outside take no more memory than short ones.
#[test]
fn texts_cpus_and_groups_are_bounded() {
    let long = |mut row: ProcessInterval| {
        row.info = Arc::new(ProcessInfo { cmdline: "x".repeat(4_096).into(), ..(*row.info).clone() });
        row
    };
    let rows = (0..1_000).map(|at| long(process(at, Life::Alive)));
    let rows = rows.chain((1_000..2_000).map(|at| long(process(at, Life::BornEnded)))).collect();
    let numbers = 0..20_000_u32;
    let hostile = Interval {
        cpus: numbers.clone().map(|cpu| CpuInterval { cpu, ..CpuInterval::default() }).collect(),
        cgroups: numbers.map(|nth| group(&format!("/{nth}"), CpuLimit::Millionths(1))).collect(),
        ..interval(rows)
    };
    let part = part(&[hostile]);
    assert!(part.is_cut && part.cpus.len() <= 8_192 && part.cgroups.len() == 512);
    let of_processes = part.processes.values().map(|seen| &seen.info);
    let infos = of_processes.chain(part.short.values().map(|runs| &runs.info));
    let bytes: usize = infos.map(|info| info.cmdline.len()).sum();
    assert!(bytes <= 4 << 20, "{bytes}");
    assert_eq!(run_ns(&part), 2_000 * 2_001 / 2);
}

/// One of an hour that ended in a range of seconds would hide all else.
#[test]
fn a_wait_is_no_longer_than_the_range() {
    let wait = WaitFor { waiter: key(1), kind: syscall("read"), on: on(2), ns: 5_000_000, count: 2 };
    let one = Interval { waits_for: vec![wait], ..interval(Vec::new()) };
    let sum = WhyPart::sum(&[part(std::slice::from_ref(&one)), part(std::slice::from_ref(&one))]).unwrap();
    let waits: Vec<(u64, u64)> = sum.waits.iter().map(|row| (row.ns, row.count)).collect();
    assert_eq!((sum.length_ns, waits), (2_000, vec![(8_000, 4)]));
}

/// A part that is read keeps no memory for what was cut.
#[test]
fn a_part_takes_the_memory_of_its_rows() {
    let wait = |at: usize| WaitFor { waiter: key(pid(at)), kind: syscall("read"), ..WaitFor::default() };
    let waits_for: Vec<WaitFor> = (0..20_000).map(wait).collect();
    let part = part(&[Interval { waits_for, ..interval(Vec::new()) }]);
    assert!(part.waits.capacity() <= 8_192 + 64, "{}", part.waits.capacity());
}

#[test]
fn groups_without_a_limit_hide_none_with_one() {
    let mut cgroups: Vec<CgroupInterval> =
        (0..1_000).map(|nth| group(&format!("/{nth}"), CpuLimit::Unlimited)).collect();
    cgroups.push(group("/shop", CpuLimit::Millionths(200_000)));
    let limited = Interval { cgroups, ..interval(Vec::new()) };
    let lifted = Interval { cgroups: vec![group("/shop", CpuLimit::Unlimited)], ..interval(Vec::new()) };
    let part = part(&[limited, lifted]);
    let limits: Vec<(&str, CpuLimit)> = part.cgroups.values().map(|row| (&*row.path, row.limit)).collect();
    assert_eq!((limits, part.is_cut), (vec![("/shop", CpuLimit::Millionths(200_000))], false));
}

#[test]
fn of_too_many_threads_those_that_did_most_stay() {
    let row = |at: usize| ThreadInterval {
        key: ThreadKey { tid: pid(at), start_ns: 7 },
        delta: Delta { run_ns: i64::try_from(at).unwrap() + 1, ..Delta::default() },
        ..ThreadInterval::default()
    };
    let count = 4 * MAX_THREADS;
    let mut sums = ThreadSums::default();
    sums.add(&Interval { threads: (0..count).map(row).collect(), ..Interval::default() });
    assert!(sums.is_cut && sums.each.len() <= 2 * MAX_THREADS, "{}", sums.each.len());
    assert!(sums.each.contains_key(&ThreadKey { tid: pid(count - 1), start_ns: 7 }));
}

fn behind_200_programs(ready: i64, kind: WaitKind) -> Why {
    let mut scene = Scene::busy().with(1, "shop", 100, ready);
    for pid in 11..=210 {
        let name: &'static str = format!("p{pid}").leak();
        scene = scene.with(pid, name, 9, 0).waits(1, kind, on(pid), 4);
    }
    why_shop(&scene)
}

/// Each of 200 programs is no culprit by itself.
#[test]
fn many_programs_are_no_unknown_ones() {
    let why = behind_200_programs(0, syscall("read"));
    assert_eq!(why.causes[0].sentence, "It waited 26 % of the time for many programs, in read.");
    let why = behind_200_programs(800, WaitKind::Ready);
    assert_eq!(
        why.causes[0].sentence,
        "It was ready 80 % of the time and waited for a CPU behind many programs."
    );
    assert!(why.causes[0].culprits.is_empty(), "{:#?}", why.causes[0].culprits);
}
