//! [`MadeUp`]: a source whose threads run, begin and end by chance, seeded. In: a seed. Out: snapshots on real clocks, and the run
//! time of everything since the first one, so that the store can be checked.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use cpumon_collect::{CollectError, Source};
use cpumon_model::{
    BootId, Comm, Counters, ExitSample, Fields, HostId, Moment, ProcessInfo, ProcessKey, ProcessSample,
    Snapshot, SourceKind, TaskState, ThreadKey, ThreadSample,
};

pub const HOST: HostId = HostId([0xab; 16]);
const PROCESSES: u32 = 6;
const THREADS: u32 = 50;

/// See the module.
pub struct MadeUp {
    pub boot: BootId,
    random: u64,
    made: u64,
    /// The least time from one snapshot to the next, ns.
    step_ns: i64,
    now: Moment,
    threads: Vec<ThreadSample>,
    infos: Vec<Arc<ProcessInfo>>,
    exits: Vec<ExitSample>,
    exited_total: Counters,
    next_tid: u32,
    total_ns: Arc<Mutex<i64>>,
}

impl MadeUp {
    pub fn new(seed: u64, boot: BootId) -> Self {
        let info = |process: u32| {
            let name = format!("worker-{process}");
            Arc::new(ProcessInfo {
                name: name.as_str().into(),
                comm: name.as_str().into(),
                ..ProcessInfo::default()
            })
        };
        let mut made_up = Self {
            boot,
            random: seed,
            made: 0,
            step_ns: 1_000_000,
            now: Moment::default(),
            threads: Vec::new(),
            infos: (0..PROCESSES).map(info).collect(),
            exits: Vec::new(),
            exited_total: Counters::default(),
            next_tid: 1_000,
            total_ns: Arc::default(),
        };
        for process in 0..PROCESSES {
            for thread in 0..THREADS {
                made_up.begin_thread(process, 1 + u64::from(thread));
            }
        }
        made_up
    }

    /// Begins at this time, which must be in the future.
    pub fn at(mut self, wall_ns: i64) -> Self {
        self.now.wall_ns = wall_ns;
        self
    }

    /// Sets the distance of its snapshots, though they are made at once.
    pub fn every(mut self, step_ns: i64) -> Self {
        self.step_ns = step_ns;
        self
    }

    /// Run time since the first snapshot, ns.
    pub fn total(&self) -> Arc<Mutex<i64>> {
        Arc::clone(&self.total_ns)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    fn begin_thread(&mut self, process: u32, start_ns: u64) {
        let key = ProcessKey { pid: 100 + process, start_ns: 1 };
        self.next_tid += 1;
        self.threads.push(ThreadSample {
            key: ThreadKey { tid: self.next_tid, start_ns },
            process: key,
            comm: Comm::from(format!("t{}", self.next_tid % 7).as_str()),
            state: TaskState(b'S'),
            priority: 20,
            ..ThreadSample::default()
        });
    }

    /// Something happens, and the clocks go on.
    fn live(&mut self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let wall_ns = i64::try_from(since.as_nanos()).unwrap().max(self.now.wall_ns + self.step_ns);
        let mono_ns = wall_ns.unsigned_abs();
        self.now = Moment { mono_ns, boot_ns: mono_ns, wall_ns };
        self.exits.clear();
        if self.made == 0 {
            return;
        }
        if self.below(3) == 0 {
            let process = u32::try_from(self.below(u64::from(PROCESSES))).unwrap();
            self.begin_thread(process, mono_ns - 500);
        }
        for at in 0..self.threads.len() {
            if self.below(3) == 0 {
                let run_ns = 1 + self.below(400_000);
                let counters = &mut self.threads[at].counters;
                counters.run_ns += run_ns;
                counters.user_ns += run_ns / 3;
                counters.system_ns = counters.run_ns - counters.user_ns;
                *self.total_ns.lock().unwrap() += i64::try_from(run_ns).unwrap();
            }
        }
        if self.below(4) == 0 && self.threads.len() > 10 {
            let at = usize::try_from(self.below(self.threads.len() as u64)).unwrap();
            let thread = self.threads.remove(at);
            self.exited_total += &thread.counters;
            let info = Arc::clone(&self.infos[usize::try_from(thread.process.pid - 100).unwrap()]);
            let has_more = self.threads.iter().any(|other| other.process == thread.process);
            self.exits.push(ExitSample {
                thread,
                parent_pid: 1,
                info,
                end_ns: mono_ns - 100,
                ends_process: !has_more,
            });
        }
    }
}

impl Source for MadeUp {
    fn snapshot(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
        self.live();
        into.clear();
        (into.host, into.boot, into.sequence) = (HOST, self.boot, self.made);
        (into.source, into.fields) = (SourceKind::Simulated, Fields::all());
        (into.begin, into.end, into.is_complete) = (self.now, self.now, true);
        into.threads.extend_from_slice(&self.threads);
        into.exits.extend_from_slice(&self.exits);
        into.exited_total = self.exited_total;
        for (process, info) in (0..PROCESSES).zip(&self.infos) {
            let key = ProcessKey { pid: 100 + process, start_ns: 1 };
            if self.threads.iter().any(|thread| thread.process == key) {
                let info = Arc::clone(info);
                into.processes.push(ProcessSample {
                    key,
                    parent_pid: 1,
                    info,
                    ended_threads: Counters::default(),
                });
            }
        }
        into.thread_count = u32::try_from(into.threads.len()).unwrap();
        into.process_count = u32::try_from(into.processes.len()).unwrap();
        into.sort();
        self.made += 1;
        Ok(())
    }
}

/// Writes a log of made-up snapshots, as an agent does, but at once.
pub fn write_log(dir: &std::path::Path, snapshots: u64, max_bytes: u64) {
    write_log_of(MadeUp::new(5, BootId([1; 16])), "made-up", dir, snapshots, max_bytes);
}

/// Writes a log with this source and host name.
pub fn write_log_of(
    mut source: MadeUp,
    hostname: &str,
    dir: &std::path::Path,
    snapshots: u64,
    max_bytes: u64,
) {
    use cpumon_link::spool::{Spool, SpoolOptions, SyncPolicy};
    use cpumon_model::{HostInfo, Interval};
    use cpumon_wire::spool::Origin;
    use cpumon_wire::v2::{Encoder, EncoderOptions};
    let origin = Origin { host: HOST, boot: source.boot };
    let info = HostInfo { host: HOST, boot: source.boot, hostname: hostname.into(), ..HostInfo::default() };
    let options = SpoolOptions { max_bytes, sync: SyncPolicy::AtEnd, ..SpoolOptions::new(dir.into()) };
    let mut spool = Spool::open(&options, origin).unwrap();
    let options = EncoderOptions {
        max_datagram: 65_000,
        full_snapshots: 1,
        is_lossless: true,
        agent_start: std::fs::read_dir(dir).unwrap().count() as u64,
        ..EncoderOptions::default()
    };
    let mut encoder = Encoder::new(options);
    let (mut before, mut now) = (Snapshot::default(), Snapshot::default());
    let mut frames = cpumon_wire::Datagrams::new();
    for _ in 0..snapshots {
        source.snapshot(&mut now).unwrap();
        if spool.wants_full() {
            encoder.begin_again();
        }
        let is_full = encoder.is_next_full();
        encoder.encode(&info, &now, &Interval::between(&before, &now), &mut frames);
        assert_eq!(spool.append(now.end.wall_ns, is_full, frames.as_slice()), Ok(()));
        std::mem::swap(&mut before, &mut now);
    }
}
