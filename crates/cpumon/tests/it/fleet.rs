//! Devices on TLS connections in one process, on a clock that the test sets. In: moments. Out: snapshots of threads that
//! run a fixed share of the time, in a spool or on their way to a receiver; and the data that a store must have.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cpumon_link::Backlog;
use cpumon_link::spool::{Spool, SpoolOptions, SyncPolicy};
use cpumon_link::tls::{DeviceIdentity, Receiver, Uplink, UplinkOptions, UplinkStatus, enroll};
use cpumon_model::{
    BootId, Counters, HostId, HostInfo, Interval, Moment, ProcessKey, ProcessSample, Snapshot, SourceKind,
    ThreadKey, ThreadSample,
};
use cpumon_receiver::enrolment::Authority;
use cpumon_store::{Query, Reader};
use cpumon_wire::Datagrams;
use cpumon_wire::spool::Origin;
use cpumon_wire::v2::{Encoder, EncoderOptions};

/// A thread runs one ns of this many.
const SHARE: u64 = 50;
/// Enrolling: a receiver lets one address try ten times a second.
const BETWEEN_HANDSHAKES: Duration = Duration::from_millis(120);

/// Now, on the wall clock.
pub fn wall_now_ns() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

enum Waits {
    InSpool(Box<Spool>),
    OnItsWay(Uplink),
}

/// See the module.
pub struct Device {
    pub host: HostId,
    pub name: String,
    info: HostInfo,
    threads: u32,
    address: String,
    dir: PathBuf,
    encoder: Encoder,
    waits: Option<Waits>,
    before: Snapshot,
    now: Snapshot,
    /// Snapshots so far, and when the first and the last were made.
    pub made: u64,
    pub first_wall_ns: i64,
}

impl Device {
    /// Enrolled with the receiver of `state`; its snapshots wait in a spool.
    pub fn enroll(number: u8, dir: &Path, address: &str, state: &Path, threads: u32) -> Self {
        let (host, boot) = (HostId([number + 1; 16]), BootId([number + 100; 16]));
        let (name, dir) = (format!("device-{number}"), dir.join(number.to_string()));
        let token = Authority::open(state)
            .unwrap()
            .make_token(Duration::from_mins(1), &cpumon_receiver::enrolment::TokenScope::default())
            .unwrap();
        std::thread::sleep(BETWEEN_HANDSHAKES);
        enroll(&dir.join("keys"), address, &token, host.0, &name).unwrap();
        let options = SpoolOptions {
            sync: SyncPolicy::Every(Duration::from_secs(10)),
            ..SpoolOptions::new(dir.join("spool"))
        };
        let spool = Spool::open_backlog(&options, Origin { host, boot }).unwrap();
        let options = EncoderOptions {
            max_datagram: 65_000,
            full_snapshots: 1,
            is_lossless: true,
            agent_start: u64::from(number) + 1,
            ..EncoderOptions::default()
        };
        let info = HostInfo { host, boot, hostname: name.as_str().into(), ..HostInfo::default() };
        Self {
            host,
            name,
            info,
            threads,
            address: address.to_owned(),
            dir,
            encoder: Encoder::new(options),
            waits: Some(Waits::InSpool(Box::new(spool))),
            before: Snapshot::default(),
            now: Snapshot::default(),
            made: 0,
            first_wall_ns: 0,
        }
    }

    /// Takes a snapshot at a moment of the wall clock.
    pub fn snapshot(&mut self, wall_ns: i64) {
        self.made += 1;
        if self.made == 1 {
            self.first_wall_ns = wall_ns;
        }
        self.measure(wall_ns);
        let wants_full = match self.waits.as_ref().unwrap() {
            Waits::InSpool(spool) => Backlog::wants_full(&**spool),
            Waits::OnItsWay(uplink) => uplink.wants_full(),
        };
        if wants_full {
            self.encoder.begin_again();
        }
        let (is_full, mut frames) = (self.encoder.is_next_full(), Datagrams::new());
        let interval = Interval::between(&self.before, &self.now);
        self.encoder.encode(&self.info, &self.now, &interval, &mut frames);
        match self.waits.as_mut().unwrap() {
            Waits::InSpool(spool) => drop(Backlog::append(&mut **spool, is_full, wall_ns, &frames)),
            Waits::OnItsWay(uplink) => drop(uplink.append(is_full, wall_ns, &frames)),
        }
        std::mem::swap(&mut self.before, &mut self.now);
    }

    fn measure(&mut self, wall_ns: i64) {
        let (into, mono_ns) = (&mut self.now, wall_ns.unsigned_abs());
        into.clear();
        (into.host, into.boot, into.sequence, into.is_complete) =
            (self.info.host, self.info.boot, self.made, true);
        (into.source, into.fields) = (SourceKind::Simulated, cpumon_model::Fields::all());
        into.end = Moment { mono_ns, boot_ns: mono_ns, wall_ns };
        into.begin = into.end;
        let process = ProcessKey { pid: 1, start_ns: 1 };
        into.processes.push(ProcessSample { key: process, ..ProcessSample::default() });
        let run_ns = mono_ns / SHARE;
        let counters = Counters { run_ns, user_ns: run_ns, ..Counters::default() };
        into.threads.extend((1..=self.threads).map(|tid| ThreadSample {
            key: ThreadKey { tid, start_ns: 1 },
            process,
            counters,
            ..ThreadSample::default()
        }));
        (into.thread_count, into.process_count) = (self.threads, 1);
    }

    /// Connects to its receiver with its queue.
    pub fn connect(&mut self) {
        let Some(Waits::InSpool(spool)) = self.waits.take() else { panic!("connected already") };
        let identity = DeviceIdentity::find(&self.dir.join("keys"), &self.address).unwrap();
        let receivers = vec![Receiver { address: self.address.clone(), identity }];
        let options = UplinkOptions {
            receivers,
            host: self.host.0,
            agent: "test".to_owned(),
            boot: self.info.boot.0,
            clocks: || (wall_now_ns(), wall_now_ns().unsigned_abs()),
            ask: Vec::new(),
            attachments: None,
        };
        self.waits = Some(Waits::OnItsWay(Uplink::start(options, spool).unwrap()));
    }

    pub fn status(&self) -> UplinkStatus {
        match self.waits.as_ref().unwrap() {
            Waits::OnItsWay(uplink) => uplink.status(),
            Waits::InSpool(_) => panic!("not connected"),
        }
    }

    /// Waits until everything is acknowledged.
    pub fn drain(&self, limit: Duration) {
        let Some(Waits::OnItsWay(uplink)) = &self.waits else { panic!("not connected") };
        assert!(uplink.drain(limit), "{} not within {limit:?}: {:?}", self.name, uplink.status());
    }

    /// Each interval is in the store once, with its CPU time, and there is no hole.
    pub fn assert_all_stored(&self, store: &Path) {
        let reader = Reader::open(store).unwrap();
        let (mut ends, mut run_ns) = (std::collections::BTreeSet::new(), 0_i64);
        let mut reading = reader.intervals(&Query::new(self.host)).unwrap();
        while let Some(stored) = reading.read().unwrap() {
            let interval = &stored.interval;
            assert!(ends.insert(interval.end.wall_ns), "{}: stored twice", self.name);
            run_ns += interval.threads.iter().map(|row| row.delta.run_ns).sum::<i64>();
        }
        assert_eq!(ends.len() as u64, self.made - 1, "{}: intervals", self.name);
        let share = |wall_ns: i64| wall_ns / SHARE.cast_signed();
        let own_ns = (share(*ends.last().unwrap()) - share(self.first_wall_ns)) * i64::from(self.threads);
        assert_eq!(run_ns, own_ns, "{}: CPU time", self.name);
        let gaps = reader.gaps(self.host, cpumon_store::TimeRange::ALL, 10_000).unwrap();
        assert!(gaps.iter().all(|gap| gap.intervals == 0), "{}: {gaps:?}", self.name);
    }
}
