//! `cpumon-agent` as a user meets it: messages, exit codes, signals, a closed stderr.

use std::io::Read as _;
use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::scene::{PATIENCE, receive};

/// The agent with a source that needs no privileges.
fn agent(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cpumon-agent"));
    command.args(["--source", "procfs"]).args(arguments).stderr(Stdio::piped());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CPUMON_")) {
        command.env_remove(name);
    }
    command.env("CPUMON_INTERVAL", "100ms");
    command
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Without warnings and refusals: the permissions of the source depend on where the test runs.
fn plain_lines(messages: &str) -> Vec<&str> {
    let is_plain = |line: &&str| !line.contains(": warning: ") && !line.contains(" processes do not show ");
    messages.lines().filter(is_plain).collect()
}

fn sink() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

fn hear(socket: &UdpSocket) {
    assert!(receive(socket, &mut vec![0; 65_536]) > 0);
}

/// An agent that ends with the test, even if that fails.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }

    /// Sends a signal, waits, and returns exit code and messages.
    fn end_by(mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
        let mut messages = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_string(&mut messages).unwrap();
        }
        (self.0.wait().unwrap().code(), messages)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_count_ends_well_and_says_what_was_done() {
    let (socket, to) = sink();
    let output = agent(&["--to", &to, "--count", "3", "--host-name", "bench-7"]).output().unwrap();
    let messages = words(&output);
    assert_eq!(output.status.code(), Some(0), "{messages}");
    let lines = plain_lines(&messages);
    assert_eq!(lines.len(), 3, "{messages}");
    assert!(lines[0].starts_with("cpumon-agent: measuring bench-7 every 100ms with procfs"), "{messages}");
    assert!(lines[0].ends_with(&format!(" to {to}")), "{messages}");
    assert!(lines[1].contains("sandbox: "), "{messages}");
    assert!(lines[2].contains("3 snapshots of ") && lines[2].contains("own cost"), "{messages}");
    hear(&socket);
}

#[test]
fn quiet_says_nothing_and_verbose_a_line_a_snapshot() {
    let (_socket, to) = sink();
    let quiet = agent(&["--to", &to, "--count", "1", "-q"]).output().unwrap();
    assert_eq!(plain_lines(&words(&quiet)), [""; 0]);
    let verbose = words(&agent(&["--to", &to, "--count", "3", "-v"]).output().unwrap());
    assert_eq!(verbose.lines().filter(|line| line.contains(": snapshot ")).count(), 3, "{verbose}");
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for arguments in [["--to", "10.0.0.1:0"], ["--interval", "1ms"], ["--source", "magic"]] {
        let output = agent(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", words(&output));
    }
}

#[test]
fn what_cannot_be_measured_is_exit_code_1() {
    let (_socket, to) = sink();
    let output = agent(&["--to", &to, "--proc-root", "/nonexistent"]).output().unwrap();
    let messages = words(&output);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(
        messages.contains("cannot measure this machine") && messages.contains("/nonexistent"),
        "{messages}"
    );
}

#[test]
fn data_that_did_not_get_out_is_exit_code_3() {
    let output = agent(&["--broadcast", "--interface", "no-such-if", "--count", "2"]).output().unwrap();
    let messages = words(&output);
    assert_eq!(output.status.code(), Some(3), "{messages}");
    assert!(messages.contains("no address now") && messages.contains("data is missing"), "{messages}");
}

#[test]
fn sigint_is_130_and_sigterm_ends_well() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 0)] {
        let (socket, to) = sink();
        let agent = Running::start(&mut agent(&["--to", &to]));
        hear(&socket);
        let (ended, messages) = agent.end_by(sent);
        assert_eq!(ended, Some(code), "{messages}");
        assert!(messages.contains("snapshots of"), "it says what was done: {messages}");
    }
}

/// How often the threads of a process went to sleep so far (proc(5), status).
fn sleeps(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_task = |task: std::io::Result<std::fs::DirEntry>| -> u64 {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse().unwrap()
    };
    tasks.map(of_task).sum()
}

#[test]
fn between_two_snapshots_it_sleeps_and_a_signal_wakes_it() {
    let (socket, to) = sink();
    let agent = Running::start(&mut agent(&["--to", &to, "--interval", "1h"]));
    hear(&socket);
    // Once its work after sending is done, nothing wakes it for a second.
    let sleeps_through = |_| {
        let before = sleeps(agent.0.id());
        std::thread::sleep(Duration::from_secs(1));
        sleeps(agent.0.id()) == before
    };
    assert!((0..20).any(sleeps_through), "it woke up for nothing");
    // The next snapshot is an hour away.
    let (ended, messages) = agent.end_by(Signal::TERM);
    assert_eq!(ended, Some(0), "{messages}");
}

#[test]
fn a_closed_standard_error_does_not_end_it() {
    let (socket, to) = sink();
    let mut agent = Running::start(&mut agent(&["--to", &to, "-v"]));
    drop(agent.0.stderr.take());
    for _datagram in 0..5 {
        hear(&socket);
    }
    assert_eq!(agent.0.try_wait().unwrap(), None);
    assert_eq!(agent.end_by(Signal::TERM).0, Some(0));
}

#[test]
fn flags_come_from_the_environment_too() {
    let (socket, to) = sink();
    let output =
        agent(&["--count", "2"]).env("CPUMON_TO", &to).env("CPUMON_HOST_NAME", "by-env").output().unwrap();
    assert!(words(&output).contains("measuring by-env"), "{}", words(&output));
    hear(&socket);
}

#[test]
fn a_log_alone_sends_nothing_and_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log").display().to_string();
    for (run, sync) in ["interval", "always", "exit"].into_iter().enumerate() {
        let output = agent(&["--record", &log, "--spool-sync", sync, "--count", "3"]).output().unwrap();
        let messages = words(&output);
        assert_eq!(output.status.code(), Some(0), "{messages}");
        let lines = plain_lines(&messages);
        assert!(
            lines[0].contains(&format!("; recording to {log}, at most 268.4 MB, written ")),
            "{messages}"
        );
        assert!(!messages.contains("sending") && !messages.contains("; sent"), "{messages}");
        assert!(
            lines[2].contains("recorded 3 snapshots, wrote ") && lines[2].contains(" MB a day)"),
            "{messages}"
        );
        assert_eq!(logged(&log), (run as u64 + 1) * 3);
    }
}

/// Number of snapshots in a log; checks that all are sound and none is missing.
fn logged(dir: &str) -> u64 {
    let reader = cpumon_link::spool::SpoolReader::open(dir.as_ref()).unwrap();
    let report = reader.read(&mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert_eq!((report.missing, report.damaged, report.tail_bytes), (0, 0, 0));
    report.snapshots
}

#[test]
fn a_log_that_cannot_be_written_is_exit_code_1_and_a_second_writer_too() {
    let messages = words(&agent(&["--record", "/proc/nothing/here", "--count", "1"]).output().unwrap());
    assert!(messages.contains("cannot record: cannot make the directory /proc/nothing/here"), "{messages}");
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().display().to_string();
    let first = Running::start(&mut agent(&["--record", &log]));
    let begin = Instant::now();
    while !dir.path().join("state").exists() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    let second = agent(&["--record", &log, "--count", "1"]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let who = format!("is being written by pid {}", first.0.id());
    assert!(words(&second).contains(&who), "{}", words(&second));
    assert_eq!(first.end_by(Signal::TERM).0, Some(0));
}

#[test]
fn sending_and_logging_go_together() {
    let (socket, to) = sink();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().display().to_string();
    let output = agent(&["--to", &to, "--record", &log, "--count", "3", "--v1"]).output().unwrap();
    let messages = words(&output);
    assert!(
        messages.contains("; sending as v1 datagrams to ") && messages.contains("; recording to "),
        "{messages}"
    );
    hear(&socket);
    assert_eq!(logged(&log), 3);
}

#[test]
fn the_doctor_lists_each_probe_and_what_it_would_give() {
    let output = Command::new(env!("CARGO_BIN_EXE_cpumon-agent"))
        .args(["doctor", "-v", "--no-load"])
        .output()
        .unwrap();
    let messages = String::from_utf8(output.stdout).unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{messages}");
    for probe in ["exits", "sched", "waits", "irq", "hist"] {
        let is_named = |line: &str| line.split_whitespace().nth(1) == Some(probe);
        assert!(messages.lines().any(is_named), "{probe}: {messages}");
    }
    assert!(
        messages.contains("percentiles") && messages.lines().all(|line| line.chars().count() <= 80),
        "{messages}"
    );
}

#[test]
fn a_closed_pipe_ends_the_doctor_without_a_message() {
    for arguments in [&["doctor", "--no-load"][..], &["doctor", "-v", "--no-load"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output =
            Command::new(env!("CARGO_BIN_EXE_cpumon-agent")).args(arguments).stdout(writer).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {}", words(&output));
    }
}

#[test]
fn a_help_text_that_cannot_be_written_is_a_failure() {
    for words in ["--help", "--version"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output =
            Command::new(env!("CARGO_BIN_EXE_cpumon-agent")).arg(words).stdout(full).output().unwrap();
        let messages = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words}: {messages}");
        assert!(messages.contains("cannot write to standard output: No space left"), "{words}: {messages}");
    }
    let output = agent(&["--nonsense"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", words(&output));
}

/// Flags took only the words `true` and `false`, and an empty variable was an error.
#[test]
fn variables_are_understood_as_by_the_other_program() {
    let of = |name: &str, value: &str, arguments: &[&str]| {
        let output = agent(arguments).env(name, value).output().unwrap();
        (output.status.code(), words(&output))
    };
    let once = ["--to", "127.0.0.1:9", "--count", "1"];
    for name in
        ["CPUMON_INTERVAL", "CPUMON_MAX_CPU", "CPUMON_SPOOL_SYNC", "CPUMON_PROBES", "CPUMON_V1", "CPUMON_TTL"]
    {
        let arguments: Vec<&str> = once.into_iter().chain(["--host-name", "x"]).collect();
        let (code, stderr) = of(name, "", &arguments);
        assert_eq!(code, Some(0), "{name}: {stderr}");
    }
    for (value, is_quiet) in [("1", true), ("yes", true), ("0", false), ("off", false)] {
        let (code, stderr) = of("CPUMON_QUIET", value, &once);
        assert_eq!((code, plain_lines(&stderr).is_empty()), (Some(0), is_quiet), "{value}: {stderr}");
    }
    // One that is off contradicts nothing.
    let (code, stderr) = of("CPUMON_QUIET", "0", &[&once[..], &["-v"]].concat());
    assert_eq!(code, Some(0), "{stderr}");
}
