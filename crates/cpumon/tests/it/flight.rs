//! Traces of a device's flight recorder with the real programs: trigger, transfer over TLS, cuts on both sides, the receiver's list.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::support::{KillOnDrop, Serve, cpumon, eventually_within, ok, report_of, run, text, traces};

/// An address of this test alone: a receiver that begins again finds its port free.
const ADDRESS: &str = "127.0.41.1:0";

/// A device whose receiver is not ready for a trace offers it again a minute later, and this can happen more than once.
fn eventually<T>(what: &str, get: impl FnMut() -> Option<T>) -> T {
    eventually_within(Duration::from_mins(5), what, get)
}

/// A trace of about `bytes` bytes, made of events.
fn made(bytes: usize, seed: u64) -> Vec<u8> {
    use cpumon_model::Moment;
    use cpumon_trace::{Compression, FileHeader, SchedEvent, SchedEventKind, TraceTask, TraceWriter};
    let wall_ns = cpumon_query::time::now_ns() - 40_000_000_000;
    let began = Moment { mono_ns: 1_000, boot_ns: 1_000, wall_ns };
    let header =
        FileHeader { began, cpus: 1, host: format!("device-{seed}").into(), ..FileHeader::default() };
    let mut writer = TraceWriter::new(Vec::new(), &header, Compression::None).unwrap();
    for at in 0..bytes as u64 / 3 {
        let kind = SchedEventKind::Exit { task: TraceTask(1) };
        writer.event(&SchedEvent { at_ns: 1_000 + at, cpu: 0, kind });
    }
    writer.finish(30_000_001_000, 0).unwrap().0
}

/// A network that can be cut: it forwards bytes to a receiver, and counts those to it.
struct Network {
    address: String,
    /// Bytes that pass before the connection is cut; counted down.
    left: Arc<AtomicU64>,
}

impl Network {
    fn start(to: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (left, to) = (Arc::new(AtomicU64::new(u64::MAX / 2)), to.to_owned());
        let counted = Arc::clone(&left);
        std::thread::spawn(move || {
            for device in listener.incoming() {
                let (Ok(device), Ok(receiver)) = (device, TcpStream::connect(&to)) else { continue };
                let pairs = [
                    (device.try_clone(), receiver.try_clone(), true),
                    (receiver.try_clone(), device.try_clone(), false),
                ];
                for (from, to, is_counted) in pairs {
                    let (from, to, left) = (from.unwrap(), to.unwrap(), Arc::clone(&counted));
                    std::thread::spawn(move || forward(from, to, is_counted.then_some(&*left)));
                }
            }
        });
        Self { address, left }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, left: Option<&AtomicU64>) {
    use std::io::Read;
    let mut bytes = vec![0; 8 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if let Some(left) = left {
            let before = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                Some(left.saturating_sub(count as u64))
            });
            if before.unwrap() == 0 {
                break;
            }
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(std::net::Shutdown::Both);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

struct Device {
    agent: Option<KillOnDrop>,
    dir: tempfile::TempDir,
    flights: PathBuf,
}

impl Device {
    fn enroll(receiver: &Receiver) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let line = ok(&["token", "--state", receiver.state()]);
        let words: Vec<&str> = line.split_whitespace().collect();
        let keys = dir.path().join("keys");
        ok(&["enroll", words[2], words[3], "--state", keys.to_str().unwrap(), "--host-name", "device"]);
        let flights = dir.path().join("flights");
        std::fs::create_dir(&flights).unwrap();
        Self { agent: None, dir, flights }
    }

    /// Starts its agent. False: the machine refuses BPF.
    fn start(&mut self, to: &str, more: &[&str]) -> bool {
        let mut command = cpumon();
        command.args([
            "agent",
            "--to",
            &format!("tls://{to}"),
            "--interval",
            "200ms",
            "--host-name",
            "device",
        ]);
        command.arg("--state").arg(self.dir.path().join("keys"));
        command.args(["--flight-recorder", "2s", "--flight-dir"]).arg(&self.flights).args(more);
        let log = std::fs::File::create(self.dir.path().join("log")).unwrap();
        let mut agent = KillOnDrop(command.stderr(Stdio::from(log)).spawn().unwrap());
        let begun = eventually("the agent has started", || {
            let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap();
            (log.contains("measuring") || agent.0.try_wait().unwrap().is_some()).then_some(log)
        });
        self.agent = Some(agent);
        if begun.contains("measuring") {
            return true;
        }
        crate::skip::skip(format!("needs root for BPF: {begun}"));
        false
    }

    fn kill(&mut self) {
        drop(self.agent.take());
    }

    /// Puts a trace into its queue as its flight recorder does.
    fn queue(&self, name: &str, file: &[u8]) {
        let part = self.flights.join(format!("{name}.trace.part"));
        std::fs::write(&part, file).unwrap();
        let now_ns = cpumon_query::time::now_ns();
        std::fs::write(self.flights.join(format!("{name}.why")), format!("{now_ns}\ncpu>90%\n")).unwrap();
        std::fs::rename(part, self.flights.join(format!("{name}.trace"))).unwrap();
    }
}

struct Receiver {
    serve: Option<Serve>,
    dir: tempfile::TempDir,
    tls: String,
}

impl Receiver {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut receiver = Self { serve: None, dir, tls: ADDRESS.to_owned() };
        receiver.restart();
        receiver
    }

    fn state(&self) -> &str {
        self.dir.path().to_str().unwrap()
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store.db")
    }

    fn restart(&mut self) {
        drop(self.serve.take());
        let state = self.state().to_owned();
        let args = ["--tls", &self.tls, "--state", &state, "--no-agent"];
        let serve = Serve::start_with(cpumon(), &self.store(), &args);
        serve.status()["stream"]["address"].as_str().unwrap().clone_into(&mut self.tls);
        self.serve = Some(serve);
    }

    fn status(&self) -> Value {
        self.serve.as_ref().unwrap().status()["traces"].clone()
    }

    /// Bytes of the transfer under way.
    fn part_bytes(&self) -> u64 {
        let entries = std::fs::read_dir(traces_of(&self.store())).into_iter().flatten().flatten();
        let parts = entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "part"));
        parts.filter_map(|part| part.metadata().ok()).map(|meta| meta.len()).sum()
    }

    fn list(&self) -> Vec<Value> {
        traces(self.store().to_str().unwrap())
    }
}

fn traces_of(store: &Path) -> PathBuf {
    store.with_file_name("store.db.traces")
}

#[test]
fn a_trace_arrives_whole_though_network_receiver_and_agent_are_cut() {
    let mut receiver = Receiver::start();
    let network = Network::start(&receiver.tls);
    let mut device = Device::enroll(&receiver);
    let file = made(12 << 20, 0);
    network.left.store(2 << 20, Ordering::SeqCst);
    device.queue("flight-20260101T000000.000Z", &file);
    if !device.start(&network.address, &[]) {
        return;
    }
    let before = eventually("the network is cut in the middle", || {
        (network.left.load(Ordering::SeqCst) == 0)
            .then(|| receiver.part_bytes())
            .filter(|bytes| *bytes > 500_000)
    });
    network.left.store(4 << 20, Ordering::SeqCst);
    device.kill();
    assert!(device.start(&network.address, &[]));
    let next = eventually("it goes on, and is cut again", || {
        let bytes = receiver.part_bytes();
        (network.left.load(Ordering::SeqCst) == 0 && bytes > before).then_some(bytes)
    });
    assert!(next < file.len() as u64 && receiver.list().is_empty());
    let sent_again = Arc::clone(&network.left);
    receiver.restart();
    sent_again.store(u64::MAX / 2, Ordering::SeqCst);
    let listed = eventually("the trace is stored", || Some(receiver.list()).filter(|list| !list.is_empty()));
    let sent = u64::MAX / 2 - network.left.load(Ordering::SeqCst);
    // Snapshots are sent meanwhile too.
    assert!(sent < file.len() as u64, "{sent} bytes: it began again, though {next} were there");
    assert_eq!((listed.len(), listed[0]["reason"].as_str().unwrap()), (1, "cpu>90%"));
    assert_eq!(std::fs::read(traces_of(&receiver.store()).join("1.trace")).unwrap(), file);
    eventually("the device has deleted it", || {
        // The lock file of its recorder stays.
        let mut names = device.flights.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        names.all(|name| name == "flight.lock").then_some(())
    });
    // Both ways to read it.
    let copy = receiver.dir.path().join("copy.trace");
    let url = receiver.serve.as_ref().unwrap().url.clone();
    for source in [["--url", url.as_str()], ["--store", receiver.store().to_str().unwrap()]] {
        ok(&["trace", "get", "1", "-o", copy.to_str().unwrap(), source[0], source[1]]);
        assert_eq!(std::fs::read(&copy).unwrap(), file);
        std::fs::remove_file(&copy).unwrap();
        let list = ok(&["trace", "list", "--host", "device", source[0], source[1]]);
        assert!(list.contains("cpu>90%") && list.contains("device"), "{list}");
        let missing = run(&["trace", "get", "9", "-o", copy.to_str().unwrap(), source[0], source[1]]);
        assert!(
            !missing.status.success()
                && text(&missing.stderr).contains("no such trace")
                    | text(&missing.stderr).contains("no trace 9"),
            "{missing:?}"
        );
    }
    let status = receiver.status();
    assert_eq!(
        (&status["files"], &status["stored"], &status["failed"]),
        (&1.into(), &1.into(), &0.into()),
        "{status}"
    );
}

#[test]
fn a_rule_and_a_request_bring_traces_that_can_be_reported() {
    let receiver = Receiver::start();
    let mut device = Device::enroll(&receiver);
    if !device.start(&receiver.tls, &[]) {
        return;
    }
    let serve = receiver.serve.as_ref().unwrap();
    eventually("the device is known", || serve.host("device"));
    std::thread::sleep(Duration::from_millis(500));
    let url = serve.url.clone();
    let taken = ok(&["trace", "take", "--host", "device", "--url", &url]);
    assert!(taken.contains("device writes a trace"), "{taken}");
    let again = run(&["trace", "take", "--host", "device", "--url", &url]);
    assert!(!again.status.success() && text(&again.stderr).contains("less than a minute ago"), "{again:?}");
    let listed = eventually("the trace is stored", || Some(receiver.list()).filter(|list| !list.is_empty()));
    assert_eq!(listed[0]["reason"], "request");
    let file = traces_of(&receiver.store()).join("1.trace");
    let report = report_of(&file);
    assert!(report.contains("run_ns"), "{report}");
    device.kill();
    eventually("it is gone", || (serve.status()["stream"]["devices"] == 0).then_some(()));
    let gone = run(&["trace", "take", "--host", "device", "--url", &url]);
    assert!(text(&gone.stderr).contains("not connected over TLS"), "{gone:?}");
    ok(&["hosts", "forget", "device", "--yes", "--store", receiver.store().to_str().unwrap()]);
    assert!(receiver.list().is_empty());
}
