//! What an answer says of each case.

use cpumon_model::{Fields, Interval, WaitKind, WaitReason, WaitedOn};

use super::super::part::WhyPart;
use super::super::subject;
use super::super::{CauseKind, SureLevel, TimeState, Why, WhySubject};
use super::scene::{Made, Scene, limit, on, syscall, thread_key, why_after, why_shop};
use crate::fields::Screen;
use crate::time::TimeRange;
use crate::{GroupBy, QueryError};

const READY: WaitKind = WaitKind::Ready;

pub(super) fn kinds(why: &Why) -> Vec<&'static str> {
    why.causes.iter().map(|cause| cause.cause.name()).collect()
}

#[track_caller]
pub(super) fn says(why: &Why, text: &str) {
    assert!(why.summary.iter().any(|line| line.contains(text)), "{text:?} is not in {:#?}", why.summary);
}

#[test]
fn it_waits_for_a_busy_program() {
    let scene = Scene::busy()
        .with(1, "shop", 15, 45)
        .with(2, "db", 530, 450)
        .with(3, "cc1plus", 900, 0)
        .waits(1, syscall("read"), on(2), 940)
        .waits(2, READY, on(3), 450);
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["peer"]);
    says(&why, "It waited 94 % of the time for db (pid 2), in read.");
    says(&why, "db ran 53 % and was ready 45 % of the time, behind cc1plus (pid 3).");
    let names: Vec<&str> = why.causes[0].culprits.iter().map(|one| &*one.name).collect();
    assert_eq!((names, why.sure.level), (vec!["db", "cc1plus"], SureLevel::High));
    assert_eq!(
        why.causes[0].command.as_deref(),
        Some("cpumon why db --since 2027-01-15T08:00:10Z --until 2027-01-15T08:00:20Z")
    );
}

/// `db` does nothing: who waits for it waits for work, as a server for its clients.
#[test]
fn to_wait_for_one_that_does_nothing_is_no_delay() {
    let scene = Scene::new()
        .with(1, "shop", 15, 5)
        .with(2, "db", 20, 5)
        .waits(1, syscall("read"), on(2), 940)
        .waits(2, syscall("clock_nanosleep"), WaitedOn::Interrupt, 900);
    let why = why_shop(&scene);
    assert!(why.causes.is_empty(), "{:#?}", why.causes);
    says(&why, "Nothing delays it");
}

#[test]
fn a_chain_is_followed_to_its_end() {
    let scene = Scene::busy()
        .with(1, "shop", 15, 5)
        .with(2, "db", 150, 800)
        .with(3, "backup", 1800, 0)
        .waits(1, syscall("read"), on(2), 940)
        .waits(2, READY, on(3), 800);
    let why = why_shop(&scene);
    says(&why, "db ran 15 % and was ready 80 % of the time, behind backup (pid 3).");
    assert_eq!(why.action, "Let db have a CPU: stop backup (pid 3) or let it go last.");
    assert_eq!(why.causes[0].command.as_deref(), Some("renice 10 -p $(ls /proc/3/task)"));
}

#[test]
fn six_others_want_the_same_cpus() {
    let mut scene = Scene::busy().with(1, "shop", 90, 880);
    for pid in 11..=16 {
        scene = scene.with(pid, "indexer", 300, 600).waits(1, READY, on(pid), 140);
    }
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["saturated"]);
    says(&why, "It was ready 88 % of the time and waited for a CPU behind 6 indexer (pids 11, 12, 13, ...).");
    says(&why, "indexer used 180 % of a CPU (before: 180 %).");
    assert_eq!(
        why.causes[0].command.as_deref(),
        Some("for pid in 11 12 13 14 15 16; do renice 10 -p $(ls /proc/$pid/task); done")
    );
    assert!((0.85..0.95).contains(&why.causes[0].share), "{}", why.causes[0].share);
}

/// Who was in front was not measured: it is concluded from who ran.
#[test]
fn without_waits_by_others_those_that_ran_were_in_front() {
    let mut scene = Scene::busy().with(1, "shop", 90, 880).with(11, "indexer", 1700, 0);
    scene.fields -= Fields::WAITS_FOR;
    let why = why_shop(&scene);
    assert_eq!((kinds(&why), why.sure.level), (vec!["saturated"], SureLevel::Medium));
    let culprit = &why.causes[0].culprits[0];
    assert_eq!((&*culprit.name, culprit.is_estimated), ("indexer", true));
    assert!(why.sure.not_measured.contains(&"on whom it waited".to_owned()), "{:?}", why.sure);
}

#[test]
fn it_starts_many_short_processes() {
    let scene = Scene {
        short: Some(("shop", 1, 460, 2_070)),
        ..Scene::new().with(1, "shop", 10, 5).waits(1, syscall("wait4"), WaitedOn::Others, 930)
    };
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["starts"]);
    says(&why, "It starts 460 processes a second and waits for them 93 % of the time.");
    says(&why, "Each runs 2.1 ms");
    assert_eq!(why.subject.processes, 1, "what it starts is not itself");
}

#[test]
fn another_has_real_time_priority() {
    let scene = Scene::busy()
        .with(1, "shop", 210, 740)
        .whose_thread(|thread| thread.cpu = Some(0))
        .with(2, "audiod", 700, 0)
        .whose_thread(|thread| (thread.priority, thread.cpu) = (-51, Some(0)))
        .waits(1, READY, on(2), 720)
        .waits(1, READY, WaitedOn::Others, 20);
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["priority"]);
    says(&why, "behind audiod (pid 2), which has real-time priority 50.");
    assert!(why.causes[0].evidence.contains(&"It ran on CPU 0 only, in 10 of 10 intervals.".to_owned()));
    assert_eq!(why.causes[0].command.as_deref(), Some("chrt --all-tasks --other --pid 0 2"));
    assert_eq!(why.causes[0].culprits[0].scheduling.as_deref(), Some("real-time 50"));
}

#[test]
fn its_own_nice_value_lets_others_go_first() {
    let scene = Scene::busy()
        .with(1, "shop", 9, 988)
        .whose_thread(|thread| (thread.nice, thread.priority) = (19, 39))
        .with(11, "indexer", 990, 5)
        .with(12, "indexer", 990, 5)
        .waits(1, READY, on(11), 490)
        .waits(1, READY, on(12), 490);
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["priority"]);
    says(&why, "2 indexer (pids 11, 12): it has nice 19, and they have nice 0, so they go first.");
    assert_eq!(why.causes[0].command.as_deref(), Some("renice 0 -p $(ls /proc/1/task)"));
}

#[test]
fn it_and_others_use_one_cpu_only() {
    let pinned = |thread: &mut Made| thread.cpu = Some(0);
    let mut scene = Scene { idle: [0, 400], ..Scene::new() }.with(1, "shop", 240, 700).whose_thread(pinned);
    for pid in 11..=13 {
        scene = scene.with(pid, "indexer", 240, 700).whose_thread(pinned).waits(1, READY, on(pid), 230);
    }
    let why = why_shop(&scene);
    assert_eq!((kinds(&why), why.sure.level), (vec!["affinity"], SureLevel::High));
    says(&why, "behind 3 indexer (pids 11, 12, 13): it ran on CPU 0 only.");
    says(&why, "The other CPUs were idle 40 % of the time.");
    assert_eq!(why.causes[0].command.as_deref(), Some("taskset --all-tasks --cpu-list --pid 0-1 1"));
    // The other CPU is busy, too: that they never leave theirs shows it.
    let why = why_shop(&Scene { idle: [0; 2], ..scene });
    assert_eq!((kinds(&why), why.sure.level), (vec!["affinity"], SureLevel::Medium));
}

#[test]
fn its_own_thread_is_at_a_full_cpu() {
    let scene = Scene::new().with(1, "shop", 930, 50).but(|program| program.system = 700);
    let why = why_shop(&Scene { idle: [30, 900], ..scene });
    assert_eq!(kinds(&why), ["one-thread"]);
    says(&why, "Its own code: thread shop (1) used a whole CPU, 93 % of the time");
    says(&why, "75 % of that in the kernel.");
    assert_eq!(why.causes[0].culprits[0].tid, Some(1));
}

#[test]
fn a_thread_sleeps_with_the_lock() {
    let worker = |tid: u32| Made {
        tid,
        comm: "worker",
        run: 40,
        ready: 70,
        nice: 0,
        priority: 20,
        cpu: None,
        has_one_cpu: false,
        state: b'S',
        sleeps: 0,
    };
    let threads: Vec<Made> = (101..=108).map(worker).collect();
    let flusher = Made { comm: "flusher", run: 5, ready: 0, ..worker(100) };
    let scene = Scene { idle: [500; 2], ..Scene::new() }
        .with(1, "shop", 0, 0)
        .but(|program| program.threads = [threads, vec![flusher]].concat())
        .waits(1, syscall("futex"), WaitedOn::Thread(thread_key(100)), 4_500)
        .waits(1, syscall("futex"), WaitedOn::Thread(thread_key(101)), 2_540)
        .waits(1, syscall("clock_nanosleep"), WaitedOn::Interrupt, 650);
    let why = why_shop(&scene);
    assert_eq!((kinds(&why), why.sure.level), (vec!["lock"], SureLevel::Medium));
    says(&why, "for a lock (futex), 64 % of it until thread flusher (100) released it.");
    assert_eq!(why.action, "Release the lock before thread flusher (100) sleeps or waits.");
    assert_eq!(why.causes[0].culprits[0].tid, Some(100));
    // It waits for the lock itself six times for each time that it sleeps with it. A wait that is passed on counts for it, and is counted
    // for the one that passed it on.
    let mut handed = scene.clone().but(|program| program.threads.last_mut().unwrap().sleeps = 148);
    (handed.waits[0].ns, handed.waits[0].count) = (5_400_000_000, 25);
    (handed.waits[1].ns, handed.waits[1].count) = (1_350_000_000, 460);
    assert!(kinds(&why_shop(&handed)).contains(&"lock"));
    // One that wakes ten times within each wait does not hold a lock all the while: it passes work to a pool.
    let waking = scene.clone().but(|program| program.threads.last_mut().unwrap().sleeps = 100);
    assert!(kinds(&why_shop(&waking)).contains(&"lock"), "each wait is short");
    let mut pool = waking;
    pool.waits.iter_mut().for_each(|wait| wait.count = 10);
    assert!(!kinds(&why_shop(&pool)).contains(&"lock"));
    // Nor does one that gives work each second, for which others wait a third of it.
    let mut timer = scene.clone().but(|program| program.threads.last_mut().unwrap().sleeps = 1);
    timer.waits.iter_mut().for_each(|wait| wait.count = 14);
    assert!(!kinds(&why_shop(&timer)).contains(&"lock"));
    timer.waits.iter_mut().for_each(|wait| wait.count = 5);
    assert!(kinds(&why_shop(&timer)).contains(&"lock"), "waits as long as its sleeps");
    let mut busy = Scene { idle: [0; 2], ..scene };
    assert_eq!(kinds(&why_shop(&busy))[..1], ["lock"], "also where no CPU is free");
    // The threads of a compiler without work: who ends most of such waits sleeps, and ends few of them.
    for tid in 102..=104 {
        busy = busy.waits(1, syscall("futex"), WaitedOn::Thread(thread_key(tid)), 4_000);
    }
    assert!(!kinds(&why_shop(&busy)).contains(&"lock"));
}

/// Where no CPU is free it is the CPUs that limit them; and a thread that joins others waits for their work.
#[test]
fn threads_that_work_are_no_lock() {
    let worker = |tid: u32, run: i64| Made {
        tid,
        comm: "worker",
        run,
        ready: 300,
        nice: 0,
        priority: 20,
        cpu: None,
        has_one_cpu: false,
        state: b'S',
        sleeps: 0,
    };
    let scene = |idle: i64, count: u64| {
        let scene = Scene { idle: [idle; 2], ..Scene::new() };
        let threads = vec![worker(1, 5), worker(101, 300), worker(102, 300), worker(103, 300)];
        let mut scene = scene.with(1, "shop", 0, 0).but(|program| program.threads = threads).waits(
            1,
            syscall("futex"),
            WaitedOn::Thread(thread_key(101)),
            1_200,
        );
        scene.waits[0].count = count;
        let why = why_shop(&scene);
        // TIME shows the lock all the same.
        assert!(!why.summary.iter().any(|sentence| sentence.contains("no lock")), "{:?}", why.summary);
        kinds(&why).contains(&"lock")
    };
    assert!(scene(500, 400), "CPUs are free, and each wait is short");
    assert!(!scene(0, 400), "no CPU is free");
    assert!(!scene(500, 1), "each wait is long, and the others work meanwhile");
}

#[test]
fn two_programs_make_interrupts() {
    let before = Scene { softirq: 2, ..Scene::busy().with(1, "shop", 900, 50) };
    let mut now = Scene { softirq: 240, fields: before.fields | Fields::IRQ, ..Scene::busy() };
    now = now.with(1, "shop", 200, 650);
    for pid in 11..=12 {
        now = now.with(pid, "probe", 440, 400).but(|program| (program.system, program.began) = (430, true));
        now = now.waits(1, READY, on(pid), 320);
    }
    let before = Scene { fields: now.fields, ..before };
    let why = why_after(&before, &now, &WhySubject::Named("shop".into()));
    assert_eq!(kinds(&why), ["saturated", "interrupts"]);
    says(&why, "probe used 88 % of a CPU (before: 0 %) and began in this time.");
    says(&why, "Then: Soft interrupts (net_rx) rose from 0.2 to 24 % of a CPU.");
    assert_eq!(&*why.causes[1].culprits[0].name, "probe");
}

#[test]
fn the_limit_of_its_group_is_used_up() {
    let scene = Scene { limit: Some(limit("/scen", 700)), ..Scene::new() }
        .with(1, "shop", 200, 720)
        .but(|program| program.cgroup = "/scen")
        .waits(1, WaitKind::Throttled, WaitedOn::Others, 700);
    for scene in
        [scene.clone(), Scene { waits: Vec::new(), fields: scene.fields - Fields::WAITS_FOR, ..scene }]
    {
        let why = why_shop(&scene);
        assert_eq!(kinds(&why), ["quota"]);
        says(&why, "The CPU limit of /scen (0.20 CPU) was used up in 100 % of the periods.");
        says(&why, "It waited for the next period 70 % of the time.");
        assert_eq!(why.causes[0].command.as_deref(), Some("echo max > /sys/fs/cgroup/scen/cpu.max"));
    }
}

#[test]
fn it_waits_for_a_disk() {
    let disk = WaitKind::Blocked(WaitReason::DISK);
    let scene = Scene { idle: [900; 2], ..Scene::new() }
        .with(1, "shop", 88, 30)
        .waits(1, disk, WaitedOn::Interrupt, 800)
        .with(2, "rsync", 50, 5)
        .waits(2, disk, WaitedOn::Interrupt, 300);
    let why = why_shop(&scene);
    assert_eq!((kinds(&why), why.sure.level), (vec!["disk"], SureLevel::High));
    says(&why, "It waited 80 % of the time for a disk, 46 times a second for 17 ms each.");
    says(&why, "rsync (pid 2) waited for a disk, too.");
    // Waits of 45 µs are not followed: the state of the thread shows them.
    let scene = Scene { idle: [900; 2], ..Scene::new() }
        .with(1, "shop", 88, 30)
        .but(|program| program.switches = 5_400)
        .whose_thread(|thread| thread.state = b'D');
    let why = why_shop(&scene);
    assert_eq!((kinds(&why), why.sure.level), (vec!["disk"], SureLevel::Medium));
    says(&why, "in about 5400 waits a second of 0.16 ms each.");
}

#[test]
fn its_pages_come_from_a_disk() {
    let scene = Scene { idle: [900; 2], ..Scene::new() }
        .with(1, "shop", 88, 30)
        .but(|program| program.faults = 210)
        .waits(1, WaitKind::Blocked(WaitReason::PAGE_FAULT), WaitedOn::Interrupt, 500);
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["faults"]);
    says(&why, "It waited 50 % of the time for pages from a disk: 210 major page faults a second.");
}

#[test]
fn the_hypervisor_takes_time() {
    let scene = Scene { idle: [100; 2], steal: 400, ..Scene::new() }.with(1, "shop", 500, 20);
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["steal"]);
    says(&why, "The hypervisor took 22 % of the time in which the CPUs of this machine had work (steal).");
}

/// Its own sleep is no slowness: this is an answer, too.
#[test]
fn nothing_delays_one_that_sleeps_by_its_own_timer() {
    let scene = Scene { idle: [600; 2], ..Scene::new() }.with(1, "shop", 90, 80).waits(
        1,
        syscall("clock_nanosleep"),
        WaitedOn::Interrupt,
        810,
    );
    let why = why_shop(&scene);
    assert!(why.causes.is_empty(), "{:#?}", why.causes);
    says(&why, "Nothing delays it: 81 % of the time it slept by its own timer or for work");
    says(&why, "(clock_nanosleep, 46 times a second for 18 ms each), 9 % it ran, 8 % it was ready.");
    assert_eq!((why.sure.level, why.slow_since_ns), (SureLevel::High, None));
    let states: Vec<TimeState> = why.time.states.iter().map(|one| one.state).collect();
    assert_eq!(states, [TimeState::Ran, TimeState::Ready, TimeState::Asleep, TimeState::Rest]);
    let lasts = "no wait ended: one that lasts, as of a program that hangs, is not measured.";
    assert!(!why.summary.iter().any(|line| line.contains(lasts)), "{:#?}", why.summary);
    // One that hangs: no wait of it ends.
    let why = why_shop(&Scene::new().with(1, "shop", 9, 1));
    says(&why, "Nothing delays it");
    says(&why, &format!("For 99 % of the time {lasts}"));
    // A server that waits for packets, and one whose threads wait for work.
    for (call, ended_by) in [("epoll_wait", WaitedOn::Interrupt), ("recvfrom", WaitedOn::Interrupt)] {
        let why = why_shop(&Scene::new().with(1, "shop", 20, 5).waits(1, syscall(call), ended_by, 900));
        assert!(why.causes.is_empty(), "{call}: {:#?}", why.causes);
    }
    let mut pool = Scene::new().with(1, "shop", 20, 5);
    pool = pool.waits(1, syscall("futex"), WaitedOn::Thread(thread_key(9)), 7_900);
    let why = why_shop(&pool);
    assert!(why.causes.is_empty(), "eight threads that wait 170 ms for work: {:#?}", why.causes);
}

#[test]
fn the_cause_is_not_known_where_waits_were_not_measured() {
    let mut scene = Scene { idle: [900; 2], ..Scene::new() }.with(1, "shop", 90, 50);
    scene.fields -= Fields::WAITS_FOR;
    let why = why_shop(&scene);
    assert_eq!((kinds(&why), why.sure.level), (vec!["unknown"], SureLevel::Low));
    says(
        &why,
        "The cause is not known: it was off the CPUs 86 % of the time, and what it waited for was not measured.",
    );
    assert_eq!(why.causes[0].command.as_deref(), Some("cpumon trace record --for 5s -o why.trace"));
    // With waits by reason, but not by whom.
    let why = why_shop(&Scene { fields: scene.fields - Fields::RUN_DELAY, ..scene });
    says(&why, "The cause is not known: how long it waited for a CPU was not measured.");
}

#[test]
fn a_machine_is_short_of_cpus_or_of_nothing() {
    let quiet = Scene { idle: [900; 2], ..Scene::new() }.with(1, "shop", 90, 10);
    let why = why_after(&quiet, &quiet, &WhySubject::Machine);
    assert!(why.causes.is_empty(), "{:#?}", why.causes);
    says(&why, "Nothing is short: the CPUs were idle 90 % of the time");
    let mut busy = Scene::busy().with(1, "shop", 90, 880);
    for pid in 11..=16 {
        busy = busy.with(pid, "indexer", 300, 600).but(|program| program.began = true);
        busy = busy.waits(1, READY, on(pid), 140);
    }
    let why = why_after(&quiet, &busy, &WhySubject::Machine);
    assert_eq!(kinds(&why), ["saturated"]);
    says(&why, "indexer used 180 % of a CPU (before: 0 %) and began in this time.");
    assert_eq!((why.subject.by.as_deref(), &*why.subject.name), (None, "vm"));
}

/// A range in which an agent was started had neither waits nor limits.
#[test]
fn an_interval_without_length_takes_no_field_away() {
    let one = Scene::new().with(1, "shop", 10, 1).interval(1);
    let restart = Interval { begin: one.end, fields: Fields::RUN, ..one.clone() };
    let mut part = WhyPart::new(TimeRange { since_ns: 0, until_ns: 1 });
    for interval in [&restart, &one] {
        part.add(&cpumon_store::Segment::of(interval));
    }
    assert_eq!((part.fields, part.length_ns), (one.fields, one.duration_ns()));
}

#[test]
fn a_name_means_a_program_exactly_or_the_only_one_that_has_it() {
    let scene = Scene::new().with(1, "shop", 10, 1).with(2, "shop-db", 10, 1).with(3, "db", 10, 1);
    let mut part = WhyPart::new(TimeRange { since_ns: 0, until_ns: 1 });
    part.add(&cpumon_store::Segment::of(&scene.interval(1)));
    let parts = [part];
    let find = |subject: WhySubject| subject::find(&parts, "vm", &subject).map(|found| found.target);
    let named = |name: &str| find(WhySubject::Named(name.into()));
    assert_eq!(named("shop").unwrap().pid, Some(1));
    assert_eq!(&*named("SHOP-").unwrap().name, "shop-db");
    assert_eq!((named("3").unwrap().pid, &*named("3").unwrap().name), (Some(3), "db"));
    let Err(QueryError::WhichProgram { names, count, .. }) = named("h") else { panic!() };
    assert_eq!((names, count), (vec!["shop".to_owned(), "shop-db".to_owned()], 2));
    let missing = named("no\u{1b}").unwrap_err().to_string();
    assert_eq!(missing, "no process no\\x1b did anything in this range");
    assert_eq!(find(WhySubject::Group(GroupBy::User, "ann".into())).unwrap().processes, 3);
}

#[test]
fn the_answer_reads_well_and_comes_back_from_its_json() {
    let scene = Scene::busy().with(1, "shop", 15, 45).with(2, "d\u{1b}b", 530, 450).waits(
        1,
        syscall("read"),
        on(2),
        940,
    );
    let why = why_shop(&scene);
    let text = serde_json::to_string(&why).unwrap();
    assert_eq!(serde_json::from_str::<Why>(&text).unwrap(), why);
    assert!(text.contains("\"cause\":\"peer\"") && text.contains("\"since_ns\":\"18"), "{text}");
    assert_eq!(why.causes[0].cause, CauseKind::Peer);
    let blocks = why.blocks(Screen::default());
    let titles: Vec<&str> = blocks.iter().map(|block| block.title).collect();
    assert_eq!(titles, ["WHY", "DO", "TIME", "SURE", "MORE"]);
    let lines: Vec<&String> = blocks.iter().flat_map(|block| &block.lines).collect();
    assert!(lines.iter().all(|line| !line.contains('\u{1b}')), "{lines:#?}");
    let time = &blocks[2].lines;
    assert!(time[0].contains("NOW") && time[0].contains("BEFORE"), "{time:#?}");
    assert!(time.iter().any(|line| line.starts_with("read") && line.ends_with("until d\\x1bb")), "{time:#?}");
    let read = why.time.states.iter().find(|one| one.state == TimeState::Blocked).unwrap();
    assert!(read.label.starts_with("read") && read.note == "until d\\x1bb", "other frontends: {read:?}");
    assert!(read.before.is_some() && why.sure.sentences[0].contains(". It rests on "), "{read:?}");
    assert!(why.head(Screen::default()).starts_with("shop on vm, "), "{}", why.head(Screen::default()));
}
