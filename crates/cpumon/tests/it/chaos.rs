//! The oracle: agents number their snapshots, faults come at random from a printed seed, and in the end every snapshot that was
//! accepted is in the store exactly once or inside a counted gap, and the sums of CPU time are the agents' own.
//!
//! `make chaos` runs it long: `CHAOS_RUNS` runs, from `CHAOS_SEED` on.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cpumon_agent::{Agent, Sampler, SamplerOptions, Settings, StreamSettings};
use cpumon_collect::{CollectError, Source, SourceOptions};
use cpumon_link::tls::{Authority, enroll};
use cpumon_model::{
    BootId, Counters, HostId, HostInfo, Moment, ProcessKey, ProcessSample, Snapshot, SourceKind, ThreadKey,
    ThreadSample,
};
use cpumon_store::{Query, Reader};

use crate::support::{Serve, cpumon, eventually};

const AGENTS: u8 = 3;
const THREADS: u32 = 20;
const INTERVAL: Duration = Duration::from_millis(100);
/// How long faults are injected in one run.
const FAULTS: Duration = Duration::from_secs(6);
/// What one thread runs from one snapshot to the next, ns.
const RUN_NS: u64 = 1_000_000;

/// Small, seeded, good enough to choose faults (xorshift64*).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }
}

/// Threads that each run [`RUN_NS`] between two snapshots.
struct Steady {
    host: HostId,
    boot: BootId,
    pass: Arc<AtomicU64>,
    begin: Instant,
}

impl Source for Steady {
    fn snapshot(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
        let pass = self.pass.fetch_add(1, Ordering::Relaxed) + 1;
        into.clear();
        (into.host, into.boot, into.sequence, into.is_complete) = (self.host, self.boot, pass, true);
        (into.source, into.fields) = (SourceKind::Simulated, cpumon_model::Fields::all());
        let mono_ns = u64::try_from(self.begin.elapsed().as_nanos()).unwrap() + 1_000_000_000;
        let wall_ns = 1_700_000_000_000_000_000 + i64::try_from(mono_ns).unwrap();
        into.end = Moment { mono_ns, boot_ns: mono_ns, wall_ns };
        into.begin = into.end;
        let process = ProcessKey { pid: 1, start_ns: 1 };
        into.processes.push(ProcessSample { key: process, ..ProcessSample::default() });
        let counters = Counters { run_ns: pass * RUN_NS, user_ns: pass * RUN_NS, ..Counters::default() };
        into.threads.extend((1..=THREADS).map(|tid| ThreadSample {
            key: ThreadKey { tid, start_ns: 1 },
            process,
            counters,
            ..ThreadSample::default()
        }));
        (into.thread_count, into.process_count) = (THREADS, 1);
        Ok(())
    }
}

/// What an agent says when it has ended.
struct Ended {
    host: HostId,
    /// Snapshots that it made; the first ends no interval.
    snapshots: u64,
    waiting: u64,
    lost: u64,
}

struct Device {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Ended>,
}

impl Device {
    fn start(number: u8, address: &str, keys: &Path, state: &Path) -> Self {
        let host = HostId([number + 1; 16]);
        let token = Authority::open(state).unwrap().make_token(Duration::from_mins(1)).unwrap();
        enroll(keys, address, &token, host.0, &format!("device-{number}")).unwrap();
        let (stop, pass) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (address, keys, stopped) = (address.to_owned(), keys.to_owned(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || run_agent(host, number, &address, &keys, &pass, &stopped));
        Self { stop, thread }
    }

    fn end(self) -> Ended {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap()
    }
}

fn run_agent(
    host: HostId,
    number: u8,
    address: &str,
    keys: &Path,
    pass: &Arc<AtomicU64>,
    stop: &AtomicBool,
) -> Ended {
    let options = SourceOptions { interval: INTERVAL, ..SourceOptions::default() };
    let boot = BootId([number + 100; 16]);
    let source = Steady { host, boot, pass: Arc::clone(pass), begin: Instant::now() };
    let info = HostInfo { host, boot, hostname: format!("device-{number}").into(), ..HostInfo::default() };
    let sampler = Sampler::from_source(Box::new(source), SourceKind::Simulated, info, &options);
    let settings = Settings {
        sampler: SamplerOptions { source: options, hostname: None, max_cpu: None },
        to: Vec::new(),
        v1: false,
        pace: None,
        max_datagram: None,
        refresh: None,
        count: None,
        stream: Some(StreamSettings { receivers: vec![address.to_owned()], state: keys.to_owned() }),
        log: None,
    };
    let mut agent = Agent::with_sampler(sampler, &settings).unwrap();
    agent.run(stop).unwrap();
    let stream = agent.totals().stream.unwrap();
    Ended { host, snapshots: agent.totals().snapshots, waiting: stream.waiting, lost: stream.lost }
}

/// A network that can be cut, stalled and slowed down.
struct Network {
    address: SocketAddr,
    cuts: Arc<AtomicU64>,
    is_stalled: Arc<AtomicBool>,
    delay_ms: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Network {
    fn to(receiver: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (cuts, delay_ms) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (is_stalled, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (cut, stalled, delay, stopped) =
            (Arc::clone(&cuts), Arc::clone(&is_stalled), Arc::clone(&delay_ms), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut pumps = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let Ok((device, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                };
                let Ok(desk) = TcpStream::connect(receiver) else { continue };
                let generation = cut.load(Ordering::Relaxed);
                for (from, to) in [(&device, &desk), (&desk, &device)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (cut, stalled, delay, stopped) =
                        (Arc::clone(&cut), Arc::clone(&stalled), Arc::clone(&delay), Arc::clone(&stopped));
                    pumps.push(std::thread::spawn(move || {
                        let is_over =
                            || cut.load(Ordering::Relaxed) != generation || stopped.load(Ordering::Relaxed);
                        carry(from, to, &is_over, &stalled, &delay);
                    }));
                }
            }
            for pump in pumps {
                pump.join().unwrap();
            }
        });
        Self { address, cuts, is_stalled, delay_ms, stop, thread: Some(thread) }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn carry(
    mut from: TcpStream,
    mut to: TcpStream,
    is_over: &dyn Fn() -> bool,
    stalled: &AtomicBool,
    delay_ms: &AtomicU64,
) {
    from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    to.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut bytes = [0; 4096];
    while !is_over() {
        if stalled.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => {
                std::thread::sleep(Duration::from_millis(delay_ms.load(Ordering::Relaxed)));
                if to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    let _ = from.shutdown(std::net::Shutdown::Both);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// The receiver, which is killed and comes back at the same place.
struct Desk {
    store: PathBuf,
    state: PathBuf,
    address: SocketAddr,
    serve: Option<Serve>,
}

impl Desk {
    fn start(dir: &Path) -> Self {
        let (store, state) = (dir.join("store.db"), dir.join("identity"));
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut desk = Self { store, state, address, serve: None };
        desk.run();
        desk
    }

    fn run(&mut self) {
        let (tls, state) = (self.address.to_string(), self.state.to_str().unwrap().to_owned());
        self.serve =
            Some(Serve::start_with(cpumon(), &self.store, &["--no-agent", "--tls", &tls, "--state", &state]));
    }

    fn kill(&mut self) {
        // Dropping it is a kill -9.
        self.serve = None;
    }
}

/// One fault, and its end.
fn hurt(dice: &mut Dice, desk: &mut Desk, network: &Network) -> &'static str {
    let pause = Duration::from_millis(100 + dice.roll(700));
    match dice.roll(6) {
        0 => {
            desk.kill();
            std::thread::sleep(pause);
            desk.run();
            "kill -9 of the receiver"
        }
        1 => {
            desk.serve.take().unwrap().stop();
            desk.run();
            "restart of the receiver"
        }
        2 => {
            network.cuts.fetch_add(1, Ordering::Relaxed);
            "cut connections"
        }
        3 => {
            network.is_stalled.store(true, Ordering::Relaxed);
            std::thread::sleep(pause);
            network.is_stalled.store(false, Ordering::Relaxed);
            "stalled network"
        }
        4 => {
            network.delay_ms.store(30, Ordering::Relaxed);
            std::thread::sleep(pause);
            network.delay_ms.store(0, Ordering::Relaxed);
            "slow network"
        }
        _ => {
            let serve = desk.serve.as_ref().unwrap();
            serve.signal("-STOP");
            std::thread::sleep(pause);
            serve.signal("-CONT");
            "paused receiver"
        }
    }
}

/// What the store has of a host: each snapshot once, without a hole, with all of its CPU time.
fn check(store: &Path, ended: &Ended, seed: u64) {
    let reader = Reader::open(store).unwrap();
    let (mut sequences, mut run_ns, mut doubled) = (BTreeSet::new(), 0_i64, Vec::new());
    let mut spans = Vec::new();
    reader
        .for_each_interval(&Query::new(ended.host), &mut |interval| {
            if interval.duration_ns() > 0 {
                if !sequences.insert(interval.sequence) {
                    doubled.push(interval.sequence);
                }
                run_ns += interval.threads.iter().map(|row| row.delta.run_ns).sum::<i64>();
                spans.push((interval.begin.mono_ns, interval.end.mono_ns));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let what = format!("seed {seed}, host {}", ended.host);
    assert_eq!((ended.waiting, ended.lost), (0, 0), "{what}: not acknowledged, lost");
    assert!(doubled.is_empty(), "{what}: stored twice: {doubled:?}");
    let missing: Vec<u64> = (2..=ended.snapshots).filter(|number| !sequences.contains(number)).collect();
    assert!(missing.is_empty(), "{what}: of {} snapshots not stored: {missing:?}", ended.snapshots);
    let own_ns = (ended.snapshots - 1) * RUN_NS * u64::from(THREADS);
    assert_eq!(u64::try_from(run_ns), Ok(own_ns), "{what}: CPU time");
    spans.sort_unstable();
    assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "{what}: intervals do not meet");
    let all = (i64::MIN, i64::MAX);
    let gaps = reader.gaps(ended.host, all, 10).unwrap();
    assert!(gaps.iter().all(|gap| gap.intervals == 0), "{what}: gaps although nothing was lost: {gaps:?}");
}

fn run_once(seed: u64) {
    let (dir, mut dice) = (tempfile::tempdir().unwrap(), Dice(2 * seed + 1));
    let mut desk = Desk::start(dir.path());
    let network = Network::to(desk.address);
    let address = network.address.to_string();
    let devices: Vec<Device> = (0..AGENTS)
        .map(|number| {
            Device::start(number, &address, &dir.path().join(format!("keys-{number}")), &desk.state)
        })
        .collect();
    let (begin, mut faults) = (Instant::now(), Vec::new());
    while begin.elapsed() < FAULTS {
        std::thread::sleep(Duration::from_millis(200 + dice.roll(900)));
        faults.push(hurt(&mut dice, &mut desk, &network));
    }
    println!("seed {seed}: {}", faults.join(", "));
    let serve = desk.serve.take().unwrap();
    eventually("live data of every device after the faults", || {
        let status = serve.status();
        let hosts = status["hosts"].as_array().unwrap().clone();
        let live = hosts.iter().filter(|host| host["trust"] == "authenticated");
        (live.count() == usize::from(AGENTS) && status["stream"]["devices"] == AGENTS).then_some(())
    });
    let ended: Vec<Ended> = devices.into_iter().map(Device::end).collect();
    serve.stop();
    for ended in &ended {
        check(&desk.store, ended, seed);
    }
}

#[test]
fn whatever_happens_between_agent_and_store_each_snapshot_is_stored_once() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let clock = || u64::from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos());
    let first = number("CHAOS_SEED").unwrap_or_else(clock);
    for seed in (first..).take(usize::try_from(number("CHAOS_RUNS").unwrap_or(1)).unwrap()) {
        run_once(seed);
    }
}
