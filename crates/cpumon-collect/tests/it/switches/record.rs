//! Records switches of one CPU and wakeups of the threads on it by `perf sched record`, with the data of the BPF source and the chains
//! of [`crate::perf_script`] about those threads, and compares the results of the state machine in [`super::accounts`] for the same
//! events with the BPF programs' own results. Needs root and perf. `CPUMON_WRITE_FIXTURES=1 cargo test -p cpumon-collect --test it
//! record` writes the recording to `tests/fixtures/switches.txt`.

use std::collections::HashMap;
use std::fmt::Write as _;

use cpumon_model::{Interval, Probes, Snapshot};

use super::replay::disagreements;
use crate::bpf::bpf;
use crate::perf::{NAMES, record};
use crate::perf_script::{Event, ThreadSums, parse, script, sums};

/// Two programs that fight for one CPU, and naps in between: a second or so.
const WORK: &str = "
    spin() { i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; }
    nap() { i=0; while [ $i -lt 40 ]; do i=$((i+1)); \"$0\" 0.003; done; }
    spin & spin & nap & wait";

/// Perf may lose events on a crowded machine: then once more.
const ATTEMPTS: usize = 12;

/// The events of one CPU and its threads in the order of their time, ns.
fn events(script: &str, cpu: u32, tids: &HashMap<u32, ThreadSums>) -> Vec<(u64, String)> {
    let mut events: Vec<(u64, String)> = script.lines().filter_map(|line| event(line, cpu, tids)).collect();
    events.sort_by_key(|event| event.0);
    events
}

fn event(line: &str, cpu: u32, tids: &HashMap<u32, ThreadSums>) -> Option<(u64, String)> {
    let (on, at_ns, event) = parse(line)?;
    let (word, tid) = match event {
        Event::Switch { prev, state, next } => {
            let state = if state.starts_with('R') { "R" } else { state.get(..1)? };
            return (on == cpu).then(|| (at_ns, format!("switch {cpu} {prev} {state} {next}")));
        }
        // Perf takes the start of a wakeup where the kernel reports it, else its end.
        Event::Waking(tid) | Event::Wakeup(tid) => ("wake", tid),
        Event::Born(tid) => ("born", tid),
    };
    tids.contains_key(&tid).then(|| (at_ns, format!("{word} {tid}")))
}

/// When another left the CPU than it was switched to: an event is missing before, and times of that span mean nothing.
fn breaks(events: &[(u64, String)]) -> Vec<u64> {
    let switches = events.iter().filter_map(|(at, event)| Some((*at, event.strip_prefix("switch ")?)));
    let ends: Vec<(u64, Vec<&str>)> =
        switches.map(|(at, switch)| (at, switch.split(' ').collect())).collect();
    ends.windows(2).filter(|pair| pair[0].1.last() != pair[1].1.get(1)).map(|pair| pair[1].0).collect()
}

/// How long after its birth a thread made its last switch.
fn exit_after(events: &[(u64, String)], tid: u32, born: u64) -> u64 {
    let leaves = |event: &&(u64, String)| event.1.split(' ').nth(2) == Some(tid.to_string().as_str());
    events.iter().rev().find(leaves).map_or(u64::MAX / 2, |event| event.0.saturating_sub(born))
}

/// The fixture's text, and how many threads it holds: those that both saw whole.
fn fixture(
    after: &Snapshot,
    reported: &HashMap<u32, ThreadSums>,
    events: &[(u64, String)],
) -> (String, usize) {
    let mut text = String::from("# Recorded by tests/it/switches/record.rs; read by replay.rs beside it.\n");
    let first_ns = events.first().map_or(0, |event| event.0);
    for (at, event) in events {
        writeln!(text, "{} {event}", at - first_ns).unwrap();
    }
    let (mut count, breaks) = (0, breaks(events));
    for exit in &after.exits {
        let sample = &exit.thread;
        let is_ours = NAMES.iter().any(|name| sample.comm.as_bytes() == name.as_bytes());
        let Some(perf) = reported.get(&sample.key.tid).filter(|_| is_ours) else { continue };
        let ours = &sample.counters;
        let born = format!("born {}", sample.key.tid);
        let is_whole = ours.voluntary_switches + ours.involuntary_switches == perf.slices;
        let Some(from) = events.iter().find(|event| event.1 == born).map(|event| event.0) else { continue };
        let until = from + exit_after(events, sample.key.tid, from);
        if !is_whole || breaks.iter().any(|at| (from..=until).contains(at)) {
            continue;
        }
        let (tid, switches) = (sample.key.tid, (ours.voluntary_switches, ours.involuntary_switches));
        let blocked_ns = sample.sched.blocked_ns;
        writeln!(
            text,
            "bpf {tid} {} {} {blocked_ns} {} {}",
            ours.run_ns, ours.run_delay_ns, switches.0, switches.1
        )
        .unwrap();
        writeln!(text, "perf {tid} {} {} {}", perf.run_ns, perf.delay_ns, perf.slices).unwrap();
        count += 1;
    }
    (text, count)
}

#[test]
fn the_model_accounts_as_bpf_does_on_this_kernel() {
    let Some((mut opened, _turn)) = bpf(Probes::SCHED | Probes::WAITS) else { return };
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("perf.data");
    let (mut before, mut after) = (Snapshot::default(), Snapshot::default());
    let mut last = String::from("perf never saw eight threads whole");
    for _ in 0..ATTEMPTS {
        opened.source.snapshot(&mut before).unwrap();
        let Some(cpu) = record(dir.path(), &data, WORK) else { return };
        opened.source.snapshot(&mut after).unwrap();
        let script = script(&data);
        let reported = sums(&script);
        let events = events(&script, cpu, &reported);
        let (text, count) = fixture(&after, &reported, &events);
        // On a calm machine 12 to 19 threads and 420 to 470 events.
        if count < 8 || events.len() < 300 {
            continue;
        }
        let steal_ns = Interval::between(&before, &after).ledger.steal_ns.unsigned_abs();
        let found = disagreements(&text, steal_ns);
        if found.is_empty() {
            if std::env::var_os("CPUMON_WRITE_FIXTURES").is_some() {
                let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/switches.txt");
                std::fs::write(path, text).unwrap();
            }
            return;
        }
        // Where the machine pauses between two clock reads, one recording disagrees; a wrong transition disagrees in all.
        last = found.join("\n");
    }
    panic!("{last}");
}
