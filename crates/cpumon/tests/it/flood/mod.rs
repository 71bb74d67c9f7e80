//! Floods. Here: of garbage from many senders while good devices report over TLS. In: how many datagrams (`FLOOD_DATAGRAMS`) and how many
//! a second (`FLOOD_RATE`). Out: the devices lose nothing, memory is bounded, and each datagram is counted: by
//! its sender, or as dropped by the socket, whose kernel does not record the sender. `make flood` runs it long.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

mod figures;
pub mod kinds;
pub mod valid;

use crate::fleet::{Device, wall_now_ns};
use crate::support::{PATIENCE, Serve, cpumon, eventually};
use crate::time_line::pause;
use figures::{allocated_kib, peak_kib};

/// More than a receiver's table has space for.
const SENDERS: u64 = 1_500;
const FLOODERS: u64 = 2;
const DEVICES: u8 = 3;
/// Datagrams that one sender sends in a row.
const IN_A_ROW: u64 = 20;
/// Memory that a flood may cost the receiver, KiB: its tables and the allocator's share.
const MOST_KIB: u64 = 16 << 10;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Packets that the kernel dropped before any socket, because they came faster than a CPU takes them (all of the machine).
pub fn backlog_drops() -> u64 {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").unwrap();
    let dropped = text.lines().filter_map(|line| line.split_whitespace().nth(1));
    dropped.map(|word| u64::from_str_radix(word, 16).unwrap()).sum()
}

/// Whether a receiver's status counts each datagram that was sent, except those that the kernel dropped before any socket.
pub fn is_counted(receiver: &Value, sent: u64, drops_before: u64) -> bool {
    let count = |name: &str| receiver[name].as_u64().unwrap();
    // The two are not read at one instant, so that their sum can be ahead.
    let missing = sent.saturating_sub(count("datagrams") + count("kernel_dropped"));
    missing <= backlog_drops() - drops_before
}

/// One part of the flood: `count` datagrams from many addresses of loopback, at most `rate` a second.
fn flood(part: u64, count: u64, rate: u64, to: SocketAddr) {
    let (begin, mut sent) = (Instant::now(), 0);
    for row in 0_u64.. {
        let sender = (row * FLOODERS + part) % SENDERS;
        let [.., high, low] = sender.to_be_bytes();
        let from = UdpSocket::bind(SocketAddr::from(([127, 1, high, low], 0))).unwrap();
        for _ in 0..IN_A_ROW.min(count - sent) {
            // No v2, and a negative length in v1.
            let bytes =
                [0xff_u8, 0xff, 0xff, (sent % 251) as u8].repeat(1 + usize::try_from(sent % 40).unwrap());
            assert_eq!(from.send_to(&bytes, to).unwrap(), bytes.len());
            sent += 1;
        }
        if sent == count {
            return;
        }
        let due = Duration::from_secs_f64(sent as f64 / rate as f64);
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
    }
}

/// Snapshots that the good host of the next test lost, and datagrams that it sent.
fn send_beside(serve: &Serve, device: &mut crate::time_line::Device, running: &AtomicU64) -> u64 {
    let (socket, mut sent) = (UdpSocket::bind("127.0.0.1:0").unwrap(), 0);
    while running.load(Ordering::Relaxed) > 0 || sent < 20 {
        for frame in &device.snapshot(0) {
            assert_eq!(socket.send_to(frame, serve.udp).unwrap(), frame.len());
            sent += 1;
        }
        // At the rate of its stated interval: a receiver refuses snapshots that come much more often.
        pause();
    }
    sent
}

#[test]
fn one_source_that_floods_takes_nothing_from_another_host() {
    const FLOOD: u64 = 30_000;
    const MAY: u64 = 500;
    let may = MAY.to_string();
    let (serve, begin) = (Serve::start(&["--no-agent", "--source-datagrams", &may]), Instant::now());
    let (mut device, running) = (crate::time_line::Device::new(9, "good"), AtomicU64::new(1));
    let drops_before = backlog_drops();
    let good = std::thread::scope(|scope| {
        let (running, to) = (&running, serve.udp);
        scope.spawn(move || {
            let from = UdpSocket::bind("127.9.9.9:0").unwrap();
            for number in 0..FLOOD {
                assert_eq!(from.send_to(&[0xff; 300], to).unwrap(), 300);
                if number % 20 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            running.store(0, Ordering::Relaxed);
        });
        send_beside(&serve, &mut device, running)
    });
    let status = eventually("every datagram is counted", || {
        let status = serve.status();
        is_counted(&status["receiver"], FLOOD + good, drops_before).then_some(status)
    });
    let receiver = &status["receiver"];
    let host = serve.host("good").unwrap();
    let lost = host["loss"]["snapshots_lost"].as_u64().unwrap()
        + host["loss"]["snapshots_partial"].as_u64().unwrap();
    let kernel_dropped = receiver["kernel_dropped"].as_u64().unwrap() + (backlog_drops() - drops_before);
    assert!(lost <= kernel_dropped, "{lost} lost, {kernel_dropped} of all dropped by the kernel");
    assert_eq!(host["loss"]["rejected"], 0);
    assert!(kernel_dropped > 0 || host["loss"]["datagrams"].as_u64() == Some(good), "{host}, {good} sent");
    // Within the limit its garbage is read and refused for its content; beyond, it is not even read.
    let refused = receiver["rejected_for"]["rate_limit"].as_u64().unwrap();
    let read = receiver["rejected_for"]["malformed"].as_u64().unwrap();
    let most = MAY * (begin.elapsed().as_secs() + 1 + 2);
    assert!(read <= most, "{read} were read, {most} may be");
    assert_eq!(refused + read, receiver["rejected"].as_u64().unwrap());
    let worst = &receiver["rejected_by"][0];
    assert_eq!((&worst["source"], &worst["by_kind"]["rate_limit"]), (&"127.9.9.9".into(), &refused.into()));
    let messages = crate::support::ok(&["status", "--url", &serve.url]);
    assert!(messages.contains("from 127.9.9.9") && messages.contains("rate_limit"), "{messages}");
}

/// CPU time that a process used so far, in ticks of 10 ms.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_receiver_without_free_descriptors_waits_for_one() {
    let dir = tempfile::tempdir().unwrap();
    let (state, store) = (dir.path().join("identity"), dir.path().join("store.db"));
    let more = ["--no-agent", "--tls", "127.0.0.1:0", "--state", state.to_str().unwrap()];
    let serve = Serve::start_with(cpumon(), &store, &more);
    let address: SocketAddr = serve.status()["stream"]["address"].as_str().unwrap().parse().unwrap();
    // Its open descriptors, and a few for its work beside TLS.
    let open = std::fs::read_dir(Path::new("/proc").join(serve.pid.to_string()).join("fd")).unwrap().count();
    let limit = Some(open as u64 + 4);
    let pid = rustix::process::Pid::from_raw(i32::try_from(serve.pid).unwrap());
    let limits = rustix::process::Rlimit { current: limit, maximum: limit };
    rustix::process::prlimit(pid, rustix::process::Resource::Nofile, limits).unwrap();
    // They say nothing, so each keeps its descriptor for 5 s.
    let strangers: Vec<_> = (0..16).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(500));
    let before = cpu_ticks(serve.pid);
    std::thread::sleep(Duration::from_secs(2));
    let used = cpu_ticks(serve.pid) - before;
    assert!(used < 100, "{used} ticks of 10 ms in 2 s");
    drop(strangers);
    eventually("it takes connections again", || {
        (serve.status()["stream"]["accepted"].as_u64().unwrap() >= 16).then_some(())
    });
}

#[test]
fn devices_on_tls_lose_nothing_while_garbage_floods_in() {
    let count = number("FLOOD_DATAGRAMS").unwrap_or(40_000) / FLOODERS;
    let rate = number("FLOOD_RATE").unwrap_or(200_000) / FLOODERS;
    let dir = tempfile::tempdir().unwrap();
    let (state, store) = (dir.path().join("identity"), dir.path().join("store.db"));
    let more = ["--no-agent", "--tls", "127.0.0.1:0", "--state", state.to_str().unwrap()];
    let serve = Serve::start_with(cpumon(), &store, &more);
    let address = serve.status()["stream"]["address"].as_str().unwrap().to_owned();
    let mut devices: Vec<Device> =
        (0..DEVICES).map(|number| Device::enroll(number, dir.path(), &address, &state, 200)).collect();
    for device in &mut devices {
        device.connect();
    }
    let take_snapshots = |devices: &mut Vec<Device>| {
        for device in devices {
            device.snapshot(wall_now_ns());
        }
    };
    for _ in 0..20 {
        take_snapshots(&mut devices);
        pause();
    }
    for device in &devices {
        device.drain(PATIENCE);
    }
    let (before_kib, drops_before, begin) = (peak_kib(serve.pid), backlog_drops(), Instant::now());

    let (running, took_ms) = (AtomicU64::new(FLOODERS), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for part in 0..FLOODERS {
            let (running, took_ms, to) = (&running, &took_ms, serve.udp);
            scope.spawn(move || {
                flood(part, count, rate, to);
                took_ms.fetch_max(u64::try_from(begin.elapsed().as_millis()).unwrap(), Ordering::Relaxed);
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        // Seldom, so that the receiver's own memory of the last intervals is small beside the measured memory.
        while running.load(Ordering::Relaxed) > 0 {
            take_snapshots(&mut devices);
            std::thread::sleep(Duration::from_millis(250));
        }
    });
    let sent = count * FLOODERS;
    let status = eventually("every datagram is counted", || {
        let status = serve.status();
        is_counted(&status["receiver"], sent, drops_before).then_some(status)
    });
    let receiver = &status["receiver"];
    assert_eq!(receiver["rejected"], receiver["datagrams"]);
    let by_source = receiver["rejected_by"].as_array().unwrap();
    let of_sources: u64 = by_source.iter().map(|one| one["count"].as_u64().unwrap()).sum();
    assert_eq!(receiver["rejected"], of_sources, "each is counted under its sender, or under the others");
    assert!(by_source.iter().any(|one| one["source"] == "others"), "the table is bounded");
    let grown_kib = peak_kib(serve.pid).saturating_sub(before_kib);
    assert!(grown_kib <= MOST_KIB, "{grown_kib} KiB more at its highest");
    for device in &devices {
        device.drain(PATIENCE);
    }
    for device in &devices {
        let status = device.status();
        assert_eq!((status.backlog.lost, status.failures), (0, 0), "{}: {status:?}", device.name);
    }
    let seconds = took_ms.load(Ordering::Relaxed) as f64 / 1e3;
    println!(
        "{sent} datagrams in {seconds:.1} s ({:.0} a second) from {SENDERS} addresses: {} refused and counted by sender, {} dropped by \
         the kernel and counted; the receiver's peak memory grew by {grown_kib} KiB; {} snapshots of {DEVICES} devices, none lost",
        sent as f64 / seconds.max(1e-3),
        receiver["rejected"],
        receiver["kernel_dropped"],
        devices.iter().map(|device| device.made).sum::<u64>(),
    );
    serve.stop();
    for device in &devices {
        device.assert_all_stored(&store);
    }
}

#[test]
fn the_worst_valid_datagrams_of_one_source_keep_memory_bounded() {
    use crate::tables::{Head, exits, processes, threads, totals};
    // The account bounds 12 MiB of hosts and 16 MiB of the hub; the rest is for the current datagram and interval.
    const MOST_KIB: u64 = if cfg!(debug_assertions) { 96 << 10 } else { 64 << 10 };
    const AFTERWARDS_KIB: u64 = 16 << 10;
    // The store's queue has limits of its own.
    let serve = Serve::start(&["--no-agent", "--no-store"]);
    let (before_kib, socket) = (peak_kib(serve.pid), UdpSocket::bind("127.0.0.1:0").unwrap());
    let (idle_kib, drops_before) = (allocated_kib(serve.pid), backlog_drops());
    let rows = 16_000;
    let tables = [threads(rows, 32), processes(rows, 32), exits(15_000, 33)];
    let (mut sent, mut bytes) = (0, 0);
    // From 24 hosts three whole snapshots, one of each kind, and three that never become whole.
    for host in 0..24 {
        for sequence in 0..6_u64 {
            let table = tables[usize::try_from(sequence).unwrap() % 3].clone();
            let fragments = 1 + u16::from(sequence >= 3);
            let frame = Head { fragments, ..Head::of(host, sequence) }.frame(&[totals(60_000), table]);
            bytes += socket.send_to(&frame, serve.udp).unwrap();
            sent += 1;
        }
        // The socket's buffer holds few datagrams of this length; a dropped one would cost nothing.
        let are_taken = || is_counted(&serve.status()["receiver"], sent, drops_before);
        eventually("they are taken", || are_taken().then_some(()));
    }
    let grown_kib = peak_kib(serve.pid).saturating_sub(before_kib);
    let held = serve.status()["receiver"]["tables"]["held_bytes"].as_u64().unwrap();
    println!("{bytes} bytes sent: {grown_kib} KiB more at most, {held} bytes held for hosts");
    assert!(held > 4 << 20, "{held} bytes: much is held");
    assert!(grown_kib <= MOST_KIB, "{grown_kib} KiB more at most");
    let silent = Instant::now();
    let above_kib = || allocated_kib(serve.pid).saturating_sub(idle_kib);
    let held = || serve.status()["receiver"]["tables"]["held_bytes"].as_u64().unwrap();
    // Silent hosts give back their memory.
    while above_kib() > AFTERWARDS_KIB || held() > 4 << 20 {
        assert!(
            silent.elapsed() < Duration::from_mins(3),
            "three minutes later {} KiB more than before, {} bytes held",
            above_kib(),
            held()
        );
        std::thread::sleep(Duration::from_secs(1));
    }
    println!("{} KiB more than before {:?} later, {} bytes held", above_kib(), silent.elapsed(), held());
}
