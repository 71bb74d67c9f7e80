//! Sequences of events as bytes, and their sums.

use cpumon_model::{CpuSample, CpuTimes, Fields, Flags, Interval, Life, Probes, Snapshot, WaitReason};
use cpumon_sched::Accounts;
use proptest::prelude::*;

use self::machine::{ALL, LOST, MS, Machine, READY, TERMINATED, USER_REQUEST, WAITING, provider, times};
use super::SessionCounts;
use super::lives::CpuBases;

mod machine;

#[test]
fn run_ready_and_blocked_time_are_exact_and_each_adds_up_to_the_interval() {
    let mut machine = Machine::new(1, ALL);
    let first = machine.pass(1_100);
    // 10 waits for a user's request, is woken, and waits for the CPU behind 11, which is then pushed off by it.
    machine.switch(1_200, 0, (0, 10), (READY, 0));
    machine.switch(1_300, 0, (10, 11), (WAITING, USER_REQUEST));
    machine.ready(1_350, 0, 10);
    machine.switch(1_400, 0, (11, 10), (READY, 32));
    machine.switch(1_450, 0, (10, 11), (WAITING, 0));
    machine.switch(1_500, 0, (11, 0), (WAITING, USER_REQUEST));
    let second = machine.pass(1_600);
    let interval = Interval::between(&first, &second);
    assert_eq!(times(&interval, 10), (150, 50, 300, (2, 0)));
    assert_eq!(times(&interval, 11), (150, 50, 300, (1, 1)));
    assert_eq!(times(&interval, 12), (0, 0, 500, (0, 0)), "no event named it, so it waits as the list says");
    let row = |tid| interval.threads.iter().find(|row| row.key.tid == tid).unwrap();
    let waits = row(10).sched.waits;
    let of = |number| waits.of(WaitReason::windows(number)) / MS;
    assert_eq!((of(USER_REQUEST), of(0), of(15)), (50, 150, 100), "UserRequest, Executive, and as listed");
    assert_eq!(row(10).sched.open_wait.name(), "Executive");
    assert_eq!((row(12).sched.open_wait.name(), row(10).sched.wakeups), ("WrQueue".into(), 1));
    let ledger = interval.ledger;
    assert_eq!((ledger.threads_ns, ledger.idle_ns, ledger.exited_ns), (300 * 1_000_000, 200 * 1_000_000, 0));
    assert_eq!(interval.cpus[0].sched.switches, 5);
    assert!(interval.fields.contains(Fields::SCHED | Fields::WAITS | Fields::IRQ | Fields::EXITS));
    assert_eq!(machine.session.counts(), SessionCounts::default());
}

#[test]
fn time_added_to_a_mode_near_its_bound_stays_within_it() {
    let (mut accounts, mut bases) = (Accounts::default(), CpuBases::default());
    let times = CpuTimes { idle_ns: CpuTimes::MAX_NS - 5, irq_ns: 7, ..CpuTimes::default() };
    for idle_ns in [0, 400] {
        accounts.cpu(0).times.idle_ns = idle_ns;
        let mut cpus = [CpuSample { times, ..CpuSample::default() }];
        bases.fill(&accounts, true, &mut cpus);
        let expected = CpuTimes::MAX_NS - if idle_ns == 0 { 5 } else { 0 };
        assert_eq!((cpus[0].times.idle_ns, cpus[0].times.irq_ns), (expected, 7));
    }
}

#[test]
fn interrupts_are_taken_out_of_the_thread_they_interrupted_and_of_one_another() {
    let mut machine = Machine::new(1, ALL);
    machine.switch(1_010, 0, (0, 10), (READY, 0));
    let first = machine.pass(1_100);
    // A service routine of 10 ms inside a procedure call of 40 ms; both end before they are reported, the inner one first.
    machine.interrupt((1_220, 1_230), 0, 67);
    machine.interrupt((1_210, 1_250), 0, 68);
    // A timer's, at idle.
    machine.switch(1_300, 0, (10, 0), (WAITING, USER_REQUEST));
    machine.interrupt((1_400, 1_405), 0, 69);
    let second = machine.pass(1_500);
    let interval = Interval::between(&first, &second);
    assert_eq!(times(&interval, 10).0, 160, "200 ms less 40");
    let cpu = &interval.cpus[0];
    assert_eq!((cpu.times.irq_ns / MS, cpu.times.softirq_ns / MS, cpu.times.idle_ns / MS), (10, 35, 195));
    let line = &interval.irqs[0];
    assert_eq!((line.irq, &*line.name, line.time_ns / MS, line.count), (0x91, "vector 0x91", 10, 1));
    assert_eq!(interval.ledger.threads_ns + interval.ledger.idle_ns, 355 * 1_000_000);
    // Without their events, the ticks' interrupt time is shown out of the run time.
    assert!(!second.irq_in_run_time);
    let mut without = Machine::new(1, Probes::SCHED);
    assert!(without.pass(1_100).irq_in_run_time);
}

#[test]
fn a_switch_that_is_missing_is_unknown_time_and_of_no_thread() {
    let mut machine = Machine::new(1, ALL);
    machine.switch(1_050, 0, (0, 10), (READY, 0));
    let first = machine.pass(1_100);
    // 10 left unseen.
    machine.switch(1_300, 0, (11, 0), (WAITING, USER_REQUEST));
    let second = machine.pass(1_400);
    let interval = Interval::between(&first, &second);
    assert_eq!((times(&interval, 10).0, times(&interval, 11).0), (0, 0));
    let cpu = &interval.cpus[0];
    assert_eq!((cpu.sched.unknown_ns / MS, cpu.times.idle_ns / MS), (200, 100));
    assert_eq!(second.health.sched_missed_switches, 1);
    // Its state is known from then on.
    machine.switch(1_450, 0, (0, 10), (READY, 0));
    machine.switch(1_500, 0, (10, 0), (WAITING, USER_REQUEST));
    let third = machine.pass(1_500);
    assert_eq!(times(&Interval::between(&second, &third), 10).0, 50);
}

#[test]
fn lost_events_are_counted_and_what_was_going_on_is_unknown_until_the_next_one() {
    let mut machine = Machine::new(2, ALL);
    machine.switch(1_050, 0, (0, 10), (READY, 0));
    let first = machine.pass(1_100);
    machine.event((1_200, 0), LOST, 32, &[]);
    machine.switch(1_300, 0, (11, 10), (READY, 0));
    machine.switch(1_350, 0, (10, 0), (WAITING, USER_REQUEST));
    let second = machine.pass(1_400);
    let interval = Interval::between(&first, &second);
    let unknown = interval.cpus.iter().map(|cpu| cpu.sched.unknown_ns / MS);
    assert_eq!(unknown.collect::<Vec<_>>(), [100, 300], "no event of the other CPU came since");
    assert_eq!((times(&interval, 11).0, times(&interval, 10).0), (100, 50));
    assert_eq!((second.health.ring_drops, machine.session.counts().lost), (1, 1));
    // The system's own count of buffers that it dropped.
    machine.session.set_lost(7);
    machine.session.set_lost(7);
    assert_eq!(machine.pass(1_500).health.ring_drops, 8);
}

#[test]
fn what_begins_and_ends_between_two_passes_has_a_name_and_a_row() {
    let mut machine = Machine::new(1, ALL);
    let first = machine.pass(1_100);
    machine.process(1_200, 1, 60, "brief.exe");
    machine.thread(1_200, 1, 60, 61);
    machine.ready(1_205, 0, 61);
    machine.switch(1_210, 0, (0, 61), (READY, 0));
    machine.thread(1_295, 2, 60, 61);
    machine.process(1_296, 2, 60, "brief.exe");
    machine.switch(1_300, 0, (61, 0), (TERMINATED, 0));
    let second = machine.pass(1_400);
    let interval = Interval::between(&first, &second);
    assert_eq!(times(&interval, 61), (90, 5, 5, (1, 0)));
    let row = interval.processes.iter().find(|row| row.key.pid == 60).unwrap();
    assert_eq!((&*row.info.name, &*row.info.comm, row.parent_pid), ("brief.exe", "brief", 8));
    assert_eq!((row.life, row.delta.run_ns), (Life::BornEnded, 90 * 1_000_000));
    assert_eq!((interval.ledger.exited_ns, second.exited_total.run_ns), (90 * 1_000_000, 90 * MS));
    assert!(machine.pass(1_500).exits.is_empty());
    assert_eq!(machine.session.lives.processes.len(), 2, "it is forgotten");
}

#[test]
fn a_thread_that_ends_after_the_instant_lives_in_this_snapshot_and_ends_in_the_next() {
    let mut machine = Machine::new(1, ALL);
    machine.switch(1_050, 0, (0, 21), (READY, 0));
    let first = machine.pass(1_100);
    machine.process(1_401, 2, 20, "listed.exe");
    machine.switch(1_402, 0, (21, 0), (TERMINATED, 0));
    // The list is read later: neither thread nor process is in it.
    machine.listed.pop();
    let second = machine.pass(1_400);
    let interval = Interval::between(&first, &second);
    assert_eq!((times(&interval, 21).0, second.exits.len()), (300, 0));
    assert!(interval.processes.iter().any(|row| row.key.pid == 20 && row.life == Life::Alive));
    let third = machine.pass(1_500);
    let interval = Interval::between(&second, &third);
    assert_eq!(times(&interval, 21).0, 2);
    let row = interval.threads.iter().find(|row| row.key.tid == 21).unwrap();
    assert_eq!((row.life, row.flags, &*row.comm.to_str_lossy()), (Life::Ended, Flags::empty(), "listed"));
    let of = interval.processes.iter().find(|row| row.key.pid == 20).unwrap();
    assert_eq!((of.life, &*of.info.name), (Life::Ended, "listed.exe"));
}

#[test]
fn a_thread_that_begins_after_the_instant_is_in_the_next_snapshot_from_its_start() {
    let mut machine = Machine::new(1, ALL);
    let first = machine.pass(1_100);
    machine.thread(1_405, 1, 8, 30);
    machine.switch(1_410, 0, (0, 30), (READY, 0));
    machine.listed[0].1.push((30, 51_405));
    let second = machine.pass(1_400);
    assert!(second.threads.iter().all(|thread| thread.key.tid != 30));
    let third = machine.pass(1_500);
    let interval = Interval::between(&second, &third);
    assert_eq!(times(&interval, 30).0, 90, "no more than its events say, whatever the ticks are");
    let row = interval.threads.iter().find(|row| row.key.tid == 30).unwrap();
    assert_eq!((row.life, row.flags, row.process.pid), (Life::Born, Flags::empty(), 8));
    drop(first);
}

#[test]
fn an_id_that_is_used_again_is_another_thread() {
    let mut machine = Machine::new(1, ALL);
    machine.switch(1_050, 0, (0, 12), (READY, 0));
    let first = machine.pass(1_100);
    machine.thread(1_140, 2, 8, 12);
    machine.switch(1_150, 0, (12, 0), (TERMINATED, 0));
    machine.thread(1_200, 1, 20, 12);
    machine.switch(1_210, 0, (0, 12), (READY, 0));
    machine.switch(1_230, 0, (12, 0), (WAITING, USER_REQUEST));
    machine.listed[0].1.pop();
    machine.listed[1].1.push((12, 51_200));
    let second = machine.pass(1_300);
    let interval = Interval::between(&first, &second);
    let rows: Vec<_> = interval.threads.iter().filter(|row| row.key.tid == 12).collect();
    let ran = rows.iter().map(|row| (row.process.pid, row.life, row.delta.run_ns / 1_000_000));
    assert_eq!(ran.collect::<Vec<_>>(), [(8, Life::Ended, 50), (20, Life::Born, 20)]);
    assert_eq!(machine.session.lives.threads.len(), 4, "the number of the first is the second's");
}

#[test]
fn a_thread_whose_end_was_lost_vanishes_after_some_passes() {
    let mut machine = Machine::new(1, ALL);
    machine.pass(1_100);
    machine.listed[0].1.pop();
    let missing = [1_200, 1_300, 1_400].map(|ms| {
        let snapshot = machine.pass(ms);
        (snapshot.threads.iter().any(|thread| thread.key.tid == 12), snapshot.exits.len())
    });
    assert_eq!(missing, [(true, 0), (true, 0), (false, 1)]);
    assert_eq!(machine.pass(1_500).health.tasks_vanished, 1);
}

#[test]
fn events_that_come_out_of_order_are_put_into_it() {
    let mut machine = Machine::new(2, ALL);
    let first = machine.pass(1_100);
    machine.switch(1_300, 0, (10, 0), (WAITING, USER_REQUEST));
    machine.switch(1_400, 1, (10, 0), (WAITING, USER_REQUEST));
    machine.switch(1_350, 1, (0, 10), (READY, 0));
    machine.switch(1_200, 0, (0, 10), (READY, 0));
    let second = machine.pass(1_500);
    assert_eq!(times(&Interval::between(&first, &second), 10).0, 150);
    assert_eq!((second.health.sched_missed_switches, second.health.ring_drops), (0, 0));
    // After its turn, it is counted.
    machine.switch(1_450, 1, (0, 11), (READY, 0));
    assert_eq!(machine.pass(1_600).health.ring_drops, 1);
}

#[test]
fn memory_is_bounded_and_a_steady_state_allocates_nothing() {
    let mut machine = Machine::new(2, ALL);
    let mut into = Snapshot::default();
    let mut steady = |machine: &mut Machine, from: u64| {
        for step in 0..20 {
            let ms = from + step * 4;
            machine.switch(ms, 0, (0, 10), (READY, 0));
            machine.interrupt((ms, ms + 1), 0, 67);
            machine.interrupt((ms, ms + 1), 0, 68);
            machine.switch(ms + 1, 0, (10, 0), (WAITING, USER_REQUEST));
            machine.ready(ms + 2, 1, 10);
        }
        machine.pass_into(from + 99, &mut into);
    };
    (0..5).for_each(|pass| steady(&mut machine, 1_100 + pass * 100));
    let before = machine.allocated;
    (5..9).for_each(|pass| steady(&mut machine, 1_100 + pass * 100));
    assert_eq!((machine.allocated - before, before > 0), (0, true));
    // Ids without an end, each in a place of one that ended.
    for tid in 1_000..200_000_u32 {
        let ms = 3_000 + u64::from(tid);
        machine.thread(ms, 1, 8, tid);
        machine.switch(ms, 0, (0, tid), (READY, 0));
        machine.switch(ms, 0, (tid, 0), (TERMINATED, 0));
    }
    let snapshot = machine.pass(300_000);
    assert!(machine.session.lives.threads.len() < 10 && snapshot.exits.len() == 1 << 16);
    assert_eq!(snapshot.health.exits_lost, 199_000 - (1 << 16));
    // And threads that do not end.
    for tid in 300_000..400_000_u32 {
        machine.switch(301_000, 0, (0, tid), (READY, 0));
        machine.switch(301_000, 0, (tid, 0), (WAITING, 0));
    }
    machine.listed[0].1.push((500_000, 0));
    assert_eq!(machine.pass(302_000).health.sched_untracked, 1, "the listed one has no place");
    assert!(machine.session.lives.threads.len() < 10, "the others are in no list");
}

#[test]
fn what_comes_between_an_instant_and_its_lists_is_of_the_next_interval() {
    let mut machine = Machine::new(1, ALL);
    machine.switch(1_050, 0, (0, 10), (READY, 0));
    let [mut first, mut third, mut fifth] = [(); 3].map(|()| Snapshot::default());
    machine.pass_beside(1_100, &mut first, &mut |machine| {
        machine.switch(1_150, 0, (10, 0), (WAITING, USER_REQUEST));
    });
    let second = machine.pass(1_200);
    assert_eq!(times(&Interval::between(&first, &second), 10), (50, 0, 50, (1, 0)));
    assert_eq!(machine.session.counts(), SessionCounts::default());
    // A loss there changes only later snapshots.
    machine.pass_beside(1_300, &mut third, &mut |machine| {
        machine.event((1_310, 0), LOST, 32, &[]);
        machine.switch(1_320, 0, (0, 10), (READY, 0));
    });
    assert_eq!(times(&Interval::between(&second, &third), 10), (0, 0, 100, (0, 0)));
    let fourth = machine.pass(1_400);
    let interval = Interval::between(&third, &fourth);
    assert_eq!((times(&interval, 10).0, times(&interval, 10).2), (80, 0), "unknown until it comes");
    assert_eq!(machine.session.counts().lost, 1);
    // A thread without a CPU is lost.
    machine.pass_beside(1_500, &mut fifth, &mut |machine| {
        (0..70_000).for_each(|_| machine.ready(1_510, 0, 12));
    });
    assert_eq!(machine.session.counts().lost, 1 + 70_000 - (1 << 16));
    machine.switch(1_550, 0, (10, 0), (WAITING, USER_REQUEST));
    let sixth = machine.pass(1_600);
    assert_eq!(times(&Interval::between(&fifth, &sixth), 10).0, 50);
}

#[test]
fn damaged_payloads_are_counted_and_change_nothing() {
    let mut machine = Machine::new(1, ALL);
    machine.event((1_050, 0), provider([0xd1, 0xa8]), 36, &[0; 7]);
    machine.event((1_050, 0), provider([0xd1, 0xa8]), 37, &[0; 7]);
    machine.event((1_050, 0), provider([0xff, 0xa8]), 36, &[0; 24]);
    let snapshot = machine.pass(1_100);
    assert_eq!(snapshot.health.malformed, 2);
    let expected = SessionCounts { malformed: 1, packed: 1, ..SessionCounts::default() };
    assert_eq!(machine.session.counts(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// For any events in any order, the modes of a CPU and the unknown time add up to the interval, no counter falls, and
    /// no thread has more time than the CPUs.
    #[test]
    fn any_events_add_up(steps in prop::collection::vec((0_u8..12, 0_u64..9, 0_u16..2, any::<[u8; 4]>()), 1..300)) {
        let mut machine = Machine::new(2, ALL);
        let (mut ms, mut before) = (1_100, machine.pass(1_100));
        for (what, later, cpu, [a, b, c, d]) in steps {
            ms += later;
            let (tid, other) = (u32::from(a % 6) * 7 + 10, u32::from(b % 6) * 7 + 10);
            let tids = (if a > 200 { 0 } else { tid }, if b > 200 { 0 } else { other });
            let at = ms.saturating_sub(if d > 240 { 30 } else { 0 });
            match what {
                // The list has 10 all the time, so it does not end.
                0..5 if tids.0 == 10 => machine.switch(at, cpu, tids, (c % 4, d % 43)),
                0..5 => machine.switch(at, cpu, tids, (c % 8, d % 43)),
                5 => machine.ready(at, cpu, tid),
                6 => machine.interrupt((at.saturating_sub(u64::from(c % 20)), at), cpu, 66 + d % 4),
                7 if tid == 10 => machine.thread(at, 2 + c % 3, 8, tid),
                // A begin is never late: two lives of one id do not begin at once.
                7 => machine.thread(if c % 4 == 0 { ms } else { at }, 1 + c % 4, u32::from(d % 3) * 4, tid),
                8 => machine.process(at, 1 + c % 4, u32::from(d % 3) * 4, "any.exe"),
                9 if c < 40 => machine.event((at, cpu), LOST, 32, &[]),
                9 => machine.session.set_lost(u64::from(c)),
                10 => machine.event((at, cpu), provider([0xd1, 0xa8]), c.max(5), &[a, b, c, d]),
                _ => {
                    ms += 1;
                    let after = machine.pass(ms);
                    let interval = Interval::between(&before, &after);
                    let length_ns = interval.duration_ns();
                    for row in &interval.cpus {
                        prop_assert!(!row.went_back, "{:?}", row);
                        let times = &row.times;
                        let known = times.total_ns() + row.sched.unknown_ns;
                        prop_assert!(known.abs_diff(length_ns) <= 2, "{known} of {length_ns}: {row:?}");
                    }
                    // Without a begin, a thread whose id is used again cannot be known as another.
                    for row in interval.threads.iter().filter(|row| row.key.start_ns > 0) {
                        prop_assert!(!row.flags.contains(Flags::COUNTER_RESET), "{row:?}");
                        prop_assert!(row.delta.run_ns <= length_ns.cast_signed(), "{length_ns} {row:?}");
                    }
                    before = after;
                }
            }
        }
    }
}
