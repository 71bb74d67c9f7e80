//! Cost of the recorder for the watched processes, without the file. In: nothing; root. Out: how much longer `perf bench sched pipe` on
//! CPU 1 takes, median of pairs, the kernel's measurement for each program (ns an event), and the reader's time per event.
//!
//! `cargo run --release -p cpumon-collect --example recorder_cost -- [RUNS] [LOOPS]`

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cpumon_collect::{TraceItem, TraceRecorder, TraceRecorderOptions};
use libbpf_rs::query::ProgInfoIter;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let runs: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let loops: u32 = arguments.next().map_or(Ok(300_000), |text| text.parse())?;
    let mut ratios = Vec::new();
    for _ in 0..runs {
        let without = pipe(loops)?;
        let (with, ..) = recorded(loops)?;
        println!("{without:.3} s, recorded {with:.3} s: {:.3}", with / without);
        ratios.push(with / without);
    }
    ratios.sort_by(f64::total_cmp);
    println!("median {:.3}", ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN));
    let before = std::fs::read_to_string(STATS)?;
    std::fs::write(STATS, "1")?;
    let measured = recorded(loops);
    std::fs::write(STATS, before)?;
    let (seconds, programs, events, reader_ns, lost) = measured?;
    for (name, (ns, count)) in programs {
        println!("{name:>16}: {count:>9} events, {:.0} ns each", ns as f64 / count as f64);
    }
    println!(
        "{seconds:.3} s, {events} events, {lost} lost, reader {:.0} ns each",
        reader_ns as f64 / events as f64
    );
    Ok(())
}

type Recorded = (f64, BTreeMap<String, (u64, u64)>, u64, u64, u64);

fn recorded(loops: u32) -> Result<Recorded, Failure> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let done = &done;
        let reader = scope.spawn(move || -> Result<_, Failure> {
            let mut events = 0;
            let mut count = |item| events += u64::from(matches!(item, TraceItem::Event(_)));
            let mut recorder = TraceRecorder::open(TraceRecorderOptions::default())?;
            ready.send(())?;
            let began = cpu_ns();
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
                recorder.drain(&mut count)?;
            }
            let programs = programs();
            recorder.stop(&mut count)?;
            Ok((programs, events, cpu_ns() - began, recorder.lost()))
        });
        is_ready.recv().ok();
        let seconds = pipe(loops);
        done.store(true, Ordering::Relaxed);
        let (programs, events, reader_ns, lost) = reader.join().map_err(|_| "the reader panicked")??;
        Ok((seconds?, programs, events, reader_ns, lost))
    })
}

/// CPU time of the calling thread.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Seconds of one run.
fn pipe(loops: u32) -> Result<f64, Failure> {
    let output = Command::new("taskset")
        .args(["-c", "1", "perf", "bench", "-f", "simple", "sched", "pipe", "-l", &loops.to_string()])
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Time and count of each of our programs.
fn programs() -> BTreeMap<String, (u64, u64)> {
    ProgInfoIter::default()
        .filter_map(|info| Some((info.name.to_str()?.to_owned(), (info.run_time_ns, info.run_cnt))))
        .filter(|(name, (_, count))| name.starts_with("on_") && *count > 0)
        .collect()
}
