//! Made-up records and events: which threads live and which ended, and that nothing is lost or counted twice.

use cpumon_model::{Flags, Interval, Life, Moment, ThreadInterval, ThreadKey};

use super::super::records::TAKEN_OVER;
use super::*;
use crate::script::ExecScript;

/// A merger over an empty /proc, and the snapshots it made.
struct Rig {
    merger: PassMerger,
    infos: InfoCache,
    _proc: tempfile::TempDir,
    last: Snapshot,
    pass: u64,
}

/// Passes are a second apart; the nth begins here.
fn at(pass: u64) -> u64 {
    pass * 1_000_000_000
}

/// Leader or thread: `tid` of process `pid`, both started in second 1; `run` ms, all sampled as user time.
fn task(tid: u32, pid: u32, run_ms: u64) -> TaskRecord {
    let run_ns = run_ms * 1_000_000;
    TaskRecord {
        tid,
        pid,
        parent_pid: 1,
        start_ns: at(1) + u64::from(tid - pid),
        process_start_ns: at(1),
        counters: Counters { run_ns, user_ns: run_ns, ..Counters::default() },
        comm: *b"test\0\0\0\0\0\0\0\0\0\0\0\0",
        ..TaskRecord::default()
    }
}

fn exit(task: TaskRecord, end_ns: u64, threads_left: u32) -> Event {
    Event::Exit(ExitEvent { kind: 1, threads_left, end_ns, cut_ns: 0, group: 0, task })
}

fn ending(task: TaskRecord) -> Event {
    Event::Ending(ExitEvent { kind: 3, threads_left: 0, end_ns: 0, cut_ns: 0, group: 0, task })
}

fn exec(task: TaskRecord, old_tid: u32, at_ns: u64, program: &str) -> Event {
    exec_of(task, old_tid, at_ns, program, ExecScript::Unread)
}

fn exec_of(task: TaskRecord, old_tid: u32, at_ns: u64, program: &str, script: ExecScript) -> Event {
    let mut name = [0; super::super::records::EXEC_NAME_BYTES];
    name[..program.len()].copy_from_slice(program.as_bytes());
    Event::Exec(Box::new(ExecEvent { kind: 2, old_tid, at_ns, cut_ns: 0, task, name }), script)
}

impl Rig {
    /// The first pass, in second 2, has seen `records`.
    fn new(records: &[TaskRecord]) -> Self {
        let proc = tempfile::tempdir().unwrap();
        let infos = InfoCache::open_in(proc.path(), false);
        let mut rig =
            Self { merger: PassMerger::new(), infos, _proc: proc, last: Snapshot::default(), pass: 2 };
        rig.last = rig.snapshot(records, &[], LostExits::default());
        rig
    }

    fn snapshot(&mut self, records: &[TaskRecord], events: &[Event], lost: LostExits) -> Snapshot {
        let moment = Moment { mono_ns: at(self.pass), boot_ns: at(self.pass), wall_ns: 0 };
        let mut snapshot = Snapshot {
            is_complete: true,
            begin: moment,
            end: moment,
            fields: super::super::FIELDS,
            ..Snapshot::default()
        };
        self.merger.merge(
            &mut PassRecords::from(records.to_vec()),
            events,
            moment.boot_ns,
            lost,
            &mut self.infos,
            &mut snapshot,
        );
        self.infos.end_pass();
        self.pass += 1;
        snapshot
    }

    /// The next pass, and the events since the last one.
    fn next(&mut self, records: &[TaskRecord], events: &[Event]) -> Interval {
        let snapshot = self.snapshot(records, events, LostExits::default());
        let interval = Interval::between(&self.last, &snapshot);
        self.last = snapshot;
        interval
    }

    fn live(&self) -> Vec<u32> {
        self.last.threads.iter().map(|thread| thread.key.tid).collect()
    }
}

/// Run time in ms, life and flags of each thread.
fn rows(interval: &Interval) -> Vec<(u32, i64, Life, Flags)> {
    let row = |row: &ThreadInterval| (row.key.tid, row.delta.run_ns / 1_000_000, row.life, row.flags);
    interval.threads.iter().map(row).collect()
}

const FINE: Flags = Flags::empty();

#[test]
fn who_is_seen_and_ends_in_the_same_pass_has_ended() {
    let mut rig = Rig::new(&[task(5, 5, 10), task(6, 5, 10)]);
    let seen = [task(5, 5, 20), task(6, 5, 20)];
    let interval = rig.next(&seen, &[ending(task(6, 5, 24)), exit(task(6, 5, 25), at(3), 1)]);
    assert_eq!(rows(&interval), [(5, 10, Life::Alive, FINE), (6, 15, Life::Ended, FINE)]);
    assert_eq!(rig.live(), [5]);
    assert!(!rig.last.exits[0].ends_process, "its leader lives");
    assert_eq!(rig.last.exited_total.run_ns, 25_000_000);
    let quiet = rig.next(&[task(5, 5, 20)], &[]);
    assert_eq!(rows(&quiet), [(5, 0, Life::Alive, FINE)]);
}

#[test]
fn who_left_the_list_before_its_last_switch_is_kept_until_then() {
    let mut rig = Rig::new(&[task(5, 5, 10), task(6, 5, 10)]);
    // Thread 6 left the list and is reported by its events only: its run time up to the begin of its end is counted at once.
    let between = rig.next(&[task(5, 5, 10)], &[ending(task(6, 5, 12))]);
    assert_eq!(rows(&between), [(5, 0, Life::Alive, FINE), (6, 2, Life::Alive, FINE)]);
    let after = rig.next(&[task(5, 5, 10)], &[exit(task(6, 5, 13), at(3) + 1, 1)]);
    assert_eq!(rows(&after), [(5, 0, Life::Alive, FINE), (6, 1, Life::Ended, FINE)]);
}

#[test]
fn who_lived_between_two_passes_and_ends_after_is_known_by_its_ending() {
    let mut rig = Rig::new(&[task(5, 5, 10)]);
    let short = |run_ms| TaskRecord { start_ns: at(2) + 1, ..task(7, 5, run_ms) };
    let between = rig.next(&[task(5, 5, 10)], &[ending(short(40))]);
    assert_eq!(rows(&between), [(5, 0, Life::Alive, FINE), (7, 40, Life::Born, FINE)]);
    let after = rig.next(&[task(5, 5, 10)], &[exit(short(41), at(3) + 1, 1)]);
    assert_eq!(rows(&after), [(5, 0, Life::Alive, FINE), (7, 1, Life::Ended, FINE)]);
}

#[test]
fn who_vanishes_without_a_word_is_dropped_after_some_passes_and_counted() {
    let mut rig = Rig::new(&[task(5, 5, 10), task(6, 5, 10)]);
    for _ in 0..MAX_MISSED {
        rig.next(&[task(5, 5, 10)], &[]);
        assert_eq!(rig.live(), [5, 6]);
    }
    let interval = rig.next(&[task(5, 5, 10)], &[]);
    assert_eq!(rows(&interval)[1], (6, 0, Life::Ended, Flags::NO_FINAL_COUNTERS));
    assert_eq!(rig.last.health.tasks_vanished, 1);
}

#[test]
fn lost_exits_are_in_the_total_and_their_threads_gone_at_once() {
    let mut rig = Rig::new(&[task(5, 5, 10), task(6, 5, 10)]);
    let counters =
        Counters { run_ns: 30_000_000, run_delay_ns: 7, user_ns: 1, system_ns: 2, ..Counters::default() };
    let lost = LostExits { count: 1, counters, execs: 0 };
    let snapshot = rig.snapshot(&[task(5, 5, 10)], &[], lost);
    assert_eq!(snapshot.thread_count, 1);
    let total = snapshot.exited_total;
    assert_eq!((total.run_ns, total.user_ns, total.system_ns), (30_000_000, 10_000_000, 20_000_000));
    assert_eq!((snapshot.health.exits_lost, snapshot.health.tasks_vanished), (1, 1));
    // Whether that thread is the one that vanished is not certain.
    assert_eq!(rig.merger.ready(), ReadyTotal { ns: 7, unknown: 1 });
}

#[test]
fn a_process_outlives_its_leader() {
    let mut rig = Rig::new(&[task(5, 5, 10), task(6, 5, 10)]);
    let dead = TaskRecord { flags: ENDED_LEADER, ..task(5, 5, 12) };
    let events = [ending(task(5, 5, 12)), exit(task(5, 5, 12), at(3), 1)];
    let interval = rig.next(&[dead, task(6, 5, 11)], &events);
    assert_eq!(rows(&interval), [(5, 2, Life::Ended, FINE), (6, 1, Life::Alive, FINE)]);
    assert_eq!(rig.last.process_count, 1);
    assert!(!rig.last.exits[0].ends_process);
    assert_eq!(&*rig.last.processes[0].info.name, "test");
    // The leader stays in the kernel's list until the last of its threads is gone.
    let last = rig.next(&[], &[exit(task(6, 5, 20), at(4), 0)]);
    assert_eq!(rows(&last), [(6, 9, Life::Ended, FINE)]);
    assert!(rig.last.exits[0].ends_process);
    assert_eq!((rig.last.process_count, rig.last.thread_count), (0, 0));
}

#[test]
fn a_short_process_is_named_by_exec_or_by_its_own_name() {
    let mut rig = Rig::new(&[]);
    let child = |pid: u32| TaskRecord {
        start_ns: at(2) + u64::from(pid),
        process_start_ns: at(2) + u64::from(pid),
        ..task(pid, pid, 3)
    };
    let thread = TaskRecord { tid: 9, start_ns: at(2) + 50, comm: [b'w'; 16], ..child(8) };
    let events = [
        exec(child(7), 7, at(2) + 8, "first"),
        exec(child(7), 7, at(2) + 9, "a-program-with-a-long-name"),
        exit(child(7), at(2) + 10, 0),
        exit(thread, at(2) + 11, 1),
        exit(child(8), at(2) + 12, 0),
    ];
    let interval = rig.next(&[], &events);
    let names: Vec<_> =
        interval.processes.iter().map(|row| (row.key.pid, &*row.info.name, row.life)).collect();
    assert_eq!(names, [(7, "a-program-with-a-long-name", Life::BornEnded), (8, "test", Life::BornEnded)]);
    assert_eq!(rows(&interval).iter().map(|row| row.1).sum::<i64>(), 9);
    let ends: Vec<_> = rig.last.exits.iter().map(|exit| (exit.thread.key.tid, exit.ends_process)).collect();
    assert_eq!(ends, [(7, true), (8, true), (9, false)]);
}

#[test]
fn a_short_script_has_the_name_that_was_called() {
    let mut rig = Rig::new(&[]);
    let child = |pid: u32, comm: &[u8]| {
        let start_ns = at(2) + u64::from(pid);
        let mut name = [0; 16];
        name[..comm.len()].copy_from_slice(comm);
        TaskRecord { start_ns, process_start_ns: start_ns, comm: name, ..task(pid, pid, 3) }
    };
    let events = [
        exec(child(7, b"nightly-report"), 7, at(2) + 8, "python3.11"),
        exec(child(8, b"weekly-report"), 8, at(2) + 9, "env"),
        exec(child(8, b"python3"), 8, at(2) + 10, "python3.11"),
        exec(child(9, b"env"), 9, at(2) + 11, "env"),
        exec(child(9, b"python3"), 9, at(2) + 12, "python3.11"),
        exec_of(child(10, b"python3"), 10, at(2) + 13, "python3.11", ExecScript::Named("x.py".into())),
        exec_of(child(11, b"gunicorn"), 11, at(2) + 14, "python3.11", ExecScript::None),
        exit(child(7, b"nightly-report"), at(2) + 20, 0),
        exit(child(8, b"python3"), at(2) + 21, 0),
        exit(child(9, b"python3"), at(2) + 22, 0),
        exit(child(10, b"python3"), at(2) + 23, 0),
        exit(child(11, b"python3"), at(2) + 24, 0),
    ];
    let interval = rig.next(&[], &events);
    let names: Vec<_> =
        interval.processes.iter().map(|row| (&*row.info.name, &*row.info.interpreter)).collect();
    assert_eq!(
        names,
        [
            ("nightly-report", "python3.11"),
            ("weekly-report", "python3.11"),
            ("python3.11", ""),
            ("x.py", "python3.11"),
            ("python3.11", "")
        ]
    );
}

#[test]
fn a_second_script_of_one_interpreter_renames_the_process() {
    let mut rig = Rig::new(&[]);
    let child = TaskRecord { start_ns: at(2) + 7, process_start_ns: at(2) + 7, ..task(7, 7, 3) };
    let script = |name: &str| ExecScript::Named(name.into());
    rig.next(&[child], &[exec_of(child, 7, at(2) + 8, "python3", script("first.py"))]);
    assert_eq!(&*rig.last.processes[0].info.name, "first.py", "it is gone from /proc");
    let events = [exec_of(child, 7, at(3) + 8, "python3", script("first.p")), exit(child, at(3) + 9, 0)];
    let interval = rig.next(&[], &events);
    assert_eq!(&*interval.processes[0].info.name, "first.p");
}

#[test]
fn an_exec_just_before_the_pass_names_an_exit_in_the_next() {
    let mut rig = Rig::new(&[]);
    let child = TaskRecord { start_ns: at(2) + 7, process_start_ns: at(2) + 7, ..task(7, 7, 3) };
    rig.next(&[], &[exec(child, 7, at(2) + 8, "program")]);
    let interval = rig.next(&[], &[exit(child, at(3) + 1, 0)]);
    assert_eq!(&*interval.processes[0].info.name, "program");
}

/// Thread 6 of process 5 calls exec when it has run 50 ms: it becomes thread 5, and the leader ends with 12 ms.
fn exec_by_thread(at_ns: u64) -> [Event; 2] {
    let taken_over = TaskRecord { tid: 5, start_ns: at(1), ..task(6, 5, 50) };
    [exit(task(5, 5, 12), at_ns - 1, 1), exec(taken_over, 6, at_ns, "program")]
}

/// The thread after it took the leader's id over.
fn renamed(run_ms: u64) -> TaskRecord {
    TaskRecord { tid: 5, start_ns: at(1), ..task(6, 5, run_ms) }
}

#[test]
fn an_exec_by_another_thread_splits_it_in_two() {
    let mut rig = Rig::new(&[task(5, 5, 10), task(6, 5, 40)]);
    let interval = rig.next(&[renamed(70)], &exec_by_thread(at(2) + 500_000));
    // Thread 5: the leader's 2 ms; thread 6: 10 ms until the exec; then 20 ms as another thread 5.
    assert_eq!(
        rows(&interval),
        [(5, 2, Life::Ended, FINE), (5, 20, Life::Born, FINE), (6, 10, Life::Ended, FINE)]
    );
    assert_eq!(rig.last.threads[0].key, ThreadKey { tid: 5, start_ns: at(2) + 500_000 });
    assert_eq!(interval.processes.len(), 1, "still one process");
    let later = rig.next(&[renamed(75)], &[]);
    assert_eq!(rows(&later), [(5, 5, Life::Alive, FINE)]);
    let end = rig.next(&[], &[ending(renamed(76)), exit(renamed(77), at(4) + 1, 0)]);
    assert_eq!(rows(&end), [(5, 2, Life::Ended, FINE)]);
    assert_eq!(rig.last.exited_total.run_ns, (12 + 77) * 1_000_000);
    assert_eq!(rig.merger.renames.len(), 0);
}

#[test]
fn an_exec_by_another_thread_during_the_pass_counts_nothing_twice() {
    for seen in [vec![task(5, 5, 11), task(6, 5, 45)], vec![renamed(51)], vec![task(6, 5, 45)], vec![]] {
        let mut rig = Rig::new(&[task(5, 5, 10), task(6, 5, 40)]);
        let first = rig.next(&seen, &exec_by_thread(at(3) + 500));
        assert_eq!(first.processes.len(), 1);
        assert_eq!(first.processes[0].life, Life::Alive, "{seen:?}");
        let second = rig.next(&[renamed(70)], &[]);
        let sum: i64 = rows(&first).iter().chain(&rows(&second)).map(|row| row.1).sum();
        assert_eq!(sum, 2 + 10 + 20, "{seen:?}");
        assert!(rows(&first).iter().chain(&rows(&second)).all(|row| row.3 == FINE), "{seen:?}");
    }
}

#[test]
fn a_leader_whose_id_was_taken_over_before_its_last_switch_ends_under_its_own() {
    let mut rig = Rig::new(&[task(5, 5, 10), task(6, 5, 40)]);
    let [_, exec] = exec_by_thread(at(2) + 500);
    let mut swapped = TaskRecord { tid: 6, ..task(5, 5, 12) };
    swapped.give_its_id_back();
    let interval = rig.next(&[renamed(70)], &[exec, exit(swapped, at(2) + 600, 1)]);
    let mut all = rows(&interval);
    all.sort_by_key(|row| row.1);
    assert_eq!(all, [(5, 2, Life::Ended, FINE), (6, 10, Life::Ended, FINE), (5, 20, Life::Born, FINE)]);
}

#[test]
fn a_process_is_there_once_while_a_leader_whose_id_was_taken_over_leaves() {
    let mut rig = Rig::new(&[task(5, 5, 10), task(6, 5, 40)]);
    let [_, exec] = exec_by_thread(at(2) + 500);
    let first = rig.next(&[renamed(70)], &[ending(task(5, 5, 11)), exec]);
    assert_eq!((first.processes.len(), rig.live()), (1, vec![5, 5]));
    let mut swapped = TaskRecord { tid: 6, ..task(5, 5, 12) };
    swapped.give_its_id_back();
    let second = rig.next(&[renamed(75)], &[exit(swapped, at(3) + 600, 1)]);
    assert_eq!(second.processes.len(), 1);
    let sum: i64 = rows(&first).iter().chain(&rows(&second)).map(|row| row.1).sum();
    assert_eq!(sum, 2 + 10 + 20 + 5, "nothing is lost or twice");
}

#[test]
fn a_thread_without_a_leader_to_point_at_is_found_by_what_was_known() {
    let mut rig = Rig::new(&[task(5, 5, 10), task(6, 5, 10)]);
    let orphan = TaskRecord { process_start_ns: 0, ..task(6, 5, 15) };
    let interval = rig.next(&[], &[exit(task(5, 5, 10), at(3), 0), exit(orphan, at(3) + 1, 0)]);
    assert_eq!(interval.processes.len(), 1);
    assert_eq!(interval.processes[0].delta.run_ns, 5_000_000);
    assert!(!rig.last.exits[0].ends_process && rig.last.exits[1].ends_process, "the later one ends it");
}

#[test]
fn a_reused_id_is_another_thread() {
    let mut rig = Rig::new(&[task(5, 5, 10)]);
    let second = TaskRecord { start_ns: at(2) + 9, process_start_ns: at(2) + 9, ..task(5, 5, 4) };
    let interval = rig.next(&[second], &[exit(task(5, 5, 11), at(2) + 5, 0)]);
    assert_eq!(rows(&interval), [(5, 1, Life::Ended, FINE), (5, 4, Life::Born, FINE)]);
    assert_eq!(interval.processes.len(), 2);
}

#[test]
fn user_time_is_whole_microseconds_and_never_falls() {
    let sampled = |run_ns, user_ns, system_ns| TaskRecord {
        counters: Counters { run_ns, user_ns, system_ns, ..Counters::default() },
        ..TaskRecord::default()
    };
    let split = |task: &TaskRecord| (task.counters.user_ns, task.counters.system_ns);
    let mut first = sampled(1_999, 4, 0);
    first.settle(None);
    assert_eq!(split(&first), (1_000, 999));
    let mut second = sampled(2_500, 4, 4);
    second.settle(Some(&first));
    assert_eq!(split(&second), (1_000, 1_500));
    let mut third = sampled(2_500, 8, 4);
    third.settle(Some(&second));
    assert_eq!(split(&third), (1_000, 1_500), "did not run: nothing moves");
}

#[test]
fn an_exec_during_the_pass_does_not_hide_an_earlier_one() {
    // Thread 31 of process 30 called exec before this pass; one of process 20 does while it is on, and its record comes last.
    let mut rig = Rig::new(&[task(20, 20, 10), task(21, 20, 10), task(30, 30, 10), task(31, 30, 10)]);
    let first = exec(task(30, 30, 12), 31, at(2) + 5, "first");
    let end = TaskRecord { flags: TAKEN_OVER, ..task(30, 30, 10) };
    rig.next(&[task(20, 20, 10), task(21, 20, 10), task(30, 30, 12)], &[exit(end, at(2) + 4, 1), first]);
    let renamed = rig.last.threads[2].key;
    assert_eq!((renamed.tid, renamed.start_ns), (30, at(2)), "it begins with its exec, in whole µs");
    let second = exec(task(20, 20, 14), 21, at(9), "second");
    let end = TaskRecord { flags: TAKEN_OVER, ..task(20, 20, 10) };
    rig.next(&[task(20, 20, 14), task(30, 30, 13)], &[exit(end, at(9), 1), second]);
    assert_eq!(rig.live(), [20, 30], "each once");
    assert_eq!(rig.last.threads[1].key, renamed);
}

#[test]
fn a_hidden_thread_ends_without_a_word_and_at_once() {
    let hidden = |tid, run_ms| TaskRecord { flags: HIDDEN, ..task(tid, 3, run_ms) };
    let mut rig = Rig::new(&[hidden(3, 10), hidden(4, 20), task(9, 9, 5)]);
    let interval = rig.next(&[hidden(3, 12), task(9, 9, 5)], &[]);
    assert_eq!(rig.live(), [3, 9]);
    let ended = (4, 0, Life::Ended, Flags::NO_FINAL_COUNTERS);
    assert_eq!(rows(&interval)[..2], [(3, 2, Life::Alive, FINE), ended]);
    assert_eq!(rig.merger.ready().unknown, 0, "no event was lost");
}
