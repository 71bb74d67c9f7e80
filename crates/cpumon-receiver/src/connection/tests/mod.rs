//! Both ends of a TLS connection over loopback: who is let in, who is not, what arrives.

mod after_bye;
mod ask;
mod busy;
mod certificates;
mod packed;
mod unread;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cpumon_link::tls::connect::{await_message, connect};
use cpumon_link::tls::identity::{NewKey, pinned_builder};
use cpumon_link::tls::pipe::Pipe;
use cpumon_link::tls::{
    AttachmentOptions, DeviceIdentity, Receiver, TlsError, Token, Uplink, UplinkOptions, ask, enroll,
};
use cpumon_link::{Backlog, RamBacklog};
use cpumon_model::HostId;
use cpumon_query::status;
use cpumon_store::ClockDoubt;
use cpumon_wire::Datagrams;
use cpumon_wire::connection::{
    ByeReason, ChannelKind, ClockReport, MAX_SMALL_MESSAGE_BYTES, Message, VERSION,
};
use cpumon_wire::spool::{Entry, decode_record};
use tempfile::TempDir;

use super::server::DeviceMemory;
use super::*;
use crate::demux::Rejected;
use crate::enrolment::{Authority, TokenScope};
use crate::eventually::{PATIENCE, eventually};
use crate::hub::{Hub, HubOptions};
use crate::storing::Sink;

pub(super) const HOST: [u8; 16] = [7; 16];

/// What the sessions of a device got: numbers of snapshots, by channel kind; comparisons of clocks.
#[derive(Debug, Default)]
pub(super) struct Observed {
    records: Mutex<Vec<(u64, ChannelKind)>>,
    pub(super) clocks: Mutex<Vec<ClockReport>>,
    /// Records are worked on for long.
    busy: Mutex<Option<Arc<busy::Busy>>>,
}

impl Observed {
    pub(super) fn record(
        memory: &Mutex<DeviceMemory>,
        kind: ChannelKind,
        record: &[u8],
        watch: AbortCheck<'_>,
    ) -> Result<(), End> {
        let observed = Arc::clone(&memory.lock().unwrap().observed);
        if let Some(Entry::Snapshot(snapshot)) = decode_record(record) {
            observed.records.lock().unwrap().push((snapshot.number, kind));
        }
        let busy = observed.busy.lock().unwrap().clone();
        busy.map_or(Ok(()), |busy| busy.work(watch))
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.records.lock().unwrap().iter().map(|one| one.0).collect()
    }
}

/// A running receiver.
pub(super) struct TestReceiver {
    pub(super) dir: TempDir,
    pub(super) authority: Arc<Authority>,
    pub(super) address: SocketAddr,
    pub(super) got: Arc<Observed>,
    pub(super) server: Arc<DeviceServer>,
    thread: Option<JoinHandle<()>>,
}

impl TestReceiver {
    pub(super) fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), "127.0.0.1:0".parse().unwrap())
    }

    pub(super) fn start_in(dir: TempDir, address: SocketAddr) -> Self {
        let authority = Authority::open(dir.path()).unwrap();
        Self::start_at(dir, authority, address, |_| ())
    }

    pub(super) fn start_with(change: impl Fn(&mut DeviceServer)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open(dir.path()).unwrap();
        Self::start_at(dir, authority, "127.0.0.1:0".parse().unwrap(), change)
    }

    /// With a clock that is so far ahead, days, by what its store knows; 0: it is right.
    fn start_doubting(days: &Arc<AtomicI64>) -> Self {
        let (dir, days) = (tempfile::tempdir().unwrap(), Arc::clone(days));
        let doubt = |days: i64| (days != 0).then_some(ClockDoubt { ahead_ns: days * 86_400_000_000_000 });
        let authority = Authority::open(dir.path()).unwrap();
        let authority = authority.with_doubt_of_clock(move || doubt(days.load(Ordering::Relaxed)));
        Self::start_at(dir, authority, "127.0.0.1:0".parse().unwrap(), |_| ())
    }

    fn start_at(
        dir: TempDir,
        authority: Authority,
        address: SocketAddr,
        change: impl Fn(&mut DeviceServer),
    ) -> Self {
        let authority = Arc::new(authority);
        let hub =
            Hub::new(HubOptions::default(), Box::new(|_, _| Ok(None)), Box::new(status::Status::default));
        let sink = Sink::new(Arc::new(hub), None, None, None);
        let bind = || DeviceListener::bind(address, &authority, sink.clone(), None, &Arc::default());
        let mut listener = eventually("the port is free", || bind().ok());
        let changed = Arc::get_mut(&mut listener.server).unwrap();
        // So that a device that gets no CPU for a while is let in all the same.
        (changed.handshake_time, changed.takes_requests) = (PATIENCE, true);
        change(changed);
        let (address, server) = (listener.server.address, Arc::clone(&listener.server));
        let got = Arc::clone(&server.memory_of(HostId(HOST)).lock().unwrap().observed);
        let thread = std::thread::spawn(move || listener.run());
        Self { dir, authority, address, got, server, thread: Some(thread) }
    }

    pub(super) fn stop(mut self) -> (TempDir, SocketAddr, Arc<Observed>) {
        self.server.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        (self.dir, self.address, self.got)
    }

    /// A device with this identity brings a snapshot here.
    pub(super) fn sends(&self, identity: DeviceIdentity) {
        let uplink = uplink(&self.address.to_string(), identity, ram());
        append(&uplink, 1);
        assert!(uplink.drain(PATIENCE));
        assert_eq!(self.got.numbers(), [1]);
    }

    fn token(&self) -> Token {
        self.authority.make_token(Duration::from_mins(1), &TokenScope::default()).unwrap()
    }

    pub(super) fn enroll(&self, device: &TempDir) -> Result<DeviceIdentity, TlsError> {
        enroll(device.path(), &self.address.to_string(), &self.token(), HOST, "device")
    }

    fn count(&self, counter: impl Fn(&status::Connections) -> u64, wanted: u64) {
        eventually("it is counted", || (counter(&self.server.status()) >= wanted).then_some(()));
    }

    /// Refusals by source, once they add up to `wanted`: a refusal is counted for all sources first, then for its own.
    fn refusals(&self, wanted: u64) -> Vec<status::Rejects> {
        eventually("it is counted for its source", || {
            let refusals = self.server.status().refused_by;
            let counted = refusals.iter().map(|one| one.count).sum::<u64>();
            (counted >= wanted).then_some(refusals)
        })
    }
}

pub(super) fn uplink(address: &str, identity: DeviceIdentity, backlog: RamBacklog) -> Uplink {
    uplink_with(address, identity, backlog, None)
}

/// With files to send.
fn uplink_with(
    address: &str,
    identity: DeviceIdentity,
    backlog: RamBacklog,
    attachments: Option<AttachmentOptions>,
) -> Uplink {
    let receivers = vec![Receiver { address: address.to_owned(), identity }];
    let options = UplinkOptions {
        receivers,
        host: HOST,
        agent: "test".to_owned(),
        boot: [9; 16],
        clocks: in_2003,
        ask: Vec::new(),
        attachments,
    };
    Uplink::start(options, Box::new(backlog)).unwrap()
}

/// How far the devices of these tests are behind, ns.
const BEHIND_NS: i64 = 700_000_000_000_000_000;

/// How long they run already, as seen from the time at which they stand, ns.
const BOOTED_NS: i64 = 1_000_000_000_000_000_000;

/// A device's clocks, the wall clock as the original's stood.
fn in_2003() -> (i64, u64) {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let wall_ns = i64::try_from(since.as_nanos()).unwrap() - BEHIND_NS;
    (wall_ns, (wall_ns - BOOTED_NS).unsigned_abs())
}

#[test]
fn a_device_whose_clock_is_in_2003_reports_by_how_much() {
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let uplink = uplink(&running.address.to_string(), running.enroll(&device).unwrap(), ram());
    append(&uplink, 1);
    let reports = eventually("some comparisons", || {
        let reports = running.got.clocks.lock().unwrap().clone();
        (reports.len() >= 3).then_some(reports)
    });
    // The offset is known to half of the round trip, plus a millisecond between two readings of a clock. Another program's turn between the
    // two readings is an error that no round trip shows, so not every comparison is as good.
    let is_near = |offset_ns: i64, round_trip_ns: u64| {
        (offset_ns + BEHIND_NS).unsigned_abs() <= round_trip_ns / 2 + 1_000_000
    };
    assert!(reports.iter().any(|report| is_near(report.offset_ns, report.round_trip_ns)), "{reports:?}");
    for report in &reports {
        let boot = report.boot.unwrap();
        assert_eq!((boot.boot, boot.offset_ns), ([9; 16], report.offset_ns - BOOTED_NS));
    }
    drop(uplink);
}

/// A frame, the same each time, so that it ends no interval: a header, and one section of a later release with `bytes` bytes.
pub(super) fn frame(bytes: u16) -> Vec<u8> {
    let mut frame = vec![0; 87];
    frame[..6].copy_from_slice(&[0x63, 0xb5, 0x6d, 0x32, 2, 87]);
    frame[8..24].copy_from_slice(&HOST);
    // Fragment 0 of 1.
    frame[54] = 1;
    let [low, high] = bytes.to_le_bytes();
    frame.extend([200, low, high]);
    frame.resize(90 + usize::from(bytes), 0);
    frame
}

pub(super) fn append(uplink: &Uplink, count: u64) {
    for wall_ns in 0..count {
        let frames = Datagrams::from(vec![frame(100)]);
        uplink.append(uplink.wants_full(), i64::try_from(wall_ns).unwrap(), &frames);
    }
}

pub(super) fn ram() -> RamBacklog {
    RamBacklog::new([1; 16], 8 << 20)
}

#[test]
fn what_is_appended_arrives_and_is_acknowledged() {
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let identity = running.enroll(&device).unwrap();
    let mode = |path: &std::path::Path| {
        std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path).unwrap()) & 0o777
    };
    assert_eq!(mode(&identity.path), 0o600);
    assert_eq!(mode(&running.dir.path().join("receiver.identity")), 0o600);
    let uplink = uplink(&running.address.to_string(), identity, ram());
    append(&uplink, 3);
    assert!(uplink.drain(PATIENCE));
    assert_eq!(running.got.numbers(), [1, 2, 3]);
    let status = uplink.status();
    assert_eq!((status.backlog.acked, status.backlog.waiting, status.failures), (3, 0, 0));
    assert_eq!(running.server.status().devices, 1);
}

#[test]
fn the_present_overtakes_the_past_and_nothing_is_missing() {
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let identity = running.enroll(&device).unwrap();
    let mut backlog = ram();
    for number in 1..=2000 {
        let is_full = backlog.wants_full();
        backlog.append(is_full, number, &Datagrams::from(vec![frame(2000)]));
    }
    let uplink = uplink(&running.address.to_string(), identity, backlog);
    eventually("the device asks for a full snapshot", || uplink.wants_full().then_some(()));
    append(&uplink, 5);
    assert!(uplink.drain(PATIENCE));
    let got = running.got.records.lock().unwrap().clone();
    let past: Vec<u64> = got.iter().filter(|one| one.1 == ChannelKind::Backfill).map(|one| one.0).collect();
    assert_eq!(past, (1..=*past.last().unwrap()).collect::<Vec<_>>());
    let live: Vec<u64> = got.iter().filter(|one| one.1 == ChannelKind::Live).map(|one| one.0).collect();
    assert_eq!(live.last(), Some(&2005));
    assert_eq!(live.first(), past.last(), "the first of the present belongs to both");
}

#[test]
fn a_receiver_that_comes_back_gets_what_is_not_acknowledged() {
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let identity = running.enroll(&device).unwrap();
    let uplink = uplink(&running.address.to_string(), identity, ram());
    append(&uplink, 70);
    assert!(uplink.drain(PATIENCE));
    let (dir, address, _) = running.stop();
    append(&uplink, 30);
    let running = TestReceiver::start_in(dir, address);
    append(&uplink, 1);
    assert!(uplink.drain(PATIENCE));
    let mut got = running.got.numbers();
    assert_eq!(got.first(), Some(&65), "what comes before begins at a full snapshot");
    got.sort_unstable();
    got.dedup();
    assert_eq!(got, (65..=101).collect::<Vec<_>>());
}

#[test]
fn the_next_receiver_of_the_list_takes_over() {
    let (first, second) = (TestReceiver::start(), TestReceiver::start());
    let devices = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let receivers = vec![
        Receiver { address: first.address.to_string(), identity: first.enroll(&devices[0]).unwrap() },
        Receiver { address: second.address.to_string(), identity: second.enroll(&devices[1]).unwrap() },
    ];
    let options = UplinkOptions {
        receivers,
        host: HOST,
        agent: String::new(),
        boot: [9; 16],
        clocks: in_2003,
        ask: Vec::new(),
        attachments: None,
    };
    let uplink = Uplink::start(options, Box::new(ram())).unwrap();
    append(&uplink, 3);
    assert!(uplink.drain(PATIENCE));
    assert_eq!(first.got.numbers(), [1, 2, 3]);
    first.stop();
    append(&uplink, 3);
    assert!(uplink.drain(PATIENCE));
    assert!(second.got.numbers().ends_with(&[4, 5, 6]));
}

pub(super) fn goodbye(pipe: &mut Pipe) -> ByeReason {
    await_message(pipe, Instant::now() + PATIENCE, MAX_SMALL_MESSAGE_BYTES, |message| match message {
        Some(Message::Bye { reason, .. }) => Ok(Some(reason)),
        _ => Ok(None),
    })
    .unwrap()
}

#[test]
fn a_device_can_speak_for_itself_only_and_in_messages_of_bounded_length() {
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let identity = running.enroll(&device).unwrap();
    let open = |host: [u8; 16]| {
        let mut pipe = connect(&running.address.to_string(), identity.client_config().unwrap()).unwrap();
        Message::Hello { version: VERSION, host, spool: HOST, agent: "" }.push(&mut pipe.outbox);
        pipe
    };
    let mut pipe = open([8; 16]);
    pipe.pump(true).unwrap();
    assert_eq!(goodbye(&mut pipe), ByeReason::Protocol);
    for oversize in [&[0xff; 8][..], &[0; 8]] {
        let mut pipe = open(HOST);
        pipe.outbox.extend_from_slice(oversize);
        pipe.pump(true).unwrap();
        assert_eq!(goodbye(&mut pipe), ByeReason::Protocol);
    }
    running.count(|stats| stats.protocol_errors, 2);
}

#[test]
fn snapshots_that_cannot_be_used_are_counted_for_their_device_with_the_reason() {
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let uplink = uplink(&running.address.to_string(), running.enroll(&device).unwrap(), ram());
    let append_zeros = || uplink.append(uplink.wants_full(), 1, &Datagrams::from(vec![vec![0; 90]]));
    for _ in 0..3 {
        append_zeros();
    }
    let refusals = running.refusals(3);
    assert_eq!(running.server.status().protocol_errors, 3);
    let reason = Rejected::NotAllowed { version: 1 }.fault();
    assert_eq!((refusals[0].count, &refusals[0].reason), (3, &reason));
    append_zeros();
    running.refusals(4);
    assert_eq!((running.got.numbers(), uplink.status().connections), (vec![1, 2, 3, 4], 1));
}

#[test]
fn nothing_that_an_enrolled_device_sends_breaks_the_receiver() {
    let (running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let identity = running.enroll(&device).unwrap();
    let mut sound = Vec::new();
    Message::Begin { channel: 1, kind: ChannelKind::Live }.push(&mut sound);
    Message::Ping { token: 1, clock: None }.push(&mut sound);
    Message::Renew { request: &[1; 40] }.push(&mut sound);
    Message::Ack { channel: 1, received: 2, committed: 3 }.push(&mut sound);
    let mut seed = 7_u64;
    let mut roll = |sides: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % sides
    };
    for _ in 0..8 {
        // A receiver takes ten handshakes a second of one address.
        std::thread::sleep(Duration::from_millis(120));
        let mut pipe = connect(&running.address.to_string(), identity.client_config().unwrap()).unwrap();
        Message::Hello { version: VERSION, host: HOST, spool: HOST, agent: "" }.push(&mut pipe.outbox);
        for _ in 0..50 {
            let mut bytes = sound.clone();
            let at = roll(bytes.len());
            bytes[at] ^= u8::try_from(1 + roll(255)).unwrap();
            bytes.truncate(bytes.len() - roll(3) * roll(20));
            pipe.outbox.extend_from_slice(&bytes);
        }
        // The receiver may end it at any moment.
        let _ = pipe.pump(true);
        std::thread::sleep(Duration::from_millis(50));
    }
    running.count(|stats| stats.protocol_errors, 1);
    let uplink = uplink(&running.address.to_string(), running.enroll(&device).unwrap(), ram());
    append(&uplink, 3);
    assert!(uplink.drain(PATIENCE), "others are served as before");
}

/// The beginning of a TLS 1.2 client: no `supported_versions`.
fn tls12_hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend_from_slice(&[5; 32]);
    body.extend_from_slice(&[0, 0, 4, 0xc0, 0x2b, 0xc0, 0x2f, 1, 0]);
    // signature_algorithms and supported_groups, as every client of that time sends them.
    body.extend_from_slice(&[0, 16, 0, 13, 0, 4, 0, 2, 4, 3, 0, 10, 0, 4, 0, 2, 0, 23]);
    let mut hello = vec![22, 3, 1, 0, u8::try_from(body.len() + 4).unwrap(), 1, 0, 0];
    hello.push(u8::try_from(body.len()).unwrap());
    hello.extend(body);
    hello
}

#[test]
fn strangers_with_garbage_old_tls_or_much_time_are_cut_off_and_counted() {
    let running = TestReceiver::start();
    let ends = |mut socket: TcpStream| {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = Vec::new();
        // A reset is an end as well.
        let _ = socket.read_to_end(&mut answer);
        answer
    };
    let mut garbage = TcpStream::connect(running.address).unwrap();
    garbage.write_all(&[0x5a; 600]).unwrap();
    ends(garbage);
    running.count(|stats| stats.handshakes_failed, 1);
    let mut old = TcpStream::connect(running.address).unwrap();
    old.write_all(&tls12_hello()).unwrap();
    let alert = ends(old);
    assert_eq!((alert[0], alert[alert.len() - 1]), (21, 70), "an alert: protocol_version");
    let refusals = running.refusals(2);
    assert_eq!((refusals.len(), refusals[0].count, running.server.status().handshakes_failed), (1, 2, 2));
    // One byte of a good beginning, and then nothing.
    let hasty = TestReceiver::start_with(|server| server.handshake_time = Duration::from_millis(700));
    let mut slow = TcpStream::connect(hasty.address).unwrap();
    slow.write_all(&[22]).unwrap();
    assert!(ends(slow).is_empty());
    hasty.count(|stats| stats.handshakes_failed, 1);
}

#[test]
fn one_source_cannot_open_connections_without_end() {
    let running = TestReceiver::start();
    let sockets: Vec<_> = (0..60).map(|_| TcpStream::connect(running.address).unwrap()).collect();
    running.count(|stats| stats.refused_early, 30);
    drop(sockets);
}
