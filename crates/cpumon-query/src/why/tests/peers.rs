//! Which waits for other processes are a cause: own processes, children, and those that do nothing are none.

use std::sync::Arc;

use cpumon_model::{
    Delta, Interval, Life, ProcessInfo, ProcessInterval, ProcessKey, WaitFor, WaitKind, WaitReason, WaitedOn,
};
use foldhash::HashSet;

use super::super::states::SubjectRows;
use super::super::{SureLevel, TimeState, WhySubject, delayed_shares};
use super::causes::{kinds, says};
use super::scene::{MS, Made, SECONDS, Scene, key, on, part, syscall, thread_key, why_of, why_shop};

/// Their time is in the time of the subject already.
#[test]
fn a_process_of_the_same_program_is_no_peer() {
    let scene = Scene::busy()
        .with(1, "shop", 15, 5)
        .waits(1, syscall("read"), on(2), 940)
        .with(2, "shop", 300, 600)
        .with(3, "backup", 1_600, 0)
        .waits(2, WaitKind::Ready, on(3), 600);
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["saturated"], "{:#?}", why.causes);
    let names: Vec<&str> = why.causes[0].culprits.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["backup"]);
    // A lock between them stays one.
    let scene =
        Scene::new().with(1, "shop", 90, 5).waits(1, syscall("flock"), on(2), 850).with(2, "shop", 700, 5);
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["lock"], "{:#?}", why.causes);
    says(&why, "for a file lock (flock)");
}

#[test]
fn an_idle_child_is_no_cause_and_a_busy_one_is_followed() {
    let sleeping = Scene::new()
        .with(1, "shop", 1, 0)
        .waits(1, syscall("wait4"), on(2), 990)
        .with(2, "sleep", 1, 0)
        .but(|child| child.parent = 1)
        .waits(2, syscall("clock_nanosleep"), WaitedOn::Interrupt, 990);
    let why = why_shop(&sleeping);
    assert!(why.causes.is_empty(), "{:#?}", why.causes);
    says(&why, "Nothing delays it");
    // It waits for a child, which waits for its own, which waits for a disk.
    let working = Scene::new()
        .with(1, "shop", 1, 0)
        .waits(1, syscall("wait4"), on(2), 990)
        .with(2, "sh", 1, 0)
        .but(|child| child.parent = 1)
        .waits(2, syscall("wait4"), on(3), 980)
        .with(3, "tar", 100, 10)
        .but(|child| child.parent = 2)
        .waits(3, WaitKind::Blocked(WaitReason::DISK), WaitedOn::Interrupt, 850);
    let why = why_shop(&working);
    assert_eq!(kinds(&why), ["peer"], "{:#?}", why.causes);
    says(&why, "for its child sh (pid 2), in child process (wait4).");
    says(&why, "sh waited for a child 98 % of the time.");
    says(&why, "tar ran 10 % and waited for a disk 85 % of the time.");
}

/// A CPU for it would shorten the wait by a seventh.
#[test]
fn a_cpu_is_no_help_for_a_peer_that_mostly_sleeps() {
    for (asleep, ready, stops) in [(650, 240, false), (100, 800, true)] {
        let scene = Scene::busy()
            .with(1, "shop", 5, 0)
            .waits(1, syscall("flock"), on(2), 950)
            .with(2, "locker", 60, ready)
            .waits(2, syscall("clock_nanosleep"), WaitedOn::Interrupt, asleep)
            .waits(2, WaitKind::Ready, on(3), ready)
            .with(3, "backup", 1_800, 0);
        let why = why_shop(&scene);
        assert_eq!(kinds(&why), ["peer"], "{:#?}", why.causes);
        assert_eq!(why.action.contains("stop backup"), stops, "{}", why.action);
    }
}

#[test]
fn an_event_that_an_idle_peer_sends_is_input() {
    for (run, expected) in [(100, &[] as &[&str]), (350, &[]), (900, &["peer"])] {
        let scene = Scene { idle: [500; 2], ..Scene::new() }
            .with(1, "shop", 40, 5)
            .waits(1, syscall("epoll_wait"), on(2), 940)
            .with(2, "client", run, 5);
        let why = why_shop(&scene);
        assert_eq!(kinds(&why), expected, "{run} ms: {:#?}", why.causes);
        if !expected.is_empty() {
            assert_eq!(why.sure.level, SureLevel::Medium, "a busy client is one, too");
            says(&why, "If client sends requests to it, it waited for these: no delay.");
        }
    }
}

/// Its threads that wait for work do nothing for the subject.
#[test]
fn a_peer_whose_pool_waits_for_work_is_idle() {
    for (call, expected) in [("epoll_wait", &[] as &[&str]), ("clock_nanosleep", &["peer"])] {
        let scene = Scene { idle: [800; 2], ..Scene::new() }
            .with(1, "shop", 40, 5)
            .waits(1, syscall("epoll_wait"), on(2), 940)
            .with(2, "compositor", 100, 5)
            .waits(2, syscall("futex"), WaitedOn::Thread(thread_key(201)), 3_000)
            .waits(2, syscall(call), WaitedOn::Interrupt, 850);
        let why = why_shop(&scene);
        assert_eq!(kinds(&why), expected, "{call}, with which it may hold a lock or not: {:#?}", why.causes);
    }
}

/// A new process that writes into a pipe is a child, not only one for which `wait4` waits.
#[test]
fn a_new_process_that_ends_a_wait_is_a_child() {
    let scene = Scene { idle: [500; 2], ..Scene::new() }
        .with(1, "shop", 10, 0)
        .waits(1, syscall("read"), on(2), 980)
        .with(2, "gzip", 970, 5)
        .but(|child| (child.parent, child.began) = (1, true));
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["peer"], "{:#?}", why.causes);
    says(&why, "for its child gzip (pid 2), in read.");
}

/// Intervals with a child that begins and ends in each of them.
fn with_short_child(scene: &Scene, from: i64, used_ms: i64, waited_ms: i64) -> Vec<Interval> {
    let mut all = scene.intervals(from);
    for interval in &mut all {
        let child = ProcessKey { pid: 70_000, start_ns: interval.sequence };
        let info = ProcessInfo { name: "helper".into(), ..ProcessInfo::default() };
        interval.processes.push(ProcessInterval {
            key: child,
            parent_pid: 1,
            info: Arc::new(info),
            life: Life::BornEnded,
            delta: Delta { run_ns: used_ms * MS, ..Delta::default() },
            ..ProcessInterval::default()
        });
        interval.waits_for.push(WaitFor {
            waiter: key(1),
            kind: syscall("wait4"),
            on: WaitedOn::Process(child),
            ns: (waited_ms * MS).unsigned_abs(),
            count: 1,
        });
    }
    all
}

#[test]
fn a_short_child_counts_if_it_did_something() {
    let scene = Scene { idle: [500; 2], ..Scene::new() }.with(1, "shop", 10, 0);
    let subject = WhySubject::Named("shop".into());
    let ask = |used_ms: i64| {
        let [before, now] = [0, SECONDS].map(|from| with_short_child(&scene, from, used_ms, 900));
        why_of(&before, &now, &subject)
    };
    let idle = ask(2);
    assert!(idle.causes.is_empty(), "{:#?}", idle.causes);
    let busy = ask(850);
    assert_eq!(kinds(&busy), ["peer"], "{:#?}", busy.causes);
    says(&busy, "for a child, whose name is not known");
    let child = busy.time.states.iter().find(|one| one.state == TimeState::Blocked).unwrap();
    assert!(child.before.is_some_and(|share| share > 0.8), "before it had children, too: {child:?}");
}

/// A thread that reads events passes work to eight others, which are idle most of the time.
#[test]
fn a_pool_that_waits_for_work_has_no_lock() {
    let thread = |tid: u32, comm: &'static str, run: i64| Made {
        tid,
        comm,
        run,
        ready: 10,
        nice: 0,
        priority: 20,
        cpu: None,
        has_one_cpu: false,
        state: b'S',
        sleeps: 0,
    };
    let pool = |dispatcher: i64, call: &str| {
        let mut threads: Vec<Made> = (101..=108).map(|tid| thread(tid, "worker", 80)).collect();
        threads.push(thread(100, "dispatcher", dispatcher));
        Scene { idle: [500; 2], ..Scene::new() }
            .with(1, "shop", 0, 0)
            .but(|program| program.threads = threads)
            .waits(1, syscall("futex"), WaitedOn::Thread(thread_key(100)), 7_100)
            .waits(1, syscall(call), WaitedOn::Interrupt, 950 - dispatcher)
    };
    let why = why_shop(&pool(40, "epoll_wait"));
    assert!(why.causes.is_empty(), "{:#?}", why.causes);
    let futex = why.time.states.iter().find(|one| one.label.contains("futex")).unwrap();
    assert_eq!((futex.state, futex.before), (TimeState::Asleep, Some(futex.share)), "before, too");
    let unnamed = |ms: i64| pool(40, "epoll_wait").waits(1, syscall("futex"), WaitedOn::Others, ms);
    let why = why_shop(&unnamed(600));
    assert!(why.causes.is_empty(), "the rest of them is for work, too: {:#?}", why.causes);
    assert_eq!(kinds(&why_shop(&unnamed(9_000))), ["lock"], "most of them are not known");
    assert_eq!(kinds(&why_shop(&pool(40, "clock_nanosleep"))), ["lock"], "it may sleep with the lock");
    let paused = pool(40, "clock_nanosleep").waits(1, syscall("pause"), WaitedOn::Interrupt, 1_000);
    assert_eq!(kinds(&why_shop(&paused)), ["lock"], "its first thread only waits for a signal");
    assert_eq!(kinds(&why_shop(&pool(700, "epoll_wait"))), ["lock"], "it is what they wait for");
}

/// A part in which it waits shorter, because there is more work, would be a step else.
#[test]
fn a_pool_that_waits_for_work_makes_no_step() {
    let rows = SubjectRows { keys: Some(HashSet::from_iter([key(1)])), ..SubjectRows::default() };
    let share = |call: &str| {
        let scene = Scene { idle: [500; 2], ..Scene::new() }
            .with(1, "shop", 300, 10)
            .waits(1, syscall("futex"), WaitedOn::Thread(thread_key(100)), 4_000)
            .waits(1, syscall(call), WaitedOn::Interrupt, 900);
        delayed_shares(&[part(&scene.intervals(0), 0)], &rows)[0].unwrap()
    };
    assert!(share("epoll_wait") < 0.05, "{}", share("epoll_wait"));
    assert!(share("clock_nanosleep") > 0.8, "it may sleep with a lock: {}", share("clock_nanosleep"));
}
