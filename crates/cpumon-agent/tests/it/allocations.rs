//! Sampler, differ, encoder and sender together allocate nothing once their buffers have grown.

use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cpumon_agent::{Agent, Sampler, SamplerOptions, Settings};
use cpumon_collect::{CollectError, Source, SourceOptions};
use cpumon_link::Target;
use cpumon_model::{
    BootId, Comm, Counters, CpuSample, CpuTimes, Fields, HostId, HostInfo, Moment, ProcessInfo, ProcessKey,
    ProcessSample, Snapshot, SourceKind, ThreadKey, ThreadSample,
};

use crate::counting::allocations;

/// 100 processes of 20 threads; every tenth thread runs.
struct Steady {
    pass: u64,
    info: Arc<ProcessInfo>,
}

impl Source for Steady {
    fn snapshot(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
        into.clear();
        (into.host, into.boot) = (HostId([1; 16]), BootId([2; 16]));
        (into.sequence, into.is_complete) = (self.pass, true);
        into.fields = Fields::USER | Fields::SYSTEM | Fields::RUN | Fields::SWITCHES | Fields::CPUS;
        self.pass += 1;
        let at_ns = 1_000_000_000_000 + self.pass * 100_000_000;
        into.begin = Moment {
            mono_ns: at_ns,
            boot_ns: at_ns,
            wall_ns: 1_792_000_000_000_000_000 + at_ns.cast_signed(),
        };
        into.end = into.begin;
        let times = CpuTimes { user_ns: at_ns / 2, idle_ns: at_ns / 2, ..CpuTimes::default() };
        into.cpus.extend((0..2).map(|cpu| CpuSample { cpu, times, ..CpuSample::default() }));
        for pid in 1..=100 {
            let key = ProcessKey { pid: pid * 100, start_ns: u64::from(pid) * 1_000_000_000 };
            let info = Arc::clone(&self.info);
            let ended_threads = Counters::default();
            into.processes.push(ProcessSample { key, parent_pid: 1, info, ended_threads });
            for thread in 0..20 {
                let ran = if thread % 10 == 0 { self.pass * 1_234_567 } else { 5_000_000 };
                into.threads.push(ThreadSample {
                    key: ThreadKey { tid: key.pid + thread, start_ns: key.start_ns },
                    process: key,
                    comm: Comm::from("worker"),
                    counters: Counters { user_ns: ran, run_ns: ran, ..Counters::default() },
                    ..ThreadSample::default()
                });
            }
        }
        (into.thread_count, into.process_count) = (2000, 100);
        Ok(())
    }
}

fn steady_agent(v1: bool, group_key: Option<PathBuf>, to: &UdpSocket) -> Agent {
    let source = SourceOptions { interval: Duration::from_millis(100), ..SourceOptions::default() };
    let info = ProcessInfo { name: "steady".into(), comm: "steady".into(), ..ProcessInfo::default() };
    let steady = Box::new(Steady { pass: 0, info: Arc::new(info) });
    let sampler = Sampler::from_source(steady, SourceKind::Simulated, HostInfo::default(), &source);
    let settings = Settings {
        sampler: SamplerOptions { source, hostname: None, max_cpu: None },
        to: vec![Target::Unicast(to.local_addr().unwrap())],
        v1,
        group_key,
        pace: None,
        max_datagram: None,
        refresh: Some(4),
        count: None,
        connection: None,
        recording: None,
        flight: None,
    };
    Agent::with_sampler(sampler, &settings).unwrap()
}

fn allocations_in_a_steady_state(v1: bool, group_key: Option<PathBuf>) -> u64 {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut agent = steady_agent(v1, group_key, &sink);
    let stop = AtomicBool::new(false);
    for _growing in 0..12 {
        assert!(agent.step(&stop).unwrap());
    }
    let (before, sent) = (allocations(), agent.totals().sent);
    for _steady in 0..8 {
        agent.step(&stop).unwrap();
    }
    let counted = allocations() - before;
    assert!(agent.totals().sent.datagrams > sent.datagrams, "nothing was sent");
    assert_eq!(agent.totals().sent.errors, 0);
    counted
}

#[test]
fn frames_are_made_and_sent_without_allocating() {
    assert_eq!(allocations_in_a_steady_state(false, None), 0);
}

#[test]
fn frames_are_encrypted_without_allocating() {
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("group.keys");
    cpumon_link::group::add_key(&keys).unwrap();
    assert_eq!(allocations_in_a_steady_state(false, Some(keys)), 0);
}

#[test]
fn v1_sets_are_made_and_sent_without_allocating() {
    assert_eq!(allocations_in_a_steady_state(true, None), 0);
}

#[test]
fn the_counter_counts() {
    let before = allocations();
    let kept = std::hint::black_box(vec![0_u8; 100]);
    assert_eq!(allocations() - before, 1);
    drop(kept);
}
