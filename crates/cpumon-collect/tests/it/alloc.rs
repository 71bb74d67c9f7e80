//! A steady state allocates nothing: counted by this binary's allocator, per thread, so that other tests do not disturb.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use cpumon_collect::{Opened, SourceChoice, SourceOptions, open};
use cpumon_model::{Interval, Snapshot};

use crate::eventually::eventually;
use crate::support::{Task, Tree};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed to the system's allocator unchanged; counting touches a constant-initialised cell only.
#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Allocations of the calling thread so far.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_steady_state_allocates_nothing() {
    let tree = Tree::new();
    let tasks: Vec<Task> =
        (0..40).map(|n| Task { run_ns: 1, ..Task::new(100 + n / 4 * 4, 100 + n) }).collect();
    for task in &tasks {
        tree.put(task);
    }
    let mut source = open(&tree.options()).unwrap().source;
    let mut snapshots = [Snapshot::default(), Snapshot::default()];
    let mut interval = Interval::default();
    let mut run_ns = 1;
    for round in 0..70 {
        let [previous, current] = &mut snapshots;
        std::mem::swap(previous, current);
        let before = ALLOCATIONS.get();
        source.snapshot(current).unwrap();
        let taken = ALLOCATIONS.get() - before;
        interval.fill(previous, current);
        assert_eq!(current.threads.len(), 40);
        if round > 5 {
            assert_eq!(taken, 0, "round {round}");
        }
        // Half of the threads run.
        run_ns += 1_000;
        for task in tasks.iter().step_by(2) {
            tree.put(&Task { run_ns, ..task.clone() });
        }
    }
}

/// Makes rounds of so many passes until more than `least` of one allocate nothing. A process that begins is named, which allocates: on a
/// machine that starts programs all the time a later round counts.
pub(crate) fn assert_steady(source: &mut Opened, passes: usize, least: usize, pause: Duration) {
    let mut snapshot = Snapshot::default();
    let mut is_steady = || {
        std::thread::sleep(pause);
        let before = ALLOCATIONS.get();
        source.source.snapshot(&mut snapshot).unwrap();
        ALLOCATIONS.get() == before
    };
    eventually("a round of steady passes", || {
        let steady = (0..passes).filter(|_| is_steady()).count();
        println!("{steady} of {passes} passes are steady");
        (steady > least).then_some(())
    });
}

/// On the real /proc others come and go, so not every pass is steady; in most of them nothing begins.
#[test]
fn passes_over_the_real_proc_allocate_nothing() {
    let options = SourceOptions { choice: SourceChoice::Procfs, cmdline: true, ..SourceOptions::default() };
    assert_steady(&mut open(&options).unwrap(), 150, 50, Duration::ZERO);
}
