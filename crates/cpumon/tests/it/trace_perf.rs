//! A `perf.data` through `cpumon trace report` against the chains of switches that `perf script` prints of the same file. Needs root and perf (Debian: linux-perf): in CI
//! it must run.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::perf_script::{script, sums};
use crate::skip::skip;
use crate::support::cpumon;

/// Threads that fight for the CPUs, nap, begin and end.
const LOAD: &str = "
    spin() { i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; }
    nap() { i=0; while [ $i -lt 60 ]; do i=$((i+1)); sleep 0.002; done; }
    spin & spin & spin & nap & nap & wait";

/// perf may lose events on a crowded machine: then once more.
const ATTEMPTS: usize = 4;

/// Whether perf is there.
fn record(data: &Path, more: &[&str]) -> bool {
    let mut perf = Command::new("perf");
    perf.args(["sched", "record", "-q", "-m", "4096"]).args(more).arg("-o").arg(data);
    perf.args(["--", "sh", "-c", LOAD]);
    match perf.stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(error) => {
            skip(format!("needs perf: {error}"));
            return false;
        }
    }
    true
}

fn report(data: &Path, by: &str) -> (Option<i32>, Vec<Value>) {
    let output = cpumon().args(["trace", "report", "--json", "--by", by]).arg(data).output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default())
}

fn sum_ns(rows: &[Value], name: &str) -> u64 {
    rows.iter().map(|row| row[name].as_u64().unwrap()).sum()
}

/// Number of threads that agree. A thread that came to a CPU and was not seen since, as perf's own process at the end, is
/// left out: its run time is not recorded.
fn compare(data: &Path, rows: &[Value]) -> usize {
    let mut compared = 0;
    for (tid, expected) in sums(&script(data)) {
        if tid == 0 || expected.is_open {
            continue;
        }
        let of_thread = rows.iter().filter(|row| row["tid"].as_u64() == Some(tid.into()));
        let run_ns: u64 = of_thread.clone().map(|row| row["run_ns"].as_u64().unwrap()).sum();
        assert_eq!(run_ns, expected.run_ns, "{tid}: {:?}", of_thread.collect::<Vec<_>>());
        compared += 1;
    }
    compared
}

#[test]
fn run_times_are_those_of_perfs_chains_to_the_nanosecond() {
    let dir = tempfile::tempdir().unwrap();
    for (name, more) in [("plain", &[][..]), ("packed", &["-z"][..])] {
        let data = dir.path().join(name);
        let mut compared = 0;
        for _ in 0..ATTEMPTS {
            if !record(&data, more) {
                return;
            }
            let (code, rows) = report(&data, "thread");
            if code == Some(3) {
                continue;
            }
            assert_eq!(code, Some(0));
            compared = compare(&data, &rows);
            let (_, cpus) = report(&data, "cpu");
            assert_eq!(sum_ns(&rows, "run_ns"), sum_ns(&cpus, "run_ns"), "the ledger");
            for by in ["process", "program"] {
                let (_, groups) = report(&data, by);
                assert_eq!(sum_ns(&groups, "run_ns"), sum_ns(&rows, "run_ns"), "{by}");
            }
            break;
        }
        println!("{name}: {compared} threads");
        assert!(compared > 100, "{name}: {compared} threads");
    }
}
