//! Encrypted datagrams with the real binary: trust in every frontend, rotation beside a running receiver, a recording
//! sent again, refusals without encryption, and a broadcast from one network namespace to another.

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cpumon_link::group::read_keys;
use cpumon_wire::encrypted::Encryptor;

use crate::netns::{Namespace, available};
use crate::support::{PATIENCE, Serve, clean, cpumon, eventually, ok, run, text, wait};
use crate::time_line::{BEHIND_NS, Device, boot_ns, exported};

/// A receiver whose state is in a directory that stays.
struct RunningReceiver {
    serve: Serve,
    dir: tempfile::TempDir,
}

fn start(dir: &Path, more: &[&str]) -> Serve {
    let all = [&["--no-agent", "--state", dir.to_str().unwrap()], more].concat();
    Serve::start_with(cpumon(), &dir.join("store.db"), &all)
}

impl RunningReceiver {
    fn start(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        key(dir.path(), &["new"]);
        Self { serve: start(dir.path(), more), dir }
    }

    fn keys(&self) -> String {
        self.dir.path().join("group.keys").to_str().unwrap().to_owned()
    }

    fn refused(&self, kind: &str) -> u64 {
        self.serve.status()["receiver"]["rejected_for"][kind].as_u64().unwrap_or(0)
    }
}

/// `cpumon key`; the name of the key that it is about.
fn key(dir: &Path, action: &[&str]) -> String {
    let messages = ok(&[&["key"], action, &["--state", dir.to_str().unwrap()]].concat());
    messages.split(' ').nth(1).unwrap_or_default().to_owned()
}

fn agent(name: &str, to: &str, more: &[&str]) -> Child {
    let mut command = cpumon();
    command.args(["agent", "--to", to, "--interval", "100ms", "--source", "procfs", "--host-name", name]);
    command.args(more).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn end(mut agent: Child) {
    agent.kill().unwrap();
    agent.wait().unwrap();
}

#[test]
fn an_encrypted_host_is_shown_as_such_and_plain_datagrams_are_refused() {
    let receiver = RunningReceiver::start(&[]);
    let (to, keys) = (receiver.serve.udp.to_string(), receiver.keys());
    let encrypting = agent("dev", &to, &["--group-key", &keys]);
    let host = eventually("the host with encryption", || receiver.serve.host("dev"));
    assert_eq!(host["trust"], "sealed");
    let url = ["--url", receiver.serve.url.as_str()];
    assert!(ok(&["hosts", url[0], url[1]]).contains(" sealed "));
    let top = ok(&["top", "-b", "-n", "1", "--host", "dev", url[0], url[1]]);
    assert!(top.contains("sealed") && !top.to_lowercase().contains("unauthenticated"), "{top}");
    let status = ok(&["status", url[0], url[1]]);
    assert!(status.contains("without encryption v2 is refused, v1 refused"), "{status}");

    assert!(wait(&mut agent("plain", &to, &["--count", "3"]), "agent").success());
    assert!(
        run(&["agent", "--v1", "--to", &to, "--interval", "100ms", "--count", "3", "-q"]).status.success()
    );
    eventually("both refused", || {
        (receiver.refused("plain") >= 3 && receiver.refused("v1") >= 2).then_some(())
    });
    assert_eq!(receiver.serve.status()["hosts"].as_array().unwrap().len(), 1, "nothing of them is shown");
    let by = &receiver.serve.status()["receiver"]["rejected_by"][0];
    assert!(by["by_kind"]["plain"].as_u64() >= Some(3), "{by}");
    eventually("its trust is stored", || {
        let query = "SELECT host, trust FROM hosts";
        let rows = text(&run(&["sql", "--store", receiver.serve.store(), "--format", "csv", query]).stdout);
        rows.contains(r#""dev","sealed""#).then_some(())
    });
    end(encrypting);
}

#[test]
fn plain_datagrams_that_are_allowed_do_not_speak_for_a_host_that_encrypts() {
    let receiver = RunningReceiver::start(&["--allow-plain"]);
    let (to, keys) = (receiver.serve.udp.to_string(), receiver.keys());
    let encrypting = agent("dev", &to, &["--group-key", &keys]);
    eventually("the host with encryption", || receiver.serve.host("dev"));
    let plain = agent("dev", &to, &[]);
    let other = eventually("the claim", || receiver.serve.host("dev@127.0.0.1"));
    assert_eq!(other["trust"], "unauthenticated");
    assert_eq!(receiver.serve.host("dev").unwrap()["trust"], "sealed");
    end(encrypting);
    // Nor after the receiver began again, before the device is received.
    let RunningReceiver { serve, dir } = receiver;
    serve.stop();
    let serve = start(dir.path(), &["--allow-plain", "--udp", &to]);
    eventually("the claim again", || serve.host("dev@127.0.0.1"));
    assert!(serve.host("dev").is_none());
    end(plain);
}

#[test]
fn keys_are_rotated_beside_a_running_receiver() {
    let receiver = RunningReceiver::start(&[]);
    let (to, keys) = (receiver.serve.udp.to_string(), receiver.keys());
    let listed = ok(&["key", "list", "--group-key", &keys]);
    let old = listed.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let copy = receiver.dir.path().join("device.keys");
    std::fs::copy(&keys, &copy).unwrap();
    let device = copy.to_str().unwrap();
    let first = agent("dev", &to, &["--group-key", device]);
    let opened = || receiver.serve.status()["receiver"]["opened"].as_u64().unwrap();
    eventually("encrypted with the old key", || (opened() > 3).then_some(()));
    let new = key(receiver.dir.path(), &["new"]);
    eventually("two keys", || {
        (receiver.serve.status()["receiver"]["keys"] == serde_json::json!([new, old])).then_some(())
    });
    let before = opened();
    eventually("the old one still opens", || (opened() > before + 3).then_some(()));
    end(first);
    std::fs::copy(&keys, &copy).unwrap();
    let second = agent("dev", &to, &["--group-key", device]);
    key(receiver.dir.path(), &["retire", &old]);
    eventually("one key", || {
        (receiver.serve.status()["receiver"]["keys"] == serde_json::json!([new])).then_some(())
    });
    let before = opened();
    eventually("encrypted with the new key", || (opened() > before + 3).then_some(()));
    assert_eq!(receiver.refused("unknown_key"), 0);
    end(second);
}

#[test]
fn a_recording_sent_again_is_refused_also_by_the_next_receiver() {
    let receiver = RunningReceiver::start(&[]);
    let keys = receiver.keys();
    let tap = UdpSocket::bind("127.0.0.1:0").unwrap();
    tap.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = tap.local_addr().unwrap().to_string();
    // Long enough not to stand in encrypted bytes by chance.
    let name = "recorded-device";
    let mut device = agent(name, &to, &["--group-key", &keys, "--count", "5"]);
    let mut recorded: Vec<Vec<u8>> = Vec::new();
    let mut bytes = vec![0; 65_536];
    while device.try_wait().unwrap().is_none() || recorded.is_empty() {
        if let Ok(length) = tap.recv(&mut bytes) {
            recorded.push(bytes[..length].to_vec());
        }
        tap.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    }
    assert!(recorded.iter().all(|datagram| datagram.len() <= 1_400), "encryption is within the budget");
    let is_readable = |datagram: &Vec<u8>| datagram.windows(name.len()).any(|part| part == name.as_bytes());
    assert!(!recorded.iter().any(is_readable), "readable");
    let count = recorded.len() as u64;
    // Datagrams of others may reach the port too, of an agent whose receiver had it before: only encrypted ones are counted.
    let send = |serve: &Serve, datagrams: &[Vec<u8>], all: [u64; 3]| {
        for datagram in datagrams {
            tap.send_to(datagram, serve.udp).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut seen = [0; 3];
        eventually(&format!("{all:?} opened, replayed, with a bad tag"), || {
            let status = serve.status();
            let receiver = &status["receiver"];
            let refused = |kind: &str| receiver["rejected_for"][kind].as_u64().unwrap_or(0);
            seen = [receiver["opened"].as_u64().unwrap(), refused("replayed"), refused("bad_seal")];
            (seen.iter().sum::<u64>() >= all.iter().sum()).then_some(())
        });
        assert_eq!(seen, all, "opened, replayed, with a bad tag");
    };
    send(&receiver.serve, &recorded, [count, 0, 0]);
    send(&receiver.serve, &recorded, [count, count, 0]);
    let mut tampered = recorded.clone();
    for datagram in &mut tampered {
        *datagram.last_mut().unwrap() ^= 1;
    }
    send(&receiver.serve, &tampered, [count, count, count]);
    eventually("what was sent again is counted of its host", || {
        receiver.serve.host(name).filter(|host| host["loss"]["duplicates"] == count).map(drop)
    });

    let RunningReceiver { serve, dir } = receiver;
    serve.stop();
    let serve = start(dir.path(), &[]);
    send(&serve, &recorded, [0, count, 0]);
    assert!(serve.host(name).is_none(), "a dead host does not come to life");
}

/// Two devices that encrypt, one with its clock in 2003 and one with a right clock, are recorded, then the receiver is killed before it
/// noted the datagrams that it received. A replay of the recording must store nothing twice, nor move the devices' next snapshots.
#[test]
fn a_recording_of_the_second_before_a_kill_is_known_by_the_store_whatever_the_clocks_say() {
    let receiver = RunningReceiver::start(&[]);
    let keys = read_keys(Path::new(&receiver.keys())).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let off = [("old", -BEHIND_NS), ("right", 0)];
    let mut devices = [(1, off[0]), (2, off[1])].map(|(number, (name, off_ns))| {
        (Device::new(number, name), Encryptor::new(&keys[0], boot_ns(), [number; 16]), off_ns)
    });
    let mut take_snapshots = |serve: &Serve| {
        let mut sent = Vec::new();
        for (device, encryptor, off_ns) in &mut devices {
            let mut frames = device.snapshot(*off_ns);
            encryptor.encrypt(&mut frames).unwrap();
            for frame in &frames {
                socket.send_to(frame, serve.udp).unwrap();
                sent.push(frame.clone());
            }
        }
        std::thread::sleep(Duration::from_millis(50));
        sent
    };
    let count = 10;
    let recorded: Vec<Vec<u8>> = (0..count).flat_map(|_| take_snapshots(&receiver.serve)).collect();
    let stored = |serve: &Serve, count: usize| {
        off.map(|(name, off_ns)| {
            let rows = eventually("the intervals are stored", || {
                Some(exported(serve, name)).filter(|rows| rows.len() >= count)
            });
            assert_eq!(rows.len(), count, "{name}: {rows:?}");
            for (end_ns, own_ns) in &rows {
                // Arrival times include the transport; a busy machine may be slow.
                let late_ns = end_ns - (own_ns - off_ns);
                assert!((-50_000_000..5_000_000_000).contains(&late_ns), "{name}: off by {late_ns} ns");
            }
            rows
        })
    };
    let before = stored(&receiver.serve, count - 1);
    let RunningReceiver { serve, dir } = receiver;
    // A kill -9.
    drop(serve);
    let _ = std::fs::remove_file(dir.path().join("sealed.heard"));
    // By its arrival, a datagram sent again now would have another time than the stored one.
    std::thread::sleep(Duration::from_secs(6));
    let serve = start(dir.path(), &[]);
    for datagram in &recorded {
        socket.send_to(datagram, serve.udp).unwrap();
    }
    eventually("they are taken", || (serve.status()["receiver"]["opened"] == recorded.len()).then_some(()));
    take_snapshots(&serve);
    let after = stored(&serve, count);
    for (before, after) in before.iter().zip(&after) {
        assert!(after.starts_with(before), "nothing was moved: {before:?} {after:?}");
    }
}

#[test]
fn a_key_that_cannot_be_used_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none").to_str().unwrap().to_owned();
    let messages = |args: &[&str]| {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        text(&output.stderr)
    };
    let agent = messages(&["agent", "--to", "127.0.0.1:9", "--count", "1", "--group-key", &missing]);
    assert!(agent.contains("cannot encrypt datagrams") && agent.contains("cpumon key new"), "{agent}");
    let serve = messages(&[
        "serve",
        "--udp",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--no-store",
        "--group-key",
        &missing,
    ]);
    assert!(serve.contains("cannot decrypt datagrams"), "{serve}");
}

#[test]
fn an_encrypted_broadcast_reaches_the_receiver_and_a_stranger_on_the_wire_does_not() {
    if !available() {
        return;
    }
    let (device, receiver) = (Namespace::new("enc-device"), Namespace::new("enc-receiver"));
    device.cable(&receiver, "veth0");
    device.ip("addr add 10.79.2.1/24 brd + dev veth0");
    device.ip("route add 239.77.0.0/16 dev veth0");
    receiver.ip("addr add 10.79.2.2/24 brd + dev veth0");
    let inside = |namespace: &Namespace| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace.name, env!("CARGO_BIN_EXE_cpumon")]);
        clean(&mut command);
        command
    };
    let dir = tempfile::tempdir().unwrap();
    key(dir.path(), &["new"]);
    let keys = dir.path().join("group.keys");
    let store = dir.path().join("store.db");
    let state = dir.path().to_str().unwrap();
    let options = ["--no-agent", "--state", state, "--multicast", "239.77.0.1"];
    let serve = Serve::start_anywhere(inside(&receiver), &store, &options);
    let send = |name: &str, more: &[&str]| {
        let mut agent = inside(&device);
        agent.args(["agent", "--interval", "100ms", "--count", "8", "--source", "procfs", "-q"]);
        agent.args(["--host-name", name]).args(more);
        assert!(wait(&mut agent.spawn().unwrap(), "agent").success());
    };
    let keys = keys.to_str().unwrap();
    // One machine: of each run seven intervals, and one that says that the agent started again.
    let targets = [&[][..], &["--multicast", "239.77.0.1:3001"], &["--to", "10.79.2.2:3001"]];
    for (target, intervals) in targets.into_iter().zip([7, 15, 23]) {
        send("device", &[target, &["--group-key", keys]].concat());
        let query = "SELECT host, trust, count(*) FROM host_interval GROUP BY host";
        let expected = format!(r#""device","sealed",{intervals}"#);
        eventually(&expected, || {
            let rows = ok(&["sql", "--store", serve.store(), "--format", "csv", query]);
            rows.contains(&expected).then_some(())
        });
        send("stranger", target);
    }
    let hosts = ok(&["hosts", "--store", serve.store()]);
    assert!(!hosts.contains("stranger"), "{hosts}");
    serve.stop();
}
