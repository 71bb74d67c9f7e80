//! Floods of valid datagrams of each kind, beside this machine's own measurements and a device on TLS. In: how long each
//! takes (`FLOOD_SECONDS`). Out: a table of the cost of a byte, and that neither of the two loses anything or waits.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::figures::{forget_peak, intake_cpu_ns, peak_kib, resident_kib};
use super::kinds::{Kind, kinds};
use super::{backlog_drops, is_counted, number};
use crate::fleet::{Device, wall_now_ns};
use crate::support::{PATIENCE, Serve, cpumon, eventually};

/// The first datagrams of a flood, bytes: their cost is measured apart, because a receiver takes every one.
const FIRST_BYTES: usize = 256 << 10;
/// Bytes that one source may send a second: the receiver's own limits.
const BYTES_PER_S: usize = 64_000_000;
const DATAGRAMS_PER_S: usize = 20_000;
/// A receiver's memory above its memory before, at most: with one source, and with any number. Without optimization more
/// waits for the store.
const MOST_KIB: u64 = if cfg!(debug_assertions) { 96 << 10 } else { 64 << 10 };
const MOST_OF_MANY_KIB: u64 = 320 << 10;
/// Memory that is kept for each byte of the first datagrams, and a constant for the input of this machine and the device
/// meanwhile. Without optimization more data is still on its way.
const KEPT_OF_BYTE: u64 = if cfg!(debug_assertions) { 160 } else { 64 };
const KEPT_KIB: u64 = 8 << 10;
/// CPU time for each of their bytes, and beside that for whatever is new, ns. Without optimization ten times as much.
const NS_OF_BYTE: u64 = if cfg!(debug_assertions) { 20_000 } else { 2_000 };
const NS_BESIDE: u64 = 50_000_000;
/// How long a device waits for an acknowledgement at most. A build without optimization runs beside other tests, whose disk it shares: there
/// the time says nothing.
const ACKNOWLEDGED: Option<Duration> =
    if cfg!(debug_assertions) { None } else { Some(Duration::from_secs(1)) };
/// Kinds that are tried at once, each with a receiver of its own: alone where time is measured, else several, because most of a run is
/// waiting.
const AT_ONCE: usize = if cfg!(debug_assertions) { 4 } else { 1 };

/// Cost of a kind of datagrams.
struct Figures {
    name: &'static str,
    sent: u64,
    bytes: u64,
    /// Memory kept for each byte of the first ones.
    kept_of_byte: f64,
    ns_of_byte: f64,
    /// Bytes taken in all.
    taken_bytes: u64,
    cpu_ns: u64,
    seconds: f64,
    peak_kib: u64,
    left_kib: u64,
    acknowledged: Duration,
}

impl Figures {
    fn print_head() {
        println!(
            "{:26} {:>9} {:>7} | {:>9} {:>6} | {:>7} {:>5} {:>6} {:>6} | {:>6}",
            "kind", "datagrams", "MB", "kept B/B", "ns/B", "ns/B", "CPU %", "peak", "after", "ack ms"
        );
    }

    fn print(&self) {
        println!(
            "{:26} {:>9} {:>7.1} | {:>9.1} {:>6.0} | {:>7.1} {:>5.0} {:>6.1} {:>6.1} | {:>6}",
            self.name,
            self.sent,
            self.bytes as f64 / 1e6,
            self.kept_of_byte,
            self.ns_of_byte,
            self.cpu_ns as f64 / self.taken_bytes.max(1) as f64,
            self.cpu_ns as f64 / 1e7 / self.seconds,
            self.peak_kib as f64 / 1024.0,
            self.left_kib as f64 / 1024.0,
            self.acknowledged.as_millis(),
        );
    }
}

/// Sends datagrams of a kind, as many as a source may.
pub struct Sender<'a> {
    kind: &'a Kind,
    to: SocketAddr,
    socket: UdpSocket,
    next: u64,
    bytes: u64,
}

impl<'a> Sender<'a> {
    /// Begins with the datagram of this number.
    pub fn new(kind: &'a Kind, to: SocketAddr, first: u64) -> Self {
        Self { kind, to, socket: Self::bind(0), next: first, bytes: 0 }
    }

    fn bind(source: u64) -> UdpSocket {
        let [.., high, low] = source.to_be_bytes();
        UdpSocket::bind(SocketAddr::from(([127, 64, high, low], 0))).unwrap()
    }

    /// Sends one; its length.
    fn send(&mut self) -> usize {
        let datagram = (self.kind.make)(self.next);
        if self.kind.sources > 1 {
            self.socket = Self::bind(self.next % self.kind.sources);
        }
        self.next += 1;
        self.bytes += datagram.len() as u64;
        self.socket.send_to(&datagram, self.to).unwrap()
    }

    /// Sends as fast as one source may, for this long.
    pub fn flood(&mut self, time: Duration) {
        let (begin, mut bytes, mut count) = (Instant::now(), 0, 0);
        while begin.elapsed() < time {
            bytes += self.send();
            count += 1;
            let due = (bytes as f64 / BYTES_PER_S as f64).max(f64::from(count) / DATAGRAMS_PER_S as f64);
            std::thread::sleep(Duration::from_secs_f64(due).saturating_sub(begin.elapsed()));
        }
    }
}

/// Set when it goes out of scope: a check that fails must not leave a thread behind.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has a device take snapshots until it is to stop; the longest time in µs that one waited for its acknowledgement.
fn report(device: &mut Device, stop: &AtomicBool, longest_us: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        device.snapshot(wall_now_ns());
        let sent = Instant::now();
        device.drain(PATIENCE);
        longest_us.fetch_max(u64::try_from(sent.elapsed().as_micros()).unwrap(), Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A receiver that measures this machine, and a device on TLS.
struct Scene {
    serve: Serve,
    device: Device,
    dir: tempfile::TempDir,
}

/// Waits until every datagram is counted; the bytes of those that were taken from the kernel.
fn received(serve: &Serve, sent: u64, drops_before: u64) -> u64 {
    eventually(&format!("{sent} datagrams are counted"), || {
        let receiver = &serve.status_by_http()["receiver"];
        is_counted(receiver, sent, drops_before).then(|| receiver["bytes"].as_u64().unwrap())
    })
}

impl Scene {
    fn begin() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (state, store) = (dir.path().join("identity"), dir.path().join("store.db"));
        let agent = ["--source", "procfs", "--interval", "250ms"];
        let tls = ["--tls", "127.0.0.1:0", "--state", state.to_str().unwrap()];
        let serve = Serve::start_with(cpumon(), &store, &[agent, tls].concat());
        let address = serve.status()["stream"]["address"].as_str().unwrap().to_owned();
        let mut device = Device::enroll(1, dir.path(), &address, &state, 50);
        device.connect();
        device.snapshot(wall_now_ns());
        device.drain(PATIENCE);
        Self { serve, device, dir }
    }

    /// This machine and the device lost nothing; everything of the device is stored.
    fn end(self, what: &str) {
        self.device.drain(PATIENCE);
        let device = self.device.status();
        assert_eq!((device.backlog.lost, device.failures), (0, 0), "{what}: {device:?}");
        for host in self.serve.status_by_http()["hosts"].as_array().unwrap() {
            if matches!(host["trust"].as_str(), Some("local" | "authenticated")) {
                let loss = |name: &str| host["loss"][name].as_u64().unwrap();
                assert_eq!((loss("snapshots_lost"), loss("store_dropped")), (0, 0), "{what}: {host}");
            }
        }
        let store = self.serve.store.clone();
        self.serve.stop();
        self.device.assert_all_stored(&store);
        drop(self.dir);
    }
}

fn run(kind: &Kind, time: Duration) -> Figures {
    let mut scene = Scene::begin();
    let (pid, to) = (scene.serve.pid, scene.serve.udp);
    let (stop, longest_us, mut sender) =
        (AtomicBool::new(false), AtomicU64::new(0), Sender::new(kind, to, 0));
    let Scene { serve, device, .. } = &mut scene;
    let figures = std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| report(device, &stop, &longest_us));
        // CPU time for the device and the store without a flood.
        let before_ns = intake_cpu_ns(pid);
        std::thread::sleep(Duration::from_secs(1));
        // A thread that ended takes its time with it.
        let idle_ns_of_second = intake_cpu_ns(pid).saturating_sub(before_ns);
        let cpu_ns = |begin: Instant, before_ns: u64| {
            let idle_ns = idle_ns_of_second * u64::try_from(begin.elapsed().as_millis()).unwrap() / 1_000;
            intake_cpu_ns(pid).saturating_sub(before_ns).saturating_sub(idle_ns)
        };
        let (idle_kib, begin, before_ns) = (resident_kib(pid), Instant::now(), intake_cpu_ns(pid));
        let drops_before = backlog_drops();
        forget_peak(pid);
        while sender.bytes < FIRST_BYTES as u64 {
            sender.send();
        }
        received(serve, sender.next, drops_before);
        // The store commits twice a second.
        std::thread::sleep(Duration::from_secs(1));
        let first_bytes = sender.bytes;
        let first_ns = cpu_ns(begin, before_ns);
        let kept_kib = resident_kib(pid).saturating_sub(idle_kib);
        sender.flood(time);
        let taken_bytes = received(serve, sender.next, drops_before);
        std::thread::sleep(Duration::from_secs(1));
        let cpu_ns = cpu_ns(begin, before_ns);
        Figures {
            name: kind.name,
            sent: sender.next,
            bytes: sender.bytes,
            kept_of_byte: kept_kib as f64 * 1024.0 / first_bytes as f64,
            ns_of_byte: first_ns as f64 / first_bytes as f64,
            taken_bytes,
            cpu_ns,
            seconds: begin.elapsed().as_secs_f64(),
            peak_kib: peak_kib(pid).saturating_sub(idle_kib),
            left_kib: resident_kib(pid).saturating_sub(idle_kib),
            acknowledged: Duration::ZERO,
        }
    });
    let acknowledged = Duration::from_micros(longest_us.load(Ordering::Relaxed));
    scene.end(kind.name);
    Figures { acknowledged, ..figures }
}

#[test]
fn valid_datagrams_of_any_kind_cost_no_more_than_their_bytes_may() {
    let time = number("FLOOD_SECONDS").map_or(Duration::from_millis(300), Duration::from_secs);
    let only = std::env::var("FLOOD_KIND").unwrap_or_default();
    let kinds: Vec<Kind> = kinds().into_iter().filter(|kind| kind.name.contains(&only)).collect();
    let (next, measured) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(kind) = kinds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let figures = run(kind, time);
                    measured.lock().unwrap().push((kind, figures));
                }
            });
        }
    });
    Figures::print_head();
    let mut wrong = Vec::new();
    for (kind, figures) in measured.into_inner().unwrap() {
        figures.print();
        let kept = figures.kept_of_byte > KEPT_OF_BYTE as f64 + (KEPT_KIB << 10) as f64 / FIRST_BYTES as f64;
        let ns = figures.ns_of_byte > (NS_OF_BYTE + NS_BESIDE / FIRST_BYTES as u64) as f64;
        let peak = figures.peak_kib > if kind.sources > 1 { MOST_OF_MANY_KIB } else { MOST_KIB };
        let late = ACKNOWLEDGED.is_some_and(|most| figures.acknowledged > most);
        if kept || ns || peak || late {
            wrong.push((kind.name, kept, ns, peak, late));
        }
    }
    assert!(wrong.is_empty(), "bytes kept, CPU time, memory, acknowledgements that are too much: {wrong:?}");
}
