//! Who is in front at the CPUs, and which of it is the cause.

use cpumon_model::{Fields, WaitKind};

use super::super::{SureLevel, Why, WhySubject};
use super::causes::{kinds, says};
use super::scene::{Made, Scene, on, syscall, why_after, why_shop};

const READY: WaitKind = WaitKind::Ready;

fn on_first(thread: &mut Made) {
    thread.cpu = Some(0);
}

fn on_second(thread: &mut Made) {
    thread.cpu = Some(1);
}

#[test]
fn its_nice_value_is_the_cause_also_where_it_is_bound_to_a_cpu() {
    let scene = Scene { idle: [0, 400], ..Scene::new() }
        .with(1, "shop", 9, 988)
        .whose_thread(on_first)
        .whose_thread(|thread| (thread.nice, thread.priority) = (19, 39))
        .with(11, "indexer", 990, 5)
        .whose_thread(on_first)
        .waits(1, READY, on(11), 980);
    assert_eq!(kinds(&why_shop(&scene)), ["priority"]);
}

/// A server with a worker for each CPU.
#[test]
fn each_process_of_a_program_may_have_a_cpu_of_its_own() {
    let scene = Scene::busy()
        .with(1, "shop", 240, 720)
        .whose_thread(on_first)
        .with(2, "shop", 240, 700)
        .whose_thread(on_second)
        .with(11, "indexer", 240, 700)
        .whose_thread(on_first)
        .with(12, "indexer", 240, 700)
        .whose_thread(on_second)
        .waits(1, READY, on(11), 690)
        .waits(2, READY, on(12), 690);
    let why = why_shop(&scene);
    assert_eq!((kinds(&why), why.sure.level), (vec!["affinity"], SureLevel::Medium));
    says(&why, "behind 2 indexer (pids 11, 12): its processes ran on one CPU each, of 2.");
    says(&why, "2 of its 2 processes ran on one CPU only, pid 1 on CPU 0 in 10 of 10 intervals.");
    let command = "for pid in 1 2; do taskset --all-tasks --cpu-list --pid 0-1 $pid; done";
    assert_eq!(why.causes[0].command.as_deref(), Some(command), "of both");
}

/// Where affinities are measured, a program that ran on one CPU by chance is not bound to it, and one that began just now is.
#[test]
fn an_affinity_that_was_measured_needs_no_conclusion() {
    let scene = Scene { idle: [0, 400], ..Scene::new() }
        .with(1, "shop", 90, 880)
        .whose_thread(on_first)
        .with(11, "indexer", 900, 5)
        .waits(1, READY, on(11), 870);
    let scene = Scene { fields: scene.fields | Fields::AFFINITY, ..scene };
    assert_eq!(kinds(&why_shop(&scene)), ["saturated"], "it could have run elsewhere");
    let mut bound = scene;
    bound.programs[0].threads[0].has_one_cpu = true;
    let why = why_shop(&bound);
    assert_eq!((kinds(&why), why.sure.level), (vec!["affinity"], SureLevel::High));
    says(&why, "It may run on CPU 0 only, by its affinity.");
    assert_eq!(why.action, "Let it use all CPUs.");
    assert!(
        why.sure.not_measured.iter().any(|what| what == "affinities of more CPUs than one"),
        "{:?}",
        why.sure
    );
}

#[test]
fn a_program_is_bound_to_a_cpu_only_if_most_of_its_waiting_is() {
    let scene = Scene { idle: [0, 400], ..Scene::new() }
        .with(1, "shop", 90, 200)
        .whose_thread(on_first)
        .with(2, "shop", 90, 700)
        .with(11, "indexer", 900, 5)
        .waits(1, READY, on(11), 190)
        .waits(2, READY, on(11), 690);
    assert_eq!(kinds(&why_shop(&scene)), ["saturated"], "the other process ran everywhere");
}

#[test]
fn threads_of_the_kernel_that_serve_a_cpu_share_no_affinity() {
    let scene = Scene::busy()
        .with(1, "shop", 300, 650)
        .whose_thread(on_first)
        .with(11, "kworker/0:1", 690, 5)
        .whose_thread(on_first)
        .but(|program| program.is_kernel = true)
        .waits(1, READY, on(11), 640);
    assert_eq!(kinds(&why_shop(&scene)), ["saturated"]);
}

/// Each of two reasons to go first takes less than a tenth of the time.
#[test]
fn programs_that_go_first_for_a_short_time_keep_their_names() {
    let scene = Scene::busy()
        .with(1, "shop", 700, 180)
        .with(2, "audiod", 90, 0)
        .whose_thread(|thread| thread.priority = -51)
        .with(3, "indexer", 90, 0)
        .whose_thread(|thread| (thread.nice, thread.priority) = (-5, 15))
        .waits(1, READY, on(2), 90)
        .waits(1, READY, on(3), 90);
    let why = why_shop(&scene);
    assert_eq!((kinds(&why), why.sure.level), (vec!["saturated"], SureLevel::High));
    says(
        &why,
        "It was ready 18 % of the time and waited for a CPU behind audiod (pid 2) and indexer (pid 3).",
    );
}

/// Adds a thread of the kernel.
fn with_kernel(scene: Scene, pid: u32, name: &'static str, run: i64) -> Scene {
    scene.with(pid, name, run, 5).but(|program| program.is_kernel = true)
}

/// No action changes or stops it, and no command is of it.
#[track_caller]
fn leaves_alone(why: &Why, name: &str, pid: &str) {
    for cause in &why.causes {
        assert!(!cause.action.starts_with("Stop") || !cause.action.contains(name), "{cause:?}");
        assert!(!cause.action.starts_with("Take") && !cause.action.starts_with("Give"), "{cause:?}");
        let command = cause.command.as_deref().unwrap_or_default();
        let is_of_it = command.ends_with(&format!(" {pid}")) || command.contains(&format!("/proc/{pid}/"));
        assert!(!command.contains(name) && !is_of_it, "{cause:?}");
    }
    assert!(why.more.iter().all(|command| !command.contains(name)), "{:?}", why.more);
}

#[test]
fn threads_of_the_kernel_are_neither_stopped_nor_given_another_priority() {
    // By nice value, by real-time priority, and by neither.
    for (nice, priority) in [(0, 20), (-20, 0), (0, -100)] {
        let scene = with_kernel(Scene::busy().with(1, "shop", 300, 650), 11, "kworker/0:1", 690)
            .whose_thread(|thread| (thread.nice, thread.priority) = (nice, priority))
            .waits(1, READY, on(11), 640);
        let why = why_shop(&scene);
        assert_eq!(kinds(&why), ["saturated"], "nice {nice}, priority {priority}");
        says(&why, "behind kworker (pid 11).");
        assert!(why.action.starts_with("Find which program gives kworker (pid 11) its work"), "{why:?}");
        leaves_alone(&why, "kworker", "11");
    }
    // What has a nice value itself is given the usual one.
    let scene = with_kernel(Scene::busy().with(1, "shop", 9, 900), 11, "kworker/0:1", 900);
    let mut scene = scene.waits(1, READY, on(11), 890);
    (scene.programs[0].threads[0].nice, scene.programs[0].threads[0].priority) = (10, 30);
    let why = why_shop(&scene);
    assert_eq!(
        (kinds(&why), why.causes[0].command.as_deref()),
        (vec!["priority"], Some("renice 0 -p $(ls /proc/1/task)"))
    );
    // One that it waits for, itself or at the end of a chain.
    let scene = with_kernel(Scene::busy().with(1, "shop", 15, 5), 11, "kworker/0:1", 900);
    let why = why_shop(&scene.waits(1, syscall("read"), on(11), 940));
    assert_eq!((kinds(&why), &why.causes[0].command), (vec!["peer"], &None));
    leaves_alone(&why, "kworker", "11");
    let chain = Scene::busy().with(1, "shop", 15, 5).with(2, "db", 150, 800);
    let chain = with_kernel(chain, 11, "kworker/0:1", 1_800).waits(1, syscall("read"), on(2), 940);
    let why = why_shop(&chain.waits(2, READY, on(11), 800));
    says(&why, "db ran 15 % and was ready 80 % of the time, behind kworker (pid 11).");
    leaves_alone(&why, "kworker", "11");
}

#[test]
fn threads_of_the_kernel_that_work_for_interrupts_mean_interrupts() {
    let before = Scene::busy().with(1, "shop", 900, 50);
    for (name, priority) in [("ksoftirqd/0", 20), ("irq/24-nvme0q1", -51)] {
        let now = with_kernel(Scene::busy().with(1, "shop", 300, 650), 13, name, 690)
            .but(|program| program.system = 690)
            .whose_thread(|thread| thread.priority = priority)
            .waits(1, READY, on(13), 640)
            .with(20, "probe", 300, 10)
            .but(|program| program.system = 290);
        let why = why_after(&before, &now, &WhySubject::Named("shop".into()));
        assert_eq!(kinds(&why), ["interrupts"], "{name}");
        let family = name.split('/').next().unwrap();
        says(&why, &format!("behind {family} (pid 13): the work of interrupts."));
        assert_eq!(why.action, "Stop or limit probe (pid 20).");
        leaves_alone(&why, family, "13");
    }
    // A program of that name is one like others.
    let scene =
        Scene::busy().with(1, "shop", 300, 650).with(13, "irq/fake", 690, 5).waits(1, READY, on(13), 640);
    assert_eq!(kinds(&why_shop(&scene)), ["saturated"]);
}

/// Packets from outside: the programs of this machine were in the kernel as long as before, or nearly.
#[test]
fn interrupts_that_no_program_makes_have_no_culprit() {
    for (system, expected) in [(12, &[] as &[&str]), (200, &["sshd"])] {
        let quiet = Scene { softirq: 2, ..Scene::busy() }.with(1, "shop", 900, 50).with(2, "sshd", 300, 5);
        let flood = Scene { softirq: 400, ..quiet.clone() }.but(|program| program.system = system);
        let why = why_after(&quiet, &flood, &WhySubject::Machine);
        let cause = why.causes.iter().find(|one| one.cause.name() == "interrupts");
        let cause = cause.unwrap_or_else(|| panic!("{:#?}", why.causes));
        let names: Vec<&str> = cause.culprits.iter().map(|one| &*one.name).collect();
        assert_eq!(names, expected, "{system} ms in the kernel");
    }
}

#[test]
fn what_is_bound_to_a_cpu_meets_the_interrupts_and_the_steal_of_that_cpu() {
    let quiet = Scene::busy().with(1, "shop", 500, 20);
    let there = |cpu: u16| {
        let scene = Scene { idle: [0, 600], softirq: 400, steal: 200, ..Scene::new() };
        let scene = Scene { cpu_softirq: [400, 0], cpu_steal: [200, 0], ..scene };
        let scene = scene.with(1, "shop", 500, 20).whose_thread(|thread| thread.cpu = Some(cpu));
        why_after(&quiet, &scene, &WhySubject::Named("shop".into()))
    };
    let share = |kind: &str| {
        let why = there(0);
        why.causes.iter().find(|one| one.cause.name() == kind).map(|one| one.share)
    };
    assert!(share("interrupts").is_some_and(|share| (0.39..0.41).contains(&share)), "{:?}", there(0).causes);
    assert!(share("steal").is_some_and(|share| (0.19..0.21).contains(&share)), "{:?}", there(0).causes);
    assert!(there(1).causes.is_empty(), "its CPU has none: {:?}", there(1).causes);
    // Other CPUs are free, its own is not.
    let scene = Scene { idle: [0, 100], ..Scene::new() }
        .with(1, "shop", 300, 650)
        .whose_thread(on_first)
        .with(11, "indexer", 900, 5)
        .waits(1, READY, on(11), 640);
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["saturated"]);
    says(&why, "CPU 0 was busy 100 % of the time.");
}
