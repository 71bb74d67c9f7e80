//! Starts the binary, reads its messages, ends it by its pid. Everything waits for a bounded time only.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

pub use crate::eventually::{PATIENCE, eventually, eventually_within};
use crate::skip::skip;

/// The binary, with an environment that cannot interfere.
pub fn cpumon() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cpumon"));
    clean(&mut command);
    command
}

pub fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CPUMON_")) {
        command.env_remove(name);
    }
    command.env_remove("STATE_DIRECTORY").env("TZ", "UTC").stdin(Stdio::null());
}

/// Runs a command line to its end, at most [`PATIENCE`].
pub fn run(args: &[&str]) -> Output {
    let mut command = cpumon();
    command.args(args);
    output(command)
}

pub fn output(command: Command) -> Output {
    output_within(PATIENCE, command)
}

pub fn output_within(patience: Duration, mut command: Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let read = |mut from: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            bytes
        })
    };
    let stdout = read(Box::new(child.stdout.take().unwrap()));
    let stderr = read(Box::new(child.stderr.take().unwrap()));
    let status = wait_within(patience, &mut child, &format!("{command:?}"));
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

pub fn wait(child: &mut Child, what: &str) -> ExitStatus {
    wait_within(PATIENCE, child, what)
}

fn wait_within(patience: Duration, child: &mut Child, what: &str) -> ExitStatus {
    let begin = Instant::now();
    while begin.elapsed() < patience {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("still running after {patience:?}: {what}");
}

pub fn signal(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// A process of a test; killed when dropped.
pub struct KillOnDrop(pub Child);

impl KillOnDrop {
    /// Ends it as a service manager would.
    pub fn end(&mut self, what: &str) -> ExitStatus {
        signal(self.0.id(), "-TERM");
        wait(&mut self.0, what)
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A shell that uses all that it gets of a CPU: until it is dropped, and two minutes of CPU time at most.
pub fn spinner(shell: impl AsRef<OsStr>) -> KillOnDrop {
    let script = "ulimit -t 120; while :; do :; done";
    KillOnDrop(Command::new(shell).args(["-c", script]).stdin(Stdio::null()).spawn().unwrap())
}

/// The lines of a pipe, as they come; it ends with the pipe. Their writer never waits, and never finds it closed.
pub fn lines_of(pipe: impl Read + Send + 'static) -> impl Iterator<Item = String> {
    let (say, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let _ = say.send(line);
        }
    });
    std::iter::from_fn(move || match lines.recv_timeout(PATIENCE) {
        Ok(line) => Some(line),
        Err(mpsc::RecvTimeoutError::Disconnected) => None,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("no line within {PATIENCE:?}"),
    })
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command line that must succeed; its standard output.
pub fn ok(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "cpumon {args:?}: {output:?}");
    text(&output.stdout)
}

/// The traces of a store, as `cpumon trace list` gives them.
pub fn traces(store: &str) -> Vec<Value> {
    let output = run(&["trace", "list", "--format", "json", "--store", store]);
    let traces: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(i32::from(traces.is_empty())), "{output:?}");
    assert_eq!(text(&output.stderr).contains("no trace is stored"), traces.is_empty(), "{output:?}");
    traces
}

/// Whether everything was recorded. A recorder that gets no CPU for long loses events, which is reported, with exit code 3.
pub fn is_whole(output: &Output) -> bool {
    let words = text(&output.stderr);
    let has_lost = output.status.code() == Some(3) && words.contains("the recorder lost");
    assert!(has_lost || output.status.code() == Some(0), "{output:?}");
    !has_lost
}

/// The report of a trace that was recorded on this machine, whole or not, as JSON.
pub fn report_of(trace: &Path) -> String {
    let output = run(&["trace", "report", trace.to_str().unwrap(), "--format", "json"]);
    is_whole(&output);
    text(&output.stdout)
}

/// A receiver; killed when dropped.
pub struct Serve {
    pub child: Child,
    pub pid: u32,
    pub udp: SocketAddr,
    pub url: String,
    pub store: PathBuf,
    /// Its lines before it was ready.
    pub messages: String,
    dir: Option<tempfile::TempDir>,
}

impl Serve {
    /// `cpumon serve` on loopback, free ports, a store of its own.
    pub fn start(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store.db");
        let mut serve = Self::start_with(cpumon(), &store, more);
        serve.dir = Some(dir);
        serve
    }

    /// With a store that stays; `command` may be a wrapper that runs the binary with the arguments that follow.
    pub fn start_with(command: Command, store: &Path, more: &[&str]) -> Self {
        let mut all = vec!["--udp", "127.0.0.1:0"];
        all.extend(more);
        Self::start_anywhere(command, store, &all)
    }

    /// Receives where it does by default, unless `more` says otherwise.
    pub fn start_anywhere(command: Command, store: &Path, more: &[&str]) -> Self {
        let mut all = vec!["--http", "127.0.0.1:0"];
        all.extend(more);
        Self::start_with_options(command, store, &all)
    }

    /// Serves HTTP where `more` says too.
    pub fn start_with_options(mut command: Command, store: &Path, more: &[&str]) -> Self {
        command.arg("serve").args(more);
        if !more.contains(&"--no-store") {
            command.arg("--store").arg(store);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (messages, ready) = ready_line(&mut child);
        let value = |key: &str| {
            let word = ready.split_whitespace().find_map(|word| word.strip_prefix(key));
            word.unwrap_or_else(|| panic!("{key} in {ready:?}")).to_owned()
        };
        Self {
            pid: value("pid=").parse().unwrap(),
            udp: match &*value("udp=") {
                "" => ([0, 0, 0, 0], 0).into(),
                all => all.split(',').next().unwrap().parse().unwrap(),
            },
            url: format!("http://{}", value("http=")),
            store: store.to_owned(),
            messages,
            child,
            dir: None,
        }
    }

    pub fn store(&self) -> &str {
        self.store.to_str().unwrap()
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&ok(&["status", "--json", "--url", &self.url])).unwrap()
    }

    /// The status without a program for it: for many questions, or thousands of hosts.
    pub fn status_by_http(&self) -> Value {
        let mut answer = ureq::get(format!("{}/api/v1/status", self.url)).call().unwrap();
        let text = answer.body_mut().with_config().limit(256 << 20).read_to_string().unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// The status of a host, once it has one.
    pub fn host(&self, name: &str) -> Option<Value> {
        let status = self.status();
        status["hosts"].as_array().unwrap().iter().find(|host| host["hostname"] == name).cloned()
    }

    pub fn signal(&self, signal: &str) {
        self::signal(self.pid, signal);
    }

    /// Ends it as a service manager would.
    pub fn stop(mut self) {
        self.signal("-TERM");
        let status = wait(&mut self.child, "serve");
        assert!(status.success(), "{status:?}");
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Only now: the receiver may still have been writing to it.
        drop(self.dir.take());
    }
}

/// Reads standard output up to the line for programs; later lines are read and dropped. Returns the messages before that, and the line.
fn ready_line(child: &mut Child) -> (String, String) {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut messages, mut line) = (String::new(), String::new());
        while out.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if line.starts_with("ready ") {
                let _ = send.send((std::mem::take(&mut messages), line.clone()));
            }
            messages.push_str(&line);
            line.clear();
        }
    });
    receive.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let _ = child.kill();
        let mut error = String::new();
        let _ = child.stderr.take().unwrap().read_to_string(&mut error);
        panic!("the receiver is not ready: {error}")
    })
}

/// A sender on another loopback address.
pub fn sender(last_byte: u8) -> UdpSocket {
    UdpSocket::bind(("127.0.0.1".replace("0.1", &format!("0.{last_byte}")).as_str(), 0)).unwrap()
}

/// The original's files; `None`, with a message, where they are missing, which in CI is an error.
pub fn v1_dir() -> Option<PathBuf> {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/v1"));
    if dir.exists() {
        return Some(dir.to_owned());
    }
    skip(format!("{} is missing", dir.display()));
    None
}

/// Whether a test that needs root can run; in CI it must.
pub fn is_root() -> bool {
    let uid = Command::new("id").arg("-u").output().unwrap().stdout;
    let is_root = text(&uid).trim() == "0";
    if !is_root {
        skip("needs root");
    }
    is_root
}
