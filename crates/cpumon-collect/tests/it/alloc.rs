//! A steady state allocates nothing: counted by this binary's allocator.

use std::time::Duration;

use cpumon_collect::{Opened, SourceChoice, SourceOptions, open};
use cpumon_model::{Interval, Snapshot};

use crate::counting::allocations;
use crate::eventually::eventually;
use crate::support::{Task, Tree};

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
        let before = allocations();
        source.snapshot(current).unwrap();
        let taken = allocations() - before;
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

/// Repeats rounds of `passes` passes until more than `least` passes of a round allocate nothing. A process that begins is
/// named, which allocates: on a machine that starts programs all the time a later round counts.
pub(crate) fn assert_steady(source: &mut Opened, passes: usize, least: usize, pause: Duration) {
    let mut snapshot = Snapshot::default();
    let mut is_steady = || {
        std::thread::sleep(pause);
        let before = allocations();
        source.source.snapshot(&mut snapshot).unwrap();
        allocations() == before
    };
    eventually("a round of steady passes", || {
        let steady = (0..passes).filter(|_| is_steady()).count();
        println!("{steady} of {passes} passes are steady");
        (steady > least).then_some(())
    });
}

/// On the real /proc others come and go, so not every pass is steady; in most passes nothing begins.
#[test]
fn passes_over_the_real_proc_allocate_nothing() {
    let options = SourceOptions { choice: SourceChoice::Procfs, cmdline: true, ..SourceOptions::default() };
    assert_steady(&mut open(&options).unwrap(), 150, 50, Duration::ZERO);
}
