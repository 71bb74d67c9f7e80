//! The analyses of one trace agree with each other: what the report sums, the others have one by one, over time, or back in time.

use std::collections::BTreeMap;

use cpumon_model::WaitReason;
use cpumon_sched::{Interrupt, Leaves, SchedEvent, SchedEventKind, TraceTask};
use cpumon_trace::{
    DurationOf, GroupKey, HeldThread, PathStep, PathSums, ReportBy, SeriesError, Tasks, ThreadState,
    TraceRange, WakerKey, analyse, durations, history, longest_waits, series, wakers,
};

use crate::cpu_time::cpu_ns;
use crate::support::{BEGAN_NS, Made, end_ns, made_up};

/// Whatever the trace, with the names of its tasks.
pub fn agree<'e>(made: impl Fn() -> Made<'e>, names: &Tasks, every_ns: u64, what: &str) {
    let (report, ending) = analyse(&mut made(), TraceRange::default()).unwrap();
    let rows: BTreeMap<GroupKey, _> =
        report.rows(ReportBy::Thread, names).into_iter().map(|row| (row.key.clone(), row)).collect();

    let (over_time, _) = series(&mut made(), TraceRange::default(), every_ns, true).unwrap();
    let mut in_series = 0;
    for row in over_time.rows(ReportBy::Thread, names) {
        let whole = &rows[&row.key];
        let sum = |of: fn(&cpumon_trace::SeriesCell) -> u64| row.cells.iter().map(of).sum::<u64>();
        let ready_ns = whole.totals.ready_woken_ns + whole.totals.ready_preempted_ns;
        assert_eq!(
            (sum(|cell| cell.run_ns), sum(|cell| cell.ready_ns)),
            (whole.totals.run_ns, ready_ns),
            "{what}: {row:?}"
        );
        assert!(row.cells.iter().all(|cell| cell.run_ns <= over_time.interval(cell.interval).1), "{what}");
        in_series += ready_ns;
    }
    let mut in_queues = 0;
    for (cpu, cells) in over_time.cpus() {
        in_queues += cells.iter().map(|cell| cell.queue_ns).sum::<u64>();
        let Some(whole) = report.cpus().find(|row| row.cpu == cpu) else { continue };
        let sum = |of: fn(&cpumon_trace::CpuCell) -> u64| cells.iter().map(of).sum::<u64>();
        let its = [
            sum(|cell| cell.run_ns),
            sum(|cell| cell.idle_ns),
            sum(|cell| cell.unknown_ns),
            sum(|cell| cell.irq_ns),
        ];
        let irq_ns = whole.irq_ns + whole.softirq_ns;
        assert_eq!(its, [whole.run_ns, whole.idle_ns, whole.unknown_ns, irq_ns], "{what}: CPU {cpu}");
    }
    assert_eq!(in_queues, in_series, "{what}: who is ready is in a queue");

    let (by_length, _) =
        durations(&mut made(), TraceRange::default(), DurationOf::Ready, ReportBy::Thread).unwrap();
    let waits: u64 = rows.values().map(cpumon_trace::GroupRow::delays).sum();
    assert_eq!(by_length.iter().map(|row| row.durations.histogram.total()).sum::<u64>(), waits, "{what}");

    let (longest, _) = longest_waits(&mut made(), TraceRange::default(), 3).unwrap();
    let most =
        rows.values().filter_map(cpumon_trace::GroupRow::longest_delay).map(|longest| longest.ns).max();
    assert_eq!(longest.first().map_or(0, |wait| wait.ns), most.unwrap_or(0), "{what}");
    assert!(longest.is_sorted_by_key(|wait| std::cmp::Reverse(wait.ns)), "{what}");

    let (held, _) = history(&mut made(), TraceRange::default()).unwrap();
    let mut sums = PathSums::new(names);
    let mut length_ns = 0;
    for HeldThread { task, until_ns: last_ns, .. } in held.threads() {
        let steps: Vec<_> = held.path(task, last_ns).collect();
        let (mut at_ns, mut explained) = (last_ns, Vec::new());
        for step in &steps {
            // What a waker did lies in the wait that it ended.
            explained.retain(|begin_ns| *begin_ns < at_ns);
            assert_eq!((step.until_ns, step.depth), (at_ns, explained.len()), "{what}: {steps:#?}");
            if step.is_explained {
                explained.push(step.from_ns);
            } else {
                at_ns = step.from_ns;
            }
        }
        assert_eq!(at_ns, ending.known_until_ns.min(made_begin(&made())), "{what}: gapless to the begin");
        for step in &steps {
            sums.add(step);
        }
        length_ns += last_ns - at_ns;
    }
    for by in [ReportBy::Thread, ReportBy::Process, ReportBy::Program, ReportBy::Container] {
        let all_ns: u64 = sums.rows(by).iter().map(|row| row.totals.all_ns()).sum();
        assert_eq!(all_ns, length_ns, "{what}: each ns of each path is in one row");
        let tasks = sums.tasks_of_rows(by);
        for row in sums.rows(by) {
            let threads = sums.threads(&tasks[&row.key]);
            let of_threads_ns: u64 = threads.iter().map(|row| row.totals.all_ns()).sum();
            assert_eq!(of_threads_ns, row.totals.all_ns(), "{what}: {row:?}");
        }
    }
}

/// All tasks were named again for each program that was shown, so `trace path --limit` took a time that grew with programs times tasks.
#[test]
fn the_threads_of_all_rows_of_a_path_are_found_together() {
    let tasks = Tasks::default();
    let mut sums = PathSums::new(&tasks);
    for task in 1..=20_000 {
        sums.add(&PathStep {
            task: TraceTask(task),
            state: ThreadState::Running,
            from_ns: 0,
            until_ns: u64::from(task),
            cpu: 0,
            depth: 0,
            waker: None,
            is_explained: false,
            behind: Vec::new(),
            slices: 0,
        });
    }
    let rows_ns = cpu_ns(|| sums.rows(ReportBy::Program));
    let threads_ns = cpu_ns(|| {
        let tasks = sums.tasks_of_rows(ReportBy::Program);
        let threads: usize =
            sums.rows(ReportBy::Program).iter().map(|row| sums.threads(&tasks[&row.key]).len()).sum();
        assert_eq!(threads, 20_000);
    });
    assert!(threads_ns <= 12 * rows_ns, "{threads_ns} of {rows_ns} ns");
}

fn made_begin(made: &Made<'_>) -> u64 {
    use cpumon_trace::TraceSource;
    made.header().began.mono_ns
}

#[test]
fn of_a_made_up_machine() {
    for seed in 1..=4 {
        let events = made_up(seed, 3_000);
        let end_ns = end_ns(&events);
        agree(|| Made::new(&events, BEGAN_NS, end_ns), &Tasks::default(), 100_000, &format!("seed {seed}"));
    }
}

#[test]
fn wakeups_are_counted_once_each_in_any_range() {
    let events = made_up(9, 5_000);
    let end_ns = end_ns(&events);
    let count = |from_ns, until_ns| {
        let (wakers, _) =
            wakers(&mut Made::new(&events, BEGAN_NS, end_ns), TraceRange { from_ns, until_ns }).unwrap();
        let rows = wakers.rows(ReportBy::Thread, &Tasks::default());
        rows.iter().map(|row| row.counts.wakeups).sum::<u64>()
    };
    let half_ns = (end_ns - BEGAN_NS) / 2;
    let all = count(0, u64::MAX);
    assert!(all > 500, "{all}");
    assert_eq!(count(0, half_ns) + count(half_ns + 1, u64::MAX), all);
}

const FUTEX: WaitReason = WaitReason::syscall(202);

fn switch(at_us: u64, cpu: u16, prev: u32, next: u32, leaves: Leaves) -> SchedEvent {
    let kind = SchedEventKind::Switch { prev: TraceTask(prev), next: TraceTask(next), leaves };
    SchedEvent { at_ns: BEGAN_NS + at_us * 1_000, cpu, kind }
}

fn wake(at_us: u64, from_cpu: u16, waker: u32, task: u32, cpu: u16) -> SchedEvent {
    let kind = SchedEventKind::Waking { task: TraceTask(task), waker: TraceTask(waker), cpu };
    SchedEvent { at_ns: BEGAN_NS + at_us * 1_000, cpu: from_cpu, kind }
}

#[test]
fn a_wakeup_in_an_interrupt_is_not_of_whom_it_interrupts() {
    let softirq = SchedEventKind::Interrupt { interrupt: Interrupt::Soft(1), ran_ns: 20_000 };
    let events = [
        switch(1, 0, 0, 1, Leaves::Ready),
        switch(2, 1, 0, 2, Leaves::Ready),
        switch(10, 1, 2, 0, Leaves::Asleep(FUTEX)),
        wake(15, 0, 1, 2, 1),
        switch(18, 1, 0, 2, Leaves::Ready),
        switch(20, 1, 2, 0, Leaves::Asleep(FUTEX)),
        wake(95, 0, 1, 2, 1),
        SchedEvent { at_ns: BEGAN_NS + 100_000, cpu: 0, kind: softirq },
        switch(105, 1, 0, 2, Leaves::Ready),
        switch(120, 0, 1, 0, Leaves::Asleep(FUTEX)),
    ];
    let mut made = Made::new(&events, BEGAN_NS, BEGAN_NS + 130_000);
    let (found, _) = wakers(&mut made, TraceRange::default()).unwrap();
    assert!(found.has_interrupts);
    let rows = found.rows(ReportBy::Thread, &Tasks::default());
    let of = |key: &WakerKey| rows.iter().find(|row| row.waker == *key).map(|row| row.counts);
    let soft = of(&WakerKey::Soft(1)).unwrap();
    assert_eq!((soft.wakeups, soft.runs, soft.delay_ns, soft.runs_here), (1, 1, 10_000, 0));
    let thread = of(&WakerKey::Group(GroupKey::Unnamed(TraceTask(1)))).unwrap();
    assert_eq!((thread.wakeups, thread.longest.ns, thread.longest.cpu), (1, 3_000, 1));
}

#[test]
fn a_path_goes_through_the_wakers_and_comes_back() {
    let events = [
        switch(1, 0, 0, 1, Leaves::Ready),
        switch(2, 1, 0, 2, Leaves::Ready),
        // 2 sleeps; 1 wakes it at 100, but was itself pushed off from 40 to 70 by 3.
        switch(20, 1, 2, 0, Leaves::Asleep(FUTEX)),
        switch(40, 0, 1, 3, Leaves::Ready),
        switch(70, 0, 3, 1, Leaves::Ready),
        wake(100, 0, 1, 2, 1),
        switch(110, 1, 0, 2, Leaves::Ready),
    ];
    let mut made = Made::new(&events, BEGAN_NS, BEGAN_NS + 150_000);
    let (held, _) = history(&mut made, TraceRange::default()).unwrap();
    let steps = held.path(TraceTask(2), BEGAN_NS + 120_000).collect::<Vec<_>>();
    let seen: Vec<_> = steps
        .iter()
        .map(|step| (step.task.0, (step.from_ns - BEGAN_NS) / 1_000, step.ns() / 1_000, step.depth))
        .collect();
    assert_eq!(
        seen,
        [
            (2, 110, 10, 0),
            (2, 100, 10, 0),
            (2, 20, 80, 0),
            (1, 70, 30, 1),
            (1, 40, 30, 1),
            (1, 20, 20, 1),
            (2, 2, 18, 0),
            (2, 0, 2, 0)
        ]
    );
    assert!(steps[2].is_explained && steps[2].state == ThreadState::Blocked(FUTEX));
    assert_eq!(steps[4].behind, [(TraceTask(3), 30_000)]);
}

#[test]
fn too_many_intervals_are_an_error_and_no_memory() {
    let events = [switch(1, 0, 0, 1, Leaves::Ready), switch(9_000_000, 0, 1, 0, Leaves::Ready)];
    let mut made = Made::new(&events, BEGAN_NS, BEGAN_NS + 10_000_000_000);
    let refused = series(&mut made, TraceRange::default(), 1_000, true).map(drop).unwrap_err();
    assert!(matches!(refused, SeriesError::TooMany), "{refused}");
    assert!(refused.to_string().contains("choose longer ones"), "{refused}");
    // A file may claim any time.
    let mut made = Made::new(&events, BEGAN_NS, u64::MAX - 1);
    assert!(series(&mut made, TraceRange::default(), 1_000_000, true).is_err());
}

/// Each thread that was woken on its way to sleep added to every interval of its CPU, and only CPUs and rows were counted.
#[test]
fn waits_that_are_known_late_count_as_intervals() {
    let slept = (0..500).flat_map(|nth| {
        let (at, task) = (1 + 3 * u64::from(nth), nth + 1);
        let waking = SchedEventKind::Waking { task: TraceTask(task), waker: TraceTask(task), cpu: 0 };
        [
            switch(at, 0, 0, task, Leaves::Ready),
            SchedEvent { at_ns: BEGAN_NS + (at + 1) * 1_000, cpu: 0, kind: waking },
            switch(at + 2, 0, task, 0, Leaves::Asleep(FUTEX)),
        ]
    });
    let came = (0..500).flat_map(|nth| {
        let (at, task) = (20_000 + 2 * u64::from(nth), nth + 1);
        [switch(at, 0, 0, task, Leaves::Ready), switch(at + 1, 0, task, 0, Leaves::Asleep(FUTEX))]
    });
    let events: Vec<_> = slept.chain(came).collect();
    let over = |every_ns| {
        series(
            &mut Made::new(&events, BEGAN_NS, BEGAN_NS + 30_000_000),
            TraceRange::default(),
            every_ns,
            false,
        )
    };
    assert!(matches!(over(1_000), Err(SeriesError::TooMany)));
    let (series, _) = over(1_000_000).unwrap();
    let queue_ns: u64 = series.cpus().flat_map(|(_, cells)| cells).map(|cell| cell.queue_ns).sum();
    // From 3 + 3 * nth to 20,000 + 2 * nth µs.
    assert_eq!(queue_ns, (0..500).map(|nth| (19_997 - nth) * 1_000).sum::<u64>());
}

/// The recorder marks when a CPU went offline and when it came back. The thread that stopped it had all that time: 1.2 s of 1.3.
#[test]
fn a_cpu_that_is_offline_is_unknown_and_nobodys() {
    let at = |ms: u64, kind| SchedEvent { at_ns: BEGAN_NS + ms * 1_000_000, cpu: 1, kind };
    let switch = |ms, prev, next| {
        let (prev, next) = (TraceTask(prev), TraceTask(next));
        at(ms, SchedEventKind::Switch { prev, next, leaves: Leaves::Asleep(WaitReason::OTHER) })
    };
    let lost = |from, until: u64| {
        at(from, SchedEventKind::Lost { count: 0, until_ns: BEGAN_NS + until * 1_000_000 })
    };
    let events = [
        switch(10, 0, 1),
        // Task 1 stops the CPU, which is found to be offline at 50, and online at 1,250.
        lost(10, 50),
        lost(1_200, 1_250),
        switch(1_210, 0, 2),
        switch(1_220, 2, 0),
    ];
    let (report, ending) =
        analyse(&mut Made::new(&events, BEGAN_NS, BEGAN_NS + 1_300_000_000), TraceRange::default()).unwrap();
    let rows = report.rows(ReportBy::Thread, &Tasks::default());
    let run_ms: Vec<_> = rows.iter().map(|row| row.totals.run_ns / 1_000_000).collect();
    assert_eq!(run_ms, [10, 0], "task 2, and task 1 that stopped the CPU");
    let ledger = report.totals().ledger;
    let ms = [ledger.run_ns, ledger.idle_ns, ledger.unknown_ns].map(|ns| ns / 1_000_000);
    assert_eq!((ms, ending.lost), ([10, 10 + 80, 1_200], 0));
}
