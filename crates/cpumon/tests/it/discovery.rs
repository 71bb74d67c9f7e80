//! Discovery with the real binaries between network namespaces, by real multicasts: an agent without an address finds the receiver, the
//! user confirms the code, data flows; a stranger who answers in the receiver's name gets nothing; a receiver that moved is found again.

use std::io::Read as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cpumon_link::tls::fingerprint;
use cpumon_receiver::enrolment::Authority;
use cpumon_wire::dns_sd::{Instance, PORT, ReplyTo, answer, read_query};

use crate::netns::{Namespace, available};
use crate::support::{
    KillOnDrop, PATIENCE, Serve, clean, eventually, eventually_within, lines_of, ok, output, run, text, wait,
};

fn inside(namespace: &Namespace) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace.name, env!("CARGO_BIN_EXE_cpumon")]);
    clean(&mut command);
    command
}

/// A device and a receiver on one cable, each with a state directory that stays.
struct Scene {
    device: Namespace,
    receiver: Namespace,
    dir: tempfile::TempDir,
}

impl Scene {
    fn set(label: &str) -> Self {
        let (device, receiver) =
            (Namespace::new(&format!("{label}-device")), Namespace::new(&format!("{label}-receiver")));
        device.cable(&receiver, "veth0");
        device.ip("addr add 10.79.3.1/24 brd + dev veth0");
        receiver.ip("addr add 10.79.3.2/24 brd + dev veth0");
        Self { device, receiver, dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn serve(&self, more: &[&str]) -> Serve {
        let (store, state) = (self.dir.path().join("store.db"), self.path("state"));
        let all = ["--no-agent", "--tls", "0.0.0.0:3002", "--state", &state];
        Serve::start_with(inside(&self.receiver), &store, &[&all[..], more].concat())
    }

    fn on_device(&self, words: &[&str]) -> Command {
        let mut command = inside(&self.device);
        command.args(words);
        command
    }

    fn hosts(&self, words: &[&str]) -> String {
        ok(&[&["hosts"], words, &["--state", &self.path("state")]].concat())
    }

    /// A receiver's status, from inside its namespace.
    fn status(&self, serve: &Serve) -> serde_json::Value {
        let mut command = inside(&self.receiver);
        command.args(["status", "--json", "--url", &serve.url]);
        serde_json::from_slice(&output(command).stdout).unwrap()
    }

    /// Starts `enroll --discover`; the code that it shows.
    fn enroll(&self) -> (KillOnDrop, String) {
        let keys = self.path("keys");
        let key = fingerprint(&Authority::open(Path::new(&self.path("state"))).unwrap().pin().unwrap());
        let words = [
            "enroll",
            "--discover",
            "--key",
            &key,
            "--wait",
            "5s",
            "--state",
            &keys,
            "--host-name",
            "the-device",
        ];
        let child = self.on_device(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = KillOnDrop(child.unwrap());
        let mut lines = lines_of(child.0.stdout.take().unwrap());
        let code = lines.find_map(|line| line.strip_prefix("code ").map(str::to_owned));
        (child, code.expect("the device shows a code"))
    }

    fn agent(&self) -> KillOnDrop {
        let keys = self.path("keys");
        let words =
            ["agent", "--to", "enrolled", "--state", &keys, "--interval", "100ms", "--source", "procfs"];
        let mut command = self.on_device(&words);
        command.args(["--host-name", "the-device"]).stdout(Stdio::null()).stderr(Stdio::piped());
        KillOnDrop(command.spawn().unwrap())
    }

    /// Intervals of the device in the store.
    fn intervals(&self) -> u64 {
        let (store, query) = (self.path("store.db"), "SELECT count(*) FROM host_interval");
        let answer = run(&["sql", "--store", &store, "--format", "csv", query]);
        text(&answer.stdout).lines().nth(1).and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}

/// Ends an agent; returns its messages.
fn end(mut agent: KillOnDrop) -> String {
    let mut messages = String::new();
    agent.end("agent");
    agent.0.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
    messages
}

/// A stranger on the receiver's machine who answers every query: as a receiver of its own, in the name of the real one, and with garbage.
struct Stranger {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Stranger {
    /// Claims that receivers are at `address`.
    fn start(scene: &Scene, pin: [u8; 32], address: &str) -> Self {
        let socket = scene.receiver.run(socket_of_queries);
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let claim =
            |pin| Instance { name: "receiver".into(), pin, addresses: vec![address.parse().unwrap()] };
        let claims = [claim([7; 32]), claim(pin)];
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let answer_all = move || {
            let (mut bytes, mut lies) = ([0; 9_000], 0);
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
                let query = read_query(&bytes[..length], from.port(), &claims[0]);
                let Ok(Some(reply_to @ ReplyTo::Resolver { .. })) = query else { continue };
                for claim in &claims {
                    socket.send_to(&answer(claim, reply_to), from).unwrap();
                    lies += 1;
                }
                socket.send_to(b"garbage", from).unwrap();
            }
            lies
        };
        Self { stop, thread: Some(std::thread::spawn(answer_all)) }
    }

    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// A socket that receives the same multicasts as the receiver.
fn socket_of_queries() -> UdpSocket {
    use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &SocketAddr::from(([0, 0, 0, 0], PORT))).unwrap();
    let socket = UdpSocket::from(socket);
    socket.join_multicast_v4(&[224, 0, 0, 251].into(), &[10, 79, 3, 66].into()).unwrap();
    socket
}

/// The real receiver's pin, as everyone on the subnet learns it.
fn pin_of(scene: &Scene) -> [u8; 32] {
    Authority::open(Path::new(&scene.path("state"))).unwrap().pin().unwrap()
}

#[test]
fn an_agent_without_an_address_is_let_in_by_its_code_and_finds_its_receiver_again() {
    if !available() {
        return;
    }
    let scene = Scene::set("disc");
    // No receiver answers without --discovery.
    let quiet = scene.serve(&[]);
    let none = output(scene.on_device(&["discover", "--wait", "300ms"]));
    assert!(none.status.code() == Some(3) && text(&none.stdout).contains("--discovery"), "{none:?}");
    let none = output(scene.on_device(&["discover", "--wait", "300ms", "--json"]));
    assert!(none.status.code() == Some(3) && text(&none.stderr).contains("--discovery"), "{none:?}");
    quiet.stop();

    let serve = scene.serve(&["--discovery"]);
    let key = scene.status(&serve)["stream"]["discovery"]["key"].as_str().unwrap().to_owned();
    let found = eventually("the receiver answers", || {
        let found = text(&output(scene.on_device(&["discover", "--wait", "500ms"])).stdout);
        found.contains(&key).then_some(found)
    });
    assert!(found.contains("10.79.3.2:3002"), "{found}");

    let (mut device, code) = scene.enroll();
    let pending = eventually("the request", || {
        let pending = scene.hosts(&["pending"]);
        (pending.lines().count() == 2).then_some(pending)
    });
    assert!(pending.contains(&code) && pending.contains("the-device"), "{pending}");
    assert!(pending.contains("10.79.3.1"), "{pending}");
    let by_name = run(&["hosts", "accept", "the-device", "--state", &scene.path("state")]);
    assert!(text(&by_name.stderr).contains("no code"), "{by_name:?}");
    assert!(scene.hosts(&["accept", &code]).contains("enrolled: the-device"));
    assert!(wait(&mut device.0, "enroll").success());
    let stream = scene.status(&serve)["stream"].clone();
    assert_eq!((&stream["requests_accepted"], &stream["enrolled"]), (&1.into(), &1.into()), "{stream}");

    let agent = scene.agent();
    let host = eventually("data of the device", || {
        let status = scene.status(&serve);
        let host = status["hosts"].as_array()?.iter().find(|host| host["hostname"] == "the-device")?.clone();
        (host["loss"]["snapshots"].as_u64() > Some(5)).then_some(host)
    });
    assert_eq!(host["trust"], "authenticated");

    // The receiver moves. First a stranger answers alone, in its name, with an address where something accepts connections.
    serve.stop();
    scene.receiver.ip("addr del 10.79.3.2/24 dev veth0");
    scene.receiver.ip("addr add 10.79.3.66/24 brd + dev veth0");
    let trap = scene.receiver.run(|| std::net::TcpListener::bind("10.79.3.66:3002").unwrap());
    let stranger = Stranger::start(&scene, pin_of(&scene), "10.79.3.66:3002");
    // The first search comes within seconds. The device tries that address, sends a TLS hello and nothing that was measured.
    let (mut connection, _) = trap.accept().unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut sent = vec![0; 2];
    connection.read_exact(&mut sent).unwrap();
    // The rest ends with the time limit or with the connection.
    connection.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let _ = connection.read_to_end(&mut sent);
    assert!(sent.starts_with(&[22, 3]) && sent.len() < 2_000, "a TLS hello alone: {} bytes", sent.len());
    drop(connection);
    drop(trap);
    scene.receiver.ip("addr add 10.79.3.9/24 brd + dev veth0");
    scene.receiver.ip("addr del 10.79.3.66/24 dev veth0");
    scene.receiver.ip("addr replace 10.79.3.9/24 brd + dev veth0");
    let before = scene.intervals();
    let serve = scene.serve(&["--discovery"]);
    // It waits for pauses between attempts.
    eventually_within(Duration::from_mins(3), "data after the move", || {
        (scene.intervals() > before + 50).then_some(())
    });
    assert!(stranger.end() > 0, "the stranger answered nothing");
    let status = scene.status(&serve);
    assert!(status["stream"]["discovery"]["answered"].as_u64() > Some(0), "{status}");
    let messages = end(agent);
    assert!(messages.contains("may be at 10.79.3.66:3002 now"), "{messages}");
    assert!(
        messages.contains("answers to searches ignored") && messages.contains("sandbox: seccomp"),
        "{messages}"
    );
    serve.stop();
}

#[test]
fn without_ipv4_the_addresses_of_the_link_are_enough() {
    if !available() {
        return;
    }
    let scene = Scene::set("disc6");
    scene.device.ip("addr flush dev veth0 scope global");
    scene.receiver.ip("addr flush dev veth0 scope global");
    let (store, state) = (scene.dir.path().join("store.db"), scene.path("state"));
    let all = ["--no-agent", "--tls", "[::]:3002", "--discovery", "--state", &state];
    let serve = Serve::start_with(inside(&scene.receiver), &store, &all);
    // An address of the link can be used some seconds after the cable is there, and the group is joined then.
    eventually("the receiver", || {
        let found = text(&output(scene.on_device(&["discover", "--wait", "300ms"])).stdout);
        found.contains("[fe80::").then_some(())
    });
    let (mut device, code) = scene.enroll();
    eventually("the request", || scene.hosts(&["pending"]).contains(&code).then_some(()));
    scene.hosts(&["accept", &code]);
    assert!(wait(&mut device.0, "enroll").success());
    let agent = scene.agent();
    eventually("data of the device", || (scene.intervals() > 5).then_some(()));
    end(agent);
    serve.stop();
}

#[test]
fn discovery_off_loopback_only_and_a_device_that_is_sent_away_gets_no_key() {
    let loopback = run(&["serve", "--tls", "127.0.0.1:0", "--discovery"]);
    assert_eq!(loopback.status.code(), Some(2), "{loopback:?}");
    if !available() {
        return;
    }
    let scene = Scene::set("rej");
    let serve = scene.serve(&["--discovery"]);
    let (mut device, code) = scene.enroll();
    eventually("the request", || scene.hosts(&["pending"]).contains(&code).then_some(()));
    assert!(scene.hosts(&["reject", "the-device"]).contains("rejected: the-device"));
    assert_eq!(wait(&mut device.0, "enroll").code(), Some(1));
    assert_eq!(scene.hosts(&["enrolled"]).lines().count(), 1);
    assert_eq!(scene.status(&serve)["stream"]["requests_refused"], 1);
    serve.stop();
}

#[test]
fn without_a_terminal_a_device_enrolls_by_discovery_only_with_a_receivers_key() {
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys");
    let refused = run(&["enroll", "--discover", "--wait", "100ms", "--state", keys.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("needs --key KEY"), "{refused:?}");
    assert!(!keys.exists());
}
