//! A thread is ready and blocked for no longer than the interval, whatever is booked in it.

use cpumon_model::{
    Counters, Fields, Interval, Moment, ProcessKey, SchedTimes, Snapshot, ThreadInterval, ThreadKey,
    ThreadSample, WaitReason, Waits,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn at(second: u64, [run_ms, delay_ms]: [u64; 2], sched: SchedTimes) -> Snapshot {
    let ns = second * 1_000 * MS;
    let moment = Moment { mono_ns: ns, boot_ns: ns, wall_ns: 0 };
    let counters = Counters { run_ns: run_ms * MS, run_delay_ns: delay_ms * MS, ..Counters::default() };
    let key = ThreadKey { tid: 7, start_ns: 100 * MS };
    let process = ProcessKey { pid: 7, start_ns: 100 * MS };
    Snapshot {
        sequence: second,
        fields: Fields::all(),
        is_complete: true,
        begin: moment,
        end: moment,
        threads: vec![ThreadSample { key, process, counters, sched, ..ThreadSample::default() }],
        ..Snapshot::default()
    }
}

fn row(before: &Snapshot, after: &Snapshot) -> ThreadInterval {
    Interval::between(before, after).threads.remove(0)
}

#[test]
fn a_delay_that_the_kernel_counts_when_it_ends_is_no_longer_than_the_interval() {
    let unwatched = SchedTimes::unwatched();
    let (before, after) = (at(10, [0, 0], unwatched), at(11, [7, 6_071], unwatched));
    let shown = row(&before, &after).delta;
    assert_eq!((shown.run_ns, shown.run_delay_ns), (7_000_000, 993_000_000));
}

#[test]
fn a_row_that_spans_lost_snapshots_has_all_of_it() {
    let (before, mut after) =
        (at(10, [0, 0], SchedTimes::default()), at(11, [7, 6_071], SchedTimes::default()));
    after.sequence = 17;
    assert_eq!(row(&before, &after).delta.run_delay_ns, 6_071_000_000);
}

#[test]
fn blocked_time_too_long_is_taken_from_the_longest_wait() {
    let [futex, poll] = [WaitReason::from_code(203), WaitReason::from_code(8)];
    let mut waits = Waits::default();
    waits.add(futex, 900 * MS);
    waits.add(poll, 200 * MS);
    let sched = SchedTimes { blocked_ns: 1_100 * MS, waits, ..SchedTimes::default() };
    let shown = row(&at(10, [0, 0], SchedTimes::default()), &at(11, [100, 100], sched)).sched;
    assert_eq!(shown.blocked_ns, 800_000_000);
    let mut expected = vec![(futex, 600 * MS), (poll, 200 * MS)];
    let mut known: Vec<_> = shown.waits.iter().collect();
    expected.sort_unstable_by_key(|wait| wait.1);
    known.sort_unstable_by_key(|wait| wait.1);
    assert_eq!(known, expected);
}

proptest! {
    #[test]
    fn run_ready_and_blocked_fit_into_the_interval(
        run_ms in 0_u64..1_000, delay_ms in 0_u64..3_000, blocked in prop::collection::vec(0_u64..1_500, 0..4),
    ) {
        let mut waits = Waits::default();
        for (nth, ms) in blocked.iter().enumerate() {
            waits.add(WaitReason::from_code(200 + nth as u64), ms * MS);
        }
        let sched = SchedTimes { blocked_ns: waits.total_ns(), waits, ..SchedTimes::default() };
        let shown = row(&at(10, [0, 0], SchedTimes::default()), &at(11, [run_ms, delay_ms], sched));
        let sum = shown.delta.run_ns + shown.delta.run_delay_ns + shown.sched.blocked_ns;
        prop_assert!(sum <= 1_000_100_000, "{sum}");
        prop_assert_eq!(shown.sched.blocked_ns.unsigned_abs(), shown.sched.waits.total_ns());
    }
}
