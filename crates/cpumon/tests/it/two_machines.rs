//! A device and a receiver, each in a network namespace of its own, joined by a cable: the agent broadcasts, the receiver
//! stores, and a user finds the thread that did it. Nothing is configured but the name.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::netns::{Namespace, available};
use crate::support::{Serve, clean, eventually, ok, wait};

/// A thread with this name spins on the device.
const CULPRIT: &str = "two-culprit";

fn inside(namespace: &Namespace) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace.name, env!("CARGO_BIN_EXE_cpumon")]);
    clean(&mut command);
    command
}

/// Spins until it is to stop; the CPU time that it used.
fn spin(stop: Arc<AtomicBool>) -> std::thread::JoinHandle<Duration> {
    let work = move || {
        while !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.try_into().unwrap())
    };
    std::thread::Builder::new().name(CULPRIT.to_owned()).spawn(work).unwrap()
}

#[test]
fn a_broadcast_reaches_the_receiver_and_names_the_thread() {
    if !available() {
        return;
    }
    let (device, receiver) = (Namespace::new("two-device"), Namespace::new("two-receiver"));
    device.cable(&receiver, "veth0");
    device.ip("addr add 10.79.1.1/24 brd + dev veth0");
    receiver.ip("addr add 10.79.1.2/24 brd + dev veth0");
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store.db");
    let serve = Serve::start_with(inside(&receiver), &store, &["--no-agent", "--udp", "0.0.0.0:3001"]);

    let mut agent = inside(&device);
    agent.args(["agent", "--interval", "250ms", "--host-name", "the-device"]);
    let mut agent = agent.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let culprit = device.run(|| spin(Arc::clone(&stop)));

    let store = serve.store().to_owned();
    let query = format!(
        "SELECT sum(run_ns) / 1000000, count(*) FROM thread_interval WHERE host = 'the-device' AND name = '{CULPRIT}'"
    );
    let run_ms: i64 = eventually("the culprit's run time", || {
        let answer = ok(&["sql", "--store", &store, "--format", "csv", &query]);
        let run_ms = answer.lines().nth(1)?.split(',').next()?.parse().ok()?;
        (run_ms > 500).then_some(run_ms)
    });
    stop.store(true, Ordering::Relaxed);
    let used = culprit.join().unwrap();
    // Its run time at any moment is known to a tick.
    let most_ms = i64::try_from(used.as_millis()).unwrap() + 10;
    assert!(run_ms <= most_ms, "it used {used:?}, found {run_ms} ms");
    agent.kill().unwrap();
    agent.wait().unwrap();
    let trust = ok(&[
        "sql",
        "--store",
        &store,
        "--format",
        "csv",
        "SELECT trust FROM hosts WHERE host = 'the-device'",
    ]);
    assert!(trust.contains("unauthenticated"), "{trust}");
    serve.stop();
}

#[test]
fn without_ipv6_the_receiver_hears_ipv4_and_says_where() {
    if !available() {
        return;
    }
    let receiver = Namespace::new("two-no-v6");
    let off = "for f in /proc/sys/net/ipv6/conf/*/disable_ipv6; do [ ! -e $f ] || echo 1 > $f; done; exec \"$0\" \"$@\"";
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &receiver.name, "sh", "-c", off, env!("CARGO_BIN_EXE_cpumon")]);
    clean(&mut command);
    let dir = tempfile::tempdir().unwrap();
    let serve = Serve::start_anywhere(command, &dir.path().join("store.db"), &["--no-agent"]);
    // A socket on [::] can be had all the same: it hears as soon as there is IPv6.
    assert_eq!(serve.udp.to_string(), "0.0.0.0:3001");

    let mut agent = inside(&receiver);
    agent.args([
        "agent",
        "--to",
        "127.0.0.1:3001",
        "--interval",
        "100ms",
        "--count",
        "5",
        "--source",
        "procfs",
    ]);
    assert!(wait(&mut agent.args(["-q", "--host-name", "v4-only"]).spawn().unwrap(), "agent").success());
    let store = serve.store().to_owned();
    eventually("the host in the store", || {
        ok(&["hosts", "--store", &store]).contains("v4-only").then_some(())
    });
    serve.stop();
}
