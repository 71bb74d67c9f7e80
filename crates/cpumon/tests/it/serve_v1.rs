//! The original's datagrams at a receiver: shown, stored, and counted where they are damaged.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::{Serve, eventually, ok, run, sender, text, v1_dir};

const EOT: [u8; 8] = [0x01, 0x24, 0x15, 0x40, 0x52, 0x01, 0x24, 0x05];

/// A process datagram as SPEC.md lays it out, one thread with the process's times.
fn v1_process(name: &str, ticks: i64, pid: u32, kernel_ms: i64, user_ms: i64) -> Vec<u8> {
    let mut bytes = i16::try_from(name.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend(name.as_bytes());
    bytes.extend(ticks.to_le_bytes());
    bytes.extend(3_000_u32.to_le_bytes());
    bytes.extend(kernel_ms.to_le_bytes());
    bytes.extend(user_ms.to_le_bytes());
    bytes.extend(pid.to_le_bytes());
    bytes.extend(1_i16.to_le_bytes());
    bytes.extend(pid.to_le_bytes());
    bytes.extend(kernel_ms.to_le_bytes());
    bytes.extend(user_ms.to_le_bytes());
    bytes.extend((pid + 1).to_le_bytes());
    bytes.extend(3_000_u32.to_le_bytes());
    bytes.extend(ticks.to_le_bytes());
    bytes
}

pub(crate) fn send_set(from: &std::net::UdpSocket, to: SocketAddr, set: i64) {
    let ticks = 634_911_147_191_234_567 + set * 30_000_000;
    for (name, pid) in [("NK.EXE", 2), ("it's;\"odd\"", 7)] {
        from.send_to(&v1_process(name, ticks, pid, 10 + set, 20 + set), to).unwrap();
    }
    from.send_to(&EOT, to).unwrap();
}

#[test]
fn an_agent_that_speaks_the_originals_protocol_is_seen() {
    let serve = Serve::start(&["--no-agent"]);
    let to = serve.udp.to_string();
    let agent =
        run(&["agent", "--v1", "--to", &to, "--interval", "300ms", "--count", "4", "--source", "procfs"]);
    assert!(agent.status.success(), "{agent:?}");
    let host =
        eventually("its sets", || serve.host("127.0.0.1").filter(|host| host["loss"]["snapshots"] == 3));
    assert_eq!((&host["source"], &host["trust"]), (&"v1".into(), &"unauthenticated".into()));
    serve.stop();
}

#[test]
fn datagrams_of_the_original_are_shown_and_stored() {
    let serve = Serve::start(&["--no-agent"]);
    let device = sender(2);
    for set in 0..3 {
        send_set(&device, serve.udp, set);
        std::thread::sleep(Duration::from_millis(20));
    }
    let host =
        eventually("three sets", || serve.host("127.0.0.2").filter(|host| host["loss"]["snapshots"] == 3));
    assert_eq!((&host["source"], &host["trust"]), (&"v1".into(), &"unauthenticated".into()));
    let csv = eventually("three stored sets", || {
        let csv = text(&run(&["export", "processes", "--store", serve.store()]).stdout);
        (csv.lines().count() == 7).then_some(csv)
    });
    assert!(csv.contains("NK.EXE") && csv.contains("\"it's;\"\"odd\"\"\""), "{csv}");
    assert!(csv.contains(",20000000,"), "20 ms of user time: {csv}");
    let query =
        "SELECT name, count(*), sum(user_ns) FROM process_interval WHERE name = 'NK.EXE' GROUP BY name";
    let answer = ok(&["sql", "--store", serve.store(), "--format", "csv", query]);
    assert_eq!(answer.lines().nth(1), Some("\"NK.EXE\",3,63000000"), "20 + 21 + 22 ms: {answer}");
    let listed = ok(&["hosts", "--store", serve.store()]);
    assert!(listed.contains("127.0.0.2") && listed.contains("unauthenticated"), "{listed}");
    serve.stop();
}

#[test]
fn every_valid_vector_is_taken_and_every_damaged_one_is_counted() {
    let Some(dir) = v1_dir() else { return };
    let serve = Serve::start(&["--no-agent"]);
    let files = |name: &str| {
        let mut files: Vec<_> =
            std::fs::read_dir(dir.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        // More than IPv4 UDP carries cannot be sent.
        files.retain(|file| file.metadata().unwrap().len() <= 65_507);
        files
    };
    let (good, bad) = (sender(3), sender(4));
    let (valid, malformed) = (files("valid"), files("malformed"));
    for file in valid.iter().filter(|file| file.file_name().unwrap() != "eot.bin") {
        good.send_to(&std::fs::read(file).unwrap(), serve.udp).unwrap();
    }
    good.send_to(&EOT, serve.udp).unwrap();
    for file in &malformed {
        // A datagram of no bytes is one too.
        bad.send_to(&std::fs::read(file).unwrap(), serve.udp).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let sent = (valid.len() + malformed.len()) as u64;
    let status = eventually("all datagrams", || {
        Some(serve.status()).filter(|status| status["receiver"]["datagrams"] == sent)
    });
    assert_eq!(status["receiver"]["kernel_dropped"], 0);
    let rejected = status["receiver"]["rejected"].as_u64().unwrap();
    let by_bad = status["receiver"]["rejected_by"].as_array().unwrap();
    assert!(rejected > 0 && by_bad.len() == 1, "{by_bad:?}");
    assert_eq!((&by_bad[0]["source"], by_bad[0]["count"].as_u64()), (&"127.0.0.4".into(), Some(rejected)));
    assert!(!by_bad[0]["reason"].as_str().unwrap().is_empty());
    assert_eq!(serve.host("127.0.0.3").unwrap()["loss"]["rejected"], 0);
    serve.stop();
}
