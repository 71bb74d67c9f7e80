//! The floor that reading /proc cannot go below without tricks: open, read and close `/proc/PID/task/TID/stat` of every
//! thread once a second. Benchmarks run it as a process beside the monitors, so that all are measured the same way.

use std::fs;
use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;

/// `xtask floor`: the plain loop.
#[derive(Args)]
pub struct FloorArgs {
    /// How often, once a second
    #[arg(long, default_value_t = 10)]
    count: u32,
}

/// Reads every thread's stat file `count` times and prints how many it saw in the last pass.
pub fn poll(args: &FloorArgs) -> Result<()> {
    ensure!(args.count <= 3_600, "--count is at most 3600");
    let begin = Instant::now();
    let mut threads = 0;
    for nth in 1..=args.count {
        threads = one_pass();
        thread::sleep((begin + Duration::from_secs(nth.into())).saturating_duration_since(Instant::now()));
    }
    println!("{{\"threads\":{threads},\"passes\":{}}}", args.count);
    Ok(())
}

fn one_pass() -> u32 {
    let mut buffer = [0_u8; 4096];
    let mut threads = 0;
    let is_number =
        |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
    for process in fs::read_dir("/proc").into_iter().flatten().flatten().filter(is_number) {
        for task in fs::read_dir(process.path().join("task")).into_iter().flatten().flatten() {
            let read = fs::File::open(task.path().join("stat")).and_then(|mut file| file.read(&mut buffer));
            threads += u32::from(read.is_ok());
        }
    }
    threads
}
