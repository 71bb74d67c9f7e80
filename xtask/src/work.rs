//! One thread that works in one way: the loads whose CPU time samplers get right or wrong. In: the way and how long. Out:
//! one line of JSON with the CPU time that the kernel's exact clock measured.

use std::fs::File;
use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use nix::sys::prctl;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_getres, clock_gettime};

const MOST_SECONDS: u32 = 600;
/// How long a nap and the work between two naps take.
const NAP: Duration = Duration::from_micros(500);
/// How far from a tick the dodger keeps: time to wake up late, and to fall asleep.
const DODGE_BEFORE_NS: i64 = 500_000;
const DODGE_AFTER_NS: i64 = 200_000;

/// `xtask work`: one thread, one way of working.
#[derive(Args)]
pub struct WorkArgs {
    /// How to work
    #[arg(value_enum)]
    way: WorkPattern,
    /// Length, seconds
    #[arg(long, default_value_t = 5)]
    seconds: u32,
}

#[derive(Copy, Clone, ValueEnum)]
enum WorkPattern {
    /// In user mode without a pause
    Spin,
    /// In the kernel: reading zeros
    Read,
    /// 0.5 ms on, 0.5 ms off
    Nap,
    /// Between two clock ticks, never during one: what samples at the tick does not see it
    Dodge,
}

/// Works until the time is over.
pub fn work(args: &WorkArgs) -> Result<()> {
    ensure!(args.seconds <= MOST_SECONDS, "--seconds is at most {MOST_SECONDS}");
    let until = Instant::now() + Duration::from_secs(args.seconds.into());
    let name = match args.way {
        WorkPattern::Spin => c"work-spin",
        WorkPattern::Read => c"work-read",
        WorkPattern::Nap => c"work-nap",
        WorkPattern::Dodge => c"work-dodge",
    };
    prctl::set_name(name).context("cannot set the thread's name")?;
    match args.way {
        WorkPattern::Spin => burn_until(until),
        WorkPattern::Read => read(until)?,
        WorkPattern::Nap => nap(until),
        WorkPattern::Dodge => dodge(until)?,
    }
    let used = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).context("clock_gettime")?;
    println!("{{\"name\":{name:?},\"pid\":{},\"cpu_ns\":{}}}", std::process::id(), used.num_nanoseconds());
    Ok(())
}

fn burn_until(end: Instant) {
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

fn read(until: Instant) -> Result<()> {
    let (mut zeros, mut buffer) = (File::open("/dev/zero")?, vec![0; 64 << 10]);
    while Instant::now() < until {
        zeros.read_exact(&mut buffer)?;
    }
    Ok(())
}

fn nap(until: Instant) {
    while Instant::now() < until {
        burn_until(Instant::now() + NAP);
        thread::sleep(NAP);
    }
}

/// The tick comes at whole multiples of its length on the monotonic clock; the coarse clock's resolution is that length.
fn dodge(until: Instant) -> Result<()> {
    let now_ns = || clock_gettime(ClockId::CLOCK_MONOTONIC).map(|time| time.num_nanoseconds());
    let tick_ns =
        clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).context("clock_getres")?.num_nanoseconds().max(1);
    ensure!(tick_ns > 2 * (DODGE_BEFORE_NS + DODGE_AFTER_NS), "a tick of {tick_ns} ns is too short to dodge");
    while Instant::now() < until {
        let since_tick_ns = now_ns()? % tick_ns;
        if since_tick_ns < DODGE_AFTER_NS || since_tick_ns > tick_ns - DODGE_BEFORE_NS {
            let wait_ns = (tick_ns - since_tick_ns) % tick_ns + DODGE_AFTER_NS;
            thread::sleep(Duration::from_nanos(wait_ns.unsigned_abs()));
        }
    }
    Ok(())
}
