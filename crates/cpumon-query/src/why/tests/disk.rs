//! Waits for a disk: for files, for pages, and waits that only seem to be for one.

use cpumon_model::{WaitKind, WaitReason, WaitedOn};

use super::causes::{kinds, says};
use super::scene::{Made, Scene, on, syscall, thread_key, why_shop};

const DISK: WaitKind = WaitKind::Blocked(WaitReason::DISK);
const PAGE_FAULT: WaitKind = WaitKind::Blocked(WaitReason::PAGE_FAULT);

fn quiet() -> Scene {
    Scene { idle: [900; 2], ..Scene::new() }.with(1, "shop", 88, 30)
}

/// A thread whose waits for a disk are too short to be followed.
fn with_short_waits(switches: i64) -> Scene {
    quiet().but(|program| program.switches = switches).whose_thread(|thread| thread.state = b'D')
}

#[test]
fn major_page_faults_decide_between_pages_and_files() {
    // The kernel counts the read of a page as a wait for a disk: 46 waits a second.
    for (faults, expected) in [(0, "disk"), (20, "disk"), (46, "faults")] {
        let scene = quiet().but(|program| program.faults = faults).waits(1, DISK, WaitedOn::Interrupt, 500);
        assert_eq!(kinds(&why_shop(&scene)), [expected], "{faults} page faults a second");
    }
    // A wait in a page fault without a page from a disk.
    let why = why_shop(&quiet().waits(1, PAGE_FAULT, WaitedOn::Interrupt, 500));
    assert_eq!(kinds(&why), ["unknown"]);
    says(&why, "it waited 50 % of the time in page fault");
    // Of 5400 short waits 30 are in page faults.
    for (faults, expected) in [(30, "disk"), (4_000, "faults")] {
        let scene = with_short_waits(5_400).but(|program| program.faults = faults);
        assert_eq!(kinds(&why_shop(&scene)), [expected], "{faults} page faults a second");
    }
}

/// A lock of the memory map: its waiter is uninterruptible, as one that waits for a disk.
#[test]
fn a_wait_that_another_thread_of_the_process_ended_is_one_for_a_lock() {
    for kind in [DISK, PAGE_FAULT] {
        let scene = quiet().but(|program| program.faults = 210);
        let why = why_shop(&scene.waits(1, kind, WaitedOn::Thread(thread_key(1)), 800));
        assert_eq!(kinds(&why), ["lock"], "{kind:?}");
        says(&why, "It waited 80 % of the time for another thread of it");
    }
    // Its state is that of a wait for a disk meanwhile.
    let scene = with_short_waits(5_400).waits(1, DISK, WaitedOn::Thread(thread_key(1)), 800);
    assert_eq!(kinds(&why_shop(&scene)), ["lock"]);
}

/// The lock of an inode, of the network's settings or of a control group: its waiter has the state of one that waits for a disk.
#[test]
fn a_wait_that_another_program_ended_is_none_for_a_disk() {
    let scene = |name: &'static str| quiet().with(2, name, 700, 5).waits(1, DISK, on(2), 800);
    let why = why_shop(&scene("rsync"));
    assert_eq!(kinds(&why), ["peer"]);
    says(&why, "It waited 80 % of the time for rsync (pid 2), in a lock of the kernel.");
    assert!(
        why.time.states.iter().any(|state| state.label == "a lock of the kernel"),
        "{:?}",
        why.time.states
    );
    assert_eq!(kinds(&why_shop(&scene("shop"))), ["lock"], "of the same program");
    let by_kernel = scene("kworker/0:1").but(|program| program.is_kernel = true);
    assert_eq!(kinds(&why_shop(&by_kernel)), ["disk"], "it does the work of the disk");
    // A child of `vfork`, whose parent has this state until it runs a program.
    let child = scene("gzip").but(|child| (child.parent, child.began) = (1, true));
    let why = why_shop(&child);
    assert_eq!(kinds(&why), ["peer"]);
    says(&why, "for its child gzip (pid 2), in vfork.");
    let own = scene("shop").but(|child| (child.parent, child.began) = (1, true));
    assert!(!kinds(&why_shop(&own)).contains(&"lock"), "its time counts already");
}

/// With ten threads that wait for the lock, the disk is less than a tenth of the time.
#[test]
fn a_thread_that_has_a_lock_waits_for_a_disk() {
    let scene = quiet().but(|program| {
        let worker = Made { state: b'S', ..program.threads[0].clone() };
        program.threads.extend((101..=110).map(|tid| Made { tid, ..worker.clone() }));
        (program.threads[0].comm, program.threads[0].state) = ("flusher", b'D');
    });
    let scene = scene.waits(1, DISK, WaitedOn::Interrupt, 650);
    let why = why_shop(&scene.waits(1, syscall("futex"), WaitedOn::Thread(thread_key(1)), 9_000));
    assert_eq!(kinds(&why), ["lock"]);
    says(&why, "That thread itself waited for a disk.");
    assert_eq!(why.action, "Release the lock before thread flusher (1) sleeps or waits.");
}

#[test]
fn one_that_waits_shortly_for_the_disk_is_no_culprit() {
    for (ms, expected) in [(30, 0), (300, 1)] {
        let scene = quiet().waits(1, DISK, WaitedOn::Interrupt, 800).with(2, "journald", 5, 1);
        let why = why_shop(&scene.waits(2, DISK, WaitedOn::Interrupt, ms));
        assert_eq!((kinds(&why), why.causes[0].culprits.len()), (vec!["disk"], expected), "{ms} ms");
    }
}

#[test]
fn states_at_the_ends_of_intervals_show_a_disk_only_where_nothing_else_can_be() {
    assert_eq!(kinds(&why_shop(&with_short_waits(5_400))), ["disk"]);
    // Two samples say nothing.
    let twice = with_short_waits(5_400).but(|program| program.last = 2);
    assert_eq!(kinds(&why_shop(&twice)), ["unknown"]);
    let three_times = with_short_waits(5_400).but(|program| program.last = 3);
    assert_eq!(kinds(&why_shop(&three_times)), ["disk"]);
    // 50 waits of less than a millisecond take less than 5 % of the time.
    let why = why_shop(&with_short_waits(50));
    assert!(why.causes.is_empty(), "{:#?}", why.causes);
    // Who starts processes waits for these in the same state.
    let scene = Scene { short: Some(("true", 1, 30, 2_000)), ..with_short_waits(5_400) };
    assert!(!kinds(&why_shop(&scene)).contains(&"disk"));
}
