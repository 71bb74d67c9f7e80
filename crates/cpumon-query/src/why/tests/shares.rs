//! What shares are of: threads that sleep, and time in which the subject was not there, make no cause small.

use cpumon_model::{WaitKind, WaitReason, WaitedOn};

use super::super::{TimeState, Why, WhySubject};
use super::causes::{kinds, says};
use super::scene::{Made, SECONDS, Scene, on, syscall, thread_key, why_after, why_of, why_shop};

fn share(why: &Why, state: TimeState) -> f64 {
    why.time.states.iter().filter(|one| one.state == state).map(|one| one.share).sum()
}

/// 50 threads wait for work while one waits for a disk.
#[test]
fn a_pool_of_sleeping_threads_does_not_hide_the_wait_of_one() {
    let disk = WaitKind::Blocked(WaitReason::DISK);
    let scene = Scene { idle: [900; 2], ..Scene::new() }
        .with(1, "shop", 88, 30)
        .waits(1, disk, WaitedOn::Interrupt, 800)
        .waits(1, syscall("epoll_wait"), WaitedOn::Interrupt, 50_000);
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["disk"]);
    says(&why, "It waited 80 % of the time for a disk");
    let (ran, blocked, asleep) =
        (share(&why, TimeState::Ran), share(&why, TimeState::Blocked), share(&why, TimeState::Asleep));
    assert!((0.087..0.089).contains(&ran) && (0.79..0.81).contains(&blocked), "{:#?}", why.time);
    assert!((0.081..0.083).contains(&asleep), "they have what the others leave: {:#?}", why.time);
    assert!((0.87..0.88).contains(&why.causes[0].share), "{}", why.causes[0].share);
    // They wait in calls that do not say what for.
    let scene = scene.waits(1, syscall("read"), WaitedOn::Others, 50_000);
    assert_eq!(kinds(&why_shop(&scene))[0], "disk");
    // Nothing else happens: they are idle.
    let idle =
        Scene::new().with(1, "shop", 8, 3).waits(1, syscall("epoll_wait"), WaitedOn::Interrupt, 50_000);
    let why = why_shop(&idle);
    assert!(why.causes.is_empty(), "{:#?}", why.causes);
    says(&why, "Nothing delays it: 99 % of the time it slept");
}

/// `0 %` would say that it was faster before.
#[test]
fn a_program_that_was_not_there_is_compared_with_nothing() {
    let scene = Scene::busy().with(1, "shop", 90, 880);
    let subject = WhySubject::Named("shop".into());
    let why = why_after(&Scene::busy().with(2, "other", 900, 5), &scene, &subject);
    assert!(why.before.is_none() && why.time.states.iter().all(|one| one.before.is_none()), "{why:#?}");
    let why = why_after(&scene, &scene, &subject);
    assert!(why.before.is_some() && why.time.states.iter().all(|one| one.before.is_some()), "{why:#?}");
}

/// The wanted time of several threads is more than the span: shares are of it.
#[test]
fn waits_of_many_threads_are_at_most_all_the_time() {
    let scene = Scene { idle: [900; 2], ..Scene::new() }
        .with(1, "shop", 150, 50)
        .waits(1, WaitKind::Blocked(WaitReason::DISK), WaitedOn::Interrupt, 6_800)
        .waits(1, syscall("futex"), WaitedOn::Thread(thread_key(1)), 1_000);
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["disk", "lock"]);
    says(&why, "It waited 85 % of the time for a disk");
    let sum: f64 = why.time.states.iter().map(|one| one.share).sum();
    assert!((0.999..1.001).contains(&sum), "{:#?}", why.time);
}

/// Of two CPUs, whose capacity is 2 s a second.
#[test]
fn what_a_machine_waited_is_not_bounded_by_its_capacity() {
    let machine = |scene: &Scene| why_after(scene, scene, &WhySubject::Machine);
    let mut scene = Scene { steal: 300, ..Scene::busy() }.with(1, "shop", 500, 2_000);
    scene = scene.with(2, "indexer", 1_500, 4_000).waits(1, WaitKind::Ready, on(2), 2_000);
    let why = machine(&scene.waits(2, WaitKind::Ready, on(1), 4_000));
    says(&why, "Programs waited for a CPU, together 300 % of the CPUs' time");
    assert_eq!(kinds(&why), ["saturated", "steal"], "15 % of the CPUs' time");
    // Threads wait for a disk in time of their own.
    let disk = WaitKind::Blocked(WaitReason::DISK);
    for (ms, expected) in [(400, &[] as &[&str]), (600, &["disk"]), (3_000, &["disk"])] {
        let scene = Scene { idle: [900; 2], ..Scene::new() }.with(1, "shop", 90, 10);
        let why = machine(&scene.waits(1, disk, WaitedOn::Interrupt, ms));
        assert_eq!(kinds(&why), expected, "{ms} ms a second");
        if ms == 3_000 {
            says(&why, "Programs waited, together 300 % of the time, for a disk");
        }
    }
    let scene = Scene { idle: [900; 2], ..Scene::new() }.with(1, "poller", 9, 1);
    let scene = scene.but(|program| program.is_kernel = true).waits(1, disk, WaitedOn::Interrupt, 990);
    assert!(machine(&scene).causes.is_empty(), "a thread of the kernel");
}

/// It was there for three of ten seconds.
#[test]
fn rates_are_by_the_time_in_which_it_was_there() {
    let ended = |scene: Scene| scene.but(|program| program.last = 3);
    let scene = ended(Scene { idle: [30, 900], ..Scene::new() }.with(1, "shop", 930, 50));
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["one-thread"]);
    says(&why, "thread shop (1) used a whole CPU, 93 % of the time");
    assert!(why.sure.rests_on.contains(&"the 3.0 s in which it was there".to_owned()), "{:?}", why.sure);
    // 60 waits in 3 seconds; 210 page faults in each of these.
    let fault = WaitKind::Blocked(WaitReason::PAGE_FAULT);
    let mut scene = ended(Scene { idle: [900; 2], ..Scene::new() }.with(1, "shop", 88, 30));
    scene = scene.but(|program| program.faults = 210).waits(1, fault, WaitedOn::Interrupt, 150);
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["faults"]);
    says(&why, "It waited 50 % of the time for pages from a disk: 210 major page faults a second.");
    // Another process of it goes on: together they were there all the time.
    let why = why_shop(&scene.with(2, "shop", 10, 5));
    says(&why, "It waited 15 % of the time for pages from a disk: 63 major page faults a second.");
}

/// A browser with ten quiet processes and a busy one, and a pool of busy ones.
#[test]
fn other_processes_of_it_do_not_hide_a_thread_at_a_full_cpu() {
    for (count, run) in [(10, 30), (1, 930)] {
        let mut scene = Scene { idle: [30, 500], ..Scene::new() }.with(1, "shop", 930, 0);
        for pid in 2..2 + count {
            scene = scene.with(pid, "shop", run, 0);
        }
        let why = why_shop(&scene);
        assert_eq!(kinds(&why), ["one-thread"], "{count} processes");
        says(&why, "thread shop (1) used a whole CPU, 93 % of the time");
    }
    // Threads of one process that share its work are no such.
    let scene = Scene { idle: [30, 500], ..Scene::new() }.with(1, "shop", 930, 0).but(|program| {
        let second = Made { tid: 2, run: 300, ..program.threads[0].clone() };
        program.threads.push(second);
    });
    assert!(!kinds(&why_shop(&scene)).contains(&"one-thread"));
}

/// Eight threads wait for the work that the first one hands out.
#[test]
fn to_wait_for_a_thread_at_a_full_cpu_is_no_lock() {
    let scene = |ended_by: u32| {
        let shop = Scene { idle: [30, 900], ..Scene::new() }.with(1, "shop", 950, 0).but(|program| {
            let worker = Made { run: 20, ..program.threads[0].clone() };
            program.threads.extend((101..=108).map(|tid| Made { tid, ..worker.clone() }));
        });
        shop.waits(1, syscall("futex"), WaitedOn::Thread(thread_key(ended_by)), 7_600)
    };
    let why = why_shop(&scene(1));
    assert_eq!(kinds(&why), ["one-thread"]);
    says(&why, "thread shop (1) used a whole CPU, 95 % of the time");
    says(&why, "for a lock (futex), 100 % of it until thread shop (1) released it.");
    assert!(why.causes[0].share > 0.95, "with the waits: {}", why.causes[0].share);
    // Another thread has the lock, and sleeps with it.
    let other = scene(101).waits(1, syscall("clock_nanosleep"), WaitedOn::Interrupt, 400);
    assert_eq!(kinds(&why_shop(&other)), ["lock", "one-thread"]);
}

#[test]
fn many_starts_by_one_that_ended_are_a_cause() {
    let parent = Scene::new().with(1, "shop", 10, 5).but(|program| program.last = 5);
    let scene = Scene { short: Some(("true", 1, 15, 9_000)), ..parent };
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["starts"], "15 a second over all of the time, and it was there for half of it");
    says(&why, "It starts 30 processes a second");
}

/// A database that reads a page at a time leaves the CPU thousands of times a second, each time too shortly to be followed.
#[test]
fn one_with_many_short_waits_is_not_idle() {
    let db = |switches: i64| {
        let scene = Scene::new().with(1, "shop", 15, 5).with(2, "db", 60, 10);
        scene.but(|program| program.switches = switches).waits(1, syscall("read"), on(2), 940)
    };
    let why = why_shop(&db(3_000));
    assert_eq!(kinds(&why), ["peer"]);
    says(&why, "It waited 94 % of the time for db (pid 2), in read.");
    says(&why, "db was in waits shorter than 1 ms 93 % of the time.");
    // So it is where others of its threads sleep.
    let pool = db(3_000).waits(2, syscall("epoll_wait"), WaitedOn::Interrupt, 5_000);
    assert_eq!(kinds(&why_shop(&pool)), ["peer"]);
    let pool = Scene::new().with(1, "shop", 60, 10).but(|program| program.switches = 3_000);
    let why = why_shop(&pool.waits(1, syscall("epoll_wait"), WaitedOn::Interrupt, 5_000));
    assert_eq!(kinds(&why), ["unknown"]);
    says(&why, "it left the CPU 3000 times a second for waits shorter than 1 ms");
    // One that sleeps is idle: 50 waits a second, or as many as were followed.
    assert!(why_shop(&db(50)).causes.is_empty());
    let mut asleep = db(3_000).waits(2, syscall("epoll_wait"), WaitedOn::Interrupt, 930);
    asleep.waits.last_mut().unwrap().count = 2_990;
    assert!(why_shop(&asleep).causes.is_empty());
}

/// After a restart the process of the boot before was explained: it had begun later in its boot.
#[test]
fn of_a_pid_the_process_of_the_last_boot_is_meant() {
    let busy = |name| {
        let scene = Scene::busy().with(7, name, 90, 880).with(11, "indexer", 1_700, 0);
        scene.waits(7, WaitKind::Ready, on(11), 870)
    };
    let mut before = busy("old").intervals(0);
    for row in before.iter_mut().flat_map(|interval| &mut interval.processes) {
        row.key.start_ns = 900_000_000_000;
    }
    let why = why_of(&before, &busy("new").intervals(SECONDS), &WhySubject::Named("7".into()));
    assert_eq!((&*why.subject.name, why.subject.pid, why.subject.processes), ("new", Some(7), 1));
    assert!(share(&why, TimeState::Ready) > 0.8, "{:#?}", why.time);
}

/// `exec -a NAME` or `prctl(PR_SET_NAME)`: `ps` shows that name, and cpumon that of the executable.
#[test]
fn a_program_is_found_by_what_it_calls_itself() {
    let scene = Scene::busy().with(1, "python3.11", 90, 880).with(2, "worker", 900, 5);
    let mut intervals = scene.intervals(0);
    for row in intervals.iter_mut().flat_map(|interval| &mut interval.processes) {
        std::sync::Arc::make_mut(&mut row.info).comm =
            if row.key.pid == 1 { "shopd".into() } else { "worker".into() };
    }
    let ask = |name: &str| why_of(&intervals, &intervals, &WhySubject::Named(name.into())).subject;
    for name in ["shopd", "python3.11"] {
        assert_eq!((&*ask(name).name, ask(name).pid), (name, Some(1)));
    }
    assert_eq!(
        (&*ask("hopd").name, ask("hopd").pid),
        ("python3.11", Some(1)),
        "a part of it means the program"
    );
}
