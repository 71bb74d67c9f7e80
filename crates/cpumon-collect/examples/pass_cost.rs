//! Cost of a pass over 10,000 threads. In: nothing. Out: CPU time per thread of a snapshot by each source, beside a plain
//! open-read-close loop over /proc/PID/task/TID/stat in the same run.
//!
//! `cargo run --release -p cpumon-collect --example pass_cost -- [THREADS] [PASSES]`

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cpumon_collect::{SourceChoice, SourceOptions, open};
use cpumon_model::{Probes, Snapshot};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some("--sleep") {
        return sleep_in_threads(arguments.next().unwrap_or_default().parse()?);
    }
    let threads: usize = first.map_or(Ok(10_000), |text| text.parse())?;
    let passes: u32 = arguments.next().map_or(Ok(30), |text| text.parse())?;
    let mut sleeper = Command::new(std::env::current_exe()?)
        .args(["--sleep", &threads.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let ready = sleeper.stdout.as_mut().map(|out| out.read(&mut [0; 1]));
    let result = ready.transpose().map_err(Into::into).and_then(|_| measure(sleeper.id(), passes));
    drop(sleeper.stdin.take());
    sleeper.wait()?;
    result
}

/// Holds `count` sleeping threads until stdin ends, at most five minutes.
fn sleep_in_threads(count: usize) -> Result<(), Box<dyn std::error::Error>> {
    for _ in 0..count {
        std::thread::Builder::new()
            .stack_size(16 << 10)
            .spawn(|| std::thread::sleep(Duration::from_mins(5)))?;
    }
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn measure(pid: u32, passes: u32) -> Result<(), Box<dyn std::error::Error>> {
    let all = Probes::SCHED | Probes::WAITS | Probes::IRQ;
    let ways = [
        ("bpf, every probe", SourceChoice::Bpf, all),
        ("bpf, no probe", SourceChoice::Bpf, Probes::empty()),
        ("procfs", SourceChoice::Procfs, Probes::empty()),
    ];
    for (name, choice, probes) in ways {
        let mut opened = match open(&SourceOptions { choice, probes, ..SourceOptions::default() }) {
            Ok(opened) => opened,
            Err(error) => {
                println!("{name:>16}: {error}");
                continue;
            }
        };
        let mut snapshots = [Snapshot::default(), Snapshot::default()];
        for snapshot in &mut snapshots {
            opened.source.snapshot(snapshot)?;
        }
        let mut pass = || opened.source.snapshot(&mut snapshots[0]);
        let cost = best_of(passes, || pass().map_err(Into::into))?;
        let count = snapshots[0].threads.len();
        let rss = snapshots[0].health.own_rss_bytes >> 10;
        println!("{name:>16}: {}; {rss} KiB resident", cost.per_thread(count));
    }
    let mut files = Vec::new();
    let cost = best_of(passes.min(10), || open_read_close(pid, &mut files))?;
    println!("{:>16}: {}", "plain", cost.per_thread(files.len()));
    Ok(())
}

/// The loop of tools that read a file for each thread. Lists the directory again each time, as they must.
fn open_read_close(pid: u32, files: &mut Vec<String>) -> Result<(), Box<dyn std::error::Error>> {
    files.clear();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        files.push(format!("/proc/{pid}/task/{}/stat", entry?.file_name().display()));
    }
    let mut buffer = [0; 1024];
    for file in files {
        let length = File::open(file)?.read(&mut buffer)?;
        std::hint::black_box(&buffer[..length]);
    }
    Ok(())
}

struct Cost {
    least_cpu: Duration,
    mean_cpu: Duration,
    least_wall: Duration,
}

impl Cost {
    fn per_thread(&self, threads: usize) -> String {
        let per = |time: Duration| time.as_nanos() as f64 / threads.max(1) as f64;
        format!(
            "{threads} threads, CPU per thread {:.0} ns at best, {:.0} ns on average; pass {:.2} ms at best",
            per(self.least_cpu),
            per(self.mean_cpu),
            self.least_wall.as_secs_f64() * 1e3
        )
    }
}

fn best_of(
    passes: u32,
    mut pass: impl FnMut() -> Result<(), Box<dyn std::error::Error>>,
) -> Result<Cost, Box<dyn std::error::Error>> {
    let mut cost = Cost { least_cpu: Duration::MAX, mean_cpu: Duration::ZERO, least_wall: Duration::MAX };
    for _ in 0..passes {
        let (wall, cpu) = (Instant::now(), own_cpu());
        pass()?;
        let cpu = own_cpu().saturating_sub(cpu);
        cost.least_cpu = cost.least_cpu.min(cpu);
        cost.least_wall = cost.least_wall.min(wall.elapsed());
        cost.mean_cpu += cpu / passes;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(cost)
}

fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
