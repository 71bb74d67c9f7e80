//! Devices whose clock is in 2003, or is set while they run, over UDP and over TLS through the real receiver: everything they
//! sent is found where it happened, in order, and their own stamps are kept.

use std::net::UdpSocket;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use cpumon_link::RamBacklog;
use cpumon_link::tls::{DeviceIdentity, Receiver, Uplink, UplinkOptions, enroll};
use cpumon_model::{
    BootId, Counters, HostId, HostInfo, Interval, Moment, ProcessInfo, ProcessKey, ProcessSample, Snapshot,
    SourceKind, ThreadKey, ThreadSample,
};
use cpumon_receiver::enrolment::Authority;
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions};

use crate::fleet::wall_now_ns;
use crate::support::{PATIENCE, Serve, cpumon, eventually, ok, run, text};

/// An address of this test alone: a receiver that begins again finds its port free.
const ADDRESS: &str = "127.0.42.1:0";

/// How far a clock of 2003 is behind, ns.
pub const BEHIND_NS: i64 = 720_000_000_000_000_000;
/// When the devices booted, ns since the UNIX epoch.
const BOOTED_NS: i64 = 1_750_000_000_000_000_000;
const SNAPSHOTS: i64 = 12;
const SECOND_NS: i64 = 1_000_000_000;

pub fn boot_ns() -> u64 {
    (wall_now_ns() - BOOTED_NS).unsigned_abs()
}

/// A device with one thread that always runs.
pub struct Device {
    info: HostInfo,
    encoder: Encoder,
    before: Snapshot,
    now: Snapshot,
    made: u64,
}

impl Device {
    pub fn new(number: u8, name: &str) -> Self {
        let (host, boot) = (HostId([number; 16]), BootId([number + 100; 16]));
        let info =
            HostInfo { host, boot, hostname: name.into(), interval_ns: 50_000_000, ..HostInfo::default() };
        let options =
            EncoderOptions { full_snapshots: 1, agent_start: number.into(), ..EncoderOptions::default() };
        let (before, now) = (Snapshot::default(), Snapshot::default());
        Self { info, encoder: Encoder::new(options), before, now, made: 0 }
    }

    /// A snapshot of now, with an error of its wall clock.
    pub fn snapshot(&mut self, off_ns: i64) -> Datagrams {
        self.made += 1;
        let (into, boot_ns) = (&mut self.now, boot_ns());
        into.clear();
        (into.host, into.boot, into.sequence, into.is_complete) =
            (self.info.host, self.info.boot, self.made, true);
        (into.source, into.fields) = (SourceKind::Simulated, cpumon_model::Fields::all());
        let wall_ns = BOOTED_NS + boot_ns.cast_signed() + off_ns;
        into.end = Moment { mono_ns: boot_ns, boot_ns, wall_ns };
        into.begin = into.end;
        let key = ProcessKey { pid: 7, start_ns: 1 };
        let info = ProcessInfo { name: "busy".into(), ..ProcessInfo::default() };
        into.processes.push(ProcessSample { key, info: info.into(), ..ProcessSample::default() });
        let counters = Counters { run_ns: boot_ns, user_ns: boot_ns, ..Counters::default() };
        let thread = ThreadKey { tid: 7, start_ns: 1 };
        into.threads.push(ThreadSample { key: thread, process: key, counters, ..ThreadSample::default() });
        (into.thread_count, into.process_count) = (1, 1);
        let interval = Interval::between(&self.before, &self.now);
        let mut frames = Datagrams::new();
        self.encoder.encode(&self.info, &self.now, &interval, &mut frames);
        std::mem::swap(&mut self.before, &mut self.now);
        frames
    }
}

/// Waits between two snapshots of a device.
pub fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

/// End and the device's own end of each interval of a host that ended in the last five minutes, ns; none while the store has none.
pub fn exported(serve: &Serve, host: &str) -> Vec<(i64, i64)> {
    let columns = ["--since", "5m ago", "--format", "csv", "--store", serve.store()];
    let output = run(&[&["export", "processes", "--host", host], columns.as_slice()].concat());
    if !output.status.success() {
        return Vec::new();
    }
    let text = text(&output.stdout);
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let place = |name: &str| names.iter().position(|one| *one == name).unwrap();
    let (end, own) = (place("end_ns"), place("device_end_ns"));
    let row = |line: &str| {
        let cells: Vec<i64> = line.split(',').map(|cell| cell.parse().unwrap_or(0)).collect();
        (cells[end], cells[own])
    };
    lines.map(row).collect()
}

/// All intervals are there in order, each within `most_wrong_ns` of its time; the first `in_2003` were stamped in 2003,
/// the rest rightly.
fn check(rows: &[(i64, i64)], begun_ns: i64, in_2003: i64, most_wrong_ns: &RangeInclusive<i64>) {
    assert_eq!(i64::try_from(rows.len()), Ok(SNAPSHOTS - 1), "{rows:?}");
    assert!(rows.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order: {rows:?}");
    for (at, (end_ns, own_ns)) in (1..).zip(rows) {
        let off_ns = if at < in_2003 { BEHIND_NS } else { 0 };
        let true_ns = own_ns + off_ns;
        assert!((begun_ns..=wall_now_ns()).contains(&true_ns), "the device's stamp is kept: {at} {rows:?}");
        let wrong_ns = end_ns - true_ns;
        assert!(most_wrong_ns.contains(&wrong_ns), "interval {at} is off by {wrong_ns} ns");
    }
}

#[test]
fn over_udp_a_clock_in_2003_and_one_that_is_set_are_found_where_they_happened() {
    let (serve, begun_ns) = (Serve::start(&["--no-agent"]), wall_now_ns());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (mut old, mut set) = (Device::new(1, "old"), Device::new(2, "set"));
    for number in 0..SNAPSHOTS {
        let off_ns = if number < SNAPSHOTS / 2 { -BEHIND_NS } else { 0 };
        for frames in [old.snapshot(-BEHIND_NS), set.snapshot(off_ns)] {
            for frame in &frames {
                assert_eq!(socket.send_to(frame, serve.udp).unwrap(), frame.len());
            }
        }
        pause();
    }
    let all = |host| {
        eventually("every interval is stored", || {
            let rows = exported(&serve, host);
            (i64::try_from(rows.len()).unwrap() >= SNAPSHOTS - 1).then_some(rows)
        })
    };
    // Arrival times include the transport; a busy machine may be slow.
    let late_ns = -50_000_000..=5 * SECOND_NS;
    check(&all("old"), begun_ns, i64::MAX, &late_ns);
    check(&all("set"), begun_ns, SNAPSHOTS / 2, &late_ns);
    let old = serve.host("old").unwrap();
    assert!(old["clock_offset_ns"].as_i64().unwrap() < -BEHIND_NS + 10 * SECOND_NS, "{old}");
}

fn in_2003() -> (i64, u64) {
    let boot_ns = boot_ns();
    (BOOTED_NS + boot_ns.cast_signed() - BEHIND_NS, boot_ns)
}

fn identity(dir: &Path, address: &str, state: &Path, device: &Device) -> DeviceIdentity {
    let token = Authority::open(state)
        .unwrap()
        .make_token(Duration::from_mins(1), &cpumon_receiver::enrolment::TokenScope::default())
        .unwrap();
    // A receiver lets one address try ten times a second.
    std::thread::sleep(Duration::from_millis(120));
    enroll(dir, address, &token, device.info.host.0, &device.info.hostname).unwrap()
}

#[test]
fn over_tls_what_waited_is_in_its_time_and_comes_again_to_the_same_place() {
    let dir = tempfile::tempdir().unwrap();
    let (state, store, keys) =
        (dir.path().join("identity"), dir.path().join("s.db"), dir.path().join("keys"));
    let more = ["--no-agent", "--tls", ADDRESS, "--state", state.to_str().unwrap()];
    let mut serve = Serve::start_with(cpumon(), &store, &more);
    let address = serve.status()["stream"]["address"].as_str().unwrap().to_owned();
    let (mut device, begun_ns) = (Device::new(3, "spooled"), wall_now_ns());
    let identity = identity(&keys, &address, &state, &device);
    // All snapshots wait before there is a connection.
    let snapshots: Vec<(Datagrams, i64)> = (0..SNAPSHOTS)
        .map(|_| {
            let frames = device.snapshot(-BEHIND_NS);
            pause();
            (frames, device.before.end.wall_ns)
        })
        .collect();
    for turn in 0..3 {
        let receivers = vec![Receiver { address: address.clone(), identity: identity.clone() }];
        let (host, boot) = (device.info.host.0, device.info.boot.0);
        let options = UplinkOptions {
            receivers,
            host,
            agent: "test".to_owned(),
            boot,
            clocks: in_2003,
            ask: Vec::new(),
            attachments: None,
        };
        let uplink = Uplink::start(options, Box::new(RamBacklog::new([turn + 1; 16], 8 << 20))).unwrap();
        for (at, (frames, wall_ns)) in snapshots.iter().enumerate() {
            uplink.append(at == 0, *wall_ns, frames);
        }
        assert!(uplink.drain(PATIENCE), "{:?}", uplink.status());
        // The first time; sent again; sent again to a receiver that was started again. The error of a clock comparison is
        // half of the difference between the times of both ways.
        check(&exported(&serve, "spooled"), begun_ns, i64::MAX, &(-SECOND_NS..=SECOND_NS));
        if turn == 1 {
            drop(uplink);
            serve.stop();
            let more = ["--no-agent", "--tls", &address, "--state", state.to_str().unwrap()];
            serve = Serve::start_with(cpumon(), &store, &more);
        }
    }
    let sums = ok(&["sql", "--store", serve.store(), "--format", "csv", "SELECT count(*) FROM clock_piece"]);
    assert_eq!(sums.lines().last(), Some("1"), "one boot, one piece");
}
