//! Rows of processes and threads, and the run time that no row has.

use cpumon_model::{CpuSample, CpuTimes, Flags, Interval, Moment};

use super::*;

const BASE: SystemStart = SystemStart(1_000_000);

fn thread(tid: u32, user: u64, kernel: u64) -> ReportedThread {
    ReportedThread {
        tid,
        created: 1_000_010,
        user,
        kernel,
        priority: 8,
        state: Some((5, 6)),
        ..ReportedThread::default()
    }
}

fn pass(passes: &mut Passes, user: u64, threads: &[ReportedThread]) -> Snapshot {
    let mut into = Snapshot::default();
    let row =
        ReportedProcess { pid: 8, parent_pid: 4, created: 1_000_005, user, ..ReportedProcess::default() };
    let about = || ProcessInfo { name: "Übersicht-größe.EXE".into(), ..ProcessInfo::default() };
    passes.add(&row, threads.iter().copied(), about, &mut into);
    passes.finish(&mut into);
    let mono_ns = into.sequence * 1_000_000_000;
    (into.begin, into.end) =
        (Moment { mono_ns, boot_ns: mono_ns, wall_ns: 0 }, Moment { mono_ns, boot_ns: mono_ns, wall_ns: 0 });
    into
}

#[test]
fn a_snapshot_has_what_the_rows_say() {
    let snapshot = pass(&mut Passes::new(BASE), 0, &[thread(20, 3, 4), thread(12, 1, 2)]);
    let [first, second] = &snapshot.threads[..] else { panic!("{:?}", snapshot.threads) };
    assert_eq!((first.key, second.key.tid), (ThreadKey { tid: 12, start_ns: 1_000 }, 20), "sorted");
    assert_eq!((second.counters.user_ns, second.counters.system_ns, second.counters.run_ns), (300, 400, 700));
    assert_eq!((first.state.letter(), first.priority, first.process.start_ns), ('S', 8, 500));
    assert_eq!(first.comm.to_str_lossy(), "Übersicht-grö", "15 bytes, whole characters");
    assert_eq!((snapshot.thread_count, snapshot.process_count), (2, 1));
    assert!(!snapshot.fields.intersects(Fields::SWITCHES | Fields::RUN_DELAY), "not measured is no data");
}

#[test]
fn what_a_waiting_thread_waits_for_is_shown_where_it_is_asked_for() {
    let of = |passes: Passes, row| pass(&mut { passes }, 0, &[row]).threads[0].sched.open_wait;
    let waits = thread(12, 0, 0);
    let runs = ReportedThread { state: Some((2, 6)), ..waits };
    assert_eq!(of(Passes::new(BASE).with_events(), waits).name(), "UserRequest");
    assert_eq!(of(Passes::new(BASE).with_events(), runs), WaitReason::NONE);
    assert_eq!(of(Passes::new(BASE), waits), WaitReason::NONE);
}

#[test]
fn a_product_that_was_read_later_is_that_of_its_process() {
    let mut passes = Passes::new(BASE);
    pass(&mut passes, 0, &[]);
    passes.set_product(9, "of another one");
    passes.set_product(8, "Größe® 3");
    assert_eq!(&*pass(&mut passes, 0, &[]).processes[0].info.product, "Größe® 3");
}

#[test]
fn what_ended_threads_ran_is_the_processs_rest_and_never_falls() {
    let mut passes = Passes::new(BASE);
    let first = pass(&mut passes, 100, &[thread(12, 60, 0), thread(16, 10, 0)]);
    assert_eq!((first.processes[0].ended_threads.run_ns, first.exited_total.run_ns), (3_000, 0));
    // Thread 16 ran 5 more and ended; 12 ran 20 more.
    let second = pass(&mut passes, 125, &[thread(12, 80, 0)]);
    assert_eq!((second.processes[0].ended_threads.run_ns, second.exited_total.run_ns), (4_500, 1_500));
    let interval = Interval::between(&first, &second);
    assert_eq!(interval.processes[0].delta.run_ns, 2_500, "20 live, 5 of the ended one");
    // A thread that is read a tick after its process does not reduce the time of ended ones.
    let third = pass(&mut passes, 125, &[thread(12, 81, 0)]);
    assert_eq!(third.processes[0].ended_threads, second.processes[0].ended_threads);
}

#[test]
fn page_faults_are_those_of_the_process_since_the_first_pass_beyond_32_bits() {
    let mut passes = Passes::new(BASE);
    let mut pass = |at: u64, faults| {
        let process = ReportedProcess { pid: 8, created: 1_000_005, faults, ..ReportedProcess::default() };
        let mut into = Snapshot::default();
        passes.add(&process, std::iter::once(thread(12, 1, 0)), ProcessInfo::default, &mut into);
        passes.finish(&mut into);
        into.end = Moment { mono_ns: at, boot_ns: at, wall_ns: 0 };
        into
    };
    let first = pass(1_000_000_000, Some([4_294_967_290, 7]));
    assert_eq!(first.exited_total, Counters::default(), "of before the first pass");
    let second = pass(2_000_000_000, Some([4, 9]));
    assert!(second.fields.contains(Fields::FAULTS));
    let interval = Interval::between(&first, &second);
    let delta = interval.processes[0].delta;
    assert_eq!((delta.minor_faults, delta.major_faults), (8, 2));
    // The count of those from a disk is ahead, and then the other one follows.
    let counts: Vec<[u64; 2]> = [[4, 9], [4, 10], [6, 10], [5, 10]]
        .map(|faults| pass(3_000_000_000, Some(faults)).processes[0].ended_threads)
        .map(|ended| [ended.minor_faults, ended.major_faults])
        .to_vec();
    let grown: Vec<[u64; 2]> =
        counts.windows(2).map(|two| [two[1][0] - two[0][0], two[1][1] - two[0][1]]).collect();
    assert_eq!(grown, [[0, 1], [1, 0], [0, 0]]);
    assert!(!pass(4_000_000_000, None).fields.contains(Fields::FAULTS), "not reported is no data");
}

#[test]
fn a_thread_with_more_time_than_it_exists_has_no_times() {
    let row = thread(12, 400_000, 300_000);
    assert_eq!(row.if_possible(row.created + 600_000), row);
    assert_eq!(row.if_possible(row.created + 599_999), thread(12, 0, 0));
    assert_eq!(row.if_possible(0), thread(12, 0, 0));
}

#[test]
fn modes_that_are_split_in_another_way_for_process_and_threads_end_no_thread() {
    let mut passes = Passes::new(BASE);
    for (user, kernel) in [(60, 40), (40, 60), (70, 30)] {
        let snapshot = pass(&mut passes, 100, &[thread(12, user, kernel)]);
        assert_eq!(snapshot.processes[0].ended_threads, Counters::default(), "{user} {kernel}");
    }
    let snapshot = pass(&mut passes, 130, &[thread(12, 40, 60)]);
    let ended = snapshot.processes[0].ended_threads;
    assert_eq!((ended.user_ns, ended.system_ns, ended.run_ns), (3_000, 0, 3_000));
}

#[test]
fn a_process_that_is_gone_is_forgotten_and_its_id_used_again_is_another() {
    let mut passes = Passes::new(BASE);
    let first = pass(&mut passes, 7, &[thread(12, 7, 0)]);
    let mut second = Snapshot::default();
    let again = ReportedProcess { pid: 8, created: 30_000_000, ..ReportedProcess::default() };
    let row = ReportedThread { created: 30_000_000, ..thread(12, 2, 0) };
    passes.add(&again, std::iter::once(row), ProcessInfo::default, &mut second);
    passes.finish(&mut second);
    second.end = Moment { mono_ns: 3_000_000_000, boot_ns: 3_000_000_000, wall_ns: 0 };
    assert_eq!((second.exited_total.run_ns, passes.known.len()), (700, 1));
    let interval = Interval::between(&first, &second);
    let rows: Vec<_> = interval.threads.iter().map(|row| (row.flags, row.delta.run_ns)).collect();
    assert_eq!(rows, [(Flags::NO_FINAL_COUNTERS, 0), (Flags::empty(), 200)], "the new one from its start");
}

/// Two CPUs that share the times, and processes with this run time.
fn raise(unseen: &mut Unseen, cpus: [u64; 2], processes: [u64; 2]) -> (u64, u64, u64) {
    let times = CpuTimes { user_ns: cpus[0] / 2, system_ns: cpus[1] / 2, ..CpuTimes::default() };
    let cpus = [0, 1].map(|cpu| CpuSample { cpu, times, ..CpuSample::default() }).to_vec();
    let [user_ns, system_ns] = processes;
    let mut into = Snapshot { cpus, ..Snapshot::default() };
    unseen.fill(&Counters { user_ns, system_ns, ..Counters::default() }, &mut into);
    let ran = into.processes.first().map_or(Counters::default(), |row| row.ended_threads);
    assert_eq!(into.exited_total, ran);
    (ran.user_ns, ran.system_ns, ran.run_ns)
}

#[test]
fn what_no_process_ran_is_counted_from_the_first_pass_and_never_falls() {
    let mut unseen = Unseen::default();
    assert_eq!(raise(&mut unseen, [1_000, 500], [400, 500]), (0, 0, 0), "older than the first pass");
    assert_eq!(raise(&mut unseen, [1_100, 600], [500, 600]), (0, 0, 0), "all of it is known");
    assert_eq!(raise(&mut unseen, [1_400, 700], [600, 650]), (200, 50, 250));
    // A tick that the processes have and the CPUs do not have yet; then both have it.
    assert_eq!(raise(&mut unseen, [1_400, 700], [610, 650]), (200, 50, 250));
    assert_eq!(raise(&mut unseen, [1_410, 700], [610, 650]), (200, 50, 250), "not counted twice");
}

#[test]
fn states_are_letters() {
    let letters = |states: &[(u32, u32)]| -> String {
        states.iter().map(|(state, reason)| letter(*state, *reason).letter()).collect()
    };
    assert_eq!(letters(&[(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (7, 0), (9, 0)]), "?RRRXDR?");
    // UserRequest, WrQueue, Suspended, WrSuspended, PageIn, WrPageOut; the reason of a running thread is an old one.
    assert_eq!(letters(&[(5, 6), (5, 15), (5, 5), (8, 12), (5, 2), (5, 19), (2, 5)]), "SSTTDDR");
}
