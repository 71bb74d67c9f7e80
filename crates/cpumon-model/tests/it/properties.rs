//! Properties of the differ over random lives of random tasks.

use cpumon_model::{
    Counters, ExitSample, Fields, Interval, Life, Moment, ProcessKey, ProcessSample, Rows, Snapshot,
    ThreadKey, ThreadSample,
};
use proptest::prelude::*;

/// A task's life in steps of one snapshot: the step in which it begins, and its run time in each step up to its end, ns.
#[derive(Clone, Debug)]
struct LifeOfTask {
    tid: u32,
    begins: usize,
    steps: Vec<u32>,
}

const STEPS: usize = 8;
const STEP_NS: u64 = 1_000_000_000;

fn lives() -> impl Strategy<Value = Vec<LifeOfTask>> {
    // It rests now and then.
    let step = prop_oneof![1 => Just(0_u32), 3 => 1_u32..900_000_000];
    let life = (1_u32..12, 0..STEPS, prop::collection::vec(step, 1..STEPS))
        .prop_map(|(tid, begins, steps)| LifeOfTask { tid, begins, steps });
    prop::collection::vec(life, 0..12)
}

fn sample(life: &LifeOfTask, nth: usize, run_ns: u64) -> ThreadSample {
    // Two lives may share a number, never a start: that is pid reuse.
    let start_ns = 1_000 * STEP_NS + life.begins as u64 * STEP_NS + 500_000_000 + nth as u64;
    ThreadSample {
        key: ThreadKey { tid: life.tid, start_ns },
        process: ProcessKey { pid: life.tid, start_ns },
        counters: Counters { run_ns, user_ns: run_ns, ..Counters::default() },
        ..ThreadSample::default()
    }
}

/// The snapshots at the end of each step, exits included.
fn snapshots(lives: &[LifeOfTask]) -> Vec<Snapshot> {
    let snapshot_at = |step: usize| {
        let at_ns = 1_000 * STEP_NS + step as u64 * STEP_NS;
        let at = Moment { mono_ns: at_ns, boot_ns: at_ns, wall_ns: 0 };
        let fields = Fields::RUN | Fields::EXITS;
        let mut snapshot = Snapshot { begin: at, end: at, is_complete: true, fields, ..Snapshot::default() };
        for (nth, life) in lives.iter().enumerate().filter(|(_, life)| life.begins < step) {
            let lived = step - life.begins;
            let run_ns = life.steps.iter().take(lived).map(|&ns| u64::from(ns)).sum();
            let thread = sample(life, nth, run_ns);
            if lived < life.steps.len() {
                let key = thread.process;
                snapshot.processes.push(ProcessSample { key, ..ProcessSample::default() });
                snapshot.threads.push(thread);
            } else if lived == life.steps.len() {
                snapshot.exits.push(ExitSample { thread, ends_process: true, ..ExitSample::default() });
            }
        }
        snapshot.sort();
        snapshot
    };
    (0..=2 * STEPS).map(snapshot_at).collect()
}

fn total_run_ns(lives: &[LifeOfTask]) -> i64 {
    lives.iter().flat_map(|life| &life.steps).map(|&ns| i64::from(ns)).sum()
}

proptest! {
    /// Whatever begins and ends when, every nanosecond lands in exactly one interval.
    #[test]
    fn no_time_is_lost_or_doubled(lives in lives()) {
        let snapshots = snapshots(&lives);
        let mut interval = Interval::default();
        let (mut threads_ns, mut processes_ns, mut ledger_ns) = (0, 0, 0);
        for pair in snapshots.windows(2) {
            interval.fill(&pair[0], &pair[1]);
            threads_ns += interval.threads.iter().map(|row| row.delta.run_ns).sum::<i64>();
            processes_ns += interval.processes.iter().map(|row| row.delta.run_ns).sum::<i64>();
            ledger_ns += interval.ledger.threads_ns + interval.ledger.exited_ns;
        }
        prop_assert_eq!(threads_ns, total_run_ns(&lives));
        prop_assert_eq!(processes_ns, total_run_ns(&lives));
        prop_assert_eq!(ledger_ns, total_run_ns(&lives));
    }

    /// Filling kept buffers gives what a fresh interval gives, keys stay sorted and single, nothing is negative.
    #[test]
    fn rows_are_sorted_single_and_never_negative(lives in lives()) {
        let mut kept = Interval::default();
        for pair in snapshots(&lives).windows(2) {
            kept.fill(&pair[0], &pair[1]);
            prop_assert_eq!(&kept, &Interval::between(&pair[0], &pair[1]));
            prop_assert!(kept.threads.is_sorted_by(|a, b| a.key < b.key));
            prop_assert!(kept.processes.is_sorted_by(|a, b| a.key < b.key));
            prop_assert!(kept.threads.iter().all(|row| row.delta.run_ns >= 0));
        }
    }

    /// Without the rows of threads that rested, the others, the ledger and the processes' times stay what they are.
    #[test]
    fn rows_of_moved_threads_are_those_of_all_less_the_resting(lives in lives()) {
        let mut moved = Interval::default();
        for pair in snapshots(&lives).windows(2) {
            moved.fill_rows(&pair[0], &pair[1], Rows::Moved);
            let mut all = Interval::between(&pair[0], &pair[1]);
            all.threads.retain(|row| row.life != Life::Alive || !row.delta.is_zero());
            prop_assert_eq!(&moved.threads, &all.threads);
            prop_assert_eq!(moved.ledger, all.ledger);
            prop_assert!(moved.processes.iter().map(|row| (row.key, row.delta)).eq(all.processes.iter().map(|row| (row.key, row.delta))));
        }
    }
}
