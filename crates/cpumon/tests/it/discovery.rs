//! Discovery with the real binaries between network namespaces, by real broadcasts: an agent without an address finds the receiver, the
//! desk confirms, data flows; a false beacon captures nobody; a receiver that moved is found again.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use cpumon_receiver::enrollment::Authority;
use cpumon_wire::beacon::{QUERY_BYTES, Query};

use crate::netns::{Namespace, available};
use crate::support::{PATIENCE, Serve, clean, ok, output, run, text, wait};

fn inside(namespace: &Namespace) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace.name, env!("CARGO_BIN_EXE_cpumon")]);
    clean(&mut command);
    command
}

/// A device and a desk on one cable, each with a state directory that stays.
struct Scene {
    device: Namespace,
    desk: Namespace,
    dir: tempfile::TempDir,
}

impl Scene {
    fn set(label: &str) -> Self {
        let (device, desk) =
            (Namespace::new(&format!("{label}-device")), Namespace::new(&format!("{label}-desk")));
        device.cable(&desk, "veth0");
        device.ip("addr add 10.79.3.1/24 brd + dev veth0");
        desk.ip("addr add 10.79.3.2/24 brd + dev veth0");
        Self { device, desk, dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn serve(&self, more: &[&str]) -> Serve {
        let (store, state) = (self.dir.path().join("store.db"), self.path("state"));
        let all = ["--no-agent", "--tls", "0.0.0.0:3002", "--state", &state];
        Serve::start_with(inside(&self.desk), &store, &[&all[..], more].concat())
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
        let mut command = inside(&self.desk);
        command.args(["status", "--json", "--url", &serve.url]);
        serde_json::from_slice(&output(command).stdout).unwrap()
    }

    /// Starts `enroll --discover`; the code that it shows.
    fn enroll(&self) -> (Child, String) {
        let keys = self.path("keys");
        let words =
            ["enroll", "--discover", "--wait", "500ms", "--state", &keys, "--host-name", "the-device"];
        let mut child = self.on_device(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (say, said) = mpsc::channel();
        let out = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if let Some(code) = line.strip_prefix("code ") {
                    let _ = say.send(code.to_owned());
                }
            }
        });
        let code = said.recv_timeout(PATIENCE);
        (child, code.expect("the device shows a code"))
    }

    fn agent(&self) -> Child {
        let keys = self.path("keys");
        let words =
            ["agent", "--to", "enrolled", "--state", &keys, "--interval", "100ms", "--source", "procfs"];
        let mut command = self.on_device(&words);
        command.args(["--host-name", "the-device"]).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Intervals of the device in the store.
    fn intervals(&self) -> u64 {
        let (store, query) = (self.path("store.db"), "SELECT count(*) FROM host_interval");
        let answer = run(&["sql", "--store", &store, "--format", "csv", query]);
        text(&answer.stdout).lines().nth(1).and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}

/// As `eventually`, for what waits for pauses between attempts.
fn within<T>(seconds: u64, what: &str, mut get: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = get() {
            return found;
        }
        assert!(Instant::now() < end, "not within {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn end(mut child: Child) -> String {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let mut said = String::new();
    let mut errors = child.stderr.take().unwrap();
    wait(&mut child, "agent");
    std::io::Read::read_to_string(&mut errors, &mut said).unwrap();
    said
}

/// Somebody on the desk's machine answers every query: as another receiver of his own, in the name of the real one, and with garbage.
struct Liar {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Liar {
    fn start(scene: &Scene, real: [u8; 65]) -> Self {
        let socket = scene.desk.run(|| {
            let socket = socket_of_queries();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            socket
        });
        let dir = tempfile::tempdir().unwrap();
        let own = Authority::open(dir.path()).unwrap().beacon_signer().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let lie = move || {
            let (mut bytes, mut lies) = ([0; QUERY_BYTES], 0);
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
                let Ok(query) = Query::decode(&bytes[..length]) else { continue };
                for key in [own.point(), real] {
                    let beacon = cpumon_wire::beacon::Beacon {
                        nonce: query.nonce,
                        sequence: 1,
                        wall_ns: 0,
                        key,
                        addresses: vec!["10.79.3.66:3002".parse().unwrap()],
                        name: "desk",
                    };
                    let message = beacon.to_sign();
                    let datagram = cpumon_wire::beacon::seal(&message, &own.sign(&message).unwrap());
                    socket.send_to(&datagram, from).unwrap();
                    lies += 1;
                }
                socket.send_to(b"garbage", from).unwrap();
            }
            drop(dir);
            lies
        };
        Self { stop, thread: Some(std::thread::spawn(lie)) }
    }

    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// A socket that hears the same broadcasts as the receiver.
fn socket_of_queries() -> UdpSocket {
    use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &"0.0.0.0:3003".parse::<SocketAddr>().unwrap()).unwrap();
    socket.into()
}

/// The real receiver's key, as anybody on the subnet learns it.
fn key_of(scene: &Scene) -> [u8; 65] {
    let authority = Authority::open(std::path::Path::new(&scene.path("state"))).unwrap();
    authority.beacon_signer().unwrap().point()
}

#[test]
fn an_agent_without_an_address_is_let_in_by_its_code_and_finds_its_receiver_again() {
    if !available() {
        return;
    }
    let scene = Scene::set("disc");
    // Nobody answers who was not told to.
    let quiet = scene.serve(&[]);
    let none = output(scene.on_device(&["discover", "--wait", "300ms"]));
    assert!(none.status.code() == Some(3) && text(&none.stdout).contains("--beacon"), "{none:?}");
    quiet.stop();

    let serve = scene.serve(&["--beacon"]);
    let key = scene.status(&serve)["stream"]["beacon"]["key"].as_str().unwrap().to_owned();
    let found = text(&output(scene.on_device(&["discover", "--wait", "500ms"])).stdout);
    assert!(found.contains(&key) && found.contains("10.79.3.2:3002"), "{found}");

    let (mut device, code) = scene.enroll();
    let pending = within(10, "the request", || {
        let pending = scene.hosts(&["pending"]);
        (pending.lines().count() == 2).then_some(pending)
    });
    assert!(pending.contains(&code) && pending.contains("the-device"), "{pending}");
    assert!(pending.contains("10.79.3.1"), "{pending}");
    let by_name = run(&["hosts", "accept", "the-device", "--state", &scene.path("state")]);
    assert!(text(&by_name.stderr).contains("no code"), "{by_name:?}");
    assert!(scene.hosts(&["accept", &code]).contains("let in: the-device"));
    assert!(wait(&mut device, "enroll").success());
    let stream = scene.status(&serve)["stream"].clone();
    assert_eq!((&stream["requests_accepted"], &stream["enrolled"]), (&1.into(), &1.into()), "{stream}");

    let agent = scene.agent();
    let host = within(20, "data of the device", || {
        let status = scene.status(&serve);
        let host = status["hosts"].as_array()?.iter().find(|host| host["hostname"] == "the-device")?.clone();
        (host["loss"]["snapshots"].as_u64() > Some(5)).then_some(host)
    });
    assert_eq!(host["trust"], "authenticated");

    // The receiver moves. First a false one answers alone, at an address where somebody waits for connections.
    serve.stop();
    scene.desk.ip("addr del 10.79.3.2/24 dev veth0");
    scene.desk.ip("addr add 10.79.3.66/24 brd + dev veth0");
    let trap = scene.desk.run(|| std::net::TcpListener::bind("10.79.3.66:3002").unwrap());
    trap.set_nonblocking(true).unwrap();
    let liar = Liar::start(&scene, key_of(&scene));
    // The first search comes within seconds; it brings lies only.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(8) {
        std::thread::sleep(Duration::from_millis(100));
        assert!(trap.accept().is_err(), "the agent believes a false beacon");
    }
    drop(trap);
    scene.desk.ip("addr add 10.79.3.9/24 brd + dev veth0");
    scene.desk.ip("addr del 10.79.3.66/24 dev veth0");
    scene.desk.ip("addr replace 10.79.3.9/24 brd + dev veth0");
    let before = scene.intervals();
    let serve = scene.serve(&["--beacon"]);
    within(60, "data after the move", || (scene.intervals() > before + 50).then_some(()));
    let lies = liar.end();
    assert!(lies > 0, "nobody lied");
    let status = scene.status(&serve);
    assert!(status["stream"]["beacon"]["answered"].as_u64() > Some(0), "{status}");
    let said = end(agent);
    assert!(said.contains("is at 10.79.3.9:3002 now"), "{said}");
    assert!(said.contains("false beacons ignored") && said.contains("sandbox: seccomp"), "{said}");
    assert!(!said.contains("10.79.3.66"), "{said}");
    serve.stop();
}

#[test]
fn without_ipv4_the_addresses_of_the_link_are_enough() {
    if !available() {
        return;
    }
    let scene = Scene::set("disc6");
    scene.device.ip("addr flush dev veth0 scope global");
    scene.desk.ip("addr flush dev veth0 scope global");
    let (store, state) = (scene.dir.path().join("store.db"), scene.path("state"));
    let all = ["--no-agent", "--tls", "[::]:3002", "--beacon", "--state", &state];
    let serve = Serve::start_with(inside(&scene.desk), &store, &all);
    // An address of the link can be used some seconds after the cable is there, and the group is joined then.
    within(30, "the receiver", || {
        let found = text(&output(scene.on_device(&["discover", "--wait", "300ms"])).stdout);
        found.contains("[fe80::").then_some(())
    });
    let (mut device, code) = scene.enroll();
    within(10, "the request", || scene.hosts(&["pending"]).contains(&code).then_some(()));
    scene.hosts(&["accept", &code]);
    assert!(wait(&mut device, "enroll").success());
    let agent = scene.agent();
    within(20, "data of the device", || (scene.intervals() > 5).then_some(()));
    end(agent);
    serve.stop();
}

#[test]
fn a_beacon_off_loopback_only_and_a_device_that_is_sent_away_gets_no_key() {
    let loopback = run(&["serve", "--tls", "127.0.0.1:0", "--beacon"]);
    assert_eq!(loopback.status.code(), Some(2), "{loopback:?}");
    if !available() {
        return;
    }
    let scene = Scene::set("rej");
    let serve = scene.serve(&["--beacon"]);
    let (mut device, code) = scene.enroll();
    within(10, "the request", || scene.hosts(&["pending"]).contains(&code).then_some(()));
    assert!(scene.hosts(&["reject", "the-device"]).contains("sent away"));
    assert_eq!(wait(&mut device, "enroll").code(), Some(1));
    assert_eq!(scene.hosts(&["enrolled"]).lines().count(), 1);
    assert_eq!(scene.status(&serve)["stream"]["requests_refused"], 1);
    serve.stop();
}
