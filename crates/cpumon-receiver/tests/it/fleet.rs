//! 250 devices of 200 processes each that mostly rest, by plain datagrams: live and in the store each device has all its processes, within
//! the memory that lists of processes may take.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_model::{
    Fields, HostId, HostStatus, Interval, ProcessInfo, SchedTimes, Snapshot, Trust, WaitReason,
};
use cpumon_query::status::Status;
use cpumon_query::{Live, Seek};
use cpumon_receiver::hub::{Hub, HubOptions};
use cpumon_receiver::{Demux, DemuxOptions};
use cpumon_store::{Reader, StoreOptions, Writer};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions};

use crate::sleepers::{Device, Second};

const DEVICES: u16 = 250;
const PROCESSES: u32 = 200;
/// Until after the second list.
const SECONDS: u64 = 54;
/// Processes of a device that run in a second.
const ACTIVE: usize = 3;

/// A device, its encoder and its address.
struct Sender {
    device: Device,
    encoder: Encoder,
    from: SocketAddr,
}

fn device(number: u16) -> Sender {
    let pids: Vec<u32> = (1..=PROCESSES).map(|nth| nth * 7).collect();
    let mut device = Device::new(&pids);
    let [high, low] = number.to_be_bytes();
    let mut id = [7; 16];
    (id[0], id[1]) = (high, low);
    (device.host.host, device.snapshot.host) = (HostId(id), HostId(id));
    device.host.hostname = format!("device-{number}").into();
    device.snapshot.fields -= Fields::SCHED | Fields::WAITS;
    for thread in &mut device.snapshot.threads {
        thread.sched = SchedTimes::default();
    }
    for process in &mut device.snapshot.processes {
        let pid = process.key.pid;
        process.info = Arc::new(ProcessInfo {
            name: format!("service-{pid}").into(),
            comm: format!("service-{pid}").into(),
            cmdline: format!("/usr/lib/services/service-{pid} --config /etc/services/{pid}.toml").into(),
            cgroup: format!("/system.slice/service-{pid}.service").into(),
            user: "service".into(),
            uid: pid,
            ..ProcessInfo::default()
        });
    }
    let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 1, high, low)), 4000);
    Sender { device, encoder: Encoder::new(EncoderOptions::default()), from }
}

impl Sender {
    /// Sends the current snapshot. Returns the intervals that the receiver gives out, mostly one, and the time that it took.
    fn send(&mut self, there: &Interval, demux: &mut Demux) -> (Vec<(HostStatus, Interval)>, Duration) {
        let mut datagrams = Datagrams::new();
        self.encoder.encode(&self.device.host, &self.device.snapshot, there, &mut datagrams);
        let received = self.device.snapshot.end;
        let mut given = Vec::new();
        let began = Instant::now();
        for datagram in &datagrams {
            let keep = &mut |status: &_, interval: &_| {
                given.push((HostStatus::clone(status), Interval::clone(interval)));
            };
            demux.accept(datagram, self.from, received, keep).unwrap();
        }
        (given, began.elapsed())
    }

    /// The next second.
    fn step(&mut self) -> Interval {
        let before: Snapshot = self.device.snapshot.clone();
        let threads = &self.device.snapshot.threads;
        let first = usize::try_from(before.sequence * 3).unwrap();
        let busy = Second { run_us: 500, ready_us: 1, then: WaitReason::NONE, ends: false };
        let active = (0..ACTIVE).map(|nth| threads[(first + nth * 61) % threads.len()].key.tid);
        self.device.step(&active.map(|tid| (tid, busy)).collect());
        Interval::between(&before, &self.device.snapshot)
    }
}

fn hub(max_process_bytes: usize) -> Hub {
    let options = HubOptions { max_process_bytes, ..HubOptions::default() };
    Hub::new(options, Box::new(|_, _| Ok(None)), Box::new(Status::default))
}

/// How many took how long.
#[derive(Default)]
struct Times {
    count: u32,
    total: Duration,
}

impl Times {
    fn add(&mut self, took: Duration) {
        (self.count, self.total) = (self.count + 1, self.total + took);
    }

    fn mean_us(&self) -> u128 {
        (self.total / self.count.max(1)).as_micros()
    }
}

fn named_rows(interval: &Interval) -> usize {
    interval.processes.iter().filter(|row| row.info.name.starts_with("service-")).count()
}

#[test]
fn all_processes_of_250_devices_are_there_live_and_in_the_past() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let limit = HubOptions::default().max_process_bytes;
    assert_eq!(limit, 96 << 20, "as docs/security.md has it");
    // The same, without memory for lists: what the lists take is the difference.
    let (hub, without_lists) = (hub(limit), hub(0));
    let mut demux = Demux::new(DemuxOptions::default());
    let mut senders: Vec<Sender> = (0..DEVICES).map(device).collect();
    let (mut listed, mut unlisted, mut shown) = (Times::default(), Times::default(), Times::default());
    for second in 0..=SECONDS {
        for sender in &mut senders {
            // The first snapshot ends no interval.
            let there = if second == 0 { Interval::default() } else { sender.step() };
            let (given, took) = sender.send(&there, &mut demux);
            assert_eq!(given.len(), usize::from(second > 0));
            let Some((status, interval)) = given.into_iter().next() else { continue };
            let has_list = interval.idle_processes.is_some();
            if has_list { &mut listed } else { &mut unlisted }.add(took);
            let info = &sender.device.host;
            writer.put_received(info, Trust::Unauthenticated, None, &interval, interval.end.wall_ns).unwrap();
            // As the receiver passes it on.
            let status = HostStatus { trust: Trust::Unauthenticated, ..status };
            let idle = interval.idle_processes.clone().filter(|_| interval.knows_all_processes());
            let interval = Arc::new(Interval { idle_processes: None, ..interval });
            without_lists.put_listed(&status, Arc::clone(&interval), idle.as_deref());
            let began = Instant::now();
            hub.put_listed(&status, interval, idle.as_deref());
            if has_list {
                shown.add(began.elapsed());
            }
        }
    }
    writer.commit().unwrap();
    let bytes = hub.bytes() - without_lists.bytes();
    println!(
        "{DEVICES} devices of {PROCESSES} processes: {} lists, {bytes} bytes in all ({} a device); per snapshot {} µs with a list, {} µs \
         without; {} µs until the hub has a list",
        listed.count,
        bytes / usize::from(DEVICES),
        listed.mean_us(),
        unlisted.mean_us(),
        shown.mean_us(),
    );
    assert_eq!(listed.count, 2 * u32::from(DEVICES), "one at the start, and 50 intervals later");
    // Half of the limit is for hosts that are not authenticated.
    assert!(bytes > 0 && bytes <= limit / 2, "{bytes}");
    let reader = Reader::open(&path).unwrap();
    for sender in &senders {
        let host = sender.device.host.host;
        let newest = hub.newest(host).unwrap();
        assert!(
            newest.interval.processes.len() < 30,
            "what rests has no row: {}",
            newest.interval.processes.len()
        );
        assert_eq!(named_rows(&hub.with_idle(host, &newest).interval), PROCESSES as usize, "live");
        assert_eq!(
            named_rows(&without_lists.with_idle(host, &newest).interval),
            newest.interval.processes.len()
        );
        let at_ns = newest.interval.end.wall_ns - 3_000_000_000;
        let earlier = hub.seek(host, Seek::At(at_ns)).unwrap().unwrap();
        assert_eq!(named_rows(&hub.with_idle(host, &earlier).interval), PROCESSES as usize, "in memory");
        let mut stored = reader.interval_at(host, at_ns).unwrap().unwrap();
        assert!(reader.add_idle(&mut stored).unwrap());
        assert_eq!(named_rows(&stored), PROCESSES as usize, "in the store");
    }
}
