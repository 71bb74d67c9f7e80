//! Threads that no event reports: the receiver marks them as the device does, and comes to the same ledger.

use cpumon_model::{Fields, Flags, Interval, ProcessKey, SchedTimes, Snapshot};

use crate::summed::Link;

/// Hides this process: its threads have no times, and what they run no event reports.
fn hide(snapshot: &mut Snapshot, whose: ProcessKey) {
    snapshot.fields |= Fields::SCHED | Fields::WAITS;
    for thread in snapshot.threads.iter_mut().filter(|thread| thread.process == whose) {
        thread.sched = SchedTimes::unwatched();
    }
    let ran = snapshot.threads.iter().filter(|thread| thread.process == whose);
    snapshot.cpus[0].sched.unknown_ns = ran.map(|thread| thread.counters.run_ns / 1_000 * 2_000).sum();
}

fn marked(interval: &Interval) -> Vec<(u32, Flags, u64)> {
    let rows = interval.threads.iter().filter(|row| row.flags.contains(Flags::UNWATCHED));
    rows.filter(|row| !row.delta.is_zero())
        .map(|row| (row.key.tid, row.flags, row.sched.blocked_ns.unsigned_abs()))
        .collect()
}

#[test]
fn the_receiver_marks_them_and_has_the_same_unknown_time() {
    let mut link = Link::new(3);
    let busiest = |snapshot: &Snapshot| {
        let thread = snapshot.threads.iter().max_by_key(|thread| thread.counters.run_ns);
        thread.map(|thread| thread.process).unwrap()
    };
    let whose = busiest(&link.machine.snapshot);
    let mut seen = 0;
    for second in 0..20 {
        let there = link.step_with(|snapshot| hide(snapshot, whose), || false);
        if second < 3 {
            continue;
        }
        let here = link.intervals.last().unwrap();
        assert_eq!(marked(here), marked(&there));
        assert!(marked(here).iter().all(|row| row.2 == 0), "{:?}", marked(here));
        assert!((here.ledger.unknown_ns - there.ledger.unknown_ns).abs() < 2_000, "whole us on the way");
        seen += marked(here).len();
    }
    assert!(seen > 10, "{seen}");
}
