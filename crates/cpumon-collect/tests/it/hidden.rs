//! Threads that BPF does not see, on this very machine: where there are some they are read from /proc and the ledger balances; where
//! there are none /proc is not asked for any. Needs root (or `CAP_BPF` and `CAP_PERFMON`): in CI it must run.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::Duration;

use cpumon_collect::ClockReader;
use cpumon_model::{Flags, Interval, Probes, Snapshot, ThreadSample};

use crate::alloc::assert_steady;
use crate::bpf::{ALL, bpf};
use crate::calm::when_calm;

/// The longest clock tick of any kernel.
const TICK_NS: u64 = 10_000_000;

/// Whether the iterator alone shows no thread of process 1.
fn is_init_hidden() -> bool {
    let mut readings = Vec::new();
    ClockReader::open().unwrap().read(&mut readings).unwrap();
    assert!(readings.len() > 5, "the iterator shows the others");
    readings.iter().all(|reading| reading.pid != 1)
}

/// Run time of each thread of process 1, ns, from /proc.
fn runs_of_init() -> BTreeMap<u32, u64> {
    let threads = fs::read_dir("/proc/1/task").unwrap().map(|entry| entry.unwrap().path());
    let run = |path: std::path::PathBuf| {
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        let tid = path.file_name()?.to_str()?.parse().ok()?;
        Some((tid, text.split(' ').next()?.parse().ok()?))
    };
    threads.filter_map(run).collect()
}

fn of_init(snapshot: &Snapshot) -> impl Iterator<Item = &ThreadSample> {
    snapshot.threads.iter().filter(|thread| thread.process.pid == 1)
}

#[test]
fn hidden_threads_have_rows_with_the_run_time_of_proc_and_the_ledger_balances() {
    when_calm(|| {
        for probes in [ALL, Probes::empty()] {
            let Some((mut opened, _turn)) = bpf(probes) else { return };
            let is_hidden = is_init_hidden();
            assert_eq!(
                opened.reason.contains(": hidden from it, read from /proc"),
                is_hidden,
                "{}",
                opened.reason
            );
            let [mut first, mut last] = [Snapshot::default(), Snapshot::default()];
            let mut sum = (0_i64, 0_i64, 0_i64);
            opened.source.snapshot(&mut first).unwrap();
            for _ in 0..4 {
                std::thread::sleep(Duration::from_millis(700));
                let before = runs_of_init();
                opened.source.snapshot(&mut last).unwrap();
                let after = runs_of_init();
                let interval = Interval::between(&first, &last);
                std::mem::swap(&mut first, &mut last);
                if !is_hidden {
                    assert!(
                        first.threads.iter().all(|thread| thread.sched.is_watched()),
                        "/proc shows no thread"
                    );
                    continue;
                }
                let runs: HashMap<u32, u64> =
                    of_init(&first).map(|thread| (thread.key.tid, thread.counters.run_ns)).collect();
                // Others begin or end meanwhile.
                for (tid, begin_ns) in &before {
                    let Some(end_ns) = after.get(tid) else { continue };
                    // In /proc the count of a thread that runs is a tick old.
                    assert!(
                        runs.get(tid).is_some_and(|run_ns| (*begin_ns..=end_ns + TICK_NS).contains(run_ns)),
                        "{tid}: {runs:?} {before:?} {after:?}"
                    );
                }
                let row = interval.processes.iter().find(|row| row.key.pid == 1).unwrap();
                assert_eq!(row.flags.contains(Flags::UNWATCHED), !probes.is_empty(), "{row:?}");
                let unknown: u64 = interval.cpus.iter().map(|cpu| cpu.sched.unknown_ns).sum();
                let ledger = &interval.ledger;
                println!(
                    "process 1 ran {}, unexplained {unknown}, unattributed {}, unknown {} of {}",
                    row.delta.run_ns,
                    ledger.unattributed_ns(),
                    ledger.unknown_ns,
                    ledger.capacity_ns
                );
                sum.0 += row.delta.run_ns;
                sum.1 += unknown.cast_signed();
                sum.2 += ledger.unattributed_ns();
            }
            if is_hidden && !probes.is_empty() {
                let (ran, unknown, open) = sum;
                assert!(ran > 0, "process 1 of this machine never rests for seconds");
                // Without its rows the whole run time would be unattributed.
                assert!(
                    (unknown - ran).abs() < unknown / 2 && open.abs() < (open + ran).abs() / 2,
                    "{sum:?}"
                );
            }
        }
    });
}

#[test]
fn hidden_threads_cost_no_allocation() {
    let Some((mut opened, _turn)) = bpf(ALL) else { return };
    assert_steady(&mut opened, 60, 30, Duration::from_millis(5));
}
