//! Loads that benchmarks and tests measure against, bounded in count and time: many idle threads with a few active ones ([`threads`]),
//! a storm of short processes ([`storm`]), one thread that works in a way that samplers get right or wrong ([`work`]), context switches at
//! a steady rate ([`switches`]), and reading /proc the plain way ([`poll`]). Out: one line of JSON with what was really done.

use std::fs::{self, File};
use std::io::{Read, Write, pipe};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_getres, clock_gettime};
use nix::unistd::Pid;

/// Beyond this a machine of two CPUs does nothing else.
const MOST_THREADS: u32 = 40_000;
const MOST_SECONDS: u32 = 3_600;
/// The least that glibc accepts with space for a Rust thread's start (measured: 16 KiB overflows in debug builds).
const STACK_BYTES: usize = 64 * 1024;
/// How often an active thread works, and for how long.
const ACTIVE_PERIOD: Duration = Duration::from_millis(200);
const ACTIVE_BURN: Duration = Duration::from_micros(100);

/// `xtask load`: threads that sleep, and some that work a little five times a second.
#[derive(Args)]
pub struct LoadArgs {
    /// Idle threads in all
    #[arg(long, default_value_t = 10_000)]
    idle: u32,
    /// Active threads in all: 100 µs of work every 200 ms each
    #[arg(long, default_value_t = 200)]
    active: u32,
    /// Processes they are spread over
    #[arg(long, default_value_t = 20)]
    processes: u32,
    /// Ends by itself after this many seconds
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

/// Starts the load, prints a line when it is complete, and ends it in time.
pub fn threads(args: &LoadArgs) -> Result<()> {
    ensure!(args.processes >= 1, "--processes must be at least 1");
    ensure!(args.idle + args.active <= MOST_THREADS, "at most {MOST_THREADS} threads");
    ensure!(args.seconds <= MOST_SECONDS, "--seconds is at most {MOST_SECONDS}");
    if args.processes == 1 {
        return hold_threads(args);
    }
    let mut children = Vec::new();
    for nth in 0..args.processes {
        let share = |all: u32| all / args.processes + u32::from(nth < all % args.processes);
        children.push(
            Command::new(std::env::current_exe()?)
                .args(["load", "--processes", "1", "--seconds", &args.seconds.to_string()])
                .args(["--idle", &share(args.idle).to_string(), "--active", &share(args.active).to_string()])
                .stdout(Stdio::null())
                .spawn()
                .context("cannot start a load process")?,
        );
    }
    println!("{{\"idle\":{},\"active\":{},\"processes\":{}}}", args.idle, args.active, args.processes);
    children
        .iter_mut()
        .try_for_each(|child| child.wait().map(drop))
        .context("a load process could not be awaited")
}

fn hold_threads(args: &LoadArgs) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(args.seconds.into());
    let start = |name: &str, work: fn(Instant)| {
        thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(move || work(until))
    };
    let idle = |until: Instant| thread::sleep(until.saturating_duration_since(Instant::now()));
    let mut threads = Vec::new();
    for _ in 0..args.idle {
        threads.push(
            start("idle", idle).context("cannot start an idle thread (see ulimit -u, kernel.threads-max)")?,
        );
    }
    for _ in 0..args.active {
        threads.push(start("active", work_a_little).context("cannot start an active thread")?);
    }
    println!("{{\"idle\":{},\"active\":{},\"processes\":1}}", args.idle, args.active);
    for thread in threads {
        drop(thread.join());
    }
    Ok(())
}

fn work_a_little(until: Instant) {
    while Instant::now() < until {
        let begin = Instant::now();
        while begin.elapsed() < ACTIVE_BURN {
            std::hint::spin_loop();
        }
        thread::sleep(ACTIVE_PERIOD);
    }
}

/// `xtask storm`: short processes, one after another, at a rate.
#[derive(Args)]
pub struct StormArgs {
    /// fork+exec per second
    #[arg(long, default_value_t = 390)]
    rate: u32,
    /// Length of the storm, seconds
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Least CPU time a child burns, µs
    #[arg(long, default_value_t = 2_000)]
    burn_min_us: u32,
    /// Most CPU time a child burns, µs
    #[arg(long, default_value_t = 5_000)]
    burn_max_us: u32,
    /// The children's name
    #[arg(long, default_value = "stormchild")]
    name: String,
}

/// Truth comes from `getrusage(RUSAGE_CHILDREN)`, which the kernel scales to exact run time.
pub fn storm(args: &StormArgs) -> Result<()> {
    ensure!((1..=5_000).contains(&args.rate), "--rate must be 1 to 5000");
    ensure!(args.seconds <= 600, "--seconds is at most 600");
    ensure!(args.burn_min_us <= args.burn_max_us, "--burn-min-us is above --burn-max-us");
    let folder = std::env::temp_dir().join(format!("cpumon-storm-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let result = copy_child(&folder, &args.name).and_then(|child| blow(args, &child));
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    result
}

/// A copy, not a link: the executable's own name is what monitors read.
fn copy_child(folder: &Path, name: &str) -> Result<PathBuf> {
    let child = folder.join(name);
    fs::copy(std::env::current_exe()?, &child)
        .with_context(|| format!("cannot write {}", child.display()))?;
    Ok(child)
}

fn blow(args: &StormArgs, program: &Path) -> Result<()> {
    let begin = Instant::now();
    let end = begin + Duration::from_secs(args.seconds.into());
    let (mut started, mut alive) = (0_u32, Vec::<Child>::new());
    while Instant::now() < end {
        let due = begin + Duration::from_secs(1) * started / args.rate;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        alive.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        // A slow machine falls behind its rate rather than piling up processes.
        if alive.len() < 64 {
            alive.push(start_child(args, program, started)?);
            started += 1;
        }
    }
    for mut child in alive {
        child.wait().context("a child could not be awaited")?;
    }
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?;
    let cpu_ns = (usage.user_time() + usage.system_time()).num_nanoseconds();
    let (seconds, name) = (begin.elapsed().as_secs_f64(), &args.name);
    println!(
        "{{\"name\":{name:?},\"started\":{started},\"seconds\":{seconds:.3},\"children_cpu_ns\":{cpu_ns}}}"
    );
    Ok(())
}

fn start_child(args: &StormArgs, program: &Path, nth: u32) -> Result<Child> {
    let span = args.burn_max_us - args.burn_min_us + 1;
    // Knuth's multiplicative hash: spread, and the same in every run.
    let burn_us = args.burn_min_us + nth.wrapping_mul(2_654_435_761) % span;
    let child = Command::new(program).args(["burn", &burn_us.to_string()]).spawn();
    child.with_context(|| format!("cannot start {}", program.display()))
}

/// `xtask burn US`: a child of the storm; burns CPU until it has used that much, its own start included.
pub fn burn(us: u32) -> Result<()> {
    let limit = Duration::from_micros(us.into());
    loop {
        let used = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).context("clock_gettime")?;
        if Duration::from(used) >= limit {
            return Ok(());
        }
    }
}

/// Of one thread, and of context switches.
const MOST_WORK_SECONDS: u32 = 600;
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

/// The CPU time is what the kernel's exact clock measured.
pub fn work(args: &WorkArgs) -> Result<()> {
    ensure!(args.seconds <= MOST_WORK_SECONDS, "--seconds is at most {MOST_WORK_SECONDS}");
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
        WorkPattern::Read => read_zeros(until)?,
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

fn read_zeros(until: Instant) -> Result<()> {
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

const MOST_RATE: u32 = 200_000;
/// A round trip between the two threads makes two switches.
const SWITCHES_A_TRIP: u32 = 2;
/// Bursts of round trips a second.
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

/// Makes the switches and counts in the rest of the time. A recorder lowers the count: the difference is its cost.
pub fn switches(args: &SwitchesArgs) -> Result<()> {
    ensure!(args.seconds <= MOST_WORK_SECONDS, "--seconds is at most {MOST_WORK_SECONDS}");
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

/// `xtask floor`: the plain loop.
#[derive(Args)]
pub struct FloorArgs {
    /// How often, once a second
    #[arg(long, default_value_t = 10)]
    count: u32,
}

/// The floor that reading /proc cannot go below without tricks: opens, reads and closes `/proc/PID/task/TID/stat` of every thread once a
/// second, `count` times. Benchmarks run it as a process beside the monitors, so that all are measured the same way.
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
            let read = File::open(task.path().join("stat")).and_then(|mut file| file.read(&mut buffer));
            threads += u32::from(read.is_ok());
        }
    }
    threads
}
