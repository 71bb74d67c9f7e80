//! What it costs to hold the last 30 s of context switches all the time: `cargo run --release -p cpumon --example flight_cost --
//! target/release/cpumon [SECONDS]`, as root. On each CPU a program makes 40,000 switches a second and counts in the rest of the
//! time; what it counts less with `cpumon trace record --last 30s` beside it is the slowdown. Also prints the recorder's own CPU time,
//! the most memory it had, and the size of the file.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};

const ROUNDS: usize = 3;
/// A round trip makes two switches.
const TRIPS_A_MS: u32 = 20;
const STARTS_WITHIN: Duration = Duration::from_millis(1_500);

/// Runs on one CPU: round trips through pipes at the start of each ms, and counting until its end. Prints the count.
fn load(cpu: usize, seconds: u64) -> Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(None, &cpus)?;
    let (mut to_other, mut from_here) = pair()?;
    let (mut to_here, mut from_other) = pair()?;
    std::thread::spawn(move || {
        let mut byte = [0];
        while from_here.read_exact(&mut byte).is_ok() && to_here.write_all(&byte).is_ok() {}
    });
    let begin = Instant::now();
    let (mut count, mut next, mut byte) = (0_u64, begin, [0]);
    while begin.elapsed() < Duration::from_secs(seconds) {
        next += Duration::from_millis(1);
        for _ in 0..TRIPS_A_MS {
            to_other.write_all(&byte)?;
            from_other.read_exact(&mut byte)?;
        }
        while Instant::now() < next {
            count += 1;
        }
    }
    println!("{count}");
    Ok(())
}

fn pair() -> Result<(std::io::PipeWriter, std::io::PipeReader)> {
    let (reader, writer) = std::io::pipe()?;
    Ok((writer, reader))
}

/// What the programs on all CPUs counted together.
fn counted(seconds: u64) -> Result<u64> {
    let cpus = std::thread::available_parallelism()?.get();
    let this = std::env::current_exe()?;
    let start = |cpu: usize| {
        let mut load = Command::new(&this);
        load.args(["load", &cpu.to_string(), &seconds.to_string()]).stdout(Stdio::piped()).spawn()
    };
    let children = (0..cpus).map(start).collect::<std::io::Result<Vec<Child>>>()?;
    children.into_iter().try_fold(0, |sum, child| {
        let text = String::from_utf8(child.wait_with_output()?.stdout)?;
        Ok(sum + text.trim().parse::<u64>().context("the load failed")?)
    })
}

/// Of `/proc/PID/status`, kB.
fn peak_kb(child: &Child) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn cpu_ns(child: &Child) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/schedstat", child.id()))?;
    Ok(text.split(' ').next().context("an empty schedstat")?.parse()?)
}

fn beside_recorder(cpumon: &Path, file: &Path, seconds: u64) -> Result<(u64, u64, u64)> {
    let mut recorder = Command::new(cpumon)
        .args(["trace", "record", "--last", "30s", "-o"])
        .arg(file)
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {}", cpumon.display()))?;
    std::thread::sleep(STARTS_WITHIN);
    let before_ns = cpu_ns(&recorder)?;
    let count = counted(seconds)?;
    let (own_ns, peak_kb) = (cpu_ns(&recorder)? - before_ns, peak_kb(&recorder)?);
    kill_process(Pid::from_child(&recorder), Signal::INT)?;
    recorder.wait()?;
    Ok((count, own_ns, peak_kb))
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, cpu, seconds] = args.as_slice()
        && word == "load"
    {
        return load(cpu.parse()?, seconds.parse()?);
    }
    let cpumon = args.first().context("usage: flight_cost CPUMON [SECONDS]")?;
    let seconds = args.get(1).map_or(Ok(32), |seconds| seconds.parse())?;
    let dir = tempfile::tempdir()?;
    for round in 0..ROUNDS {
        let file = dir.path().join(format!("{round}.trace"));
        let alone = counted(seconds)?;
        let (beside, own_ns, peak_kb) = beside_recorder(Path::new(cpumon), &file, seconds)?;
        println!(
            "slowdown {:.4}, recorder {:.2} % of a CPU, at most {:.1} MB, file {:.1} MB; load average {}",
            alone as f64 / beside as f64,
            own_ns as f64 / seconds as f64 / 1e7,
            peak_kb as f64 / 1e3,
            std::fs::metadata(&file)?.len() as f64 / 1e6,
            std::fs::read_to_string("/proc/loadavg")?.trim()
        );
    }
    Ok(())
}
