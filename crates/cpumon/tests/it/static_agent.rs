//! An agent that is one static file, of this machine or of another kind, which an emulator runs: what it measures, sends and queues, by the real
//! receiver. `scripts/test-agents.sh` builds it and runs these tests; `STATIC_AGENT` is its command line, in words apart by spaces.
//! An emulated agent reads the /proc of this machine, so the load is a program of this machine in each case.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::support::{Serve, clean, cpumon, eventually, is_root, ok, output, text};

/// What a load runs between the call that reads its time and its wait, and how old `sum_exec_runtime` of a thread that just ran can be.
const TOLERANCE_NS: u64 = 8_000_000;

const LOAD: &str = "
import resource, sys, time
for line in sys.stdin:
    until = time.process_time() + int(line) / 1000
    while time.process_time() < until: pass
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(int((used.ru_utime + used.ru_stime) * 1e9), flush=True)
";

/// A process that uses CPU time when asked, and knows how much.
struct Load {
    child: Child,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Load {
    fn start() -> Self {
        let mut command = Command::new("python3");
        command.args(["-S", "-c", LOAD]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (ask, answers) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, ask, answers }
    }

    /// Works for so long; what it used since its begin, ns.
    fn work(&mut self, ms: u32) -> u64 {
        writeln!(self.ask.as_mut().unwrap(), "{ms}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim().parse().unwrap()
    }

    fn end(&mut self) {
        drop(self.ask.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

/// Killed when dropped, which leaves it no time to put anything in order.
struct Agent(Child);

impl Agent {
    fn start(arguments: &[&str]) -> Self {
        Self::start_with(&["--source", "procfs"], arguments)
    }

    fn start_with(source: &[&str], arguments: &[&str]) -> Self {
        let mut command = agent();
        command.args(source).args(["--interval", "100ms", "--host-name", "device"]).args(arguments);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn agent() -> Command {
    let line = std::env::var("STATIC_AGENT").expect("STATIC_AGENT: the agent's command line");
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    clean(&mut command);
    command
}

fn agent_says(arguments: &[&str]) -> (bool, String) {
    let mut command = agent();
    command.args(arguments);
    let output = output(command);
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

/// What the store has of a process, ns.
fn stored(store: &str, load: &Load) -> u64 {
    let query =
        format!("SELECT coalesce(sum(run_ns), 0) FROM process_interval WHERE pid = {}", load.child.id());
    let answer = ok(&["sql", "--store", store, "--format", "csv", &query]);
    answer.lines().last().unwrap().parse().unwrap()
}

fn assert_stored(store: &str, load: &Load, truth_ns: u64) {
    let sum = eventually("all of the load's time is stored", || {
        Some(stored(store, load)).filter(|sum| sum + TOLERANCE_NS >= truth_ns)
    });
    assert!(sum <= truth_ns + TOLERANCE_NS, "{sum} ns stored, {truth_ns} ns by getrusage");
}

fn wait_for_snapshots(serve: &Serve) {
    eventually("snapshots of the device", || {
        serve.host("device").filter(|host| host["loss"]["snapshots"].as_u64() > Some(3))
    });
}

#[test]
#[ignore = "scripts/test-agents.sh runs it"]
fn run_time_that_came_in_datagrams_is_what_getrusage_says() {
    let serve = Serve::start(&["--no-agent"]);
    let _agent = Agent::start(&["--to", &serve.udp.to_string()]);
    wait_for_snapshots(&serve);
    let mut load = Load::start();
    load.work(150);
    let truth_ns = load.work(350);
    assert_stored(serve.store(), &load, truth_ns);
}

#[test]
#[ignore = "scripts/test-agents.sh runs it"]
fn what_an_enrolled_agent_queued_survives_its_kill() {
    let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, state) = (dir.path().join("store.db"), state.path().to_str().unwrap());
    let (keys, spool) = (dir.path().join("keys"), dir.path().join("spool"));
    let receive =
        |tls: &str| Serve::start_with(cpumon(), &store, &["--no-agent", "--tls", tls, "--state", state]);
    let serve = receive("127.0.0.1:0");
    let address = serve.status()["stream"]["address"].as_str().unwrap().to_owned();
    let line = ok(&["token", "--state", state]);
    let token = line.split_whitespace().last().unwrap();
    let keys = keys.to_str().unwrap();
    let (is_enrolled, messages) =
        agent_says(&["enroll", &address, token, "--state", keys, "--host-name", "device"]);
    assert!(is_enrolled, "{messages}");

    let to = format!("tls://{address}");
    let (spool_dir, always) = (spool.to_str().unwrap(), "--spool-sync=always");
    let start =
        || Agent::start(&["--to", &to, "--state", keys, "--no-discovery", "--spool", spool_dir, always]);
    let device = start();
    wait_for_snapshots(&serve);
    assert_eq!(serve.host("device").unwrap()["trust"], "authenticated");
    let mut load = Load::start();
    load.work(100);
    serve.stop();
    let truth_ns = load.work(300);
    // Nothing acknowledges, so each change is one more snapshot: the last of these began after the load's work.
    for _ in 0..3 {
        let before = contents(&spool);
        eventually("one more snapshot in the spool", || (contents(&spool) != before).then_some(()));
    }
    // What has ended cannot be measured again.
    load.end();
    drop(device);
    let serve = receive(&address);
    let _device = start();
    assert_stored(serve.store(), &load, truth_ns);
}

fn contents(dir: &Path) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.is_file()).collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).unwrap_or_default()).collect()
}

#[test]
#[ignore = "scripts/test-agents.sh runs it"]
fn bpf_is_in_the_static_agent() {
    if !is_root() {
        return;
    }
    let serve = Serve::start(&["--no-agent"]);
    let probes = ["--source", "bpf", "--probes", "sched,waits,irq"];
    let _agent = Agent::start_with(&probes, &["--to", &serve.udp.to_string()]);
    wait_for_snapshots(&serve);
    let query = "SELECT DISTINCT source FROM host_interval";
    let stored = || ok(&["sql", "--store", serve.store(), "--format", "csv", query]);
    eventually("intervals of BPF", || stored().contains("bpf").then_some(()));
}
