//! The oracle: agents number their snapshots, faults come at random from a printed seed, and in the end every snapshot that was
//! accepted is in the store exactly once or inside a counted gap, and the sums of CPU time are the agents' own.
//!
//! `make chaos` runs it long: `CHAOS_RUNS` runs, from `CHAOS_SEED` on. The seed chooses the faults of a run; how they meet the
//! programs is a matter of time. `make chaos RUNS=1 SEED=n` is run n alone; the directory of a run that failed is kept.

mod device;
mod network;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cpumon_store::{Query, Reader, StoredInterval};
use cpumon_wire::spool::GapReason;

use crate::flood::kinds::kinds;
use crate::flood::valid::Sender;
use crate::seeded_rng::SeededRng;
use crate::small_disk::SmallDisk;
use crate::support::{Serve, cpumon, eventually};
use device::{Device, run_ns_at, wall_ns_at};
use network::Network;

/// An address of this test alone: a receiver that begins again finds its port free.
const ADDRESS: &str = "127.0.40.1:0";

/// How long faults are injected in one run.
const FAULTS: Duration = Duration::from_secs(8);
/// The first device's spool: a few seconds of a receiver's absence fill it.
const SMALL_BYTES: u64 = 64 << 10;
const LARGE_BYTES: u64 = 64 << 20;
/// The device whose spool is on a disk of its own that a receiver's absence fills, where that can be mounted. Snapshots
/// in memory then are lost with a kill, and counted: there was no space.
const ON_SMALL_DISK: usize = 2;

/// The receiver, which is killed and comes back at the same place.
struct RunningReceiver {
    store: PathBuf,
    state: PathBuf,
    address: String,
    serve: Option<Serve>,
}

impl RunningReceiver {
    fn start(dir: &Path) -> Self {
        let (store, state) = (dir.join("store.db"), dir.join("identity"));
        let address = TcpListener::bind(ADDRESS).unwrap().local_addr().unwrap().to_string();
        let mut receiver = Self { store, state, address, serve: None };
        receiver.run();
        receiver
    }

    fn run(&mut self) {
        let state = self.state.to_str().unwrap();
        let more = ["--no-agent", "--tls", &self.address, "--state", state];
        self.serve = Some(Serve::start_with(cpumon(), &self.store, &more));
    }
}

/// All that takes part.
struct Scene {
    rng: SeededRng,
    receiver: RunningReceiver,
    network: Network,
    devices: Vec<Device>,
    /// A bit was flipped in the spool of this device.
    damaged: [bool; 3],
}

impl Scene {
    /// One fault, and its end.
    fn hurt(&mut self) -> String {
        let pause = Duration::from_millis(100 + self.rng.below(700));
        let trouble = &self.network.trouble;
        let (name, victim) = match self.rng.below(10) {
            0 => {
                // Dropping it is a kill -9.
                self.receiver.serve = None;
                std::thread::sleep(pause);
                self.receiver.run();
                ("kill -9 of the receiver", None)
            }
            1 => {
                self.receiver.serve.take().unwrap().stop();
                self.receiver.run();
                ("restart of the receiver", None)
            }
            2 => {
                trouble.cuts.fetch_add(1, Ordering::Relaxed);
                ("cut connections", None)
            }
            3 => {
                trouble.is_stalled.store(true, Ordering::Relaxed);
                std::thread::sleep(pause);
                trouble.is_stalled.store(false, Ordering::Relaxed);
                ("stalled network", None)
            }
            4 => {
                trouble.delay_ms.store(30, Ordering::Relaxed);
                std::thread::sleep(pause);
                trouble.delay_ms.store(0, Ordering::Relaxed);
                ("slow network", None)
            }
            5 => {
                let serve = self.receiver.serve.as_ref().unwrap();
                serve.signal("-STOP");
                std::thread::sleep(pause);
                serve.signal("-CONT");
                ("paused receiver", None)
            }
            8 => {
                let kinds = kinds();
                let kind = &kinds[usize::try_from(self.rng.below(kinds.len() as u64)).unwrap()];
                let to = self.receiver.serve.as_ref().unwrap().udp;
                // From any number on, so that a kind that comes again is not refused as repeated.
                Sender::new(kind, to, self.rng.below(1 << 20)).flood(pause);
                ("flood of a stranger", None)
            }
            6 => ("kill -9 of the agent", Some(self.kill_agent(pause))),
            7 => {
                self.receiver.serve = None;
                let victim = self.kill_agent(pause);
                self.receiver.run();
                ("kill -9 of the receiver and the agent", Some(victim))
            }
            _ => {
                self.receiver.serve = None;
                std::thread::sleep(Duration::from_millis(3000 + self.rng.below(3000)));
                let victim = (self.rng.below(2) == 0).then(|| self.kill_agent(pause));
                self.receiver.run();
                ("receiver long away", victim)
            }
        };
        victim.map_or(name.to_owned(), |victim| format!("{name} {victim}"))
    }

    /// Kills one of the agents, perhaps damages its spool, and starts it again.
    fn kill_agent(&mut self, pause: Duration) -> usize {
        let victim = usize::try_from(self.rng.below(self.devices.len() as u64)).unwrap();
        let device = &mut self.devices[victim];
        device.kill();
        if self.rng.below(2) == 0 {
            let rng = &mut self.rng;
            self.damaged[victim] |= device.flip(&mut |sides| rng.below(sides));
        }
        std::thread::sleep(pause);
        device.start();
        victim
    }
}

/// The host's data in the store: run time by the moment at which each interval ends, and the holes.
fn stored(reader: &Reader, device: &Device, what: &str) -> BTreeMap<u64, (u64, i64)> {
    let mut stored = BTreeMap::new();
    let mut reading = reader.intervals(&Query::new(device.host)).unwrap();
    while let Some(StoredInterval { interval, .. }) = reading.read().unwrap() {
        if interval.duration_ns() > 0 {
            let run_ns = interval.threads.iter().map(|row| row.delta.run_ns).sum::<i64>();
            let known = stored.insert(interval.end.mono_ns, (interval.begin.mono_ns, run_ns));
            assert!(known.is_none(), "{what}: stored twice: {}", interval.sequence);
        }
    }
    stored
}

/// Snapshots that end an interval: all that were accepted, and those in counted holes.
#[derive(Copy, Clone, Debug, Default)]
struct Tally {
    accepted: usize,
    missing: usize,
}

/// Why snapshots of a device may be missing, as long as its spool is not damaged.
fn reasons(device: &Device) -> &'static [GapReason] {
    match usize::from(device.number) {
        0 => &[GapReason::Dropped, GapReason::NoSpace],
        ON_SMALL_DISK => &[GapReason::NoSpace],
        _ => &[],
    }
}

/// Each snapshot once or in a hole that says why, each interval with all of its CPU time.
fn check(store: &Path, device: &Device, is_damaged: bool, seed: u64) -> Tally {
    let what = format!("seed {seed}, device {}", device.number);
    let reader = Reader::open(store).unwrap();
    let stored = stored(&reader, device, &what);
    for (end_ns, (begin_ns, run_ns)) in &stored {
        let own_ns = run_ns_at(*end_ns) - run_ns_at(*begin_ns);
        assert_eq!(u64::try_from(*run_ns), Ok(own_ns), "{what}: CPU time of the interval up to {end_ns}");
    }
    let gaps = reader.gaps(device.host, cpumon_store::TimeRange::ALL, 10_000).unwrap();
    let counted: u64 = gaps.iter().map(|gap| gap.intervals).sum();
    let is_counted = |mono_ns: u64| {
        let wall_ns = wall_ns_at(mono_ns);
        gaps.iter().any(|gap| {
            gap.intervals > 0
                && (gap.begin_wall_ns..=gap.end_wall_ns).contains(&(wall_ns - gap.wall_shift_ns))
        })
    };
    let (mut missing, mut accepted) = (0, 0);
    for (number, run) in device.runs().iter().enumerate() {
        let ends = run.made_ns.get(1..).unwrap_or_default();
        let lost: Vec<u64> = ends.iter().copied().filter(|end_ns| !stored.contains_key(end_ns)).collect();
        let silent: Vec<u64> = lost.iter().copied().filter(|end_ns| !is_counted(*end_ns)).collect();
        assert!(
            silent.is_empty(),
            "{what}, run {number}: not stored and not in a hole: {silent:?}, {gaps:?}"
        );
        missing += lost.len();
        accepted += ends.len();
        if let (true, [first, .., last]) = (lost.is_empty(), run.made_ns.as_slice()) {
            let of_run = stored.range(first + 1..=*last);
            let sum: i64 = of_run.map(|(_, (_, run_ns))| *run_ns).sum();
            assert_eq!(
                u64::try_from(sum),
                Ok(run_ns_at(*last) - run_ns_at(*first)),
                "{what}: CPU time of a run"
            );
        }
    }
    assert!(counted >= missing as u64, "{what}: {missing} are missing, {counted} are counted: {gaps:?}");
    let may_be = |reason: &str| is_damaged || reasons(device).iter().any(|one| one.words() == reason);
    let odd: Vec<_> = gaps.iter().filter(|gap| gap.intervals > 0 && !may_be(&gap.reason)).collect();
    assert!(odd.is_empty(), "{what}: holes that must not be, or for another reason: {odd:?}");
    Tally { accepted, missing }
}

/// A directory that stays if the run in it fails.
struct Place(tempfile::TempDir);

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.disable_cleanup(true);
            println!("kept: {}", self.0.path().display());
        }
    }
}

fn run_once(seed: u64) -> Tally {
    let (dir, rng) = (Place(tempfile::tempdir().unwrap()), SeededRng(2 * seed + 1));
    let dir = &dir.0;
    let receiver = RunningReceiver::start(dir.path());
    let network = Network::to(receiver.address.parse().unwrap());
    let (address, place) = (network.address.to_string(), |number: usize| dir.path().join(number.to_string()));
    let small = place(ON_SMALL_DISK).join("spool");
    std::fs::create_dir_all(&small).unwrap();
    let disk = SmallDisk::mount(&small, "64k");
    let enroll = |number: u8| {
        let max_bytes = if number == 0 { SMALL_BYTES } else { LARGE_BYTES };
        Device::enroll(number, &place(number.into()), &address, &receiver.state, max_bytes)
    };
    let mut devices: Vec<Device> = (0..3).map(enroll).collect();
    devices.iter_mut().for_each(Device::start);
    let mut scene = Scene { rng, receiver, network, devices, damaged: [false; 3] };
    let (begin, mut faults) = (Instant::now(), Vec::new());
    while begin.elapsed() < FAULTS {
        let pause = Duration::from_millis(200 + scene.rng.below(900));
        std::thread::sleep(pause);
        faults.push(scene.hurt());
    }
    println!("seed {seed}: {}", faults.join(", "));
    let tally = end(&mut scene, seed);
    drop(disk);
    tally
}

/// After the faults: live data of each device, then everything that waits, then the accounts.
fn end(scene: &mut Scene, seed: u64) -> Tally {
    let serve = scene.receiver.serve.take().unwrap();
    eventually("live data of every device after the faults", || {
        let status = serve.status();
        let hosts = status["hosts"].as_array().unwrap().clone();
        let live = hosts.iter().filter(|host| host["trust"] == "authenticated");
        (live.count() == scene.devices.len() && status["stream"]["devices"] == scene.devices.len())
            .then_some(())
    });
    for device in &mut scene.devices {
        let mut tries = 0;
        while device.stop() > 0 {
            tries += 1;
            assert!(tries < 10, "seed {seed}: it does not get rid of what waits");
            device.start();
        }
    }
    serve.stop();
    let mut all = Tally::default();
    for (device, damaged) in scene.devices.iter().zip(scene.damaged) {
        let tally = check(&scene.receiver.store, device, damaged, seed);
        (all.accepted, all.missing) = (all.accepted + tally.accepted, all.missing + tally.missing);
    }
    println!("seed {seed}: {} accepted, {} of them in counted holes", all.accepted, all.missing);
    all
}

#[test]
fn whatever_happens_each_snapshot_is_stored_once_or_in_a_counted_hole() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let clock = || u64::from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos());
    let first = number("CHAOS_SEED").unwrap_or_else(clock);
    let runs = number("CHAOS_RUNS").unwrap_or(1);
    let (mut all, mut failed) = (Tally::default(), Vec::new());
    for seed in (first..).take(usize::try_from(runs).unwrap()) {
        match std::panic::catch_unwind(|| run_once(seed)) {
            Ok(tally) => {
                (all.accepted, all.missing) = (all.accepted + tally.accepted, all.missing + tally.missing);
            }
            Err(_) => failed.push(seed),
        }
    }
    println!(
        "{runs} runs: {} accepted, {} of them in counted holes; failed: {failed:?}",
        all.accepted, all.missing
    );
    assert!(failed.is_empty(), "seeds of runs that failed: {failed:?}; one alone: make chaos RUNS=1 SEED=n");
}
