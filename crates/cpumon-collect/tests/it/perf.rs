//! The switches' own accounting against another that sees the same switches: `perf sched record`. Needs root and perf (Debian:
//! linux-perf): in CI it must run.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

use cpumon_model::{Interval, Probes, Snapshot};

use crate::bpf::bpf;

/// Two programs that fight for one CPU, one that naps in between, and what they start. All begin and end inside the recording.
const WORK: &str = "
    spin() { i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done; }
    nap() { i=0; while [ $i -lt 100 ]; do i=$((i+1)); sleep 0.003; done; }
    spin & spin & nap & wait";

/// What perf says of a thread.
#[derive(Copy, Clone, Debug, Default)]
struct Told {
    run_ns: u64,
    delay_ns: u64,
    slices: u64,
    was_pushed_off: bool,
}

/// `None` where perf is not there.
fn record(data: &Path) -> Option<()> {
    let cpu = rustix::thread::sched_getaffinity(None).unwrap();
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|at| cpu.is_set(*at)).unwrap().to_string();
    let mut perf = Command::new("perf");
    perf.args(["sched", "record", "-q", "-o"]).arg(data);
    perf.args(["--", "taskset", "-c", &last, "/bin/sh", "-c", WORK]);
    match perf.stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(error) if std::env::var_os("CI").is_some() => panic!("in CI perf must be there: {error}"),
        Err(error) => {
            eprintln!("skipped: needs perf: {error}");
            return None;
        }
    }
    Some(())
}

/// By tid. Lines of `perf sched timehist --state`: time [cpu] name[tid/pid] wait delay run state, in ms.
fn timehist(data: &Path) -> HashMap<u32, Told> {
    let output = Command::new("perf")
        .args(["sched", "timehist", "--state", "-i"])
        .arg(data)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let mut threads = HashMap::<u32, Told>::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((tid, wait, delay, run, state)) = parse(line) else { continue };
        let told = threads.entry(tid).or_default();
        told.run_ns += run;
        // What passed since it was pushed off was all delay.
        told.delay_ns += if told.was_pushed_off { wait } else { delay };
        told.slices += 1;
        // Some versions of perf print W for who was preempted in the kernel (R+ in the event).
        told.was_pushed_off = state.starts_with(['R', 'W']);
    }
    threads
}

fn parse(line: &str) -> Option<(u32, u64, u64, u64, &str)> {
    let mut words = line.split_whitespace().rev();
    let state = words.next()?;
    let (run, delay, wait) = (ns(words.next()?)?, ns(words.next()?)?, ns(words.next()?)?);
    let name = words.next()?;
    let ids = name.get(name.rfind('[')? + 1..)?.strip_suffix(']')?;
    let tid = ids.split('/').next()?.parse().ok()?;
    Some((tid, wait, delay, run, state))
}

/// Of ms with three digits behind the point.
fn ns(ms: &str) -> Option<u64> {
    let (whole, us) = ms.split_once('.')?;
    let is_us = us.len() == 3;
    is_us.then_some(whole.parse::<u64>().ok()? * 1_000_000 + us.parse::<u64>().ok()? * 1_000)
}

#[test]
fn run_time_and_run_delay_agree_with_perf_sched() {
    // With interrupts inside the threads, as perf has them.
    let Some((mut opened, _turn)) = bpf(Probes::SCHED | Probes::WAITS) else { return };
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("perf.data");
    let (mut before, mut after) = (Snapshot::default(), Snapshot::default());
    opened.source.snapshot(&mut before).unwrap();
    if record(&data).is_none() {
        return;
    }
    opened.source.snapshot(&mut after).unwrap();
    let interval = Interval::between(&before, &after);
    // Perf has it inside the threads.
    let steal_ns = interval.ledger.steal_ns.unsigned_abs();
    let told = timehist(&data);
    let (mut compared, mut longest_ns, mut fought_for) = (0, 0, 0);
    for exit in &after.exits {
        let tid = exit.thread.key.tid;
        // The shell that starts them is there before perf looks, and after it.
        let is_ours = ["sh", "sleep"].iter().any(|name| exit.thread.comm.as_bytes() == name.as_bytes());
        let Some(perf) = told.get(&tid).filter(|perf| is_ours && perf.slices > 0) else { continue };
        let ours = exit.thread.counters;
        let allowed_ns = (perf.run_ns / 500).max(12_000 * perf.slices) + steal_ns;
        assert!(
            ours.run_ns.abs_diff(perf.run_ns) <= allowed_ns,
            "{tid}: {ours:?} {perf:?}, steal {steal_ns}"
        );
        if perf.run_ns > 200_000_000 {
            println!("{tid}: {ours:?} {perf:?}");
            // Perf's times are cut to the µs.
            let allowed_ns = perf.delay_ns / 50 + 1_000 * perf.slices;
            assert!(ours.run_delay_ns.abs_diff(perf.delay_ns) <= allowed_ns, "{tid}: {ours:?} {perf:?}");
            fought_for += 1;
        }
        longest_ns = longest_ns.max(perf.run_ns);
        compared += 1;
    }
    println!("{compared} threads, the longest ran {longest_ns} ns, steal {steal_ns} ns");
    assert!(compared > 50 && fought_for == 2, "{compared} {fought_for}");
}
