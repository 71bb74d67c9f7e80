//! A device of the oracle: an agent in a process of its own, which numbers its snapshots, notes each that it accepted, and can
//! be killed. In: where to send and where to wait. Out: a ledger of lines: `run`, `connected`, `made SEQUENCE MONO_NS`,
//! `ended WAITING LOST`.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cpumon_agent::{Agent, ConnectionSettings, Sampler, SamplerOptions, Settings, Signals};
use cpumon_collect::{CollectError, Source, SourceOptions};
use cpumon_link::spool::{SpoolOptions, SyncPolicy};
use cpumon_link::tls::enroll;
use cpumon_model::{
    BootId, Counters, HostId, HostInfo, Moment, ProcessKey, ProcessSample, Snapshot, SourceKind, ThreadKey,
    ThreadSample,
};
use cpumon_receiver::enrolment::Authority;
use rustix::time::{ClockId, clock_gettime};

use crate::support::{KillOnDrop, clean, eventually};

pub const THREADS: u32 = 200;
/// A thread runs one ns of this many.
const SHARE: u64 = 50;
const INTERVAL: Duration = Duration::from_millis(100);
const BEGIN_WALL_NS: i64 = 1_700_000_000_000_000_000;

/// Run time of all threads together at a moment.
pub fn run_ns_at(mono_ns: u64) -> u64 {
    mono_ns / SHARE * u64::from(THREADS)
}

/// The device's wall clock at a moment.
pub fn wall_ns_at(mono_ns: u64) -> i64 {
    BEGIN_WALL_NS + i64::try_from(mono_ns).unwrap()
}

/// Threads that each run a fixed share of the time.
struct Steady {
    host: HostId,
    boot: BootId,
    pass: u64,
    /// When the last snapshot was made.
    made_ns: Arc<AtomicU64>,
}

impl Source for Steady {
    fn snapshot(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
        self.pass += 1;
        into.clear();
        (into.host, into.boot, into.sequence, into.is_complete) = (self.host, self.boot, self.pass, true);
        (into.source, into.fields) = (SourceKind::Simulated, cpumon_model::Fields::all());
        let now = clock_gettime(ClockId::Monotonic);
        let mono_ns = now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned();
        into.end = Moment { mono_ns, boot_ns: mono_ns, wall_ns: wall_ns_at(mono_ns) };
        into.begin = into.end;
        self.made_ns.store(mono_ns, Ordering::Relaxed);
        let process = ProcessKey { pid: 1, start_ns: 1 };
        into.processes.push(ProcessSample { key: process, ..ProcessSample::default() });
        let run_ns = mono_ns / SHARE;
        let counters = Counters { run_ns, user_ns: run_ns, ..Counters::default() };
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

/// Not a test of its own: the agent that the oracle starts and kills.
#[test]
#[ignore = "started by another test"]
fn agent() {
    let Ok(dir) = std::env::var("TEST_DEVICE").map(PathBuf::from) else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let id = u8::try_from(number("TEST_NUMBER")).unwrap();
    let (host, boot) = (HostId([id + 1; 16]), BootId([id + 100; 16]));
    let source = SourceOptions { interval: INTERVAL, ..SourceOptions::default() };
    let info = HostInfo { host, boot, hostname: format!("device-{id}").into(), ..HostInfo::default() };
    let made_ns = Arc::new(AtomicU64::new(0));
    let steady = Box::new(Steady { host, boot, pass: 0, made_ns: Arc::clone(&made_ns) });
    let spool = SpoolOptions {
        dir: dir.join("spool"),
        max_bytes: number("TEST_BYTES"),
        sync: SyncPolicy::Always,
        interval: INTERVAL,
    };
    let receivers = vec![std::env::var("TEST_RECEIVER").unwrap()];
    let settings = Settings {
        sampler: SamplerOptions { source: source.clone(), hostname: None, max_cpu: None },
        to: Vec::new(),
        v1: false,
        group_key: None,
        pace: None,
        max_datagram: None,
        refresh: None,
        count: None,
        connection: Some(ConnectionSettings {
            receivers,
            state: dir.join("keys"),
            spool: Some(spool),
            ask: Vec::new(),
        }),
        flight: None,
        recording: None,
    };
    let signals = Signals::install().unwrap();
    let mut note = OpenOptions::new().append(true).create(true).open(dir.join("ledger")).unwrap();
    note.write_all(b"run\n").unwrap();
    let sampler = Sampler::from_source(steady, SourceKind::Simulated, info, &source);
    let mut agent = Agent::with_sampler(sampler, &settings).unwrap();
    let (mut sequence, mut is_connected) = (0, false);
    // It ends when it is signalled or killed, and not much later by itself.
    while sequence < 6000 && agent.step(signals.stop()).unwrap() {
        sequence += 1;
        let mono_ns = made_ns.load(Ordering::Relaxed);
        note.write_all(format!("made {sequence} {mono_ns}\n").as_bytes()).unwrap();
        let connection = agent.totals().connection.as_ref();
        if !is_connected && connection.is_some_and(|one| one.uplink.connected_to.is_some()) {
            is_connected = true;
            note.write_all(b"connected\n").unwrap();
        }
    }
    signals.stop().store(true, Ordering::Relaxed);
    agent.run(signals.stop()).unwrap();
    let stream = &agent.totals().connection.as_ref().unwrap().uplink;
    note.write_all(format!("ended {} {}\n", stream.backlog.waiting, stream.backlog.lost).as_bytes()).unwrap();
}

/// A run of an agent, as it noted it.
#[derive(Debug, Default)]
pub struct Run {
    /// When each snapshot was made, on the monotonic clock; the first one ends no interval.
    pub made_ns: Vec<u64>,
    /// Snapshots that waited when it ended by itself; `None`: it was killed.
    pub waiting: Option<u64>,
}

/// A device with its agent.
pub struct Device {
    pub number: u8,
    pub host: HostId,
    dir: PathBuf,
    receiver: String,
    max_bytes: u64,
    child: Option<KillOnDrop>,
    /// Runs that were connected before this one.
    connected_before: usize,
}

impl Device {
    /// Enrolled with the receiver of `state`, not running yet.
    pub fn enroll(number: u8, dir: &Path, receiver: &str, state: &Path, max_bytes: u64) -> Self {
        let host = HostId([number + 1; 16]);
        let token = Authority::open(state)
            .unwrap()
            .make_token(Duration::from_mins(1), &cpumon_receiver::enrolment::TokenScope::default())
            .unwrap();
        enroll(&dir.join("keys"), receiver, &token, host.0, &format!("device-{number}")).unwrap();
        let (dir, receiver) = (dir.to_owned(), receiver.to_owned());
        Self { number, host, dir, receiver, max_bytes, child: None, connected_before: 0 }
    }

    pub fn start(&mut self) {
        self.connected_before = self.connected();
        let mut command = Command::new(std::env::current_exe().unwrap());
        clean(&mut command);
        command.args(["--exact", "chaos::device::agent", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env("TEST_DEVICE", &self.dir).env("TEST_RECEIVER", &self.receiver);
        command.env("TEST_NUMBER", self.number.to_string()).env("TEST_BYTES", self.max_bytes.to_string());
        self.child = Some(KillOnDrop(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()));
    }

    /// kill -9
    pub fn kill(&mut self) {
        drop(self.child.take());
    }

    /// Runs that were connected. The last line may be half written.
    fn connected(&self) -> usize {
        let ledger = std::fs::read_to_string(self.dir.join("ledger")).unwrap_or_default();
        ledger.lines().filter(|line| *line == "connected").count()
    }

    /// Ends the agent as a service manager would, once it is connected; how many snapshots still wait.
    pub fn stop(&mut self) -> u64 {
        eventually("the agent is connected", || (self.connected() > self.connected_before).then_some(()));
        assert!(self.child.take().unwrap().end("agent").success());
        self.runs().last().and_then(|run| run.waiting).expect("it notes its end")
    }

    /// Flips a bit of a segment; false if there is none.
    pub fn flip(&self, roll: &mut dyn FnMut(u64) -> u64) -> bool {
        // It may have been killed before it made its spool, or anything in a segment.
        let Ok(entries) = std::fs::read_dir(self.dir.join("spool")) else { return false };
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut paths: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|e| e == "segment")).collect();
        paths.sort();
        let Some(path) = paths.get(usize::try_from(roll(paths.len().max(1) as u64)).unwrap()) else {
            return false;
        };
        let mut bytes = std::fs::read(path).unwrap();
        if bytes.is_empty() {
            return false;
        }
        let at = usize::try_from(roll(bytes.len() as u64)).unwrap();
        bytes[at] ^= 1 << roll(8);
        std::fs::write(path, bytes).unwrap();
        true
    }

    /// The runs that its agents noted.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        for line in std::fs::read_to_string(self.dir.join("ledger")).unwrap().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match (words.as_slice(), runs.last_mut()) {
                (["run"], _) => runs.push(Run::default()),
                (["connected"], Some(_)) => {}
                (["made", _, mono_ns], Some(run)) => run.made_ns.push(mono_ns.parse().unwrap()),
                (["ended", waiting, _], Some(run)) => run.waiting = Some(waiting.parse().unwrap()),
                other => panic!("a line of the ledger: {other:?}"),
            }
        }
        runs
    }
}
