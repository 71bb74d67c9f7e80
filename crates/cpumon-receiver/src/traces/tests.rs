//! The trace store with its database and its thread; sessions with devices that do not keep to the rules.

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Instant;

use cpumon_link::tls::crypto::sha256;
use cpumon_model::limits::Rate;
use cpumon_model::{HostId, HostInfo, Interval, Moment, Trust};
use cpumon_store::{Reader, StoreOptions, TimeRange, TraceRecord, Writer, trace_file, traces_dir};
use cpumon_trace::{Compression, FileHeader, SchedEvent, SchedEventKind, TraceTask, TraceWriter};
use cpumon_wire::connection::{AttachmentState, ByeReason};
use tempfile::TempDir;

use super::*;

const HOST: HostId = HostId([1; 16]);
const OTHER: HostId = HostId([2; 16]);

/// When the trace of [`trace`] began.
const BEGAN: Moment = Moment { mono_ns: 1_000, boot_ns: 1_000, wall_ns: 1_700_000_000_000_000_000 };

/// A trace of `events` events, with other bytes for each `seed`.
fn trace(events: u64, seed: u64) -> Vec<u8> {
    let host = format!("host-{seed}").into();
    trace_of(&FileHeader { began: BEGAN, cpus: 1, host, ..FileHeader::default() }, events, 0)
}

/// A trace with this header and `events` events, all on one CPU.
fn trace_of(header: &FileHeader, events: u64, cpu: u16) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), header, Compression::None).unwrap();
    for at in 0..events {
        let kind = SchedEventKind::Exit { task: TraceTask(1) };
        writer.event(&SchedEvent { at_ns: 1_000 + at, cpu, kind });
    }
    writer.finish(2_000_001_000, 3).unwrap().0
}

fn offered(host: HostId, file: &[u8]) -> OfferedTrace {
    let (bytes, hash) = (file.len() as u64, sha256(file));
    let wall_ns = 1_700_000_001_000_000_000;
    OfferedTrace { host, hash, bytes, wall_ns, shift_ns: 0, reason: "cpu>90%".to_owned() }
}

struct TestTraceStore {
    dir: TempDir,
    traces: TraceStore,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TestTraceStore {
    fn start(bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(&dir.path().join("s.db"), &StoreOptions::default()).unwrap();
        for (host, cpu_count) in [(HOST, 2), (OTHER, 0)] {
            let info = HostInfo { host, cpu_count, ..HostInfo::default() };
            let interval = Interval { host, ..Interval::default() };
            writer.put(&info, Trust::Authenticated, None, &interval).unwrap();
        }
        writer.commit().unwrap();
        drop(writer);
        Self::start_in(dir, bytes)
    }

    fn start_in(dir: TempDir, bytes: u64) -> Self {
        Self::start_with(dir, bytes, |_| Ok(u64::MAX))
    }

    /// With space for all that hosts may bring.
    fn start_limited(rate: Rate) -> Self {
        Self::run(Self::start(0).stop(), 1 << 40, |storage| storage.rate = rate)
    }

    /// Starts on a disk with `free_bytes` for traces.
    fn start_with(dir: TempDir, bytes: u64, free_bytes: fn(&Path) -> std::io::Result<u64>) -> Self {
        Self::run(dir, bytes, |storage| storage.free_bytes = free_bytes)
    }

    fn run(dir: TempDir, bytes: u64, set: impl FnOnce(&mut Storage)) -> Self {
        let limits = TraceLimits { bytes, age: None };
        let (traces, mut work) = TraceStore::open(&dir.path().join("s.db"), limits, None).unwrap();
        work.storage.free_bytes = |_| Ok(u64::MAX);
        set(&mut work.storage);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || work.run(&stopped));
        Self { dir, traces, stop, thread: Some(thread) }
    }

    fn stop(mut self) -> TempDir {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.dir
    }

    fn restart(self, bytes: u64) -> Self {
        Self::start_in(self.stop(), bytes)
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("s.db")
    }

    fn traces(&self) -> Vec<TraceRecord> {
        let reader = Reader::open(&self.store()).unwrap();
        reader.traces(None, TimeRange { since_ns: i64::MIN, until_ns: i64::MAX }, 1_000).unwrap()
    }

    /// Sends a whole file in pieces, and gives how it ended.
    fn send(&self, offered: OfferedTrace, file: &[u8]) -> (AttachmentState, String) {
        let slot = self.traces.offer(offered);
        let first = answered(&slot);
        if first.0 == AttachmentState::Taking {
            let at = usize::try_from(slot.state().received).unwrap();
            for (piece, offset) in file[at..].chunks(1_000).zip((at as u64..).step_by(1_000)) {
                self.traces.piece(&slot, offset, piece);
            }
        }
        ended(&slot)
    }

    fn names(&self) -> Vec<String> {
        let entries = traces_dir(&self.store()).read_dir().unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn wait(slot: &TraceSlot, is_it: impl Fn(&SlotState) -> bool) -> SlotState {
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let state = slot.state();
        if is_it(&state) {
            return state;
        }
        assert!(Instant::now() < end, "waited too long: {state:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn answered(slot: &TraceSlot) -> (AttachmentState, String) {
    let state = wait(slot, |state| state.state.is_some());
    (state.state.unwrap(), state.text)
}

fn ended(slot: &TraceSlot) -> (AttachmentState, String) {
    let state = wait(slot, |state| state.state.is_some_and(|state| state != AttachmentState::Taking));
    (state.state.unwrap(), state.text)
}

#[test]
fn a_trace_is_stored_once_with_what_it_says() {
    let test = TestTraceStore::start(1 << 20);
    let file = trace(500, 0);
    assert_eq!(test.send(offered(HOST, &file), &file).0, AttachmentState::Stored);
    assert_eq!(test.send(offered(HOST, &file), b"").0, AttachmentState::Stored, "it is there");
    let stored = test.traces();
    assert_eq!(stored.len(), 1);
    let one = &stored[0];
    assert_eq!((one.events, one.lost, one.bytes, &*one.reason), (500, 3, file.len() as u64, "cpu>90%"));
    assert_eq!((one.first_wall_ns, one.last_wall_ns), (1_700_000_000_000_000_000, 1_700_000_002_000_000_000));
    assert_eq!(std::fs::read(trace_file(&test.store(), one.id)).unwrap(), file);
    let status = test.traces.counts.status();
    assert_eq!((status.files, status.stored, status.failed), (1, 1, 0));
}

#[test]
fn a_trace_of_the_future_has_the_time_of_its_receipt() {
    let test = TestTraceStore::start(1 << 20);
    let now = crate::wall_ns();
    let hour_ns = 3_600_000_000_000;
    for wall_ns in [i64::MAX, i64::MAX - 1_500_000_000, now + 25 * hour_ns, now + 23 * hour_ns] {
        let began = Moment { wall_ns, ..BEGAN };
        let file = trace_of(&FileHeader { began, cpus: 1, ..FileHeader::default() }, 10, 0);
        let offered = OfferedTrace { wall_ns: wall_ns.saturating_add(1_000), ..offered(HOST, &file) };
        assert_eq!(test.send(offered, &file).0, AttachmentState::Stored);
    }
    for one in test.traces() {
        assert_eq!(one.last_wall_ns - one.first_wall_ns, 2_000_000_000, "{one:?}");
        if one.id == 4 {
            assert_eq!((one.first_wall_ns, one.wall_ns), (now + 23 * hour_ns, now + 23 * hour_ns + 1_000));
        } else {
            assert_eq!((one.last_wall_ns, one.wall_ns), (one.received_wall_ns, one.received_wall_ns));
            assert!((now..now + hour_ns).contains(&one.received_wall_ns));
        }
    }
    assert_eq!(test.traces().len(), 4);
}

#[test]
fn what_is_no_trace_too_long_or_damaged_is_not_stored() {
    let test = TestTraceStore::start(1 << 20);
    let garbage = vec![7; 5_000];
    let mut cut = trace(500, 0);
    cut.truncate(cut.len() - 1);
    for (file, reason) in [(&garbage, "no trace file"), (&cut, "no end")] {
        let (state, text) = test.send(offered(HOST, file), file);
        assert_eq!(state, AttachmentState::Refused, "{text}");
        assert!(text.contains(reason), "{text}");
    }
    for bytes in [0, (1 << 18) + 1, u64::MAX] {
        let (state, text) = test.send(OfferedTrace { bytes, ..offered(HOST, b"") }, b"");
        assert!(state == AttachmentState::Refused && text.contains("at most 262144"), "{text}");
    }
    let file = trace(500, 0);
    let (state, text) = test.send(OfferedTrace { hash: [5; 32], ..offered(HOST, &file) }, &file);
    assert!(state == AttachmentState::Later && text.contains("another hash"), "{text}");
    let (state, text) = test.send(offered(HostId([9; 16]), &file), &file);
    assert!(state == AttachmentState::Later && text.contains("nothing else of this host"), "{text}");
    assert_eq!((test.traces(), test.names()), (vec![], vec![]));
    let status = test.traces.counts.status();
    assert_eq!((status.refused, status.postponed, status.stored), (5, 2, 0));
}

#[test]
fn a_trace_that_claims_more_cpus_than_its_device_is_refused() {
    let test = TestTraceStore::start(1 << 20);
    for (host, cpus, cpu, refusal) in [
        (HOST, 65_535, 0, Some("claims 65535 CPUs; at most 64 are taken of this device")),
        (HOST, 65, 0, Some("claims 65 CPUs")),
        (HOST, 64, 4_095, None),
        (HOST, 2, 4_096, Some("has events of CPU 4096; numbers below 4096")),
        (OTHER, 4_097, 0, Some("claims 4097 CPUs; at most 4096")),
        (OTHER, 4_096, 4_095, None),
    ] {
        let file = trace_of(&FileHeader { began: BEGAN, cpus, ..FileHeader::default() }, 10, cpu);
        let (state, text) = test.send(offered(host, &file), &file);
        match refusal {
            Some(reason) => {
                assert!(state == AttachmentState::Refused && text.contains(reason), "{cpus}, {cpu}: {text}");
            }
            None => assert_eq!(state, AttachmentState::Stored, "{cpus}, {cpu}: {text}"),
        }
    }
    assert_eq!((test.traces().len(), test.traces.counts.status().refused), (2, 4));
    // More CPUs than that are taken once the device has reported them, also after it has fewer again.
    let mut writer = Writer::open(&test.store(), &StoreOptions::default()).unwrap();
    for (cpu_count, at_ns) in [(128, 1_000), (2, 2_000)] {
        let info = HostInfo { host: HOST, cpu_count, ..HostInfo::default() };
        let end = Moment { mono_ns: at_ns, boot_ns: at_ns, wall_ns: at_ns.cast_signed() };
        let interval = Interval { host: HOST, end, ..Interval::default() };
        writer.put(&info, Trust::Authenticated, None, &interval).unwrap();
    }
    writer.commit().unwrap();
    drop(writer);
    let file = trace_of(&FileHeader { began: BEGAN, cpus: 128, ..FileHeader::default() }, 10, 0);
    assert_eq!(test.send(offered(HOST, &file), &file).0, AttachmentState::Stored);
}

#[test]
fn a_part_is_resumed_after_a_restart_and_a_host_has_one() {
    let test = TestTraceStore::start(1 << 20);
    let (file, other) = (trace(500, 0), trace(500, 1));
    let slot = test.traces.offer(offered(HOST, &other));
    answered(&slot);
    test.traces.piece(&slot, 0, &other[..100]);
    wait(&slot, |state| state.received == 100);
    let slot = test.traces.offer(offered(HOST, &file));
    answered(&slot);
    test.traces.piece(&slot, 0, &file[..700]);
    wait(&slot, |state| state.received == 700);
    assert_eq!(test.names().len(), 1, "one part a host");
    let test = test.restart(1 << 20);
    let slot = test.traces.offer(offered(HOST, &file));
    assert_eq!((answered(&slot).0, slot.state().received), (AttachmentState::Taking, 700));
    test.traces.piece(&slot, 700, &file[700..]);
    assert_eq!(ended(&slot).0, AttachmentState::Stored);
    assert_eq!(test.names(), ["1.trace"]);
    assert_eq!(std::fs::read(trace_file(&test.store(), 1)).unwrap(), file);
    // A part whose bytes the disk lost.
    let third = trace(500, 3);
    let slot = test.traces.offer(offered(HOST, &third));
    answered(&slot);
    test.traces.piece(&slot, 0, &[0; 400]);
    wait(&slot, |state| state.received == 400);
    assert_eq!(test.send(offered(HOST, &third), &third).0, AttachmentState::Later);
    assert_eq!(test.send(offered(HOST, &third), &third).0, AttachmentState::Stored, "from the begin");
}

#[test]
fn the_host_with_the_most_loses_its_oldest_and_files_and_rows_agree() {
    let file = |seed| trace(100, seed);
    let bytes = file(0).len() as u64;
    let test = TestTraceStore::start(5 * bytes + bytes / 2);
    for seed in 0..4 {
        assert_eq!(test.send(offered(HOST, &file(seed)), &file(seed)).0, AttachmentState::Stored);
    }
    for seed in 4..6 {
        assert_eq!(test.send(offered(OTHER, &file(seed)), &file(seed)).0, AttachmentState::Stored);
    }
    let of = |test: &TestTraceStore, host| -> Vec<i64> {
        test.traces().iter().filter(|one| one.host == host).map(|one| one.id).collect()
    };
    assert_eq!((of(&test, HOST), of(&test, OTHER)), (vec![2, 3, 4], vec![5, 6]));
    assert_eq!(test.traces.counts.status().deleted, 1);
    // One file is lost, one has no row, one host is forgotten.
    std::fs::remove_file(trace_file(&test.store(), 3)).unwrap();
    std::fs::write(trace_file(&test.store(), 77), "").unwrap();
    assert!(cpumon_store::forget_host(&test.store(), OTHER, Duration::from_secs(30)).unwrap());
    let test = test.restart(1 << 20);
    assert_eq!(test.names(), ["2.trace", "4.trace"]);
    assert_eq!((of(&test, HOST), of(&test, OTHER)), (vec![2, 4], vec![]));
    assert_eq!(test.send(offered(HOST, &file(9)), &file(9)).0, AttachmentState::Stored);
    assert_eq!(of(&test, HOST), [2, 4, 7], "no number is given twice");
}

#[test]
fn a_trace_that_the_disk_has_no_space_for_is_not_asked_for() {
    let dir = TestTraceStore::start(1 << 20).stop();
    // 4,000 bytes, less what the parts have.
    let test =
        TestTraceStore::start_with(dir, 1 << 20, |dir| Ok(4_000_u64.saturating_sub(files::part_bytes(dir)?)));
    let (large, small, other) = (trace(5_000, 0), trace(500, 1), trace(500, 2));
    assert!(large.len() > 10_000 && small.len() + other.len() < 4_000, "{} {}", large.len(), small.len());
    let slot = test.traces.offer(offered(HOST, &large));
    let (state, text) = answered(&slot);
    assert_eq!((state, slot.state().received), (AttachmentState::Later, 0), "{text}");
    assert!(text.contains("no space for a trace of"), "{text}");
    assert_eq!(test.names(), [""; 0], "nothing of it is on the disk");
    assert_eq!(test.traces.counts.status().error, text);
    assert_eq!(test.send(offered(HOST, &small), &small).0, AttachmentState::Stored);
    assert_eq!(test.traces.counts.status().error, "", "a trace was stored after it");
    // Space that a transfer under way still needs is not given to another; an abandoned part gives way.
    let slot = test.traces.offer(OfferedTrace { bytes: 3_000, ..offered(HOST, &other) });
    assert_eq!(answered(&slot).0, AttachmentState::Taking);
    test.traces.piece(&slot, 0, &[0; 1_000]);
    wait(&slot, |state| state.received == 1_000);
    assert_eq!(test.send(offered(OTHER, &other), &other).0, AttachmentState::Later);
    test.traces.send(TraceJob::Abandon(Arc::clone(&slot)));
    let slot = test.traces.offer(OfferedTrace { bytes: 3_500, ..offered(OTHER, &other) });
    assert_eq!(answered(&slot).0, AttachmentState::Taking);
    let status = test.traces.counts.status();
    assert_eq!((status.postponed, status.failed, status.stored), (2, 2, 1));
}

#[test]
fn a_host_that_was_away_brings_all_its_traces_at_once() {
    let test = TestTraceStore::start(1 << 40);
    let offer = |seed: u16| {
        let hash = sha256(&seed.to_le_bytes());
        answered(&test.traces.offer(OfferedTrace { hash, bytes: 4_500_000, ..offered(HOST, b"x") })).0
    };
    // What a flight recorder leaves of hours: with 120 offers an hour it took an hour for them.
    assert!((0..140).all(|seed| offer(seed) == AttachmentState::Taking));
    let more = (140..1_100).filter(|seed| offer(*seed) == AttachmentState::Taking).count();
    assert!((850..940).contains(&more), "{more}: each counts as 1 MiB");
}

#[test]
fn the_bytes_that_a_host_brings_are_limited_and_count_once() {
    // 10 MiB at once.
    let rate = Rate { amount: 40 << 10, seconds: 3_600, burst_ms: 900_000 };
    let test = TestTraceStore::start_limited(rate);
    let begin = |host, seed: u8| {
        let slot =
            test.traces.offer(OfferedTrace { hash: [seed; 32], bytes: 6 << 20, ..offered(host, b"x") });
        (answered(&slot).0, slot)
    };
    // The connection breaks: four offers, and 5 MiB.
    for part in 0..5 {
        let (state, slot) = begin(HOST, 1);
        assert_eq!((state, slot.state().received), (AttachmentState::Taking, part << 20));
        test.traces.piece(&slot, part << 20, &vec![7; 1 << 20]);
    }
    assert_eq!(begin(HOST, 1).0, AttachmentState::Later, "10 MiB");
    assert_eq!(begin(OTHER, 1).0, AttachmentState::Taking, "each host has its own");
}

#[test]
fn a_trace_store_without_space_takes_none() {
    let none = TestTraceStore::start(0);
    assert_eq!(none.send(offered(HOST, b"x"), b"x").0, AttachmentState::Refused);
}

#[test]
fn a_device_that_does_not_keep_to_the_rules_is_cut_off() {
    let test = TestTraceStore::start(1 << 22);
    let file = trace(200_000, 0);
    let mut out = Vec::new();
    let begun = |out: &mut Vec<u8>| {
        let mut session = SentTrace::new(test.traces.clone(), HOST, true);
        session.offer(1, offered(HOST, &file)).unwrap();
        out.clear();
        while out.is_empty() {
            session.work(out);
            std::thread::sleep(Duration::from_millis(1));
        }
        session
    };
    let is_refused = |refused: Result<(), End>, part: &str| {
        let end = refused.unwrap_err();
        assert!(matches!(&end, End::Bye(ByeReason::Protocol, text) if text.contains(part)), "{end:?}");
    };
    is_refused(begun(&mut out).offer(1, offered(HOST, &file)), "comes again");
    is_refused(begun(&mut out).piece(1, 5, b"x"), "not the next one");
    is_refused(begun(&mut out).piece(1, 0, b""), "not the next one");
    is_refused(begun(&mut out).piece(1, u64::MAX, b"x"), "not the next one");
    assert_eq!(begun(&mut out).piece(2, 5, b"x"), Ok(()), "of another number: ignored");
    let mut early = SentTrace::new(test.traces.clone(), HOST, true);
    early.offer(1, offered(HOST, &file)).unwrap();
    is_refused(early.piece(1, 0, b"x"), "before it was asked for");
    is_refused(early.offer(2, offered(HOST, &file)), "before the last one was answered");
    let mut session = begun(&mut out);
    // The trace store's thread writes some pieces meanwhile: at some point one exceeds the window or the length.
    let too_much = (0_u64..).find_map(|at| session.piece(1, at * 16_384, &[0; 16_384]).err());
    assert!(matches!(too_much.unwrap(), End::Bye(ByeReason::Protocol, _)));
}

/// Each takes memory beside its bytes: a window of single bytes was 131,072 of them.
#[test]
fn pieces_of_one_byte_are_limited() {
    let dir = TestTraceStore::start(1 << 22).stop();
    let limits = TraceLimits { bytes: 1 << 22, age: None };
    // Without its thread nothing is written.
    let (traces, _thread) = TraceStore::open(&dir.path().join("s.db"), limits, None).unwrap();
    let mut session = SentTrace::new(traces, HOST, true);
    session.offer(1, offered(HOST, &trace(200_000, 0))).unwrap();
    session.current.as_ref().unwrap().slot.set(AttachmentState::Taking, 0, "");
    session.work(&mut Vec::new());
    let (sent, end) = (0_u64..).find_map(|at| Some(at).zip(session.piece(1, at, b"x").err())).unwrap();
    assert!(sent <= 1 << 10, "{sent}");
    assert!(matches!(end, End::Bye(ByeReason::Protocol, text) if text.contains("more parts")));
}
