//! Modes of CPUs add up, and queues get their shares.

use proptest::prelude::*;

use super::*;

fn kept(first: &CpuAccount) -> CpuTotals {
    CpuTotals { first_cut_ns: 1_000, first: *first, last: *first, ..CpuTotals::default() }
}

fn account(run: u64, idle: u64, irq: u64) -> CpuAccount {
    CpuAccount { mode_ns: [run, idle, 0, irq, 0, 0, 0, 0], ..CpuAccount::default() }
}

#[test]
fn modes_add_up_to_the_time_between_cuts() {
    let mut kept = kept(&account(100, 50, 5));
    kept.last = account(700, 80, 15);
    let sampled = CpuTimes { user_ns: 30, system_ns: 10, ..CpuTimes::default() };
    kept.grow(1_700, &sampled, true);
    let times = kept.times();
    assert_eq!((times.user_ns, times.system_ns, times.idle_ns, times.irq_ns), (450, 150, 30, 10));
    assert_eq!(times.total_ns() + kept.modes[CpuMode::Unknown as usize], 700);
}

#[test]
fn run_time_is_split_as_it_is_now_not_as_it_was_since_boot() {
    let mut kept = kept(&account(0, 0, 0));
    // An hour of niced and system time before the first cut.
    kept.base = CpuTimes { nice_ns: 1_800, system_ns: 1_800, ..CpuTimes::default() };
    kept.last = account(100, 0, 0);
    kept.grow(
        1_100,
        &CpuTimes { user_ns: 75, nice_ns: 1_800, system_ns: 1_825, ..CpuTimes::default() },
        true,
    );
    let times = kept.times();
    assert_eq!((times.user_ns, times.nice_ns, times.system_ns), (75, 1_800, 1_825));
}

#[test]
fn a_span_that_turned_out_to_be_unknown_takes_nothing_back() {
    let mut kept = kept(&account(0, 0, 0));
    kept.last = account(600, 400, 0);
    kept.grow(2_000, &CpuTimes::default(), true);
    kept.last = account(100, 900, 0);
    kept.grow(3_000, &CpuTimes::default(), true);
    assert_eq!((kept.modes[0], kept.modes[1]), (600, 900));
    assert_eq!(kept.modes[CpuMode::Unknown as usize], 500);
}

#[test]
fn without_events_of_interrupts_their_sampled_time_is_shown_out_of_the_run_time() {
    let mut kept = kept(&account(0, 0, 0));
    kept.last = account(600, 400, 0);
    let sampled = CpuTimes { user_ns: 1, irq_ns: 10, softirq_ns: 90, ..CpuTimes::default() };
    kept.grow(2_000, &sampled, false);
    let times = kept.times();
    assert_eq!((times.user_ns, times.irq_ns, times.softirq_ns, times.total_ns()), (500, 10, 90, 1_000));
}

#[test]
fn time_added_to_a_mode_near_its_bound_stays_within_it() {
    let mut kept = kept(&account(0, 0, 0));
    kept.base = CpuTimes { idle_ns: CpuTimes::MAX_NS - 5, steal_ns: 7, ..CpuTimes::default() };
    kept.last = account(600, 400, 0);
    kept.grow(2_000, &CpuTimes::default(), true);
    let times = kept.times();
    assert_eq!((times.idle_ns, times.steal_ns), (CpuTimes::MAX_NS, 7));
}

fn shares(ready_ns: u64, weights: &[u64]) -> Vec<u64> {
    let mut shares = Shares::new(ready_ns, weights.iter().copied());
    weights.iter().map(|weight| shares.next(*weight)).collect()
}

#[test]
fn queues_get_the_time_that_threads_were_ready_by_what_waited_in_them() {
    assert_eq!(shares(100, &[30, 0, 10]), [75, 0, 25]);
    assert_eq!(shares(100, &[0, 0, 0]), [33, 33, 34]);
    assert_eq!(shares(7, &[]), [0; 0]);
}

#[test]
fn threads_that_are_moved_take_their_waits_along_and_every_queue_goes_on() {
    let (mut from, mut to) = (QueueTotals::default(), QueueTotals::default());
    from.open(50_000);
    from.close(1_000, 0);
    to.close(1_000, 0);
    // All tasks are in the other queue now.
    from.begin();
    from.close(2_000, 0);
    to.open(60_000);
    to.close(2_000, 0);
    assert_eq!((from.weight(), to.weight()), (0, 60_000));
    // Both ran, and that is in both queues, whatever was shown before.
    assert_eq!((from.add(0), to.add(10_000)), (2_000, 12_000));
}

proptest! {
    #[test]
    fn shares_add_up(ready_ns in any::<u64>(), weights in prop::collection::vec(any::<u64>(), 1..9)) {
        let sum: u128 = shares(ready_ns, &weights).into_iter().map(u128::from).sum();
        prop_assert_eq!(sum, u128::from(ready_ns));
    }
}
