//! Cost of the probes for the watched processes. In: nothing; root. Out: how much longer `perf bench sched pipe` on one CPU takes with
//! each set of probes, median of alternating runs, and the kernel's measurement for each program (ns an event); then the cost of an
//! exec of a program and of an interpreter, with and without names of scripts. With 0 runs, only the latter.
//!
//! `cargo run --release -p cpumon-collect --example probe_cost -- [RUNS] [LOOPS]`

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cpumon_collect::{SourceChoice, SourceOptions, open};
use cpumon_model::{Probes, Snapshot};
use libbpf_rs::query::ProgInfoIter;

type Failure = Box<dyn std::error::Error>;

/// Processes of a storm.
const EXECS: usize = 1_500;
const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let runs: usize = arguments.next().map_or(Ok(11), |text| text.parse())?;
    let loops: u32 = arguments.next().map_or(Ok(300_000), |text| text.parse())?;
    let all = Probes::SCHED | Probes::WAITS | Probes::IRQ;
    let sets = [
        ("nothing", None),
        ("none", Some(Probes::empty())),
        ("sched", Some(Probes::SCHED)),
        ("sched,waits", Some(Probes::SCHED | Probes::WAITS)),
        ("sched,irq", Some(Probes::SCHED | Probes::IRQ)),
        ("sched,waits,irq", Some(all)),
        ("and hist", Some(all | Probes::HISTOGRAMS)),
    ];
    let mut times = vec![Vec::new(); sets.len()];
    for _ in 0..runs {
        for ((_, probes), times) in sets.iter().zip(&mut times) {
            times.push(watched(probes.map(with), || pipe(loops))?);
        }
    }
    if runs == 0 {
        return with_statistics(execs);
    }
    let base = median(&mut times[0]);
    for ((name, _), times) in sets.iter().zip(&mut times) {
        let seconds = median(times);
        println!("{name:>16}: {seconds:.3} s, {:.3} times as long", seconds / base);
    }
    with_statistics(|| {
        for (what, probes) in [("sched,waits,irq", all), ("and hist", all | Probes::HISTOGRAMS)] {
            println!("{what}:");
            watched(Some(with(probes)), || {
                let seconds = pipe(loops)?;
                for (name, (ns, count)) in programs() {
                    println!("{name:>16}: {count:>9} events, {:.0} ns each", ns as f64 / count as f64);
                }
                Ok(seconds)
            })?;
        }
        execs()
    })
}

fn with(probes: Probes) -> SourceOptions {
    SourceOptions { choice: SourceChoice::Bpf, probes, ..SourceOptions::default() }
}

/// Lets the kernel measure the programs meanwhile.
fn with_statistics(measure: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let before = std::fs::read_to_string(STATS)?;
    std::fs::write(STATS, "1")?;
    let measured = measure();
    std::fs::write(STATS, before)?;
    measured
}

/// Cost of an exec and of the end of a process.
fn execs() -> Result<(), Failure> {
    for words in [&["/bin/true"][..], &["/bin/sh", "-c", ":"]] {
        for script_names in [false, true] {
            watched(Some(SourceOptions { script_names, ..with(Probes::empty()) }), || {
                for _ in 0..EXECS {
                    Command::new(words[0]).args(&words[1..]).status()?;
                }
                let (ns, count) = programs().remove("on_exec").unwrap_or_default();
                let (what, each) = (words.join(" "), ns as f64 / count as f64);
                println!("{what:>16}: script names {script_names:>5}: {count} execs, {each:.0} ns each");
                Ok(0.0)
            })?;
        }
    }
    Ok(())
}

/// Runs `load` while a source with these options takes a snapshot each second.
fn watched(
    options: Option<SourceOptions>,
    load: impl FnOnce() -> Result<f64, Failure>,
) -> Result<f64, Failure> {
    let Some(options) = options else { return load() };
    let mut source = open(&options)?.source;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut snapshot = Snapshot::default();
            while !stop.load(Ordering::Relaxed) {
                if source.snapshot(&mut snapshot).is_err() {
                    return false;
                }
                std::thread::park_timeout(Duration::from_secs(1));
            }
            true
        });
        let result = load();
        stop.store(true, Ordering::Relaxed);
        reader.thread().unpark();
        match reader.join() {
            Ok(true) => result,
            _ => Err("a snapshot failed".into()),
        }
    })
}

/// Seconds of one run.
fn pipe(loops: u32) -> Result<f64, Failure> {
    let output = Command::new("taskset")
        .args(["-c", "1", "perf", "bench", "-f", "simple", "sched", "pipe", "-l", &loops.to_string()])
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Time and count of each of our programs.
fn programs() -> BTreeMap<String, (u64, u64)> {
    let ours = |name: &str| name.starts_with("on_") || name == "each_task";
    ProgInfoIter::default()
        .filter_map(|info| Some((info.name.to_str()?.to_owned(), (info.run_time_ns, info.run_cnt))))
        .filter(|(name, (_, count))| ours(name) && *count > 0)
        .collect()
}
