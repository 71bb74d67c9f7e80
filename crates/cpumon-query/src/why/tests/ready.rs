//! Time that the CPUs, their limits, the hypervisor and interrupts take.

use std::sync::Arc;

use cpumon_model::{
    CgroupInterval, Delta, Fields, Life, ProcessInfo, ProcessInterval, ProcessKey, WaitKind, WaitedOn,
};

use super::super::{SureLevel, WhySubject};
use super::causes::{kinds, says};
use super::scene::{MS, Made, SECONDS, Scene, limit, on, why_after, why_of, why_shop};

const READY: WaitKind = WaitKind::Ready;

/// An idle CPU loses nothing to the hypervisor, so its time does not count.
#[test]
fn steal_is_a_share_of_the_time_in_which_there_was_work() {
    let little = Scene { idle: [50; 2], steal: 120, ..Scene::new() }.with(1, "shop", 700, 20);
    let why = why_shop(&little);
    assert!(why.causes.is_empty(), "6 %: {:#?}", why.causes);
    let much = Scene { idle: [900; 2], steal: 50, ..Scene::new() }.with(1, "shop", 140, 400).waits(
        1,
        READY,
        WaitedOn::Others,
        390,
    );
    let why = why_shop(&much);
    let steal = why.causes.iter().find(|cause| cause.cause.name() == "steal");
    let steal = steal.unwrap_or_else(|| panic!("{:#?}", why.causes));
    assert!(steal.sentence.starts_with("The hypervisor took 25 % of the time in which"), "{steal:#?}");
    let machine = Scene { idle: [400; 2], steal: 300, ..Scene::new() }.with(1, "shop", 300, 0);
    let why = why_after(&machine, &machine, &WhySubject::Machine);
    assert_eq!(kinds(&why), ["steal"], "15 % of all time: {:#?}", why.causes);
}

#[test]
fn interrupts_count_where_the_subject_ran() {
    let with_irq = |softirq: i64| {
        let scene = Scene { softirq, fields: Scene::new().fields | Fields::IRQ, ..Scene::busy() };
        scene.with(1, "shop", 750, 150).whose_thread(|thread| thread.cpu = Some(0)).waits(
            1,
            READY,
            WaitedOn::Others,
            140,
        )
    };
    let subject = WhySubject::Named("shop".into());
    let ask = |softirq: i64| {
        let [before, mut now] = [(2, 0), (softirq, SECONDS)].map(|(ms, from)| with_irq(ms).intervals(from));
        for interval in &mut now {
            interval.cpus[0].times.softirq_ns = (softirq * MS).unsigned_abs();
        }
        why_of(&before, &now, &subject)
    };
    let few = ask(80);
    assert!(!kinds(&few).contains(&"interrupts"), "7 % of its CPU: {:#?}", few.causes);
    let many = ask(160);
    assert!(kinds(&many).contains(&"interrupts"), "8 % of all CPUs, 14 % of its own: {:#?}", many.causes);
}

#[test]
fn a_run_delay_behind_unknown_programs_is_stated_as_such() {
    let scene = Scene::busy().with(1, "shop", 200, 750).waits(1, READY, WaitedOn::Others, 700);
    let why = why_shop(&scene);
    assert_eq!((kinds(&why), why.sure.level), (vec!["saturated"], SureLevel::Low));
    says(&why, "waited for a CPU; which programs were in front is not known.");
    let scene = Scene::busy()
        .with(1, "shop", 200, 700)
        .with(2, "indexer", 900, 0)
        .waits(1, READY, WaitedOn::Others, 350)
        .waits(1, READY, on(2), 350);
    let why = why_shop(&scene);
    assert_eq!((kinds(&why), why.sure.level), (vec!["saturated"], SureLevel::Medium));
    says(&why, "behind indexer (pid 2).");
    says(&why, "For 50 % of that time it is not known which programs were in front of it.");
}

#[test]
fn a_limit_of_an_unknown_group_is_a_cause() {
    let scene = Scene { idle: [500; 2], ..Scene::new() }.with(1, "shop", 200, 720).waits(
        1,
        WaitKind::Throttled,
        WaitedOn::Others,
        700,
    );
    let why = why_shop(&scene);
    assert_eq!((kinds(&why), why.sure.level), (vec!["quota"], SureLevel::Medium));
    says(&why, "A CPU limit kept it off the CPUs 70 % of the time; which control group has it is not known.");
}

/// Both groups have the limit of the one above them; the first was there for a second only.
#[test]
fn a_limit_counts_by_the_group_that_was_there_longest() {
    let mut scene = Scene::new()
        .with(1, "shop", 200, 720)
        .but(|program| program.cgroup = "/pods/b")
        .with(2, "shop", 1, 0)
        .but(|program| program.cgroup = "/pods/a");
    scene.fields -= Fields::WAITS_FOR;
    let group = |path: &str| CgroupInterval { limiter_bytes: 5, ..limit(path, 700) };
    let intervals = |from: i64| {
        let mut all = scene.intervals(from);
        for interval in &mut all {
            interval.cgroups = vec![group("/pods/b")];
        }
        all[0].cgroups.insert(0, group("/pods/a"));
        all
    };
    let why = why_of(&intervals(0), &intervals(SECONDS), &WhySubject::Named("shop".into()));
    assert_eq!(kinds(&why), ["quota"], "{:#?}", why.causes);
    says(&why, "The CPU limit of /pods (0.20 CPU) was used up in 100 % of the periods.");
    says(&why, "It waited for the next period 70 % of the time.");
}

/// The counters of a group are of all its processes.
#[test]
fn throttled_time_is_no_time_that_was_ready() {
    let scene = Scene { limit: Some(limit("/scen", 900)), ..Scene::busy() }
        .with(1, "shop", 100, 880)
        .but(|program| program.cgroup = "/scen")
        .with(2, "indexer", 900, 0)
        .waits(1, READY, on(2), 600)
        .waits(1, WaitKind::Throttled, WaitedOn::Others, 190);
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["saturated", "quota"], "{:#?}", why.causes);
    says(&why, "It was ready 60 % of the time");
    says(&why, "It waited for the next period 28 % of the time.");
}

/// Linux 6.12 and later count time in which threads slept as run delay.
#[test]
fn run_delay_that_no_wait_shows_does_not_count() {
    let mut scene = Scene { idle: [900; 2], ..Scene::new() }.with(1, "shop", 100, 850);
    scene = scene.but(|program| program.switches = 50);
    let why = why_shop(&scene);
    assert!(why.causes.iter().all(|cause| cause.cause.name() != "saturated"), "{:#?}", why.causes);
    let ready = why.time.states.iter().find(|state| state.label == "ready").unwrap();
    assert!((0.049..0.051).contains(&ready.share), "1 ms for each of 50 switches: {ready:?}");
    // With as many switches the count has no bound: no wait was long, and the CPUs were idle.
    let browser = |idle: i64| {
        let scene = Scene { idle: [idle; 2], ..Scene::new() }.with(1, "shop", 300, 450);
        why_shop(&scene.but(|program| program.switches = 900))
    };
    let why = browser(700);
    assert!(why.causes.is_empty(), "{:#?}", why.causes);
    says(&why, "It was ready in waits shorter than 1 ms, and the CPUs were idle 70 % of the time");
    assert_eq!(kinds(&browser(100)), ["saturated"], "busy CPUs");
    // Few waits that are known say nothing of all others.
    let scene = Scene::busy()
        .with(1, "shop", 100, 800)
        .but(|program| program.switches = 900)
        .with(2, "indexer", 900, 0)
        .waits(1, READY, on(2), 300);
    let why = why_shop(&scene);
    says(&why, "It was ready 80 % of the time");
    let culprit = &why.causes[0].culprits[0];
    assert_eq!((&*culprit.name, culprit.ns), ("indexer", (3_000 * MS).unsigned_abs()));
}

/// Who was in front was not measured: a program that hardly ran was in front of few.
#[test]
fn its_own_threads_are_in_front_and_not_an_idle_program() {
    let thread = |tid: u32| Made {
        tid,
        comm: "worker",
        run: 123,
        ready: 877,
        nice: 0,
        priority: 20,
        cpu: None,
        has_one_cpu: false,
        state: b'R',
        sleeps: 0,
    };
    let mut scene = Scene::busy().with(2, "daemon", 20, 0).with(1, "shop", 0, 0);
    scene = scene.but(|program| program.threads = (101..=116).map(thread).collect());
    scene.fields -= Fields::WAITS_FOR;
    let why = why_shop(&scene);
    assert_eq!(kinds(&why), ["saturated"], "{:#?}", why.causes);
    says(&why, "behind its own threads");
    // Most of the time is behind those that are not known.
    let mut scene = Scene::busy().with(2, "daemon", 20, 0).with(1, "shop", 90, 880);
    scene.fields -= Fields::WAITS_FOR;
    let why = why_shop(&scene);
    assert_eq!(why.causes[0].culprits[0].ns, 200_000_000, "{:#?}", why.causes);
    says(&why, "For 98 % of that time it is not known which programs were in front of it.");
}

#[test]
fn what_runs_all_the_time_keeps_a_machine_busy_and_not_what_grew_a_little() {
    let scene = |daemon: i64| {
        let mut scene = Scene::busy().with(11, "make", 1_900, 1_800).with(2, "daemon", daemon, 0);
        scene.fields -= Fields::WAITS_FOR;
        scene
    };
    let why = why_after(&scene(1), &scene(3), &WhySubject::Machine);
    assert_eq!(kinds(&why), ["saturated"], "{:#?}", why.causes);
    let names: Vec<&str> = why.causes[0].culprits.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["make"]);
}

/// A thread of the kernel had the same pid before.
#[test]
fn a_program_with_a_pid_that_was_used_before_can_be_stopped() {
    let scene =
        Scene::busy().with(1, "shop", 100, 880).with(11, "indexer", 1_700, 0).waits(1, READY, on(11), 870);
    let info = ProcessInfo { name: "kworker/0:1".into(), is_kernel: true, ..ProcessInfo::default() };
    let ended = ProcessInterval {
        key: ProcessKey { pid: 11, start_ns: 3 },
        info: Arc::new(info),
        life: Life::Ended,
        delta: Delta { run_ns: MS, ..Delta::default() },
        ..ProcessInterval::default()
    };
    let intervals = |from: i64| {
        let mut all = scene.intervals(from);
        all[0].processes.push(ended.clone());
        all[0].processes.sort_by_key(|row| row.key);
        all
    };
    let why = why_of(&intervals(0), &intervals(SECONDS), &WhySubject::Named("shop".into()));
    assert_eq!(
        why.causes[0].command.as_deref(),
        Some("renice 10 -p $(ls /proc/11/task)"),
        "{:#?}",
        why.causes
    );
}

#[test]
fn short_processes_on_idle_cpus_are_no_cause_of_a_machine() {
    for (idle, expected) in [(0, &["starts"] as &[&str]), (850, &[])] {
        let scene = Scene { short: Some(("true", 1, 460, 2_070)), idle: [idle; 2], ..Scene::new() };
        let scene = scene.with(1, "sh", 10, 5);
        let why = why_after(&scene, &scene, &WhySubject::Machine);
        assert_eq!(kinds(&why), expected, "{idle}: {:#?}", why.causes);
    }
}
