//! A receiver, and a slim agent that reports to it, for tests that need root. In CI they must run.

use std::fs;
use std::io::Read as _;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::program::copy_program;
use crate::skip::skip;

/// Longest time that a test waits for an event.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// Receives a datagram; its length.
pub fn receive(socket: &UdpSocket, bytes: &mut [u8]) -> usize {
    loop {
        match socket.recv(bytes) {
            // A socket with a time limit is not called again after a signal, which other tests cause (signal(7)).
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            received => return received.unwrap(),
        }
    }
}

/// A receiver and a copy of the agent in a place that is open to everybody; `None` where the test cannot run.
pub struct Scene {
    dir: tempfile::TempDir,
    pub socket: UdpSocket,
}

impl Scene {
    pub fn set() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip("needs root");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        copy_program(env!("CARGO_BIN_EXE_cpumon-agent"), dir.path().join("cpumon-agent"));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(Self { dir, socket })
    }

    /// A file beside the agent.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// Starts the agent by `setpriv` with these words, or as it is without any.
    pub fn start(&self, setpriv: &[&str], agent: &[&str]) -> Running {
        let by: Vec<&str> = if setpriv.is_empty() { Vec::new() } else { [&["setpriv"], setpriv].concat() };
        self.start_by(&by, agent)
    }

    /// Starts the agent by another program with these words.
    pub fn start_by(&self, by: &[&str], agent: &[&str]) -> Running {
        let program = self.dir.path().join("cpumon-agent");
        let mut command = match by.split_first() {
            None => Command::new(program),
            Some((first, words)) => {
                let mut command = Command::new(first);
                command.args(words).arg(program);
                command
            }
        };
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CPUMON_"))
        {
            command.env_remove(name);
        }
        let to = self.socket.local_addr().unwrap().to_string();
        command.args(["--to", &to, "--interval", "100ms"]).args(agent).current_dir("/");
        Running(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Receives this many datagrams.
    pub fn receive(&self, times: u32) {
        for _ in 0..times {
            assert!(receive(&self.socket, &mut vec![0; 65_536]) > 0);
        }
    }
}

/// An agent that ends with the test, even if that fails.
pub struct Running(pub Child);

impl Running {
    /// Ends the agent; returns its messages.
    pub fn end(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.0);
        // It may have ended by itself: then its messages have the reason.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let mut messages = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        self.0.wait().unwrap();
        messages
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends a load, also when the test fails, because a thread waits for its end.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
