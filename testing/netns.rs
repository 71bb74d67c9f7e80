//! Network namespaces for tests: made with `ip netns`, named after this process, removed when dropped. Broadcast and
//! multicast stay inside them.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::{fs, thread};

use crate::skip::skip;

/// A network namespace with its loopback interface up.
pub struct Namespace {
    pub name: String,
}

/// Whether namespaces can be made; with `CI` set they must.
pub fn available() -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let has_ip = Command::new("ip").arg("-V").output().is_ok_and(|output| output.status.success());
    let available = is_root && has_ip;
    if !available {
        skip("needs root and iproute2 to make network namespaces");
    }
    available
}

/// Runs `ip` and panics with its words if it fails.
fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().expect("ip starts");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {words}");
}

impl Namespace {
    /// Makes one; `label` distinguishes a test's namespaces.
    pub fn new(label: &str) -> Self {
        let name = format!("cpumon-{}-{label}", std::process::id());
        ip(&format!("netns add {name}"));
        let namespace = Self { name };
        namespace.ip("link set lo up");
        namespace
    }

    /// `ip` inside the namespace.
    pub fn ip(&self, arguments: &str) {
        ip(&format!("-n {} {arguments}", self.name));
    }

    /// Joins two namespaces by a cable: an interface called `device` in each, up, without addresses.
    pub fn cable(&self, other: &Self, device: &str) {
        self.ip(&format!("link add {device} type veth peer name {device} netns {}", other.name));
        self.ip(&format!("link set {device} up"));
        other.ip(&format!("link set {device} up"));
    }

    /// Runs `work` on a thread inside the namespace; sockets opened there stay there.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.name)).expect("the namespace has a file");
        thread::scope(|scope| {
            let inside = scope.spawn(move || {
                let kind = rustix::thread::LinkNameSpaceType::Network;
                rustix::thread::move_into_link_name_space(file.as_fd(), Some(kind)).expect("setns works");
                work()
            });
            inside.join().expect("the work inside the namespace ends well")
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A test that failed must not fail again while it cleans up.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}
