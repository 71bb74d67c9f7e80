//! TLS connections with the real binary: enrolment, trust in every frontend, revocation, a store that cannot take records.

use std::process::Stdio;

use crate::support::{KillOnDrop, Serve, cpumon, eventually, ok, output, run, text, wait};

/// A receiver that accepts TLS connections, and where.
struct RunningReceiver {
    serve: Serve,
    state: tempfile::TempDir,
    address: String,
}

impl RunningReceiver {
    fn start() -> Self {
        Self::start_with(&["--no-agent"])
    }

    fn start_with(more: &[&str]) -> Self {
        let state = tempfile::tempdir().unwrap();
        let dir = state.path().to_str().unwrap().to_owned();
        let serve = Serve::start(&[&["--tls", "127.0.0.1:0", "--state", &dir], more].concat());
        let address = serve.status()["stream"]["address"].as_str().unwrap().to_owned();
        Self { serve, state, address }
    }

    fn state(&self) -> &str {
        self.state.path().to_str().unwrap()
    }

    /// The words of the line that `cpumon token` prints, behind the program's name.
    fn token(&self) -> Vec<String> {
        let line = ok(&["token", "--state", self.state()]);
        assert_eq!(line.lines().count(), 1, "{line}");
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        assert_eq!(
            (words[0].as_str(), words[1].as_str(), &words[2]),
            ("cpumon-agent", "enroll", &self.address)
        );
        words[1..].to_vec()
    }

    fn enroll(&self, device: &tempfile::TempDir, name: &str) {
        let words = self.token();
        let keys = device.path().to_str().unwrap();
        let messages = ok(&["enroll", &words[1], &words[2], "--state", keys, "--host-name", name]);
        assert!(messages.contains(&format!("--to tls://{}", self.address)), "{messages}");
    }
}

/// Measures every 100 ms, unless `more` says otherwise.
fn agent(address: &str, keys: &tempfile::TempDir, more: &[&str]) -> KillOnDrop {
    let mut command = cpumon();
    command.args(["agent", "--to", &format!("tls://{address}"), "--source", "procfs"]);
    command.args(["--host-name", "device", "--state"]).arg(keys.path()).args(more);
    if !more.contains(&"--interval") {
        command.args(["--interval", "100ms"]);
    }
    KillOnDrop(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// A receiver with an enrolled device that sends.
struct Connected {
    _agent: KillOnDrop,
    receiver: RunningReceiver,
    /// The device, as the API lists it.
    host: serde_json::Value,
    _keys: tempfile::TempDir,
}

impl Connected {
    fn start() -> Self {
        let (receiver, keys) = (RunningReceiver::start(), tempfile::tempdir().unwrap());
        receiver.enroll(&keys, "device");
        let agent = agent(&receiver.address, &keys, &[]);
        let host = eventually("the device", || {
            receiver.serve.host("device").filter(|host| host["loss"]["snapshots"].as_u64() > Some(5))
        });
        Self { _agent: agent, receiver, host, _keys: keys }
    }
}

#[test]
fn an_enrolled_device_is_authenticated_in_every_frontend() {
    let device = Connected::start();
    let serve = &device.receiver.serve;
    let listed = ok(&["hosts", "enrolled", "--state", device.receiver.state()]);
    assert!(listed.contains("device") && listed.contains("enrolled"), "{listed}");
    assert_eq!(device.host["trust"], "authenticated");
    let stream = &serve.status()["stream"];
    assert_eq!((&stream["devices"], &stream["enrolled"]), (&1.into(), &1.into()), "{stream}");
    let url = ["--url", serve.url.as_str()];
    assert!(ok(&["hosts", url[0], url[1]]).contains("authenticated"));
    assert!(ok(&["status", url[0], url[1]]).contains("connected: 1 devices"));
    let top = ok(&["top", "-b", "-n", "1", "--host", "device", url[0], url[1]]);
    assert!(top.contains("authenticated") && !top.to_lowercase().contains("unauthenticated"), "{top}");
}

#[test]
fn the_clock_of_a_connected_device_is_compared() {
    let device = Connected::start();
    let clock = eventually("its clock was compared", || {
        let host = device.receiver.serve.host("device")?;
        host["clock"].is_object().then(|| host["clock"].clone())
    });
    let number = |name: &str| clock[name].as_i64().unwrap();
    // One machine has one clock.
    assert!(number("offset_ns").abs() <= number("round_trip_ns") / 2 + 1_000_000, "{clock}");
}

#[test]
fn what_came_before_enrolment_stays_unauthenticated() {
    let (receiver, keys) = (RunningReceiver::start(), tempfile::tempdir().unwrap());
    let serve = &receiver.serve;
    let ends = |trust: &str| {
        let query = format!("SELECT end_utc FROM host_interval WHERE trust = '{trust}' ORDER BY end_ns");
        let rows = ok(&["sql", "--store", serve.store(), "--format", "csv", &query]);
        rows.lines().skip(1).map(|end| end.trim_matches('"').to_owned()).collect::<Vec<_>>()
    };
    let udp = serve.udp.to_string();
    let interval = ["--source", "procfs", "--interval", "100ms", "--count", "6"];
    ok(&[&["agent", "--to", &udp, "--host-name", "device"][..], &interval].concat());
    let before = eventually("plain intervals are stored", || {
        Some(ends("unauthenticated")).filter(|all| all.len() > 3)
    });
    receiver.enroll(&keys, "device");
    let agent = agent(&receiver.address, &keys, &[]);
    let after =
        eventually("intervals by TLS are stored", || Some(ends("authenticated")).filter(|all| all.len() > 3));
    drop(agent);
    // One host: its trust now does not change that of earlier data.
    let hosts = ok(&["hosts", "--store", serve.store()]);
    assert!(hosts.lines().count() == 2 && hosts.contains("authenticated"), "{hosts}");
    for (end, trust) in [(&before[2], "trust unauthenticated"), (&after[2], "trust authenticated")] {
        for source in [["--store", serve.store()], ["--url", &serve.url]] {
            let shown = ok(&[&["top", "-b", "--host", "device", "--at", end][..], &source].concat());
            assert!(shown.contains(trust), "{source:?} {end}: {shown}");
        }
    }
}

#[test]
fn plain_datagrams_of_an_enrolled_machine_are_another_host() {
    let device = Connected::start();
    let serve = &device.receiver.serve;
    let udp = serve.udp.to_string();
    let interval = ["--source", "procfs", "--interval", "100ms", "--count", "5"];
    ok(&[&["agent", "--to", &udp, "--host-name", "device"][..], &interval].concat());
    let other = eventually("the claim", || serve.host("device@127.0.0.1"));
    assert_eq!(other["trust"], "unauthenticated");
    assert_ne!(other["id"], device.host["id"]);
    assert_eq!(serve.host("device").unwrap()["trust"], "authenticated");
    let query = "SELECT host, trust FROM hosts ORDER BY host";
    let stored = || ok(&["sql", "--store", serve.store(), "--format", "csv", query]);
    eventually("both are stored", || {
        let stored = stored();
        let has = |row: &str| stored.lines().any(|line| line == row);
        (has(r#""device","authenticated""#) && has(r#""device@127.0.0.1","unauthenticated""#)).then_some(())
    });
    // A sender that only claims to be the device must not have it revoked.
    let place = ["--state", device.receiver.state(), "--store", serve.store()];
    let refused = run(&[&["hosts", "revoke", "device@127.0.0.1"][..], &place].concat());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let enrolled = ok(&[&["hosts", "enrolled"][..], &place].concat());
    assert!(!enrolled.contains("revoked"), "{enrolled}");
}

#[test]
fn a_device_is_revoked_by_the_name_under_which_it_is_listed() {
    // The receiver measures this machine too, which has the id of the device: so the device is listed with its address.
    let receiver = RunningReceiver::start_with(&["--source", "procfs", "--interval", "200ms"]);
    let keys = tempfile::tempdir().unwrap();
    receiver.enroll(&keys, "device");
    let _agent = agent(&receiver.address, &keys, &[]);
    let store = receiver.serve.store();
    eventually("the device is stored", || {
        let listed = ok(&["hosts", "--store", store]);
        let is_it = |line: &str| line.starts_with("device@127.0.0.1") && line.contains(" authenticated");
        listed.lines().any(is_it).then_some(())
    });
    let revoked = ok(&["hosts", "revoke", "device@127.0.0.1", "--state", receiver.state(), "--store", store]);
    assert!(revoked.starts_with("revoked device ("), "{revoked}");
}

#[test]
fn a_device_that_another_process_revokes_is_cut_off_and_the_audit_log_says_so() {
    let device = Connected::start();
    let (serve, state) = (&device.receiver.serve, device.receiver.state());
    let messages = ok(&["hosts", "revoke", "device", "--state", state]);
    assert!(messages.contains("revoked device"), "{messages}");
    let refused = eventually("it is cut off", || {
        let stream = serve.status()["stream"].clone();
        (stream["devices"] == 0 && stream["refused_devices"].as_u64() > Some(0)).then_some(stream)
    });
    assert!(refused["refused_by"][0]["reason"].as_str().unwrap().contains("revoked"), "{refused}");
    let url = format!("{}/api/v1/export/processes", serve.url);
    assert!(ureq::get(&url).call().unwrap().status().is_success());
    let audit = ok(&["audit", "--state", state, "--since", "1h", "--format", "csv"]);
    for entry in [
        "token made",
        r#""enrolled","127.0.0.1","device ("#,
        "revoked",
        r#""refused","127.0.0.1""#,
        r#""exported","127.0.0.1","processes"#,
    ] {
        assert!(audit.contains(entry), "{entry}: {audit}");
    }
}

#[test]
fn an_agent_of_a_wanted_count_ends_when_all_of_it_is_on_the_receivers_disk() {
    let (receiver, keys) = (RunningReceiver::start(), tempfile::tempdir().unwrap());
    receiver.enroll(&keys, "device");
    // Snapshots in memory are lost if it ends before it is connected: it has eight seconds for that.
    let mut agent = agent(&receiver.address, &keys, &["--count", "8", "--interval", "1s"]);
    assert!(wait(&mut agent.0, "agent").success());
    // Already committed: no waiting for it.
    let count = || {
        ok(&[
            "sql",
            "--store",
            receiver.serve.store(),
            "--format",
            "csv",
            "SELECT count(*) FROM host_interval",
        ])
    };
    assert_eq!(count().lines().last(), Some("7"), "the first snapshot ends no interval");
}

#[test]
fn without_a_receiver_an_agent_of_a_wanted_count_says_that_data_is_missing() {
    let (receiver, keys) = (RunningReceiver::start(), tempfile::tempdir().unwrap());
    receiver.enroll(&keys, "device");
    let address = receiver.address.clone();
    drop(receiver);
    let mut agent = agent(&address, &keys, &["--count", "3"]);
    assert_eq!(wait(&mut agent.0, "agent").code(), Some(3));
}

#[test]
fn what_is_not_enrolled_or_wrong_is_reported() {
    let (receiver, keys) = (RunningReceiver::start(), tempfile::tempdir().unwrap());
    let keys_dir = keys.path().to_str().unwrap();
    let to = format!("tls://{}", receiver.address);
    let not_enrolled = run(&["agent", "--to", &to, "--state", keys_dir, "--count", "1"]);
    let messages = text(&not_enrolled.stderr);
    assert!(
        !not_enrolled.status.success()
            && messages.contains("not enrolled")
            && messages.contains("cpumon token"),
        "{messages}"
    );

    let words = receiver.token();
    ok(&["enroll", &words[1], &words[2], "--state", keys_dir]);
    let again = run(&["enroll", &words[1], &words[2], "--state", keys_dir]);
    assert!(text(&again.stderr).contains("was used"), "{again:?}");
    let mut by_variable = cpumon();
    by_variable.args(["enroll", &words[1], "--state", keys_dir]).env("CPUMON_TOKEN", "cpumon1.short");
    assert!(text(&output(by_variable).stderr).contains("not a token"));
    let no_store = run(&["serve", "--tls", "127.0.0.1:0", "--no-store"]);
    assert_eq!(
        no_store.status.code(),
        Some(2),
        "acknowledged means on the disk: without a store there is none"
    );
}
