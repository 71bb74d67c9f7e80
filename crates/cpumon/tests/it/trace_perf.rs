//! A `perf.data` through `cpumon trace report` against perf's own sums of the same file. Needs root and perf (Debian: linux-perf): in CI
//! it must run.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::skip::skip;
use crate::support::cpumon;

/// Threads that fight for the CPUs, nap, begin and end.
const LOAD: &str = "
    spin() { i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; }
    nap() { i=0; while [ $i -lt 60 ]; do i=$((i+1)); sleep 0.002; done; }
    spin & spin & spin & nap & nap & wait";

/// perf may lose events on a crowded machine: then once more.
const ATTEMPTS: usize = 4;

/// The id of perf's process. None where perf is not there.
fn record(data: &Path, more: &[&str]) -> Option<u32> {
    let mut perf = Command::new("perf");
    perf.args(["sched", "record", "-q", "-m", "4096"]).args(more).arg("-o").arg(data);
    perf.args(["--", "sh", "-c", LOAD]);
    match perf.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(mut process) => {
            let status = process.wait().unwrap();
            assert!(status.success(), "{status}");
            Some(process.id())
        }
        Err(error) => {
            skip(format!("needs perf: {error}"));
            None
        }
    }
}

fn perf(args: &[&str], data: &Path) -> String {
    let output = Command::new("perf").args(args).arg("-i").arg(data).stderr(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Run time of each thread in µs. Lines of `perf sched timehist -s`: `name[tid/pid] parent times run-time min avg max stddev moves`, the
/// times in ms.
fn sums_of_perf(data: &Path) -> HashMap<u32, u64> {
    let mut sums = HashMap::new();
    for line in perf(&["sched", "timehist", "-s"], data).lines() {
        let Some((name, numbers)) = line.rsplit_once(']') else { continue };
        let Some(tid) = name.rsplit('[').next().and_then(|ids| ids.split('/').next()?.parse().ok()) else {
            continue;
        };
        let mut words = numbers.split_whitespace();
        let (Some(_parent), Some(_times), Some(run)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let Some((ms, us)) = run.split_once('.') else { continue };
        *sums.entry(tid).or_default() += ms.parse::<u64>().unwrap() * 1_000 + us.parse::<u64>().unwrap();
    }
    sums
}

/// What perf's sums count otherwise, ns by thread: slices of a thread to which no switch came, which it charges to who leaves (ours are
/// unknown), the last slice of a thread that is gone, which it charges to thread -1, and slices that no switch ended, which it leaves out
/// (ours last as long as the trace).
#[derive(Debug, Default)]
#[expect(clippy::struct_field_names, reason = "the unit")]
struct Differences {
    hole_ns: HashMap<u32, u64>,
    end_ns: HashMap<u32, u64>,
    open_ns: HashMap<u32, u64>,
}

fn differences(data: &Path) -> Differences {
    let script = perf(&["script", "--ns", "-F", "tid,cpu,time,event,trace"], data);
    let mut found = Differences::default();
    // By CPU: the thread that came last, and when.
    let mut current: HashMap<&str, (u32, u64)> = HashMap::new();
    // Threads that came and were seen nowhere since, and when they came.
    let mut open = HashMap::new();
    let mut last_ns = 0;
    for line in script.lines() {
        let Some((head, trace)) = line.split_once(" sched:sched_") else { continue };
        let Some((event, trace)) = trace.split_once(':') else { panic!("{line}") };
        // The trace ends with the last event that says what a thread does; these only say how long.
        if event.starts_with("stat_") {
            continue;
        }
        let mut head = head.split_whitespace();
        let (Some(tid), Some(cpu), Some(time)) = (head.next(), head.next(), head.next()) else {
            panic!("{line}")
        };
        let (seconds, ns) = time.trim_end_matches(':').split_once('.').unwrap();
        let at_ns = seconds.parse::<u64>().unwrap() * 1_000_000_000 + ns.parse::<u64>().unwrap();
        last_ns = at_ns;
        if event != "switch" {
            continue;
        }
        let (prev, next) = (number(trace, "prev_pid="), number(trace, "next_pid="));
        let before = current.insert(cpu, (next, at_ns));
        open.remove(&prev);
        if let Some((came, _)) = before {
            open.remove(&came);
        }
        open.insert(next, at_ns);
        let Some((came, since_ns)) = before else { continue };
        if came != prev {
            *found.hole_ns.entry(prev).or_default() += at_ns - since_ns;
        }
        if tid.parse::<u32>().ok() != Some(prev) {
            *found.end_ns.entry(prev).or_default() += at_ns - since_ns;
        }
    }
    found.open_ns = open.into_iter().map(|(tid, since_ns)| (tid, last_ns - since_ns)).collect();
    found
}

/// Behind a title: `prev_pid=12`, or where perf prints the record in its own way, `name:12 [120] S ==> name:13 [120]`.
fn number(trace: &str, title: &str) -> u32 {
    if let Some((_, rest)) = trace.split_once(title) {
        return rest.split_whitespace().next().unwrap().parse().unwrap();
    }
    let (prev, next) = trace.split_once(" ==> ").unwrap_or_else(|| panic!("{trace}"));
    let side = if title.starts_with("prev") { prev } else { next };
    let (name, _) = side.rsplit_once(" [").unwrap();
    name.rsplit(':').next().unwrap().parse().unwrap()
}

fn report(data: &Path, by: &str) -> (Option<i32>, Vec<Value>) {
    let output = cpumon().args(["trace", "report", "--json", "--by", by]).arg(data).output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default())
}

fn sum_ns(rows: &[Value], name: &str) -> u64 {
    rows.iter().map(|row| row[name].as_u64().unwrap()).sum()
}

/// How many threads agree. The recorder is left out: it ends the events of one CPU after the other while it moves between them, so that
/// it comes and is never seen to leave.
fn compare(data: &Path, rows: &[Value], recorder: u32) -> usize {
    let (sums, differences) = (sums_of_perf(data), differences(data));
    let mut compared = 0;
    for (tid, perf_us) in &sums {
        if [0, recorder].contains(tid) {
            continue;
        }
        let its: Vec<_> =
            rows.iter().filter(|row| row["tid"].as_u64() == Some((*tid).into())).cloned().collect();
        let of = |map: &HashMap<u32, u64>| map.get(tid).copied().unwrap_or(0);
        let expected_ns = sum_ns(&its, "run_ns") + of(&differences.hole_ns)
            - of(&differences.end_ns)
            - of(&differences.open_ns);
        assert_eq!(expected_ns / 1_000, *perf_us, "{tid}: {its:?}");
        compared += 1;
    }
    compared
}

#[test]
fn run_times_are_those_of_perf_to_the_microsecond() {
    let dir = tempfile::tempdir().unwrap();
    for (name, more) in [("plain", &[][..]), ("packed", &["-z"][..])] {
        let data = dir.path().join(name);
        let mut compared = 0;
        for _ in 0..ATTEMPTS {
            let Some(recorder) = record(&data, more) else { return };
            let (code, rows) = report(&data, "thread");
            if code == Some(3) {
                continue;
            }
            assert_eq!(code, Some(0));
            compared = compare(&data, &rows, recorder);
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
