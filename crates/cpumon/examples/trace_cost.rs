//! What recording a trace costs: `cargo run --release -p cpumon --example trace_cost -- target/release/cpumon [LOOPS]`, as root, with
//! perf. Alternates `perf bench sched pipe` on CPU 1 without and with a recorder (cpumon with and without zstd,
//! with interrupts, and `perf sched record`), and prints wall time against none, the recorder's own CPU time and memory, and bytes a switch; then how fast a report is made.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

const ROUNDS: usize = 5;
/// A recorder begins to record within this.
const STARTS_WITHIN: Duration = Duration::from_millis(1_500);

/// A loop makes two switches, one to each side.
const SWITCHES_A_LOOP: u64 = 2;

struct Recorder {
    name: &'static str,
    program: PathBuf,
    args: &'static [&'static str],
}

#[derive(Default)]
struct Costs {
    wall_ns: Vec<u64>,
    reader_ns: Vec<u64>,
    bytes: Vec<u64>,
    memory_kib: Vec<u64>,
}

fn pipe_bench(loops: u64) -> Result<u64> {
    let began = Instant::now();
    let loops = loops.to_string();
    let status = Command::new("taskset")
        .args(["-c", "1", "perf", "bench", "-f", "simple", "sched", "pipe", "-l", &loops])
        .stdout(Stdio::null())
        .status()
        .context("cannot run taskset and perf")?;
    ensure!(status.success(), "perf bench failed");
    Ok(u64::try_from(began.elapsed().as_nanos())?)
}

/// CPU time of the first thread, ns.
fn cpu_ns(child: &Child) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/schedstat", child.id()))?;
    Ok(text.split(' ').next().context("an empty schedstat")?.parse()?)
}

/// The most memory that it had so far, KiB.
fn peak_kib(child: &Child) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:")).context("no VmHWM")?;
    Ok(line.split_whitespace().nth(1).context("an empty VmHWM")?.parse()?)
}

fn with_recorder(recorder: &Recorder, file: &Path, loops: u64, costs: &mut Costs) -> Result<()> {
    let mut child = Command::new(&recorder.program)
        .args(recorder.args)
        .arg("-o")
        .arg(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {}", recorder.program.display()))?;
    std::thread::sleep(STARTS_WITHIN);
    let before_ns = cpu_ns(&child)?;
    let wall_ns = pipe_bench(loops)?;
    // What is still in its buffers when the load ends is written within some passes.
    std::thread::sleep(STARTS_WITHIN / 5);
    let reader_ns = cpu_ns(&child)? - before_ns;
    let memory_kib = peak_kib(&child)?;
    kill_process(Pid::from_child(&child), Signal::INT)?;
    child.wait()?;
    costs.wall_ns.push(wall_ns);
    costs.reader_ns.push(reader_ns);
    costs.bytes.push(std::fs::metadata(file)?.len());
    costs.memory_kib.push(memory_kib);
    Ok(())
}

fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn time_report(cpumon: &Path, file: &Path) -> Result<()> {
    let began = Instant::now();
    let output = Command::new(cpumon).args(["trace", "report"]).arg(file).output()?;
    let seconds = began.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&output.stdout);
    let events = text.lines().next().and_then(|line| line.split(", ").nth(1)).unwrap_or_default();
    let count: f64 = events.split(' ').next().unwrap_or_default().parse().context("no count of events")?;
    println!("report: {events} in {seconds:.3} s, {:.2} M events/s", count / seconds / 1e6);
    Ok(())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let cpumon = PathBuf::from(args.next().context("usage: trace_cost CPUMON [LOOPS]")?);
    let loops: u64 = args.next().map_or(Ok(150_000), |loops| loops.parse())?;
    let dir = tempfile::tempdir()?;
    let recorders = [
        Recorder { name: "cpumon, zstd", program: cpumon.clone(), args: &["trace", "record"] },
        Recorder {
            name: "cpumon, plain",
            program: cpumon.clone(),
            args: &["trace", "record", "--compression", "none"],
        },
        Recorder { name: "cpumon, --irq", program: cpumon.clone(), args: &["trace", "record", "--irq"] },
        Recorder { name: "perf sched record", program: "perf".into(), args: &["sched", "record"] },
    ];
    let (mut base_ns, mut costs) = (Vec::new(), std::array::from_fn::<_, 4, _>(|_| Costs::default()));
    for round in 0..ROUNDS {
        base_ns.push(pipe_bench(loops)?);
        for (recorder, costs) in recorders.iter().zip(&mut costs) {
            let file = dir.path().join(format!("{}-{round}", recorder.name));
            with_recorder(recorder, &file, loops, costs)?;
        }
    }
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let (base_ns, switches) = (median(&mut base_ns), loops * SWITCHES_A_LOOP);
    println!("{ROUNDS} rounds, medians; load average {}", load.trim());
    println!("none: {:.3} s for {switches} switches", base_ns as f64 / 1e9);
    for (recorder, costs) in recorders.iter().zip(&mut costs) {
        println!(
            "{}: wall x {:.2}, reader {:.3} us a switch, {:.2} bytes a switch, {:.1} MiB",
            recorder.name,
            median(&mut costs.wall_ns) as f64 / base_ns as f64,
            median(&mut costs.reader_ns) as f64 / switches as f64 / 1e3,
            median(&mut costs.bytes) as f64 / switches as f64,
            median(&mut costs.memory_kib) as f64 / 1024.0
        );
    }
    time_report(&cpumon, &dir.path().join(format!("{}-0", recorders[0].name)))
}
