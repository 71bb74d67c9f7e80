//! A v1 set has all processes, the idle ones included, even if the pace allows fewer in one interval.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cpumon_agent::{Agent, Sampler, SamplerOptions, Settings};
use cpumon_collect::{CollectError, Source, SourceOptions};
use cpumon_link::Target;
use cpumon_model::{
    BootId, Counters, Fields, HostId, HostInfo, Moment, ProcessInfo, ProcessKey, ProcessSample, Snapshot,
    SourceKind, ThreadKey, ThreadSample,
};

const PROCESSES: u32 = 450;

/// Idle processes of one thread each.
struct Idle {
    pass: u64,
    info: Arc<ProcessInfo>,
}

impl Source for Idle {
    fn snapshot(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
        into.clear();
        (into.host, into.boot) = (HostId([1; 16]), BootId([2; 16]));
        (into.sequence, into.is_complete) = (self.pass, true);
        into.fields = Fields::USER | Fields::SYSTEM | Fields::RUN;
        self.pass += 1;
        let at_ns = 1_000_000_000_000 + self.pass * 500_000_000;
        into.begin = Moment { mono_ns: at_ns, boot_ns: at_ns, wall_ns: at_ns.cast_signed() };
        into.end = into.begin;
        for pid in 1..=PROCESSES {
            let key = ProcessKey { pid, start_ns: u64::from(pid) };
            let (info, ended_threads) = (Arc::clone(&self.info), Counters::default());
            into.processes.push(ProcessSample { key, parent_pid: 1, info, ended_threads });
            into.threads.push(ThreadSample {
                key: ThreadKey { tid: pid, start_ns: key.start_ns },
                process: key,
                ..ThreadSample::default()
            });
        }
        (into.thread_count, into.process_count) = (PROCESSES, PROCESSES);
        Ok(())
    }
}

#[test]
fn a_set_of_450_idle_processes_is_sent_whole() {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    // With a pause of 2 ms each, a set takes longer than this; cpumon-link's tests say how pauses are cut.
    let source = SourceOptions { interval: Duration::from_millis(500), ..SourceOptions::default() };
    let idle = Box::new(Idle { pass: 0, info: Arc::default() });
    let sampler = Sampler::from_source(idle, SourceKind::Simulated, HostInfo::default(), &source);
    let settings = Settings {
        sampler: SamplerOptions { source, hostname: None, max_cpu: None },
        to: vec![Target::Unicast(sink.local_addr().unwrap())],
        v1: true,
        group_key: None,
        pace: Some(Duration::from_millis(2)),
        max_datagram: None,
        refresh: None,
        count: None,
        connection: None,
        recording: None,
        flight: None,
    };
    let mut agent = Agent::with_sampler(sampler, &settings).unwrap();
    for _pass in 0..5 {
        assert!(agent.step(&AtomicBool::new(false)).unwrap());
    }
    let totals = agent.totals();
    assert_eq!((totals.sent.datagrams, totals.sent.errors), (4 * (u64::from(PROCESSES) + 1), 0));
}
