//! Who is in front at the CPUs, and which of it is the cause.

use cpumon_model::WaitKind;

use super::super::SureLevel;
use super::causes::{kinds, says};
use super::scene::{Made, Scene, on, why_shop};

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
