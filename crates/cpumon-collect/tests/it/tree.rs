//! Made-up /proc trees: hostile names, missing and cut files, reused pids, threads that end.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cpumon_collect::{CollectError, Opened, open};
use cpumon_model::{Counters, Fields, Interval, Snapshot, SourceKind, ThreadSample};

use crate::support::{Task, Tree};

fn opened(tree: &Tree) -> Opened {
    open(&tree.options()).unwrap()
}

fn pass(source: &mut Opened) -> Snapshot {
    let mut snapshot = Snapshot::default();
    source.source.snapshot(&mut snapshot).unwrap();
    let mut sorted = snapshot.clone();
    sorted.sort();
    assert_eq!(snapshot, sorted, "lists come out sorted");
    snapshot
}

fn thread(snapshot: &Snapshot, tid: u32) -> Option<&ThreadSample> {
    snapshot.threads.iter().find(|thread| thread.key.tid == tid)
}

#[test]
fn a_tree_comes_out_as_written() {
    let tree = Tree::new();
    let mut main = Task::new(20, 20);
    (main.user, main.system, main.run_ns, main.delay_ns, main.switches) = (3, 1, 41_000_000, 5_000, (7, 2));
    let mut second = Task::new(20, 21);
    (second.comm, second.start, second.run_ns) = (b"second".to_vec(), 250, 9_000);
    tree.put(&main);
    tree.put(&second);
    let mut source = opened(&tree);
    assert_eq!((source.kind, source.reason.as_str()), (SourceKind::Procfs, "procfs: asked for"));
    let snapshot = pass(&mut source);
    assert_eq!((snapshot.sequence, snapshot.source, snapshot.is_complete), (0, SourceKind::Procfs, true));
    assert_eq!((snapshot.thread_count, snapshot.process_count), (2, 1));
    assert_eq!(snapshot.boot.to_string(), "3b2c7a9e0f1d4c5b8a69778899aabbcc");
    let first = thread(&snapshot, 20).unwrap();
    assert_eq!({ first.key.start_ns }, 1_000_000_000);
    assert_eq!((first.state.letter(), first.priority, first.nice, first.last_cpu), ('S', 20, 0, 3));
    let counters = Counters {
        user_ns: 30_750_000,
        system_ns: 10_250_000,
        run_ns: 41_000_000,
        run_delay_ns: 5_000,
        voluntary_switches: 7,
        involuntary_switches: 2,
        minor_faults: 40,
        major_faults: 3,
    };
    assert_eq!(first.counters, counters);
    let other = thread(&snapshot, 21).unwrap();
    assert_eq!((other.comm.as_bytes(), other.process), (&b"second"[..], first.process));
    assert_eq!((other.counters.user_ns, other.counters.run_ns), (9_000, 9_000));
    let process = &snapshot.processes[0];
    assert_eq!(
        (&*process.info.name, &*process.info.container, process.info.uid),
        ("program", "test.service", 1000)
    );
    assert_eq!(process.parent_pid, 1);
    assert_eq!(snapshot.cpus[0].times.to_array()[..4], [100_000_000, 200_000_000, 300_000_000, 400_000_000]);
    let all = Fields::USER
        | Fields::SYSTEM
        | Fields::RUN
        | Fields::RUN_DELAY
        | Fields::SWITCHES
        | Fields::CPUS
        | Fields::FAULTS;
    assert_eq!(snapshot.fields, all);
    assert_eq!(pass(&mut source).threads, snapshot.threads, "nothing ran");
}

#[test]
fn hostile_names_are_only_names() {
    let tree = Tree::new();
    let names: [&[u8]; 6] =
        [b"a) R 1 2 (b", b"line\nbreak", b"\xff\xfe\x80", b"", b") S 1 (", b"((((((((((((((("];
    for (pid, name) in (10..).zip(names) {
        tree.put(&Task { comm: name.to_vec(), ..Task::new(pid, pid) });
    }
    let mut source = opened(&tree);
    let snapshot = pass(&mut source);
    let seen: Vec<&[u8]> = snapshot.threads.iter().map(|thread| thread.comm.as_bytes()).collect();
    assert_eq!(seen, names);
    assert_eq!(snapshot.health.malformed, 0);
}

#[test]
fn senseless_and_missing_files_lose_one_task_and_are_counted() {
    let tree = Tree::new();
    for pid in 10..=14 {
        tree.put(&Task::new(pid, pid));
    }
    tree.write("11/task/11/stat", b"11 (x) S 1 99999999999999999999 1\n");
    tree.write("12/task/12/schedstat", b"12");
    tree.write("13/task/13/stat", b"");
    fs::remove_file(tree.path().join("14/task/14/stat")).unwrap();
    tree.write("15/notask", b"");
    tree.write("99999999999999999999/task/1/stat", b"");
    let mut source = opened(&tree);
    let snapshot = pass(&mut source);
    assert_eq!(snapshot.threads.iter().map(|thread| thread.key.tid).collect::<Vec<_>>(), [10]);
    assert_eq!(snapshot.health.malformed, 3);
    assert!(snapshot.health.tasks_vanished >= 2, "{:?}", snapshot.health);
    // Repaired files bring the tasks in.
    tree.put(&Task::new(11, 11));
    assert!(thread(&pass(&mut source), 11).is_some());
}

#[test]
fn a_known_task_survives_a_senseless_moment() {
    let tree = Tree::new();
    let task = Task { run_ns: 5, ..Task::new(10, 10) };
    tree.put(&task);
    let mut source = opened(&tree);
    let before = pass(&mut source);
    tree.write("10/task/10/schedstat", b"garbage\n");
    let during = pass(&mut source);
    assert_eq!(during.threads, before.threads, "what was known stays");
    assert_eq!(during.health.malformed, 1);
    tree.put(&Task { run_ns: 9, ..task });
    let after = pass(&mut source);
    assert_eq!(thread(&after, 10).unwrap().counters.run_ns, 9);
    assert!(Interval::between(&during, &after).threads.iter().all(|row| row.flags.is_empty()));
}

#[test]
fn a_reused_pid_is_another_task() {
    let tree = Tree::new();
    let old = Task { run_ns: 70_000_000, ..Task::new(10, 10) };
    tree.put(&old);
    let mut source = opened(&tree);
    let before = pass(&mut source);
    tree.end(&old);
    let new = Task { start: 900, run_ns: 80_000_000, comm: b"new".to_vec(), ..Task::new(10, 10) };
    tree.put(&new);
    let mut after = pass(&mut source);
    // The made-up tasks begin inside of the interval.
    after.begin.boot_ns = 9_100_000_000;
    assert_eq!(after.threads.len(), 1);
    assert_eq!(
        (after.threads[0].key.start_ns, after.threads[0].comm.as_bytes()),
        (9_000_000_000, &b"new"[..])
    );
    assert_eq!({ after.processes[0].key.start_ns }, 9_000_000_000);
    assert_ne!(after.threads[0].key, before.threads[0].key);
    assert_eq!(after.exited_total.run_ns, 70_000_000);
    let reused_tid = pass(&mut source);
    assert_eq!(reused_tid.threads, after.threads);
}

#[test]
fn a_reused_tid_inside_a_process_is_another_thread() {
    let tree = Tree::new();
    tree.put(&Task::new(10, 10));
    tree.put(&Task { run_ns: 500, ..Task::new(10, 11) });
    let mut source = opened(&tree);
    pass(&mut source);
    tree.put(&Task { run_ns: 7, start: 333, ..Task::new(10, 11) });
    let after = pass(&mut source);
    assert_eq!({ thread(&after, 11).unwrap().key.start_ns }, 3_330_000_000);
    assert_eq!(thread(&after, 11).unwrap().counters.run_ns, 7);
    assert_eq!(after.processes[0].ended_threads.run_ns, 500);
}

#[test]
fn ended_threads_stay_in_their_process_and_never_fall() {
    let tree = Tree::new();
    let main = Task { user: 10, run_ns: 100_000_000, ..Task::new(10, 10) };
    let worker = Task { user: 20, system: 10, run_ns: 300_000_000, switches: (5, 6), ..Task::new(10, 11) };
    tree.put(&main);
    tree.put(&worker);
    tree.put_total(&Task { user: 30, system: 10, ..main.clone() });
    let mut source = opened(&tree);
    let before = pass(&mut source);
    assert_eq!(before.processes[0].ended_threads.run_ns, 0);
    // The worker runs another 50 ms and ends, unseen.
    tree.end(&worker);
    tree.put_total(&Task { user: 35, system: 10, ..main.clone() });
    let after = pass(&mut source);
    assert!(thread(&after, 11).is_none());
    let ended = after.processes[0].ended_threads;
    assert_eq!(ended.run_ns, 350_000_000);
    assert_eq!(ended.user_ns + ended.system_ns, ended.run_ns);
    assert_eq!((ended.voluntary_switches, ended.involuntary_switches), (5, 6));
    assert_eq!(after.exited_total.run_ns, 350_000_000);
    let row = &Interval::between(&before, &after).processes[0];
    assert_eq!(row.delta.run_ns, 50_000_000, "only what is new is charged");
    // A total that falls behind (ticks are cut) changes nothing.
    tree.put(&Task::new(10, 12));
    tree.put_total(&Task { user: 1, ..main });
    assert_eq!(pass(&mut source).processes[0].ended_threads, ended);
}

#[test]
fn a_process_that_ends_is_gone_and_counted() {
    let tree = Tree::new();
    let (stays, goes) = (Task::new(10, 10), Task { run_ns: 33, ..Task::new(12, 12) });
    tree.put(&stays);
    tree.put(&goes);
    let mut source = opened(&tree);
    assert_eq!(pass(&mut source).process_count, 2);
    tree.end(&goes);
    let after = pass(&mut source);
    assert_eq!((after.process_count, after.thread_count, after.exited_total.run_ns), (1, 1, 33));
}

#[test]
fn without_schedstat_ticks_count_and_run_delay_is_no_data() {
    let tree = Tree::new();
    let task = Task { user: 4, system: 2, ..Task::new(10, 10) };
    tree.put(&task);
    fs::remove_file(tree.task_dir(&task).join("schedstat")).unwrap();
    let mut source = opened(&tree);
    let before = pass(&mut source);
    assert!(!before.fields.contains(Fields::RUN_DELAY));
    let counters = before.threads[0].counters;
    assert_eq!((counters.run_ns, counters.user_ns, counters.system_ns), (60_000_000, 40_000_000, 20_000_000));
    tree.put(&Task { user: 5, ..task });
    assert_eq!(pass(&mut source).threads[0].counters.run_ns, 70_000_000);
}

#[test]
fn a_schedstat_of_zeros_is_none() {
    let tree = Tree::new();
    tree.put(&Task { user: 4, ..Task::new(10, 10) });
    let snapshot = pass(&mut opened(&tree));
    assert!(!snapshot.fields.contains(Fields::RUN_DELAY));
    assert_eq!(snapshot.threads[0].counters.run_ns, 40_000_000);
}

#[test]
fn a_refused_process_is_counted_once_and_the_rest_is_measured() {
    refused("11/task", |tree| {
        let mut source = opened(tree);
        for _ in 0..3 {
            let snapshot = pass(&mut source);
            assert_eq!(snapshot.threads.iter().map(|thread| thread.key.tid).collect::<Vec<_>>(), [10]);
            assert_eq!(snapshot.health.permission_denied, 1);
        }
    });
}

#[test]
fn a_refused_file_was_counted_again_at_each_later_pass() {
    refused("11/cgroup", |tree| {
        let mut source = opened(tree);
        for _ in 0..70 {
            let snapshot = pass(&mut source);
            assert_eq!((snapshot.threads.len(), snapshot.health.permission_denied), (2, 1));
        }
    });
}

/// Checks a tree of two processes in which one path may not be read. Root may read everything, so the check then runs on a
/// thread without any right.
fn refused(path: &str, check: impl Fn(&Tree) + Sync) {
    let tree = Tree::new();
    tree.put(&Task::new(10, 10));
    tree.put(&Task::new(11, 11));
    for pid in ["10", "11"] {
        fs::write(tree.path().join(pid).join("cgroup"), "0::/a.slice\n").unwrap();
    }
    fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(tree.path().join(path), fs::Permissions::from_mode(0o0)).unwrap();
    std::thread::scope(|scope| {
        let checked = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let unprivileged = rustix::process::Uid::from_raw(65_534);
                rustix::thread::set_thread_uid(unprivileged).unwrap();
            }
            check(&tree);
        });
        checked.join().unwrap();
    });
}

#[test]
fn a_tree_without_what_every_pass_needs_is_an_error() {
    let tree = Tree::new();
    fs::remove_file(tree.path().join("stat")).unwrap();
    let error = open(&tree.options()).unwrap_err();
    assert!(matches!(error, CollectError::File { operation: "open", .. }), "{error}");
    tree.write("stat", b"cpu0 1 2 3 4\n");
    tree.write("sys/kernel/random/boot_id", b"nonsense");
    assert!(matches!(open(&tree.options()).unwrap_err(), CollectError::Malformed { .. }));
}
