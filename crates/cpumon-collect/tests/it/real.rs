//! The real /proc: a thread that burns CPU, threads and processes that begin and end.

use std::cell::RefCell;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cpumon_collect::{Opened, SourceChoice, SourceOptions, host_info, open};
use cpumon_model::{Interval, Life, ProcessSample, Snapshot, SourceKind};

use crate::alone::{is_alone, run_alone};
use crate::at_rest::wait_until_at_rest;
use crate::calm::when_calm;
use crate::eventually::eventually;
use crate::skip::say_skipped;

fn procfs() -> Opened {
    open(&SourceOptions { choice: SourceChoice::Procfs, ..SourceOptions::default() }).unwrap()
}

fn pass(source: &mut Opened) -> Snapshot {
    let mut snapshot = Snapshot::default();
    source.source.snapshot(&mut snapshot).unwrap();
    snapshot
}

fn own(snapshot: &Snapshot) -> &ProcessSample {
    snapshot.processes.iter().find(|process| process.key.pid == std::process::id()).unwrap()
}

fn burn(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Run time of a thread, ns, from the kernel; `thread` is its directory under /proc.
fn run_ns_of(thread: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{thread}/schedstat")).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_spinner_runs_under_its_name() {
    when_calm(|| {
        let _turn = crate::bpf::turn();
        let mut source = procfs();
        let stop = AtomicBool::new(false);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let stopper = StopOnDrop(&stop);
            let spinner = std::thread::Builder::new().name("it-spinner".into());
            spinner
                .spawn_scoped(scope, || {
                    sender.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()).unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })
                .unwrap();
            let tid: u32 = receiver.recv().unwrap();
            let spinner = format!("self/task/{tid}");
            // The kernel's own figure read around each pass: the row's value lies between, however busy the machine is.
            let first_ns = run_ns_of(&spinner);
            let before = pass(&mut source);
            let second_ns = run_ns_of(&spinner);
            std::thread::sleep(Duration::from_millis(500));
            let third_ns = run_ns_of(&spinner);
            let after = pass(&mut source);
            let fourth_ns = run_ns_of(&spinner);
            drop(stopper);
            let interval = Interval::between(&before, &after);
            // By its id: another run of these tests on this machine has a spinner of this name too.
            let row = interval.threads.iter().find(|row| row.key.tid == tid).unwrap();
            assert_eq!(row.comm.as_bytes(), b"it-spinner");
            let bounds_ns = third_ns - second_ns..=fourth_ns - first_ns;
            let run_ns = u64::try_from(row.delta.run_ns).unwrap();
            assert!(bounds_ns.contains(&run_ns) && run_ns > 0, "{run_ns} not in {bounds_ns:?}");
            assert_eq!(row.delta.user_ns + row.delta.system_ns, row.delta.run_ns);
            assert_eq!(row.life, Life::Alive);
        });
    });
}

#[test]
fn threads_never_seen_are_counted_in_their_process() {
    when_calm(|| {
        let _turn = crate::bpf::turn();
        let mut source = procfs();
        let before = pass(&mut source);
        let burnt_ns: u64 = (0..5)
            .map(|_| {
                let worker = std::thread::spawn(|| {
                    burn(Duration::from_millis(20));
                    run_ns_of("thread-self")
                });
                worker.join().unwrap()
            })
            .sum();
        // Run time of this process's threads during the pass may hide as much of theirs, until a later pass.
        let grown_ns = |after: &Snapshot| own(after).ended_threads.run_ns - own(&before).ended_threads.run_ns;
        let after = (0..100).map(|_| pass(&mut source)).find(|after| grown_ns(after) >= burnt_ns).unwrap();
        let grown = grown_ns(&after);
        assert!(after.exited_total.run_ns - before.exited_total.run_ns >= grown);
    });
}

#[test]
fn processes_come_and_go_between_full_listings() {
    let mut source = procfs();
    for _ in 0..4 {
        pass(&mut source);
    }
    for round in 0..3 {
        let mut child = Command::new("sleep").arg("300").stdin(Stdio::null()).spawn().unwrap();
        let name = eventually("the child is there", || {
            let snapshot = pass(&mut source);
            let found = snapshot.processes.iter().find(|process| process.key.pid == child.id());
            let process = found.filter(|process| &*process.info.comm == "sleep")?;
            assert_eq!(process.parent_pid, std::process::id());
            Some(process.info.name.clone())
        });
        assert!(matches!(&*name, "sleep" | "busybox" | "coreutils" | "uutils"), "{name}");
        child.kill().unwrap();
        child.wait().unwrap();
        let after = pass(&mut source);
        assert!(
            after.processes.iter().all(|process| process.key.pid != child.id()),
            "round {round}: still there"
        );
    }
}

#[test]
fn every_thread_of_the_machine_is_there_and_counts_up() {
    let mut source = procfs();
    let mut last = pass(&mut source);
    assert_eq!(last.source, SourceKind::Procfs);
    for _ in 0..20 {
        let next = pass(&mut source);
        assert!(next.end.mono_ns >= next.begin.mono_ns && next.begin.mono_ns >= last.end.mono_ns);
        assert_eq!(next.sequence, last.sequence + 1);
        assert!(next.threads.is_sorted_by_key(|thread| thread.key));
        assert!(next.processes.is_sorted_by_key(|process| process.key));
        for thread in &next.threads {
            let counters = thread.counters;
            assert_eq!(counters.user_ns + counters.system_ns, counters.run_ns, "{thread:?}");
            if let Ok(at) = last.threads.binary_search_by_key(&thread.key, |thread| thread.key) {
                assert!(
                    counters.since(&last.threads[at].counters).is_some(),
                    "{thread:?} {:?}",
                    last.threads[at]
                );
            }
        }
        for process in &next.processes {
            if let Ok(at) = last.processes.binary_search_by_key(&process.key, |process| process.key) {
                assert!(process.ended_threads.since(&last.processes[at].ended_threads).is_some());
            }
        }
        last = next;
        std::thread::sleep(Duration::from_millis(5));
    }
    let health = last.health;
    assert!(health.own_cpu_ns > 0 && health.own_rss_bytes > 0);
    assert_eq!(health.malformed, 0);
    let listed = || -> Vec<u32> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        tasks.map(|task| task.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect()
    };
    // A listing under which threads begin and end can miss some, in the pass as well as here.
    eventually("a pass has every thread that was there all along", || {
        let before = listed();
        let snapshot = pass(&mut source);
        let after = listed();
        let process = own(&snapshot).key;
        let has_row = |tid: &u32| {
            snapshot.threads.iter().any(|thread| thread.process == process && thread.key.tid == *tid)
        };
        before.iter().filter(|tid| after.contains(tid)).all(has_row).then_some(())
    });
}

#[test]
fn kernel_threads_are_marked() {
    let mut source = procfs();
    let snapshot = pass(&mut source);
    let Some(kthreadd) = snapshot.processes.iter().find(|process| &*process.info.comm == "kthreadd") else {
        return say_skipped("this pid namespace shows no kernel threads");
    };
    assert!(kthreadd.info.is_kernel);
    assert!(!own(&snapshot).info.is_kernel);
}

#[test]
fn auto_says_what_it_chose() {
    let opened = open(&SourceOptions::default()).unwrap();
    let name = opened.kind.name();
    assert!(opened.reason.starts_with(&format!("{name}: ")), "{}", opened.reason);
    assert!(!opened.reason.contains('\n'));
    assert!(host_info(&SourceOptions::default()).unwrap().cpu_count > 0);
}

/// Stops the threads of a test, a failed one too: a scope waits for all of its threads.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Starts threads that run in bursts, calls `during`, waits until they are idle, and calls `after` with their ids.
fn with_bursty_threads(count: usize, during: impl FnOnce(&[u32]), after: impl FnOnce(&[u32])) {
    let (stop, gate, arrived) = (AtomicBool::new(false), Mutex::new(()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let held = gate.lock();
        let stopper = StopOnDrop(&stop);
        let (sender, receiver) = std::sync::mpsc::channel();
        for nth in 0..count {
            let (sender, stop, gate, arrived) = (sender.clone(), &stop, &gate, &arrived);
            scope.spawn(move || {
                sender.send(u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    burn(Duration::from_micros(nth as u64 * 3));
                    std::thread::sleep(Duration::from_millis(1 + nth as u64 % 40));
                }
                arrived.fetch_add(1, Ordering::SeqCst);
                // Idle until the test has made its pass.
                drop(gate.lock());
            });
        }
        let tids: Vec<u32> = receiver.iter().take(count).collect();
        during(&tids);
        drop(stopper);
        eventually("each has ended its burst", || (arrived.load(Ordering::SeqCst) == count).then_some(()));
        wait_until_at_rest(&tids);
        after(&tids);
        drop(held);
    });
}

/// Reading recently active threads first must not lose the others.
#[test]
fn nothing_that_ran_is_left_out() {
    when_calm(|| {
        let source = RefCell::new(procfs());
        with_bursty_threads(
            60,
            |_| {
                for _ in 0..60 {
                    pass(&mut source.borrow_mut());
                    std::thread::sleep(Duration::from_millis(7));
                }
            },
            |tids| {
                let snapshot = pass(&mut source.borrow_mut());
                for tid in tids {
                    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap();
                    let truth: Vec<u64> = text.split_whitespace().map(|n| n.parse().unwrap()).collect();
                    let row = snapshot.threads.iter().find(|row| row.key.tid == *tid).unwrap();
                    assert_eq!(vec![row.counters.run_ns, row.counters.run_delay_ns], truth[..2], "{row:?}");
                    let switches = row.counters.voluntary_switches + row.counters.involuntary_switches;
                    assert!(switches.abs_diff(truth[2]) <= 1, "{switches} {truth:?}");
                }
            },
        );
    });
}

/// A program that needs its descriptors itself: the source keeps fewer, and still reads everything.
#[test]
fn without_descriptors_to_keep_everything_is_still_read() {
    if is_alone() {
        return starve();
    }
    run_alone("ulimit -n 900", "real::without_descriptors_to_keep_everything_is_still_read");
}

fn starve() {
    let source = RefCell::new(procfs());
    let held = RefCell::new(Vec::new());
    with_bursty_threads(
        60,
        |_| {
            for nth in 0..40 {
                pass(&mut source.borrow_mut());
                if nth == 0 {
                    let mut held = held.borrow_mut();
                    held.extend(std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()));
                    assert!(held.len() > 300, "{}", held.len());
                    let rest = held.len() - 12;
                    held.truncate(rest);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        },
        |tids| {
            pass(&mut source.borrow_mut());
            let snapshot = pass(&mut source.borrow_mut());
            held.borrow_mut().clear();
            for tid in tids {
                let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap();
                let run_ns: u64 = text.split(' ').next().unwrap().parse().unwrap();
                let row = snapshot.threads.iter().find(|row| row.key.tid == *tid).unwrap();
                assert_eq!(row.counters.run_ns, run_ns);
            }
        },
    );
}
