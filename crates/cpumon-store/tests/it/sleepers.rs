//! Made-up threads that mostly sleep, and whose run, ready and blocked time make up the time that passes. Shared by the tests of the
//! receiver and of the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use cpumon_model::{
    BootId, Comm, Counters, CpuSample, ExitSample, Fields, HostId, HostInfo, Moment, ProcessInfo, ProcessKey,
    ProcessSample, SchedTimes, Snapshot, TaskState, ThreadKey, ThreadSample, WaitReason,
};

pub const SECOND_NS: u64 = 1_000_000_000;
pub const US: u64 = 1_000;
pub const FUTEX: WaitReason = WaitReason::syscall(202);
pub const NAP: WaitReason = WaitReason::syscall(230);
pub const REASONS: [WaitReason; 4] = [FUTEX, NAP, WaitReason::DISK, WaitReason::syscall(232)];

pub const HOST: HostId = HostId([5; 16]);
pub const BOOT: BootId = BootId([6; 16]);
/// 2026-11-21, less the thousand seconds that the host was up.
const START_NS: i64 = 1_795_219_200_000_000_000 - 1_000 * SECOND_NS.cast_signed();

/// What a thread does in a second in which it does not rest: it wakes in the middle, runs, waits for a CPU, and then waits for this.
#[derive(Clone, Copy, Debug)]
pub struct Second {
    pub run_us: u64,
    pub ready_us: u64,
    pub then: WaitReason,
    pub ends: bool,
}

/// A host whose threads of a script come to these times.
#[derive(Clone)]
pub struct Device {
    pub host: HostInfo,
    pub snapshot: Snapshot,
}

pub fn process_of(pid: u32) -> ProcessKey {
    ProcessKey { pid, start_ns: 5 * SECOND_NS }
}

fn moment(second: u64) -> Moment {
    let ns = (1_000 + second) * SECOND_NS;
    Moment { mono_ns: ns, boot_ns: ns, wall_ns: START_NS + ns.cast_signed() }
}

impl Device {
    /// A thread in each of these processes; all threads wait for a lock.
    pub fn new(pids: &[u32]) -> Self {
        let host = HostInfo { host: HOST, boot: BOOT, hostname: "sleepers".into(), ..HostInfo::default() };
        let mut snapshot = Snapshot {
            fields: Fields::FIRST_RELEASE | Fields::SCHED | Fields::WAITS,
            host: HOST,
            boot: BOOT,
            is_complete: true,
            begin: moment(0),
            end: moment(0),
            cpus: vec![CpuSample::default()],
            ..Snapshot::default()
        };
        for (tid, &pid) in (pids.len() as u64..).zip(pids) {
            let mut sched = SchedTimes { open_wait: FUTEX, blocked_ns: 9 * US, ..SchedTimes::default() };
            sched.waits.add(FUTEX, 9 * US);
            snapshot.threads.push(ThreadSample {
                key: ThreadKey { tid: 100 * pid + u32::try_from(tid).unwrap(), start_ns: 5 * SECOND_NS },
                process: process_of(pid),
                comm: Comm::from("sleeper"),
                state: TaskState(b'S'),
                sched,
                ..ThreadSample::default()
            });
        }
        let mut pids = pids.to_vec();
        pids.sort_unstable();
        pids.dedup();
        for pid in pids {
            let info = Arc::new(ProcessInfo { name: format!("p{pid}").into(), ..ProcessInfo::default() });
            snapshot.processes.push(ProcessSample { key: process_of(pid), info, ..ProcessSample::default() });
        }
        let mut device = Self { host, snapshot };
        device.count();
        device
    }

    fn count(&mut self) {
        self.snapshot.sort();
        self.snapshot.thread_count = u32::try_from(self.snapshot.threads.len()).unwrap();
        let processes = self.snapshot.processes.iter().filter(|row| row.key.pid > 0);
        self.snapshot.process_count = u32::try_from(processes.count()).unwrap();
    }

    /// The next second; threads whose `seconds` has nothing rest in it.
    pub fn step(&mut self, seconds: &BTreeMap<u32, Second>) {
        let snapshot = &mut self.snapshot;
        snapshot.sequence += 1;
        snapshot.exits.clear();
        (snapshot.begin, snapshot.end) = (moment(snapshot.sequence), moment(snapshot.sequence));
        for thread in &mut snapshot.threads {
            let Some(second) = seconds.get(&thread.key.tid) else {
                thread.sched.go_on_waiting(SECOND_NS);
                continue;
            };
            let half_ns = SECOND_NS / 2;
            thread.sched.go_on_waiting(half_ns);
            let Counters { run_ns, user_ns, run_delay_ns, voluntary_switches, .. } = &mut thread.counters;
            *run_ns += second.run_us * US;
            *user_ns += second.run_us * US;
            *run_delay_ns += second.ready_us * US;
            *voluntary_switches += 1;
            thread.sched.wakeups += 1;
            thread.sched.open_wait = second.then;
            thread.sched.go_on_waiting(half_ns - (second.run_us + second.ready_us) * US);
        }
        let has_ended =
            |thread: &ThreadSample| seconds.get(&thread.key.tid).is_some_and(|second| second.ends);
        let ended: Vec<ThreadSample> = snapshot.threads.extract_if(.., |thread| has_ended(thread)).collect();
        for mut thread in ended {
            let is_alive = |other: &ThreadSample| other.process == thread.process;
            let ends_process = !snapshot.threads.iter().any(is_alive);
            snapshot.processes.retain(|process| !ends_process || process.key != thread.process);
            thread.sched.open_wait = WaitReason::NONE;
            snapshot.exited_total += &thread.counters;
            let end_ns = snapshot.end.boot_ns - 1;
            snapshot.exits.push(ExitSample { thread, end_ns, ends_process, ..ExitSample::default() });
        }
        self.count();
    }
}
