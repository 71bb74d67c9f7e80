//! A load of context switches at a steady rate that counts in the rest of its time. In: CPU, rate and length. Out: one line of JSON with
//! the count: what it counts less beside a recorder is what the recorder costs.

use std::io::{Read, Write, pipe};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

const MOST_SECONDS: u32 = 600;
const MOST_RATE: u32 = 200_000;
/// A round trip between the two threads makes two switches.
const SWITCHES_A_TRIP: u32 = 2;
/// Round trips come in bursts of so many a second.
const BURSTS_A_SECOND: u32 = 1_000;

/// `xtask switches`: two threads on one CPU.
#[derive(Args)]
pub struct SwitchesArgs {
    /// The CPU
    #[arg(long)]
    cpu: usize,
    /// Context switches a second; a multiple of 2,000
    #[arg(long, default_value_t = 40_000)]
    rate: u32,
    /// Length, seconds
    #[arg(long, default_value_t = 5)]
    seconds: u32,
}

/// Makes the switches until the time is over, and prints the count.
pub fn switches(args: &SwitchesArgs) -> Result<()> {
    ensure!(args.seconds <= MOST_SECONDS, "--seconds is at most {MOST_SECONDS}");
    ensure!(args.rate <= MOST_RATE, "--rate is at most {MOST_RATE}");
    let trips = args.rate / SWITCHES_A_TRIP / BURSTS_A_SECOND;
    ensure!(trips * SWITCHES_A_TRIP * BURSTS_A_SECOND == args.rate, "--rate is a multiple of 2,000");
    let mut cpus = CpuSet::new();
    cpus.set(args.cpu).context("--cpu")?;
    sched_setaffinity(Pid::from_raw(0), &cpus).context("cannot stay on the CPU")?;
    let (mut from_here, mut to_other) = pipe()?;
    let (mut from_other, mut to_here) = pipe()?;
    thread::spawn(move || {
        let mut byte = [0];
        while from_here.read_exact(&mut byte).is_ok() && to_here.write_all(&byte).is_ok() {}
    });
    let begin = Instant::now();
    let (mut count, mut next, mut byte) = (0_u64, begin, [0]);
    while begin.elapsed() < Duration::from_secs(args.seconds.into()) {
        next += Duration::from_secs(1) / BURSTS_A_SECOND;
        for _ in 0..trips {
            to_other.write_all(&byte)?;
            from_other.read_exact(&mut byte)?;
        }
        while Instant::now() < next {
            count += 1;
        }
    }
    println!("{{\"count\":{count}}}");
    Ok(())
}
