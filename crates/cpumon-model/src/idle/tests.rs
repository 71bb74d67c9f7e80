use super::*;
use crate::{Delta, Life, Moment, ThreadInterval};

fn idle(pid: u32) -> IdleProcess {
    IdleProcess { key: ProcessKey { pid, start_ns: 1 }, thread_rows: 2, ..IdleProcess::default() }
}

#[test]
fn rows_of_zeros_are_added_where_there_is_none() {
    let worked = |pid| ProcessInterval { delta: Delta { run_ns: 7, ..Delta::default() }, ..idle(pid).row() };
    let mut interval = Interval { processes: vec![worked(3), worked(9)], ..Interval::default() };
    interval.add_idle(&[1, 3, 4, 9, 12].map(idle));
    let rows: Vec<_> = interval.processes.iter().map(|row| (row.key.pid, row.delta.run_ns)).collect();
    assert_eq!(rows, [(1, 0), (3, 7), (4, 0), (9, 7), (12, 0)]);
}

#[test]
fn what_ended_leaves_nothing_behind_and_sums_are_no_process() {
    let row = idle(5).row();
    let after = |row| {
        let interval = Interval { processes: vec![row], ..Interval::default() };
        interval.processes_after().next().unwrap()
    };
    assert_eq!(after(row.clone()), (row.key, Some(idle(5))));
    for life in [Life::Ended, Life::BornEnded] {
        assert_eq!(after(ProcessInterval { life, ..row.clone() }), (row.key, None));
    }
    assert_eq!(after(ProcessInterval { flags: Flags::SUMMED, ..row }).1, None);
}

#[test]
fn threads_that_ended_count_in_the_row_and_not_after_it() {
    let thread = |pid, life| ThreadInterval { process: idle(pid).key, life, ..ThreadInterval::default() };
    let interval = Interval {
        processes: [3, 5, 8, 9].map(|pid| ProcessInterval { thread_rows: 3, ..idle(pid).row() }).into(),
        // Of 6 there is no row.
        threads: vec![
            thread(8, Life::Ended),
            thread(5, Life::Alive),
            thread(6, Life::Ended),
            thread(3, Life::Ended),
            thread(8, Life::BornEnded),
        ],
        ..Interval::default()
    };
    let left = interval.processes_after().map(|(key, one)| (key.pid, one.unwrap().thread_rows));
    assert_eq!(left.collect::<Vec<_>>(), [(3, 2), (5, 3), (8, 1), (9, 3)]);
}

#[test]
fn a_list_with_a_process_too_many_is_not_exact() {
    let of = |process_count| Interval {
        process_count,
        processes: vec![idle(1).row(), ProcessInterval { life: Life::Ended, ..idle(2).row() }],
        idle_processes: Some([3, 4].map(idle).into()),
        ..Interval::default()
    };
    assert_eq!([2, 3, 4].map(|count| of(count).knows_processes_exactly()), [false, true, false]);
    assert_eq!([2, 3, 4].map(|count| of(count).knows_all_processes()), [true, true, false]);
}

#[test]
fn after_a_loss_a_missing_row_is_no_data() {
    let of = |flags, fields| Interval { fields, flags, ..Interval::default() }.is_idle_without_row();
    assert!(of(Flags::empty(), Fields::RUN));
    assert!(!of(Flags::PARTIAL, Fields::RUN) && !of(Flags::SPANS_LOSS, Fields::RUN));
    assert!(of(Flags::SPANS_LOSS, Fields::RUN | Fields::SCHED | Fields::WAITS));
}

const FUTEX: WaitReason = WaitReason::syscall(202);
const SECOND_NS: u64 = 1_000_000_000;

fn key(pid: u32) -> ProcessKey {
    ProcessKey { pid, start_ns: 7 }
}

/// Blocked time, futex time, disk time (all in s) and threads of each of these processes over a second.
fn second(waits: &mut OpenWaits, pids: &[u32]) -> Vec<(i64, u64, u64, u32)> {
    let mut interval = Interval { fields: Fields::SCHED | Fields::WAITS, ..Interval::default() };
    interval.end = Moment { mono_ns: SECOND_NS, ..Moment::default() };
    interval
        .processes
        .extend(pids.iter().map(|&pid| ProcessInterval { key: key(pid), ..ProcessInterval::default() }));
    waits.add_to(&mut interval, |row, threads| row.thread_rows += threads);
    let rows = interval.processes.iter();
    rows.map(|row| {
        let of = |reason| row.sched.waits.of(reason) / SECOND_NS;
        let blocked_s = row.sched.blocked_ns / SECOND_NS.cast_signed();
        (blocked_s, of(FUTEX), of(WaitReason::DISK), row.thread_rows)
    })
    .collect()
}

#[test]
fn threads_that_wait_count_until_they_leave() {
    let mut waits = OpenWaits::default();
    for (pid, reason) in [(9, FUTEX), (5, WaitReason::DISK), (9, FUTEX), (9, WaitReason::DISK)] {
        waits.join(key(pid), reason, &mut WaitPlace::default());
    }
    waits.join(key(6), WaitReason::NONE, &mut WaitPlace::default());
    assert_eq!(second(&mut waits, &[5, 6, 9]), [(1, 0, 1, 1), (0, 0, 0, 0), (3, 2, 1, 3)]);
    waits.leave(key(9), FUTEX, WaitPlace::default());
    waits.leave(key(5), WaitReason::DISK, WaitPlace::default());
    waits.exchange(&mut WaitBuffers::default());
    waits.join(key(6), FUTEX, &mut WaitPlace::default());
    assert_eq!(second(&mut waits, &[6, 9]), [(1, 1, 0, 1), (2, 1, 1, 2)]);
    assert_eq!(second(&mut waits, &[1, 9]), [(0, 0, 0, 0), (2, 1, 1, 2)], "6 has no row");
}

#[test]
fn a_row_of_its_own_takes_a_thread_out_of_one_interval() {
    let mut waits = OpenWaits::default();
    waits.join(key(3), FUTEX, &mut WaitPlace::default());
    waits.join(key(3), FUTEX, &mut WaitPlace::default());
    waits.has_row(key(3), FUTEX, &mut WaitPlace::default());
    waits.has_row(key(2), FUTEX, &mut WaitPlace::default());
    waits.has_row(key(3), WaitReason::DISK, &mut WaitPlace::default());
    assert_eq!(second(&mut waits, &[3]), [(1, 1, 0, 1)]);
    assert_eq!(second(&mut waits, &[3]), [(2, 2, 0, 2)]);
    // More rows than threads, which only a sender makes that lies.
    (0..9).for_each(|_| waits.has_row(key(3), FUTEX, &mut WaitPlace::default()));
    assert_eq!(second(&mut waits, &[3]), [(0, 0, 0, 0)]);
    (0..9).for_each(|_| waits.leave(key(3), FUTEX, WaitPlace::default()));
    assert_eq!(second(&mut waits, &[3]), [(0, 0, 0, 0)]);
    waits.join(key(3), FUTEX, &mut WaitPlace::default());
    assert_eq!(second(&mut waits, &[3]), [(1, 1, 0, 1)]);
}

#[test]
fn what_is_not_measured_is_not_added() {
    let mut waits = OpenWaits::default();
    waits.join(key(3), FUTEX, &mut WaitPlace::default());
    waits.join(key(4), WaitReason::UNWATCHED, &mut WaitPlace::default());
    let mut interval = Interval { fields: Fields::SCHED, ..Interval::default() };
    interval.end.mono_ns = SECOND_NS;
    interval.processes =
        [3, 4].map(|pid| ProcessInterval { key: key(pid), ..ProcessInterval::default() }).to_vec();
    let before = interval.clone();
    waits.add_to(&mut interval, |_, _| ());
    assert_eq!(interval, before, "without wait reasons nothing reports who sleeps");
    interval.fields |= Fields::WAITS;
    waits.add_to(&mut interval, |_, _| ());
    assert_eq!(interval.processes[0].sched.blocked_ns, 1_000_000_000);
    let unwatched = &interval.processes[1];
    assert_eq!((unwatched.sched, unwatched.flags), (before.processes[1].sched, Flags::UNWATCHED));
}

/// Places are hints: whatever they are, the numbers are those of a plain count.
#[test]
fn any_changes_give_the_numbers_of_a_plain_count() {
    struct Thread {
        process: ProcessKey,
        reason: WaitReason,
        place: WaitPlace,
    }
    let mut state = 1_u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let (mut waits, mut threads) = (OpenWaits::default(), Vec::<Thread>::new());
    for round in 0..300 {
        for _ in 0..below(60) {
            let process = key(u32::try_from(below(12)).unwrap());
            let reason = WaitReason(u16::try_from(below(7)).unwrap());
            let mut thread = Thread { process, reason, place: WaitPlace(u32::try_from(below(90)).unwrap()) };
            waits.join(process, reason, &mut thread.place);
            threads.push(thread);
        }
        for _ in 0..below(60).min(threads.len() as u64) {
            let at = usize::try_from(below(threads.len() as u64)).unwrap();
            let thread = threads.swap_remove(at);
            waits.leave(thread.process, thread.reason, thread.place);
        }
        let mut own = 0;
        for thread in &mut threads {
            if thread.process == key(3) && below(2) == 0 {
                waits.has_row(thread.process, thread.reason, &mut thread.place);
                own += u32::from(thread.reason.is_some());
            }
        }
        let pids: Vec<u32> = (0..12).collect();
        let counted = second(&mut waits, &pids);
        for (pid, found) in pids.iter().zip(counted) {
            let all = threads.iter().filter(|one| one.process == key(*pid) && one.reason.is_some());
            let expected = u32::try_from(all.count()).unwrap() - if *pid == 3 { own } else { 0 };
            assert_eq!(found.3, expected, "round {round}, process {pid}");
        }
        assert!(waits.groups.is_sorted_by(|a, b| a.group < b.group));
        assert!(waits.groups.iter().all(|count| count.threads > 0 && count.own == 0));
    }
}
