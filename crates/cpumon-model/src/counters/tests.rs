use proptest::prelude::*;

use super::*;

const FUTEX: WaitReason = WaitReason::syscall(202);

#[test]
fn sums_take_the_longer_of_the_longest_delays() {
    let mut sum = SchedDelta { longest_delay_ns: 5, wakeups: 1, blocked_ns: 3, ..SchedDelta::default() };
    sum.waits.add(FUTEX, 3);
    let mut more = SchedDelta { longest_delay_ns: 4, wakeups: 2, blocked_ns: 9, ..SchedDelta::default() };
    more.waits.add(FUTEX, 1);
    more.waits.add(WaitReason::DISK, 8);
    sum += &more;
    assert_eq!((sum.longest_delay_ns, sum.wakeups, sum.blocked_ns), (5, 3, 12));
    assert_eq!((sum.waits.of(FUTEX), sum.waits.longest()), (4, Some((WaitReason::DISK, 8))));
}

#[test]
fn an_open_wait_goes_on_and_a_ready_thread_does_not_wait() {
    let mut sleeping = SchedTimes { open_wait: FUTEX, blocked_ns: 10, ..SchedTimes::default() };
    sleeping.waits.add(FUTEX, 10);
    let before = sleeping;
    sleeping.go_on_waiting(7);
    assert_eq!((sleeping.blocked_ns, sleeping.waits.of(FUTEX)), (17, 17));
    let (delta, fell) = sleeping.since(&before);
    assert_eq!((delta.blocked_ns, delta.waits.of(FUTEX), fell), (7, 7, false));
    let mut ready = SchedTimes::default();
    ready.go_on_waiting(7);
    assert_eq!(ready, SchedTimes::default());
    let mut unwatched = SchedTimes::unwatched();
    unwatched.go_on_waiting(7);
    assert_eq!((unwatched, unwatched.is_watched()), (SchedTimes::unwatched(), false));
}

#[test]
fn a_wait_that_turned_out_shorter_is_no_counter_reset() {
    let before = SchedTimes { blocked_ns: 10, wakeups: 2, ..SchedTimes::default() };
    let (delta, fell) = SchedTimes { blocked_ns: 9, wakeups: 2, ..SchedTimes::default() }.since(&before);
    assert_eq!((delta.blocked_ns, fell), (0, false));
    let (_, fell) = SchedTimes { blocked_ns: 20, wakeups: 1, ..SchedTimes::default() }.since(&before);
    assert!(fell);
}

#[test]
fn what_finds_no_slot_goes_to_other() {
    let mut waits: Waits = (1..=6).map(|n| (WaitReason::syscall(n), u64::from(n) * 10)).collect();
    assert_eq!(waits.longest(), Some((WaitReason::syscall(6), 60)));
    waits.add(WaitReason::DISK, 35);
    // 10 and 20 are the smallest.
    let kept: Waits = [(3, 30), (4, 40), (5, 50), (6, 60)]
        .map(|(n, ns)| (WaitReason::syscall(n), ns))
        .into_iter()
        .collect();
    assert_eq!(waits, kept.iter().chain([(WaitReason::DISK, 35), (WaitReason::OTHER, 30)]).collect());
    waits.add(WaitReason::NONE, 1);
    assert_eq!(waits.of(WaitReason::OTHER), 31);
    assert_eq!(waits.of(WaitReason::NONE), 0);
}

#[test]
fn a_reason_that_fell_counts_nothing() {
    let before: Waits = [(WaitReason::DISK, 10), (WaitReason::syscall(0), 50)].into_iter().collect();
    let after: Waits = [(WaitReason::syscall(0), 49), (WaitReason::syscall(1), 5), (WaitReason::DISK, 11)]
        .into_iter()
        .collect();
    assert_eq!(
        after.since(&before),
        [(WaitReason::syscall(1), 5), (WaitReason::DISK, 1)].into_iter().collect()
    );
    assert!(before.since(&before).is_empty());
}

#[test]
fn time_is_taken_off_a_reason() {
    let mut waits: Waits = [(WaitReason::DISK, 10), (WaitReason::OTHER, 50)].into_iter().collect();
    waits.take(WaitReason::OTHER, 20);
    waits.take(WaitReason::NONE, 20);
    assert_eq!((waits.of(WaitReason::OTHER), waits.total_ns()), (30, 40));
    waits.take(WaitReason::OTHER, 31);
    assert_eq!(waits, [(WaitReason::DISK, 10)].into_iter().collect());
}

#[test]
fn too_much_is_taken_off_the_longest() {
    let mut waits: Waits = [(WaitReason::DISK, 10), (WaitReason::OTHER, 50)].into_iter().collect();
    waits.keep_within(60);
    assert_eq!(waits.total_ns(), 60);
    waits.keep_within(30);
    assert_eq!((waits.of(WaitReason::DISK), waits.of(WaitReason::OTHER)), (10, 20));
    waits.keep_within(4);
    assert_eq!(waits, [(WaitReason::DISK, 4)].into_iter().collect());
    waits.keep_within(0);
    assert!(waits.is_empty());
}

proptest! {
    /// Whatever is added in whatever order, no time is lost and no reason has two slots.
    #[test]
    fn sums_are_exact(added in prop::collection::vec((0_u16..12, 0_u64..1000), 0..40)) {
        let waits: Waits = added.iter().map(|(code, ns)| (WaitReason(*code), *ns)).collect();
        prop_assert_eq!(waits.total_ns(), added.iter().map(|(_, ns)| ns).sum::<u64>());
        let mut reasons: Vec<_> = waits.iter().map(|(reason, _)| reason).collect();
        reasons.sort_unstable();
        prop_assert!(reasons.is_sorted_by(|a, b| a < b));
        prop_assert!(waits.iter().all(|(_, ns)| ns > 0));
    }
}
