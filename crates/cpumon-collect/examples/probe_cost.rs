//! What the probes cost the watched processes. In: nothing; root. Out: how much longer `perf bench sched pipe` on one CPU takes
//! with each set of probes, median of alternating runs, and what the kernel measured for each program (ns an event).
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
            times.push(watched(*probes, || pipe(loops))?);
        }
    }
    let base = median(&mut times[0]);
    for ((name, _), times) in sets.iter().zip(&mut times) {
        let seconds = median(times);
        println!("{name:>16}: {seconds:.3} s, {:.3} times as long", seconds / base);
    }
    let before = std::fs::read_to_string(STATS)?;
    std::fs::write(STATS, "1")?;
    let measured =
        [("sched,waits,irq", all), ("and hist", all | Probes::HISTOGRAMS)].map(|(what, probes)| {
            println!("{what}:");
            watched(Some(probes), || {
                let seconds = pipe(loops)?;
                for (name, (ns, count)) in programs() {
                    println!("{name:>16}: {count:>9} events, {:.0} ns each", ns as f64 / count as f64);
                }
                Ok(seconds)
            })
        });
    std::fs::write(STATS, before)?;
    measured.into_iter().try_for_each(|one| one.map(drop))
}

/// Runs `load` while a source with these probes takes a snapshot each second.
fn watched(probes: Option<Probes>, load: impl FnOnce() -> Result<f64, Failure>) -> Result<f64, Failure> {
    let Some(probes) = probes else { return load() };
    let options = SourceOptions { choice: SourceChoice::Bpf, probes, ..SourceOptions::default() };
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
