//! A store for the tests of the past: five minutes of a host without the third.

use cpumon_model::{
    CpuInterval, CpuSched, CpuTimes, DelayOf, Delays, Delta, Fields, HostId, HostInfo, Interval, Ledger,
    Life, Moment, ProcessInfo, ProcessInterval, ProcessKey, SchedDelta, ThreadInterval, ThreadKey, Trust,
    WaitReason, delay_bucket,
};
use cpumon_store::{Query, Reader, StoreOptions, Writer};
use serde_json::Value;

use super::tests::{Fake, ask_raw};
use super::*;

pub(super) const SECOND_NS: i64 = 1_000_000_000;
pub(super) const BEGIN_NS: i64 = 1_800_000_000 * SECOND_NS;

/// Blocked for 4 ms, half of this in futex, and a longest delay of 7 µs.
fn sched() -> SchedDelta {
    let waits = [(WaitReason::syscall(202), 2_000_000), (WaitReason::DISK, 2_000_000)].into_iter().collect();
    SchedDelta {
        blocked_ns: 4_000_000,
        wakeups: 3,
        longest_delay_ns: 100_000_000,
        waits,
        ..SchedDelta::default()
    }
}

/// One and a half tasks on average, three at once.
fn run_queue() -> CpuSched {
    CpuSched { run_queue_ns: 1_500_000_000, run_queue_max: 3, ..CpuSched::default() }
}

pub(super) fn interval(second: i64) -> Interval {
    let at = |second: i64| Moment {
        mono_ns: (second * SECOND_NS).unsigned_abs(),
        boot_ns: (second * SECOND_NS).unsigned_abs(),
        wall_ns: BEGIN_NS + second * SECOND_NS,
    };
    let delta = |run_ns| Delta { run_ns, user_ns: run_ns / 2, ..Delta::default() };
    let process = |pid, name: &str, run_ns| ProcessInterval {
        key: ProcessKey { pid, start_ns: 9 },
        parent_pid: 1,
        info: Arc::new(ProcessInfo { name: name.into(), ..ProcessInfo::default() }),
        delta: delta(run_ns),
        sched: sched(),
        thread_rows: 1,
        ..ProcessInterval::default()
    };
    let thread = |pid, tid, run_ns| ThreadInterval {
        key: ThreadKey { tid, start_ns: 9 },
        process: ProcessKey { pid, start_ns: 9 },
        comm: "worker".into(),
        delta: delta(run_ns),
        sched: sched(),
        ..ThreadInterval::default()
    };
    let mut processes = vec![process(10, "a,b", 100 + second), process(20, "web", 1000)];
    processes[1].thread_rows = 2;
    if second % 2 == 0 {
        let life = if second == 300 { Life::Ended } else { Life::Alive };
        processes.push(ProcessInterval { life, ..process(30, "web", 10) });
    }
    let mut threads = vec![thread(10, 10, 100 + second), thread(20, 20, 400), thread(20, 21, 600)];
    threads.extend((second % 2 == 0).then(|| thread(30, 30, 10)));
    // Now and then a single long run delay.
    let waited = if second % 10 == 0 { (delay_bucket(100_000_000), 1) } else { (delay_bucket(1_000_000), 9) };
    let delays = [DelayOf::Cpu(0), DelayOf::Process(processes[0].key)]
        .map(|of| Delays { of, histogram: Arc::new([waited].into_iter().collect()) });
    let times = CpuTimes { user_ns: 600_000_000, idle_ns: 400_000_000, ..CpuTimes::default() };
    Interval {
        host: HostId([8; 16]),
        sequence: second.unsigned_abs(),
        fields: Fields::USER
            | Fields::RUN
            | Fields::CPUS
            | Fields::SCHED
            | Fields::WAITS
            | Fields::HISTOGRAMS,
        source: cpumon_model::SourceKind::Bpf,
        begin: at(second - 1),
        end: at(second),
        cpus: vec![CpuInterval { times, sched: run_queue(), ..CpuInterval::default() }],
        ledger: Ledger {
            capacity_ns: SECOND_NS,
            threads_ns: 600_000_000,
            idle_ns: 400_000_000,
            ..Ledger::default()
        },
        delays: delays.into(),
        processes,
        threads,
        thread_count: 40 + u32::try_from(second % 7).unwrap(),
        ..Interval::default()
    }
}

pub(super) struct Stored {
    dir: tempfile::TempDir,
    intervals: Vec<Interval>,
}

impl Stored {
    /// `compacted`: the store has sums, too.
    pub(super) fn new(compacted: bool) -> Self {
        Self::made(compacted, interval)
    }

    /// With the interval that `make` gives for each second.
    pub(super) fn made(compacted: bool, make: impl Fn(i64) -> Interval) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(&dir.path().join("s.db"), &StoreOptions::default()).unwrap();
        let info =
            HostInfo { host: HostId([8; 16]), hostname: "past".into(), cpu_count: 1, ..HostInfo::default() };
        let intervals: Vec<Interval> =
            (1..=300).filter(|second| !(121..=180).contains(second)).map(make).collect();
        for interval in &intervals {
            writer.put(&info, Trust::Unauthenticated, None, interval).unwrap();
        }
        writer.commit().unwrap();
        if compacted {
            writer.compact_host(info.host).unwrap();
        }
        Self { dir, intervals }
    }

    pub(super) fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("s.db")
    }

    pub(super) fn router(&self) -> Router {
        let options = WebOptions { store: Some(self.path()), ..WebOptions::default() };
        router(Arc::new(Fake::default()), "127.0.0.1:1".parse().unwrap(), options)
    }

    pub(super) async fn get(&self, path: &str) -> (u16, Value) {
        let (status, _, body) = ask_raw(self.router(), path, "localhost").await;
        (status, serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{path}: {body:?}")))
    }

    /// The answer about the whole five minutes.
    pub(super) async fn of_all(&self, path: &str, query: &str) -> Value {
        let until = BEGIN_NS + 300 * SECOND_NS;
        let path = format!("/api/v1/hosts/past/{path}?since={BEGIN_NS}&until={until}&{query}");
        let (status, body) = self.get(&path).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub(super) fn run_ns(&self, pid: u32) -> i64 {
        let rows = self.intervals.iter().flat_map(|interval| &interval.processes);
        rows.filter(|row| row.key.pid == pid).map(|row| row.delta.run_ns).sum()
    }
}

#[test]
fn the_test_store_is_what_it_says() {
    let stored = Stored::new(true);
    let reader = Reader::open(&stored.path()).unwrap();
    let mut seen = 0;
    let mut reading = reader.intervals(&Query::new(HostId([8; 16]))).unwrap();
    while reading.read().unwrap().is_some() {
        seen += 1;
    }
    assert_eq!(seen, stored.intervals.len());
}
