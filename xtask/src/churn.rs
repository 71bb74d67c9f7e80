//! Loads of many kinds, bounded in count and time: datagrams on loopback ([`flood`]), and a mix in which threads and
//! processes come, change their names, move between CPUs, talk, and go ([`churn`]). Out: one line of JSON with what was done.

use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl;
use nix::unistd::Pid;

const MOST_SECONDS: u32 = 3_600;
const PAYLOAD: [u8; 64] = [7; 64];
/// Time between two checks of a waiting thread whether to stop.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// `xtask flood`: datagrams to itself, as fast as they go or at a rate.
#[derive(Args)]
pub struct FloodArgs {
    /// Length, seconds
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Datagrams per second; 0: as fast as they go
    #[arg(long, default_value_t = 0)]
    rate: u64,
}

/// Sends and receives on loopback.
pub fn flood(args: &FloodArgs) -> Result<()> {
    ensure!(args.seconds <= MOST_SECONDS, "--seconds is at most {MOST_SECONDS}");
    let until = Instant::now() + Duration::from_secs(args.seconds.into());
    let (sent, received) = send_to_self(until, args.rate)?;
    println!("{{\"sent\":{sent},\"received\":{received},\"seconds\":{}}}", args.seconds);
    Ok(())
}

fn send_to_self(until: Instant, rate: u64) -> Result<(u64, u64)> {
    let to = UdpSocket::bind("127.0.0.1:0").context("cannot bind on loopback")?;
    to.set_read_timeout(Some(CHECK_EVERY)).context("cannot set a timeout")?;
    let from = UdpSocket::bind("127.0.0.1:0").context("cannot bind on loopback")?;
    from.connect(to.local_addr()?).context("cannot connect on loopback")?;
    let receiver = thread::Builder::new().name("flood-receive".to_owned()).spawn(move || {
        let (mut received, mut buffer) = (0_u64, [0; 256]);
        while Instant::now() < until {
            received += u64::from(to.recv(&mut buffer).is_ok());
        }
        received
    })?;
    let (begin, mut sent) = (Instant::now(), 0_u64);
    while Instant::now() < until {
        if let Some(due_ns) = (sent * 1_000_000_000).checked_div(rate) {
            thread::sleep(Duration::from_nanos(due_ns).saturating_sub(begin.elapsed()));
        }
        // A full queue refuses some: that is the flood's nature.
        sent += u64::from(from.send(&PAYLOAD).is_ok());
    }
    let received = receiver.join().map_err(|_| anyhow::anyhow!("the receiving thread failed"))?;
    Ok((sent, received))
}

/// `xtask churn`: everything at once, a little of each.
#[derive(Args)]
pub struct ChurnArgs {
    /// Length, seconds
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Short threads per second
    #[arg(long, default_value_t = 100)]
    threads: u32,
    /// Short processes per second
    #[arg(long, default_value_t = 50)]
    processes: u32,
    /// Idle threads that come and go together every few seconds
    #[arg(long, default_value_t = 500)]
    crowd: u32,
}

/// How long a crowd of threads exists.
const CROWD_LIFETIME: Duration = Duration::from_secs(2);
/// Stack of a thread that does next to nothing.
const STACK_BYTES: usize = 64 * 1024;

/// Runs the mix until the time is over.
pub fn churn(args: &ChurnArgs) -> Result<()> {
    ensure!(args.seconds <= MOST_SECONDS, "--seconds is at most {MOST_SECONDS}");
    ensure!((1..=1_000).contains(&args.threads), "--threads must be 1 to 1000");
    ensure!((1..=1_000).contains(&args.processes), "--processes must be 1 to 1000");
    ensure!(args.crowd <= 10_000, "--crowd is at most 10000");
    let until = Instant::now() + Duration::from_secs(args.seconds.into());
    let (threads, processes, turns) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let results = thread::scope(|scope| {
        let parts = [
            scope.spawn(|| short_threads(until, args.threads, &threads)),
            scope.spawn(|| short_processes(until, args.processes, &processes)),
            scope.spawn(|| crowds(until, args.crowd, &threads)),
            scope.spawn(|| ping_pong(until, &turns)),
            scope.spawn(|| wander(until)),
            scope.spawn(|| send_to_self(until, 2_000).map(drop)),
        ];
        parts.map(|part| part.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a part of the mix panicked"))))
    });
    results.into_iter().collect::<Result<()>>()?;
    println!(
        "{{\"seconds\":{},\"threads\":{},\"processes\":{},\"turns\":{}}}",
        args.seconds,
        threads.into_inner(),
        processes.into_inner(),
        turns.into_inner()
    );
    Ok(())
}

/// Calls `step` at a rate until the time is over; a slow machine falls behind.
fn at_rate(until: Instant, per_second: u32, mut step: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let pause = Duration::from_secs(1) / per_second;
    let mut nth = 0;
    while Instant::now() < until {
        step(nth)?;
        nth += 1;
        thread::sleep(pause);
    }
    Ok(())
}

fn burn(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn short_threads(until: Instant, per_second: u32, count: &AtomicU64) -> Result<()> {
    at_rate(until, per_second, |nth| {
        let work = move || {
            // A name of its own, set late, as thread pools do.
            let name = std::ffi::CString::new(format!("churn-{}", nth % 97)).unwrap_or_default();
            let named = prctl::set_name(&name);
            burn(Duration::from_micros(200));
            named
        };
        let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(work)?;
        count.fetch_add(1, Ordering::Relaxed);
        thread.join().map_err(|_| anyhow::anyhow!("a short thread failed"))?.context("prctl")
    })
}

fn short_processes(until: Instant, per_second: u32, count: &AtomicU64) -> Result<()> {
    let program = std::env::current_exe()?;
    at_rate(until, per_second, |_| {
        let status =
            Command::new(&program).args(["burn", "1000"]).status().context("cannot start a process")?;
        ensure!(status.success(), "a short process failed: {status}");
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}

fn crowds(until: Instant, size: u32, count: &AtomicU64) -> Result<()> {
    while Instant::now() < until {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let started: std::io::Result<Vec<_>> = (0..size)
                .map(|_| {
                    let wait = || {
                        while !is_over.load(Ordering::Relaxed) {
                            thread::park_timeout(Duration::from_millis(500));
                        }
                    };
                    thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, wait)
                })
                .collect();
            thread::sleep(CROWD_LIFETIME.min(until.saturating_duration_since(Instant::now())));
            is_over.store(true, Ordering::Relaxed);
            let started = started.context("cannot start a crowd")?;
            count.fetch_add(started.len() as u64, Ordering::Relaxed);
            for thread in &started {
                thread.thread().unpark();
            }
            Ok::<(), anyhow::Error>(())
        })?;
    }
    Ok(())
}

/// Two threads that wake each other, some thousand times a second.
fn ping_pong(until: Instant, turns: &AtomicU64) -> Result<()> {
    let (ping, pinged) = mpsc::sync_channel::<()>(0);
    let (pong, ponged) = mpsc::sync_channel::<()>(0);
    thread::scope(|scope| {
        scope.spawn(move || {
            while pinged.recv().is_ok() {
                if pong.send(()).is_err() {
                    return;
                }
            }
        });
        while Instant::now() < until {
            for _ in 0..20 {
                ping.send(()).context("the other side has gone")?;
                ponged.recv().context("the other side has gone")?;
            }
            turns.fetch_add(20, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(5));
        }
        drop(ping);
        Ok(())
    })
}

/// A thread that works on each CPU in turn.
fn wander(until: Instant) -> Result<()> {
    let cpus = thread::available_parallelism()?.get();
    let mut turn = 0;
    while Instant::now() < until {
        let mut set = CpuSet::new();
        set.set(turn % cpus).context("no such CPU")?;
        // A CPU may be closed to us: then this thread stays where it is.
        if sched_setaffinity(Pid::from_raw(0), &set).is_ok() {
            burn(Duration::from_micros(300));
        }
        turn += 1;
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
