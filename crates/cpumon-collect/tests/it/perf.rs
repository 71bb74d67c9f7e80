//! The switches' own accounting against another that sees the same switches: `perf sched record`. Needs root and perf (Debian:
//! linux-perf): in CI it must run.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

use cpumon_model::{Interval, Probes, Snapshot};

use crate::bpf::bpf;
use crate::calm::when_calm;
use crate::program::copy_program;
use crate::skip::skip;

/// Two programs that fight for one CPU, one that naps in between, and what they start. All begin and end inside the recording.
const WORK: &str = "
    spin() { i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done; }
    nap() { i=0; while [ $i -lt 100 ]; do i=$((i+1)); \"$0\" 0.003; done; }
    spin & spin & nap & wait";

pub const NAMES: [&str; 2] = ["agree-sh", "agree-nap"];

/// Perf may lose events on a crowded machine: then once more.
const ATTEMPTS: usize = 4;

/// What perf says of a thread.
#[derive(Copy, Clone, Debug, Default)]
pub struct PerfThread {
    pub run_ns: u64,
    pub delay_ns: u64,
    pub slices: u64,
    was_pushed_off: bool,
}

/// Records `work` on one CPU, and says on which. `None` where perf is not there.
pub fn record(dir: &Path, data: &Path, work: &str) -> Option<u32> {
    let cpu = rustix::thread::sched_getaffinity(None).unwrap();
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|at| cpu.is_set(*at)).unwrap();
    let last_cpu = last.to_string();
    let mut perf = Command::new("perf");
    // Names of our own. 16 MiB a CPU for perf, which loses events otherwise.
    let (shell, napper) = (dir.join(NAMES[0]), dir.join(NAMES[1]));
    copy_program("/bin/sh", &shell);
    copy_program("/bin/sleep", &napper);
    perf.args(["sched", "record", "-q", "-m", "4096", "-o"]).arg(data);
    perf.args(["--", "taskset", "-c", &last_cpu]).arg(shell).args(["-c", work]).arg(napper);
    match perf.stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(error) => {
            skip(format!("needs perf: {error}"));
            return None;
        }
    }
    Some(last.try_into().unwrap())
}

/// By tid. Lines of `perf sched timehist --state`: time [cpu] name[tid/pid] wait delay run state, in ms.
pub fn timehist(data: &Path) -> HashMap<u32, PerfThread> {
    let output = Command::new("perf")
        .args(["sched", "timehist", "--state", "-i"])
        .arg(data)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let mut threads = HashMap::<u32, PerfThread>::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((tid, wait, delay, run, state)) = parse(line) else { continue };
        let reported = threads.entry(tid).or_default();
        reported.run_ns += run;
        // What passed since it was pushed off was all delay.
        reported.delay_ns += if reported.was_pushed_off { wait } else { delay };
        reported.slices += 1;
        // Some versions of perf print W for who was preempted in the kernel (R+ in the event).
        reported.was_pushed_off = state.starts_with(['R', 'W']);
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
    when_calm(|| {
        // With interrupts inside the threads, as perf has them.
        let Some((mut opened, _turn)) = bpf(Probes::SCHED | Probes::WAITS) else { return };
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("perf.data");
        let (mut before, mut after) = (Snapshot::default(), Snapshot::default());
        for _ in 0..ATTEMPTS {
            opened.source.snapshot(&mut before).unwrap();
            if record(dir.path(), &data, WORK).is_none() {
                return;
            }
            opened.source.snapshot(&mut after).unwrap();
            let [compared, fought_for, stood_still] = compare(&before, &after, &timehist(&data));
            assert!(stood_still <= 3, "{stood_still} of {compared}");
            if compared > 50 && fought_for == 2 {
                return;
            }
        }
        panic!("perf never saw every switch");
    });
}

/// How many threads agree, how many of them fought for the CPU, and during how many the machine stood still.
fn compare(before: &Snapshot, after: &Snapshot, reported: &HashMap<u32, PerfThread>) -> [usize; 3] {
    let interval = Interval::between(before, after);
    // Perf has it inside the threads.
    let steal_ns = interval.ledger.steal_ns.unsigned_abs();
    let (mut compared, mut longest_ns, mut fought_for, mut stood_still) = (0, 0, 0, 0);
    for exit in &after.exits {
        let tid = exit.thread.key.tid;
        let is_ours = NAMES.iter().any(|name| exit.thread.comm.as_bytes() == name.as_bytes());
        let Some(perf) = reported.get(&tid).filter(|_| is_ours) else { continue };
        let ours = exit.thread.counters;
        // Where both saw every switch. (The first shell is there before perf records.)
        if ours.voluntary_switches + ours.involuntary_switches != perf.slices {
            continue;
        }
        let allowed_ns = (perf.run_ns / 500).max(12_000 * perf.slices) + steal_ns;
        if ours.run_ns.abs_diff(perf.run_ns) > allowed_ns {
            // The two read their clocks one after the other. Where the machine pauses in between, what one calls run
            // time is run delay to the other, and not more than that.
            let both_ns = (ours.run_ns + ours.run_delay_ns).abs_diff(perf.run_ns + perf.delay_ns);
            assert!(both_ns <= allowed_ns, "{tid}: {ours:?} {perf:?}, steal {steal_ns}");
            stood_still += 1;
        }
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
    [compared, fought_for, stood_still]
}
