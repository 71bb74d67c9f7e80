//! The switches' own accounting against another that sees the same switches: `perf sched record`. Needs root and perf (Debian:
//! linux-perf): in CI it must run.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

use cpumon_model::{Interval, Probes, Snapshot};

use crate::bpf::bpf;
use crate::calm::when_calm;
use crate::perf_script::{ThreadSums, script, sums};
use crate::program::copy_program;
use crate::skip::skip;

/// Two programs that compete for one CPU, one that naps in between, and their children. All begin and end inside the recording.
const WORK: &str = "
    spin() { i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done; }
    nap() { i=0; while [ $i -lt 100 ]; do i=$((i+1)); \"$0\" 0.003; done; }
    spin & spin & nap & wait";

pub const NAMES: [&str; 2] = ["agree-sh", "agree-nap"];

/// Perf may lose events on a crowded machine: then once more.
const ATTEMPTS: usize = 4;

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
            let [compared, fought_for, stood_still] = compare(&before, &after, &sums(&script(&data)));
            if compared > 50 && fought_for == 2 {
                assert!(stood_still * 10 <= compared, "{stood_still} of {compared}");
                return;
            }
        }
        panic!("perf never saw every switch");
    });
}

/// Number of threads that agree, that competed for the CPU, and that saw the machine stall.
fn compare(before: &Snapshot, after: &Snapshot, reported: &HashMap<u32, ThreadSums>) -> [usize; 3] {
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
        let is_near = |ours_ns: u64, perf_ns: u64, allowed_ns: u64| {
            (perf_ns.saturating_sub(allowed_ns)..=perf_ns + perf.unknown_ns + allowed_ns).contains(&ours_ns)
        };
        if !is_near(ours.run_ns, perf.run_ns, allowed_ns) {
            // Both read their clocks one after the other. Where the machine pauses in between, as a thread leaves the CPU, perf counts
            // the pause in that thread, cpumon in the next one. That is seldom; an error of cpumon would show in most threads.
            println!("{tid}: {ours:?} {perf:?}");
            stood_still += 1;
        }
        if perf.run_ns > 200_000_000 {
            println!("{tid}: {ours:?} {perf:?}");
            let allowed_ns = perf.delay_ns / 50 + 1_000 * perf.slices + steal_ns;
            assert!(is_near(ours.run_delay_ns, perf.delay_ns, allowed_ns), "{tid}: {ours:?} {perf:?}");
            fought_for += 1;
        }
        longest_ns = longest_ns.max(perf.run_ns);
        compared += 1;
    }
    println!("{compared} threads, the longest ran {longest_ns} ns, steal {steal_ns} ns");
    [compared, fought_for, stood_still]
}
