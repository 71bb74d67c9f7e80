//! Loads that benchmarks and tests measure against, bounded in count and time: many idle threads with a few active ones
//! ([`threads`]), and a storm of short processes ([`storm`]). Out: one line of JSON with what was really done.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

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

/// Runs the storm. Truth comes from `getrusage(RUSAGE_CHILDREN)`, which the kernel scales to exact run time.
pub fn storm(args: &StormArgs) -> Result<()> {
    ensure!((1..=5_000).contains(&args.rate), "--rate must be 1 to 5000");
    ensure!(args.seconds <= 600, "--seconds is at most 600");
    ensure!(args.burn_min_us <= args.burn_max_us, "--burn-min-us is above --burn-max-us");
    let folder = std::env::temp_dir().join(format!("cpumon-storm-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let result = copy_child(&folder, &args.name).and_then(|child| blow(args, &child));
    std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    result
}

/// A copy, not a link: the executable's own name is what monitors read.
fn copy_child(folder: &Path, name: &str) -> Result<PathBuf> {
    let child = folder.join(name);
    std::fs::copy(std::env::current_exe()?, &child)
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
