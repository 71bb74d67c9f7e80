//! The ledger of a trace balances, in any range. The time of holes and losses is unknown, and no thread's.

use cpumon_model::WaitReason;
use cpumon_sched::{Interrupt, Leaves, SchedEvent, SchedEventKind, TraceTask};
use cpumon_trace::{Compression, Report, ReportBy, TraceRange, TraceReader, TraceSource, Tracker, analyse};

use crate::support::{BEGAN_NS, Sums, end_ns, header, identity, made_up, write};

const READ: WaitReason = WaitReason::syscall(0);

fn report(events: &[SchedEvent], range: TraceRange) -> (Report, Vec<cpumon_trace::GroupRow>) {
    let bytes = write(events, Compression::Zstd(3), 64);
    let mut reader = TraceReader::open(bytes.as_slice()).unwrap();
    let (report, ending) = analyse(&mut reader, range).unwrap();
    assert!(ending.is_whole(), "{ending:?}");
    let rows = report.rows(ReportBy::Thread, reader.tasks());
    (report, rows)
}

fn switch(at_us: u64, cpu: u16, prev: u32, next: u32, leaves: Leaves) -> SchedEvent {
    let kind = SchedEventKind::Switch { prev: TraceTask(prev), next: TraceTask(next), leaves };
    SchedEvent { at_ns: BEGAN_NS + at_us * 1_000, cpu, kind }
}

fn wake(at_us: u64, cpu: u16, task: u32) -> SchedEvent {
    let kind = SchedEventKind::Waking { task: TraceTask(task), waker: TraceTask::IDLE, cpu };
    SchedEvent { at_ns: BEGAN_NS + at_us * 1_000, cpu, kind }
}

#[test]
fn capacity_is_idle_and_run_and_unknown_in_any_range() {
    let events = made_up(11, 20_000);
    let length_ns = end_ns(&events) - BEGAN_NS;
    let (whole, rows) = report(&events, TraceRange::default());
    let totals = whole.totals();
    assert_eq!((totals.length_ns, totals.cpus), (length_ns, 2));
    assert_eq!(totals.ledger.capacity_ns(), 2 * length_ns);
    assert_eq!(rows.iter().map(|row| row.totals.run_ns).sum::<u64>(), totals.ledger.run_ns);
    let (mut run_ns, mut idle_ns, mut switches) = (0, 0, 0);
    let cuts = [0, 1, length_ns / 3, length_ns / 2 + 1, length_ns];
    for cut in cuts.windows(2) {
        let (part, rows) = report(&events, TraceRange { from_ns: cut[0], until_ns: cut[1] });
        let totals = part.totals();
        assert_eq!(totals.ledger.capacity_ns(), 2 * (cut[1] - cut[0]), "{cut:?}");
        assert_eq!(rows.iter().map(|row| row.totals.run_ns).sum::<u64>(), totals.ledger.run_ns);
        run_ns += totals.ledger.run_ns;
        idle_ns += totals.ledger.idle_ns;
        switches += totals.ledger.switches;
    }
    assert_eq!((run_ns, idle_ns), (totals.ledger.run_ns, totals.ledger.idle_ns), "the parts are the whole");
    // A switch at a border is in both.
    assert!((totals.ledger.switches..=totals.ledger.switches + 4).contains(&switches));
}

#[test]
fn who_ran_while_a_thread_was_ready() {
    let events = [
        switch(10, 0, 1, 2, Leaves::Asleep(READ)),
        wake(100, 0, 1),
        switch(300, 0, 2, 3, Leaves::Ready),
        switch(400, 0, 3, 1, Leaves::Asleep(READ)),
        switch(500, 0, 1, 0, Leaves::Asleep(READ)),
    ];
    let (_, rows) = report(&events, TraceRange::default());
    let first = rows.iter().find(|row| &*row.name == "task-1").unwrap();
    assert_eq!(first.behind, [("task-2".into(), 200_000), ("task-3".into(), 100_000)]);
    let longest = first.longest_delay().unwrap();
    assert_eq!((longest.ns, longest.from_ns, longest.cpu), (300_000, BEGAN_NS + 100_000, 0));
    assert_eq!(
        (first.totals.ready_woken_ns, first.totals.ready_preempted_ns, first.delays()),
        (300_000, 0, 1)
    );
}

#[test]
fn a_wait_goes_on_when_the_thread_moves_to_another_cpu() {
    let moved = SchedEventKind::Migrate { task: TraceTask(1), to_cpu: 1 };
    let events = [
        switch(0, 1, 0, 3, Leaves::Ready),
        switch(10, 0, 1, 2, Leaves::Ready),
        SchedEvent { at_ns: BEGAN_NS + 50_000, cpu: 1, kind: moved },
        switch(80, 1, 3, 1, Leaves::Asleep(READ)),
        switch(90, 1, 1, 0, Leaves::Asleep(READ)),
    ];
    let (_, rows) = report(&events, TraceRange::default());
    let first = rows.iter().find(|row| &*row.name == "task-1").unwrap();
    assert_eq!((first.totals.ready_preempted_ns, first.delays(), first.totals.migrations), (70_000, 1, 1));
    assert_eq!(first.longest_delay().map(|longest| (longest.ns, longest.cpu)), Some((70_000, 1)));
    assert_eq!(first.behind, [("task-2".into(), 40_000), ("task-3".into(), 30_000)]);
}

#[test]
fn an_interrupt_during_which_a_waiting_thread_is_pulled_away_keeps_its_time() {
    let softirq = SchedEventKind::Interrupt { interrupt: Interrupt::Soft(3), ran_ns: 40_000 };
    let events = [
        switch(0, 0, 2, 1, Leaves::Ready),
        SchedEvent {
            at_ns: BEGAN_NS + 50_000,
            cpu: 0,
            kind: SchedEventKind::Migrate { task: TraceTask(2), to_cpu: 1 },
        },
        SchedEvent { at_ns: BEGAN_NS + 60_000, cpu: 0, kind: softirq },
        switch(100, 0, 1, 0, Leaves::Asleep(READ)),
    ];
    let (_, rows) = report(&events, TraceRange::default());
    let first = rows.iter().find(|row| &*row.name == "task-1").unwrap();
    assert_eq!((first.totals.interrupts_ns(), first.totals.run_ns), (40_000, 60_000));
}

#[test]
fn a_wakeup_on_the_way_to_sleep_is_no_wait_for_anything() {
    let events = [
        wake(8, 0, 1),
        switch(10, 0, 1, 2, Leaves::Asleep(READ)),
        switch(30, 0, 2, 1, Leaves::Asleep(READ)),
        switch(35, 0, 1, 2, Leaves::Asleep(READ)),
    ];
    // The first switch says that it has run since the trace began; the wakeup came before that is known.
    let (_, rows) = report(&events, TraceRange::default());
    let first = rows.iter().find(|row| &*row.name == "task-1").unwrap();
    assert_eq!(
        first.unknown_wakeups, 1,
        "no event distinguishes such a wakeup from one of a thread not seen before"
    );
    let events = [switch(1, 0, 0, 1, Leaves::Ready)].into_iter().chain(events);
    let (_, rows) = report(&events.collect::<Vec<_>>(), TraceRange::default());
    let first = rows.iter().find(|row| &*row.name == "task-1").unwrap();
    assert_eq!(
        (first.unknown_wakeups, first.totals.ready_woken_ns, first.blocked.total_ns()),
        (0, 20_000, 1_000 + BEGAN_NS - BEGAN_NS)
    );
}

#[test]
fn a_hole_is_unknown_and_no_neighbours() {
    let events = [
        switch(0, 0, 0, 1, Leaves::Ready),
        // Task 1 left unseen, task 2 came unseen.
        switch(100, 0, 2, 0, Leaves::Asleep(READ)),
        switch(150, 0, 0, 1, Leaves::Ready),
    ];
    let (report, rows) = report(&events, TraceRange::default());
    let totals = report.totals();
    assert_eq!((totals.ledger.unknown_ns, totals.ledger.holes), (100_000, 1));
    assert_eq!(totals.ledger.capacity_ns(), totals.length_ns);
    let of = |name: &str| rows.iter().find(|row| &*row.name == name).unwrap();
    assert_eq!((of("task-1").totals.run_ns, of("task-1").totals.unknown_ns), (1_000, 150_000));
    assert_eq!((of("task-2").totals.run_ns, of("task-2").totals.unknown_ns), (0, 100_000));
}

#[test]
fn a_cpu_that_a_thread_left_unseen_does_not_go_on_with_it() {
    let events = [
        switch(0, 0, 0, 1, Leaves::Ready),
        switch(0, 1, 0, 2, Leaves::Ready),
        // Task 1 comes to the other CPU; nothing says when it left its own, which has no further event.
        switch(100, 1, 2, 1, Leaves::Ready),
        switch(130, 1, 1, 0, Leaves::Asleep(READ)),
    ];
    let (report, rows) = report(&events, TraceRange::default());
    let ledger = report.totals().ledger;
    assert_eq!((ledger.run_ns, ledger.unknown_ns), (130_000, 131_000));
    assert_eq!(rows.iter().map(|row| row.totals.run_ns).sum::<u64>(), ledger.run_ns);
}

#[test]
fn what_a_cpu_has_reported_of_a_slice_stays_run_time_of_its_thread() {
    let moves = SchedEventKind::Migrate { task: TraceTask(3), to_cpu: 1 };
    let events = [
        switch(0, 0, 0, 1, Leaves::Ready),
        switch(0, 1, 0, 2, Leaves::Ready),
        wake(10, 0, 3),
        // Task 3 waited behind task 1, whose slice so far is reported here.
        SchedEvent { at_ns: BEGAN_NS + 50_000, cpu: 0, kind: moves },
        switch(100, 1, 2, 1, Leaves::Ready),
        switch(130, 1, 1, 0, Leaves::Asleep(READ)),
    ];
    let (report, rows) = report(&events, TraceRange::default());
    let ledger = report.totals().ledger;
    assert_eq!((ledger.run_ns, ledger.unknown_ns), (180_000, 81_000));
    assert_eq!(rows.iter().map(|row| row.totals.run_ns).sum::<u64>(), ledger.run_ns);
}

#[test]
fn what_was_lost_is_unknown_from_the_first_lost_event_to_the_last() {
    let lost = SchedEventKind::Lost { count: 9, until_ns: BEGAN_NS + 200_000 };
    let events = [
        switch(0, 1, 0, 4, Leaves::Ready),
        switch(10, 0, 0, 1, Leaves::Ready),
        SchedEvent { at_ns: BEGAN_NS + 50_000, cpu: 0, kind: lost },
        // While events of CPU 0 are missing, who sleeps may be there.
        switch(100, 1, 4, 0, Leaves::Asleep(READ)),
        switch(300, 0, 2, 0, Leaves::Asleep(READ)),
        wake(310, 0, 1),
        switch(320, 0, 0, 1, Leaves::Ready),
    ];
    let (report, rows) = report(&events, TraceRange::default());
    let ledger = report.totals().ledger;
    assert_eq!((ledger.unknown_ns, ledger.lost, ledger.holes), (150_000, 9, 0));
    let of = |name: &str| rows.iter().find(|row| &*row.name == name).unwrap();
    assert_eq!((of("task-1").totals.run_ns, of("task-1").totals.unknown_ns), (40_000 + 1_000, 260_000));
    assert_eq!(
        of("task-2").totals.run_ns,
        100_000,
        "after the last lost event nothing happened until it left"
    );
    assert_eq!((of("task-4").totals.run_ns, of("task-4").blocked.total_ns()), (100_000, 0));
    assert_eq!(header().began.mono_ns, BEGAN_NS);
    assert_eq!(identity(1, "x").task, TraceTask(1));
}

/// A thread cannot run on two CPUs: the time was the CPU's and not the thread's.
#[test]
fn what_a_thread_did_elsewhere_is_no_run_time_of_the_cpu_that_it_is_found_on() {
    let lost = SchedEventKind::Lost { count: 9, until_ns: BEGAN_NS + 60_000 };
    let to_lossy = [
        switch(0, 0, 0, 2, Leaves::Ready),
        switch(0, 1, 0, 1, Leaves::Ready),
        SchedEvent { at_ns: BEGAN_NS + 50_000, cpu: 0, kind: lost },
        // It left the one CPU when the other one had lost its last event.
        switch(100, 1, 1, 0, Leaves::Ready),
        switch(150, 0, 1, 0, Leaves::Asleep(READ)),
    ];
    let to_silent = [
        switch(0, 1, 0, 1, Leaves::Ready),
        switch(100, 1, 1, 0, Leaves::Ready),
        // The first event of this CPU: a hidden thread left it for this one.
        switch(150, 0, 1, 0, Leaves::Asleep(READ)),
    ];
    for (events, run_ns, unknown_ns) in [(&to_lossy[..], 200_000, 50_000), (&to_silent[..], 150_000, 100_000)]
    {
        let (report, rows) = report(events, TraceRange::default());
        let ledger = report.totals().ledger;
        assert_eq!(rows.iter().map(|row| row.totals.run_ns).sum::<u64>(), ledger.run_ns);
        assert_eq!((ledger.run_ns, ledger.unknown_ns), (run_ns, unknown_ns));
    }
}

/// Each loss once touched every thread: a file with many of both took minutes.
#[test]
fn a_loss_costs_no_more_than_the_threads_that_moved_since_the_one_before() {
    const THREADS: u32 = 20_000;
    let mut tracker = Tracker::new(BEGAN_NS, Sums::default());
    for number in 1..=THREADS {
        tracker.event(&wake(u64::from(number), 0, number));
    }
    let mut at_us = u64::from(THREADS);
    for number in 1..=THREADS {
        at_us += 10;
        let lost = SchedEventKind::Lost { count: 1, until_ns: BEGAN_NS + at_us * 1_000 + 500 };
        tracker.event(&SchedEvent { at_ns: BEGAN_NS + at_us * 1_000, cpu: 0, kind: lost });
        tracker.event(&wake(at_us + 1, 0, number));
    }
    let sums = tracker.finish(BEGAN_NS + (at_us + 2) * 1_000);
    assert!(sums.spans < 10 * THREADS as usize, "{} spans", sums.spans);
    // Each was ready to the first loss, then from its second wakeup to the next loss.
    let ready = |number| sums.known[&(TraceTask(number), "ready")];
    let to_first = |number: u32| u64::from(THREADS + 10 - number) * 1_000;
    assert_eq!(ready(7), to_first(7) + 9_000);
    assert_eq!(ready(THREADS), to_first(THREADS) + 1_000);
}
