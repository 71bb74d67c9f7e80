//! An agent's program for another kind of device, and a process of known CPU time beside it: shared by the tests of the
//! static agent and of the agent for Windows.

use std::io::{BufRead, BufReader, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::support::{Serve, clean, cpumon, eventually_within, ok, output_within, text};

/// An address of this test alone: a receiver that begins again finds its port free.
const ADDRESS: &str = "127.0.43.1:0";

/// A kind of device: how its agent is run, and how exactly it measures.
pub struct Device {
    /// The environment variable that holds the agent's command line, in words apart by spaces.
    pub variable: &'static str,
    pub source: &'static str,
    /// Starts a process that the agent measures.
    pub load: fn() -> Load,
    /// Largest difference between the stored time of a process and its own report, ns.
    pub tolerance_ns: u64,
    pub patience: Duration,
}

impl Device {
    /// Its command line without arguments.
    pub fn command(&self) -> Command {
        let line = std::env::var(self.variable)
            .unwrap_or_else(|_| panic!("{}: the agent's command line", self.variable));
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        clean(&mut command);
        command
    }

    pub fn start(&self, arguments: &[&str]) -> Agent {
        self.start_with(&["--source", self.source], arguments)
    }

    pub fn start_with(&self, source: &[&str], arguments: &[&str]) -> Agent {
        let mut command = self.command();
        command.args(source).args(["--interval", "100ms", "--host-name", "device"]).args(arguments);
        Agent(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Runs a command line of the agent that must succeed.
    pub fn run(&self, arguments: &[&str]) {
        let mut command = self.command();
        command.args(arguments);
        let output = output_within(self.patience, command);
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    }

    /// Runs a command line of the agent that must fail; its messages.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let mut command = self.command();
        command.args(arguments);
        let output = output_within(self.patience, command);
        assert!(!output.status.success(), "{}", text(&output.stdout));
        text(&output.stderr)
    }

    pub fn wait_for_snapshots(&self, serve: &Serve) {
        eventually_within(self.patience, "snapshots of the device", || {
            serve.host("device").filter(|host| host["loss"]["snapshots"].as_u64() > Some(3))
        });
    }

    /// Waits until the store has all of the load's time, and checks that it has no more.
    pub fn assert_stored(&self, store: &str, load: &Load, truth_ns: u64) {
        self.assert_stored_within(
            store,
            load,
            truth_ns.saturating_sub(self.tolerance_ns)..=truth_ns + self.tolerance_ns,
        );
    }

    pub fn assert_stored_within(&self, store: &str, load: &Load, range: RangeInclusive<u64>) {
        let query = format!("SELECT coalesce(sum(run_ns), 0) FROM process_interval WHERE pid = {}", load.pid);
        let sum = eventually_within(self.patience, "all of the load's time is stored", || {
            let answer = ok(&["sql", "--store", store, "--format", "csv", &query]);
            let sum: u64 = answer.lines().last().unwrap().parse().unwrap();
            Some(sum).filter(|sum| sum >= range.start())
        });
        println!("{sum} ns of the process stored, expected {range:?}");
        assert!(range.contains(&sum), "{sum} ns stored, not in {range:?}");
    }
}

/// Killed when dropped, which leaves it no time to put anything in order.
pub struct Agent(Child);

impl Agent {
    /// Memory that is this process's alone and was written, as Linux counts it.
    pub fn private_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.0.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that uses CPU time when asked, and reports how much it used.
pub struct Load {
    child: Child,
    /// Pid as the agent knows it.
    pub pid: u32,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Load {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (ask, answers) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { pid: child.id(), child, ask, answers }
    }

    /// The answer to a line.
    pub fn ask(&mut self, line: &str) -> String {
        writeln!(self.ask.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }

    /// Works for this long; returns the CPU time since its begin, ns.
    pub fn work(&mut self, ms: u32) -> u64 {
        self.ask(&ms.to_string()).parse().unwrap()
    }

    /// Run time by Linux' count, to the nanosecond, for each living thread of the started process, the largest first.
    pub fn thread_run_times_of_linux(&self) -> Vec<u64> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let run_ns = |dir: std::path::PathBuf| {
            let text = std::fs::read_to_string(dir.join("schedstat")).unwrap();
            text.split(' ').next().unwrap().parse().unwrap()
        };
        let mut all: Vec<u64> = threads.map(|entry| run_ns(entry.unwrap().path())).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all
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

/// Enrols the device, ends the receiver, lets a load work and end, kills the agent, and starts both again.
pub fn assert_that_queued_data_survives_a_kill(device: &Device) {
    let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, state) = (dir.path().join("store.db"), state.path().to_str().unwrap());
    let (keys, spool) = (dir.path().join("keys"), dir.path().join("spool"));
    let receive =
        |tls: &str| Serve::start_with(cpumon(), &store, &["--no-agent", "--tls", tls, "--state", state]);
    let serve = receive(ADDRESS);
    let address = serve.status()["stream"]["address"].as_str().unwrap().to_owned();
    let line = ok(&["token", "--state", state]);
    let token = line.split_whitespace().last().unwrap();
    let keys = keys.to_str().unwrap();
    device.run(&["enroll", &address, token, "--state", keys, "--host-name", "device"]);

    let to = format!("tls://{address}");
    let (spool_dir, always) = (spool.to_str().unwrap(), "--spool-sync=always");
    let start =
        || device.start(&["--to", &to, "--state", keys, "--no-discovery", "--spool", spool_dir, always]);
    let agent = start();
    device.wait_for_snapshots(&serve);
    assert_eq!(serve.host("device").unwrap()["trust"], "authenticated");
    let mut load = (device.load)();
    load.work(100);
    serve.stop();
    let truth_ns = load.work(300);
    // Nothing acknowledges, so each change is one more snapshot: the last of these began after the load's work.
    for _ in 0..3 {
        let before = contents(&spool);
        eventually_within(device.patience, "one more snapshot in the spool", || {
            (contents(&spool) != before).then_some(())
        });
    }
    // A process that has ended cannot be measured again.
    load.end();
    drop(agent);
    let serve = receive(&address);
    let _agent = start();
    device.assert_stored(serve.store(), &load, truth_ns);
}

fn contents(dir: &Path) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.is_file()).collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).unwrap_or_default()).collect()
}
