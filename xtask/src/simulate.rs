//! `xtask simulate`: many hosts with busy threads, each sending real v2 frames from a loopback address of its own.
//! In: how many and how fast. Out: datagrams to a receiver, and one line of JSON with what was sent. Why: a receiver is
//! measured and tested against a fleet without having one. Sends to loopback only.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::Args;
use cpumon_model::{
    BootId, Comm, Counters, CpuSample, Fields, HostId, HostInfo, Interval, Moment, ProcessInfo, ProcessKey,
    ProcessSample, Snapshot, SourceKind, TaskState, ThreadKey, ThreadSample,
};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions};

const THREADS_PER_PROCESS: u32 = 4;
const CPUS: u32 = 8;
/// How long the hosts seem to be up longer than this machine, ns.
const UPTIME_NS: u64 = 3_600_000_000_000;

/// How many hosts, how busy, how long.
#[derive(Args)]
pub struct SimulateArgs {
    /// Hosts, each with an address of its own below 127.1.0.0
    #[arg(long, default_value_t = 1_000)]
    hosts: u32,
    /// Threads of each host that run in every interval
    #[arg(long, default_value_t = 200)]
    threads: u32,
    /// Time between two snapshots of a host, ms
    #[arg(long, default_value_t = 1_000)]
    interval_ms: u32,
    /// Length, seconds
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// The receiver; a loopback address
    #[arg(long, default_value = "127.0.0.1:3001")]
    to: SocketAddr,
}

/// Clocks of all hosts. Time since boot continues from one simulation to the next, as for an agent that is started again: if it went
/// back within a boot, intervals would overlap those of the simulation before.
struct Clock {
    begin: Instant,
    uptime_ns: u64,
}

impl Clock {
    fn start() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/uptime").context("cannot read /proc/uptime")?;
        let seconds = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
        let uptime =
            Duration::try_from_secs_f64(seconds.context("/proc/uptime does not begin with seconds")?)?;
        Ok(Self { begin: Instant::now(), uptime_ns: UPTIME_NS + u64::try_from(uptime.as_nanos())? })
    }

    fn now(&self) -> Moment {
        let boot_ns = self.uptime_ns + u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(0);
        Moment { mono_ns: boot_ns, boot_ns, wall_ns: i64::try_from(ns_since_epoch()).unwrap_or(0) }
    }
}

/// Hosts send one after another, spread evenly over the interval.
pub fn simulate(args: &SimulateArgs) -> Result<()> {
    ensure!((1..=20_000).contains(&args.hosts), "--hosts must be 1 to 20000");
    ensure!((1..=20_000).contains(&args.threads), "--threads must be 1 to 20000");
    ensure!((10..=3_600_000).contains(&args.interval_ms), "--interval-ms must be 10 to 3600000");
    ensure!(args.seconds <= 3_600, "--seconds is at most 3600");
    ensure!(
        args.to.ip().is_loopback() && args.to.is_ipv4(),
        "--to must be an IPv4 loopback address, not {}",
        args.to
    );
    let clock = Clock::start()?;
    let mut hosts =
        (0..args.hosts).map(|nth| SimulatedHost::new(nth, args, clock.now())).collect::<Result<Vec<_>>>()?;
    let interval = Duration::from_millis(args.interval_ms.into());
    let rounds = (u64::from(args.seconds) * 1_000 / u64::from(args.interval_ms)).max(1);
    let (mut sent, begin) = (Sent::default(), clock.begin);
    for round in 0..rounds {
        let round_begin = begin + interval * u32::try_from(round).context("too many rounds")?;
        for (host, nth) in hosts.iter_mut().zip(0..) {
            let due = round_begin + interval * nth / args.hosts;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            host.step(&clock, &mut sent);
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let Sent { snapshots, rows, datagrams, bytes, run_ns, errors } = sent;
    println!(
        "{{\"hosts\":{},\"seconds\":{seconds:.3},\"snapshots\":{snapshots},\"thread_rows\":{rows},\"datagrams\":{datagrams},\
         \"bytes\":{bytes},\"run_ns\":{run_ns},\"send_errors\":{errors}}}",
        args.hosts
    );
    Ok(())
}

#[derive(Default)]
struct Sent {
    snapshots: u64,
    /// Rows of threads that ran, first snapshots left out: they end no interval.
    rows: u64,
    datagrams: u64,
    bytes: u64,
    /// Run time in those rows, ns: the receiver's store must add up to it.
    run_ns: u64,
    errors: u64,
}

struct SimulatedHost {
    socket: UdpSocket,
    info: HostInfo,
    encoder: Encoder,
    before: Snapshot,
    now: Snapshot,
    interval: Interval,
    datagrams: Datagrams,
    random: u64,
}

impl SimulatedHost {
    fn new(nth: u32, args: &SimulateArgs, at: Moment) -> Result<Self> {
        // 127.1.0.1 and up: loopback addresses that no other program uses.
        let address = IpAddr::V4(Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + nth));
        let socket = UdpSocket::bind((address, 0))
            .with_context(|| format!("cannot bind {address} (see ulimit -n)"))?;
        socket.connect(args.to).with_context(|| format!("cannot send from {address} to {}", args.to))?;
        let stream = u64::try_from(ns_since_epoch()).unwrap_or(0);
        let mut id = [0x51; 16];
        id[..4].copy_from_slice(&nth.to_be_bytes());
        let info = HostInfo {
            host: HostId(id),
            boot: BootId([1; 16]),
            hostname: format!("sim-{nth:05}").into(),
            kernel: "simulated".into(),
            agent: "xtask simulate".into(),
            cpu_count: CPUS,
            interval_ns: u64::from(args.interval_ms) * 1_000_000,
            ..HostInfo::default()
        };
        let mut now = first_snapshot(&info, args.threads, at);
        now.sort();
        Ok(Self {
            socket,
            info,
            encoder: Encoder::new(EncoderOptions { agent_start: stream, ..EncoderOptions::default() }),
            before: Snapshot::default(),
            now,
            interval: Interval::default(),
            datagrams: Datagrams::new(),
            random: 0x9e37_79b9_7f4a_7c15 ^ u64::from(nth) << 32 | 1,
        })
    }

    fn step(&mut self, clock: &Clock, sent: &mut Sent) {
        let is_first = self.before.sequence == 0 && self.before.threads.is_empty();
        self.before.clone_from(&self.now);
        self.advance(clock.now());
        if is_first {
            self.interval.fill(&self.now, &self.now);
        } else {
            self.interval.fill(&self.before, &self.now);
            sent.rows += self.interval.threads.iter().filter(|row| !row.delta.is_zero()).count() as u64;
            sent.run_ns += u64::try_from(self.interval.ledger.threads_ns).unwrap_or(0);
        }
        self.encoder.encode(&self.info, &self.now, &self.interval, &mut self.datagrams);
        for datagram in self.datagrams.as_slice() {
            match self.socket.send(datagram) {
                Ok(bytes) => sent.bytes += bytes as u64,
                Err(_) => sent.errors += 1,
            }
            sent.datagrams += 1;
        }
        sent.snapshots += 1;
    }

    /// Every thread runs a little, up to its share of the CPUs.
    fn advance(&mut self, at: Moment) {
        let length_ns = at.mono_ns - self.now.end.mono_ns;
        self.now.sequence += 1;
        (self.now.begin, self.now.end) = (at, at);
        let most_ns = (length_ns * u64::from(CPUS) / self.now.threads.len().max(1) as u64).max(2_000);
        let mut busy_ns = 0;
        for thread in &mut self.now.threads {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let run_ns = 1_000 + self.random % (most_ns - 1_000);
            let counters = &mut thread.counters;
            counters.run_ns += run_ns;
            counters.user_ns += run_ns * 7 / 10 / 1_000 * 1_000;
            counters.system_ns = counters.run_ns - counters.user_ns;
            counters.run_delay_ns += self.random >> 24 & 0xf_ffff;
            counters.voluntary_switches += self.random >> 8 & 0x1f;
            counters.involuntary_switches += self.random >> 16 & 0x3;
            busy_ns += run_ns;
        }
        for cpu in &mut self.now.cpus {
            let share_ns = (busy_ns / u64::from(CPUS)).min(length_ns);
            cpu.times.user_ns += share_ns;
            cpu.times.idle_ns += length_ns - share_ns;
        }
    }
}

fn ns_since_epoch() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

fn first_snapshot(info: &HostInfo, threads: u32, at: Moment) -> Snapshot {
    let start_ns = |nth: u32| 1_000_000_000 + u64::from(nth) * 7_654_321;
    let process_of = |nth: u32| {
        let first = nth / THREADS_PER_PROCESS * THREADS_PER_PROCESS;
        ProcessKey { pid: 1_000 + first, start_ns: start_ns(first) }
    };
    let process = |nth: u32| ProcessSample {
        key: process_of(nth),
        parent_pid: 1,
        info: Arc::new(ProcessInfo {
            name: format!("program-{}", nth / THREADS_PER_PROCESS).into(),
            comm: format!("program-{}", nth / THREADS_PER_PROCESS).into(),
            ..ProcessInfo::default()
        }),
        ended_threads: Counters::default(),
    };
    let thread = |nth: u32| ThreadSample {
        key: ThreadKey { tid: 1_000 + nth, start_ns: start_ns(nth) },
        process: process_of(nth),
        comm: Comm::new(format!("worker-{}", nth % THREADS_PER_PROCESS).as_bytes()),
        state: TaskState(b'S'),
        priority: 20,
        last_cpu: u16::try_from(nth % CPUS).unwrap_or(0),
        counters: Counters { run_ns: start_ns(nth) * 3, ..Counters::default() },
        ..ThreadSample::default()
    };
    Snapshot {
        host: info.host,
        boot: info.boot,
        source: SourceKind::Simulated,
        fields: Fields::all(),
        is_complete: true,
        begin: at,
        end: at,
        cpus: (0..CPUS).map(|cpu| CpuSample { cpu, ..CpuSample::default() }).collect(),
        processes: (0..threads).step_by(THREADS_PER_PROCESS as usize).map(process).collect(),
        threads: (0..threads).map(thread).collect(),
        thread_count: threads,
        process_count: threads.div_ceil(THREADS_PER_PROCESS),
        ..Snapshot::default()
    }
}
