//! What the agent costs: CPU per thread and snapshot over collect, diff, encode and send, log or stream (tls; spool: with
//! what waits on a disk; unacked: the same, and nothing is acknowledged, so that everything goes over TLS and to the disk), with
//! 10,000 idle and 200 active threads. In: nothing, it makes its own load, in processes of its own, for a bounded time. Out: a
//! table (wire, disk: bytes for each thread sent; names, processes, headers and what TLS adds included), with a plain
//! open-read-close loop over /proc/PID/task/TID/stat beside it in the same run.
//!
//! `cargo bench -p cpumon-agent --bench agent_cost [-- IDLE ACTIVE SECONDS [WAY...]]`

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use std::{env, fs, hint, io, thread};

use cpumon_agent::{Agent, ConnectionSettings, SamplerOptions, Settings, enroll_here};
use cpumon_collect::{SourceChoice, SourceOptions};
use cpumon_link::Target;
use cpumon_link::spool::SpoolOptions;
use cpumon_receiver::enrolment::Authority;
use cpumon_receiver::{Frontend, Plan, Receiver, TlsPlan};
use cpumon_store::StoreOptions;
use rustix::time::{ClockId, clock_gettime};

/// Processes that the load is spread over.
const LOAD_PROCESSES: usize = 10;
/// Snapshots before the measured ones: buffers grow, everything has been sent once.
const WARM_UP: u32 = 3;
/// No load outlives this.
const LOAD_LIMIT: Duration = Duration::from_mins(5);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    // Cargo passes `--bench`.
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    let number =
        |at: usize, default: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(default);
    let done = match words.first().map(String::as_str) {
        Some("load") => load(number(1, 0), number(2, 0)),
        Some("receiver") => {
            receive(Path::new(words.get(1).map_or("", String::as_str)), words.get(2).is_none())
        }
        Some(way @ ("agent" | "log" | "tls" | "spool" | "unacked")) => {
            measure_agent(way, words.get(1).map_or("auto", String::as_str), number(2, 10))
        }
        Some("plain") => measure_plain_loop(number(1, 5)),
        _ => compare(number(0, 10_000), number(1, 200), number(2, 10), words.get(3..).unwrap_or_default()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("agent_cost: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A process that ends with this one.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        // Closing its input ends it; it may have ended already.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// `ways`: those to measure; none: all.
fn compare(idle: usize, active: usize, seconds: usize, ways: &[String]) -> Outcome<()> {
    let mut loads = Vec::new();
    for at in 0..LOAD_PROCESSES {
        let share = |all: usize| (all * (at + 1) / LOAD_PROCESSES - all * at / LOAD_PROCESSES).to_string();
        let arguments = ["load".to_owned(), share(idle), share(active)];
        let mut child = itself(&arguments)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map(Load)?;
        let ready = child.0.stdout.take().ok_or("no output")?;
        BufReader::new(ready).read_line(&mut String::new())?;
        loads.push(child);
    }
    println!("{idle} idle and {active} active threads, {seconds} snapshots, 1 s apart");
    println!(
        "way              ns/thread  us/snapshot  threads  changed  repeated   wire   disk  pass us  RSS MB  lost"
    );
    let (acked, unacked) = (StartedReceiver::start(None)?, StartedReceiver::start(Some(UNACKED))?);
    for arguments in [
        ["agent", "bpf"],
        ["agent", "procfs"],
        ["log", "bpf"],
        ["log", "procfs"],
        ["tls", "bpf"],
        ["tls", "procfs"],
        ["spool", "bpf"],
        ["spool", "procfs"],
        ["unacked", "bpf"],
        ["unacked", "procfs"],
        ["plain", "5"],
    ] {
        if !ways.is_empty() && !ways.iter().any(|way| way == arguments[0]) {
            continue;
        }
        let words = [arguments[0].to_owned(), arguments[1].to_owned(), seconds.to_string()];
        let receiver = if arguments[0] == UNACKED { &unacked } else { &acked };
        let places = [("BENCH_RECEIVER", &receiver.address), ("BENCH_IDENTITY", &receiver.state)];
        if !itself(&words)?.envs(places).status()?.success() {
            println!("{:<16} not possible here", arguments.join(" "));
        }
    }
    Ok(())
}

/// A receiver in a process of its own, for devices that enrol in the directory `state`.
struct StartedReceiver {
    address: String,
    state: String,
    _process: Load,
    _dir: tempfile::TempDir,
}

impl StartedReceiver {
    fn start(way: Option<&str>) -> Outcome<Self> {
        let dir = tempfile::tempdir()?;
        let state = dir.path().display().to_string();
        let mut words = vec!["receiver".to_owned(), state.clone()];
        words.extend(way.map(str::to_owned));
        let mut process = itself(&words)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map(Load)?;
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        Ok(Self { address: line.trim().to_owned(), state, _process: process, _dir: dir })
    }
}

fn itself(arguments: &[String]) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(arguments);
    Ok(command)
}

/// Threads that sleep, and threads that run about 20 us five times a second, until the input ends.
fn load(idle: usize, active: usize) -> Outcome<()> {
    let spawn = |work: fn()| thread::Builder::new().stack_size(64 << 10).name("load".into()).spawn(work);
    for _ in 0..idle {
        spawn(|| thread::sleep(LOAD_LIMIT))?;
    }
    for _ in 0..active {
        spawn(|| {
            let end = Instant::now() + LOAD_LIMIT;
            while Instant::now() < end {
                thread::sleep(Duration::from_millis(200));
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(20) {
                    hint::spin_loop();
                }
            }
        })?;
    }
    println!("ready");
    io::stdout().flush()?;
    spawn(|| {
        thread::sleep(LOAD_LIMIT);
        std::process::exit(0);
    })?;
    io::stdin().read_to_end(&mut Vec::new())?;
    std::process::exit(0);
}

/// Runs a receiver. `keeps`: it stores snapshots and acknowledges them. Without a store it acknowledges nothing.
fn receive(state: &Path, keeps: bool) -> Outcome<()> {
    let address = ([127, 0, 0, 1], 0).into();
    let plan = Plan {
        no_udp: true,
        store: keeps.then(|| (state.join("store.db"), StoreOptions::default())),
        tls: Some(TlsPlan { address, state: state.to_owned() }),
        ..Plan::default()
    };
    let frontend = Frontend { reads: Vec::new(), address, run: Box::new(|_| Ok(())), stop: Box::new(|| ()) };
    let receiver = Receiver::start(&plan, frontend)?;
    println!("{}", receiver.state.tls_address().ok_or("no address")?);
    io::stdout().flush()?;
    // It ends with the process that started it.
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(receiver.finish()?)
}

/// The way, and the name of the device, without acknowledgements.
const UNACKED: &str = "unacked";

/// Enrolls with the receiver of this comparison.
fn stream(way: &str, dir: &Path) -> Outcome<ConnectionSettings> {
    let (address, state) = (env::var("BENCH_RECEIVER")?, dir.join("keys"));
    let token = Authority::open(Path::new(&env::var("BENCH_IDENTITY")?))?
        .make_token(Duration::from_mins(1), &cpumon_receiver::enrolment::TokenScope::default())?;
    enroll_here(&address, &token, &state, (way == UNACKED).then_some(UNACKED))?;
    let spool = (way != "tls").then(|| SpoolOptions::new(dir.join("spool")));
    Ok(ConnectionSettings { receivers: vec![address], state, spool, ask: Vec::new() })
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// `way`: agent (datagrams), log (a log on the disk, as the agent keeps it by default), tls (the TLS connection), or
/// spool and unacked (the same, with the queue on the disk).
fn measure_agent(way: &str, source: &str, seconds: usize) -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let secure = matches!(way, "tls" | "spool" | "unacked").then(|| stream(way, dir.path())).transpose()?;
    let log = (way == "log").then(|| SpoolOptions::new(dir.path().join("log")));
    let sink = UdpSocket::bind("127.0.0.1:0")?;
    let options = SourceOptions {
        choice: source.parse::<SourceChoice>()?,
        interval: Duration::from_secs(1),
        ..SourceOptions::default()
    };
    let settings = Settings {
        sampler: SamplerOptions { source: options, hostname: None, max_cpu: None },
        to: if way == "agent" { vec![Target::Unicast(sink.local_addr()?)] } else { Vec::new() },
        v1: false,
        group_key: None,
        pace: None,
        max_datagram: None,
        refresh: None,
        count: None,
        connection: secure,
        flight: None,
        recording: log,
    };
    let mut agent = Agent::open(&settings)?;
    let stop = AtomicBool::new(false);
    for _ in 0..WARM_UP {
        agent.step(&stop)?;
    }
    // On the wire, and written to a disk.
    let bytes = |agent: &Agent| {
        let totals = agent.totals();
        let (wire, disk) = totals
            .connection
            .as_ref()
            .map_or((0, 0), |one| (one.uplink.wire_bytes, one.uplink.backlog.written_bytes));
        (totals.sent.bytes + wire, totals.recording.as_ref().map_or(0, |log| log.spool.bytes) + disk)
    };
    let (before, bytes_before) = (cpu_time(), bytes(&agent));
    let (mut threads, mut changed, mut repeated, mut pass_us) = (0_u64, 0_u64, 0_u64, 0.0);
    for _ in 0..seconds {
        agent.step(&stop)?;
        threads += u64::from(agent.totals().threads);
        let sent = agent.threads_sent();
        (changed, repeated) = (changed + sent.0, repeated + sent.1);
        pass_us += agent.last_pass_ns() as f64 / 1e3;
    }
    let (spent, totals, each) = (cpu_time().saturating_sub(before), agent.totals(), seconds.max(1) as f64);
    let (bytes, rows) = (bytes(&agent), ((changed + repeated) as f64).max(1.0));
    println!(
        "{:<16} {:>9.0}  {:>11.0}  {:>7.0}  {:>7.0}  {:>8.0}  {:>5.1}  {:>5.1}  {:>7.0}  {:>6.1}  {:>4}",
        format!("{way} {source}"),
        spent.as_nanos() as f64 / threads as f64,
        spent.as_micros() as f64 / each,
        threads as f64 / each,
        changed as f64 / each,
        repeated as f64 / each,
        (bytes.0 - bytes_before.0) as f64 / rows,
        (bytes.1 - bytes_before.1) as f64 / rows,
        pass_us / each,
        totals.health.own_rss_bytes as f64 / 1e6,
        totals.sent.errors
            + totals.recording.as_ref().map_or(0, |log| log.spool.lost)
            + totals
                .connection
                .as_ref()
                .map_or(0, |stream| stream.uplink.backlog.lost + stream.uplink.failures)
            + totals.health.exits_lost
            + totals.health.intervals_skipped,
    );
    Ok(())
}

/// What everybody does: list, open, read and close the stat file of every thread.
fn measure_plain_loop(passes: usize) -> Outcome<()> {
    let mut buffer = [0_u8; 1024];
    let (before, mut threads) = (cpu_time(), 0_u64);
    for _ in 0..passes {
        for process in fs::read_dir("/proc")?.flatten() {
            if !process.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            // Processes and threads that end meanwhile are normal.
            let Ok(tasks) = fs::read_dir(process.path().join("task")) else { continue };
            for task in tasks.flatten() {
                let read =
                    fs::File::open(task.path().join("stat")).and_then(|mut file| file.read(&mut buffer));
                threads += u64::from(read.is_ok_and(|bytes| hint::black_box(bytes) > 0));
            }
        }
    }
    let (spent, each) = (cpu_time().saturating_sub(before), passes.max(1) as f64);
    println!(
        "plain /proc loop {:>9.0}  {:>11.0}  {:>7.0}",
        spent.as_nanos() as f64 / (threads as f64).max(1.0),
        spent.as_micros() as f64 / each,
        threads as f64 / each,
    );
    Ok(())
}
