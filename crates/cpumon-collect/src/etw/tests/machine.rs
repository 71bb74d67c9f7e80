//! A machine whose events and lists the tests of this module make, as bytes.

use std::sync::Arc;

use cpumon_model::{
    Counters, CpuSample, CpuTimes, Fields, Interval, Moment, Probes, ProcessInfo, ProcessKey, ProcessSample,
    SchedTimes, Snapshot, SourceKind, TaskState, ThreadKey, ThreadSample, WaitReason,
};
use cpumon_sched::windows::{Provider, TickClock};

use crate::counting::allocations;
use crate::etw::{Record, SessionAccounts};

pub(super) const MS: u64 = 1_000_000;
/// Ticks of 100 ns: the usual counter of Windows.
const MS_TICKS: u64 = 10_000;
/// The session begins here, ms.
const BEGIN: u64 = 1_000;
pub(super) const USER_REQUEST: u8 = 6;
pub(super) const WAITING: u8 = 5;
pub(super) const READY: u8 = 1;
pub(super) const TERMINATED: u8 = 4;

pub(super) fn provider(first: [u8; 2]) -> Provider {
    let rest = [0x3d, 0x05, 0xfe, 0xd0, 0x11, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c];
    let mut all = [0; 16];
    (all[0], all[1], all[2]) = (first[0], first[1], 0x6f);
    all[3..].copy_from_slice(&rest);
    all
}

const PERF_INFO: Provider =
    [0xb4, 0xdf, 0x1d, 0xce, 0x7e, 0x13, 0xa6, 0x4d, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc];
pub(super) const LOST: Provider =
    [0xe0, 0x9a, 0x39, 0x6a, 0xc6, 0x4b, 0xe9, 0x4d, 0x87, 0x0b, 0x36, 0x57, 0xf8, 0x94, 0x7e, 0x7e];

/// A machine whose events and lists a test makes. Times are ms since the counter's zero.
pub(super) struct Machine {
    pub(super) session: SessionAccounts,
    probes: Probes,
    previous: Moment,
    pub(super) listed: Vec<(u32, Vec<(u32, u64)>)>,
    /// Bytes allocated by the session, without the test's.
    pub(super) allocated: u64,
}

fn moment(ms: u64) -> Moment {
    Moment { mono_ns: ms * MS, boot_ns: (ms + 50_000) * MS, wall_ns: 0 }
}

impl Machine {
    pub(super) fn new(cpus: u16, probes: Probes) -> Self {
        let clock = TickClock::new(MS_TICKS * 1_000, 0).unwrap();
        let session = SessionAccounts::new(clock, BEGIN * MS_TICKS, cpus);
        let listed = vec![(8, vec![(10, 0), (11, 0), (12, 0)]), (20, vec![(21, 0)])];
        Self { session, probes, previous: moment(BEGIN), listed, allocated: 0 }
    }

    pub(super) fn event(&mut self, (ms, cpu): (u64, u16), provider: Provider, opcode: u8, payload: &[u8]) {
        let ticks = ms * MS_TICKS;
        let record = Record { ticks, cpu, provider, opcode, version: 4, pointer_bytes: 8, payload };
        let before = allocations();
        self.session.take(&record);
        self.allocated += allocations() - before;
    }

    pub(super) fn switch(&mut self, ms: u64, cpu: u16, (old, new): (u32, u32), (state, reason): (u8, u8)) {
        let mut payload = [new.to_le_bytes(), old.to_le_bytes()].concat();
        payload.extend([8, 8, 0, 0, reason, 0, state, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        self.event((ms, cpu), provider([0xd1, 0xa8]), 36, &payload);
    }

    pub(super) fn ready(&mut self, ms: u64, cpu: u16, tid: u32) {
        let payload = [tid.to_le_bytes(), [0; 4]].concat();
        self.event((ms, cpu), provider([0xd1, 0xa8]), 50, &payload);
    }

    /// A deferred procedure call (opcode 68) or an interrupt with vector 0x91 (67).
    pub(super) fn interrupt(&mut self, (began, ended): (u64, u64), cpu: u16, opcode: u8) {
        let mut payload = (began * MS_TICKS).to_le_bytes().to_vec();
        payload.extend([0; 9]);
        payload.extend([0x91, 0, 0]);
        self.event((ended, cpu), PERF_INFO, opcode, &payload);
    }

    /// 1: begins, 2: ends, 3: was there.
    pub(super) fn thread(&mut self, ms: u64, opcode: u8, pid: u32, tid: u32) {
        let mut payload = [pid.to_le_bytes(), tid.to_le_bytes()].concat();
        payload.resize(8 + 7 * 8 + 8, 0);
        self.event((ms, 0), provider([0xd1, 0xa8]), opcode, &payload);
    }

    pub(super) fn process(&mut self, ms: u64, opcode: u8, pid: u32, name: &str) {
        let mut payload = vec![0; 8];
        payload.extend([pid, 8, 0, 0].into_iter().flat_map(u32::to_le_bytes));
        // Pages, flags, no user.
        payload.extend([0; 16]);
        payload.extend(name.bytes());
        payload.extend([0; 3]);
        self.event((ms, 0), provider([0xd0, 0xa8]), opcode, &payload);
    }

    /// The lists of the system, read a little after `ms`, completed.
    pub(super) fn pass(&mut self, ms: u64) -> Snapshot {
        let mut into = Snapshot::default();
        self.pass_into(ms, &mut into);
        into
    }

    pub(super) fn pass_into(&mut self, ms: u64, into: &mut Snapshot) {
        self.pass_beside(ms, into, &mut |_| ());
    }

    /// `meanwhile`: between the instant and the lists.
    pub(super) fn pass_beside(&mut self, ms: u64, into: &mut Snapshot, meanwhile: &mut dyn FnMut(&mut Self)) {
        into.clear();
        (into.source, into.is_complete) = (SourceKind::Nt, true);
        into.fields = Fields::USER | Fields::SYSTEM | Fields::RUN | Fields::CPUS;
        let at = moment(ms);
        let before = allocations();
        self.session.cut(at.mono_ns);
        self.allocated += allocations() - before;
        meanwhile(self);
        for (pid, threads) in &self.listed {
            let key = ProcessKey { pid: *pid, start_ns: u64::from(*pid) * 1_000 };
            let listed = into.processes.iter().find(|process| process.key == key);
            assert!(listed.is_none());
            into.processes.push(ProcessSample {
                key,
                parent_pid: 4,
                info: info(),
                ..ProcessSample::default()
            });
            into.threads.extend(threads.iter().map(|(tid, start_ms)| ThreadSample {
                key: ThreadKey { tid: *tid, start_ns: (start_ms * MS).max(u64::from(*tid) * 1_000) },
                process: key,
                comm: "listed".into(),
                state: TaskState(b'S'),
                priority: 8,
                // Ticks: two thirds in user mode.
                counters: Counters {
                    user_ns: 20 * MS,
                    system_ns: 10 * MS,
                    run_ns: 30 * MS,
                    ..Counters::default()
                },
                sched: SchedTimes { open_wait: WaitReason::windows(15), ..SchedTimes::default() },
                ..ThreadSample::default()
            }));
        }
        for cpu in 0..2 {
            let times = CpuTimes { user_ns: ms * MS / 2, system_ns: ms * MS / 2, ..CpuTimes::default() };
            into.cpus.push(CpuSample { cpu, times, ..CpuSample::default() });
        }
        (into.begin, into.end) = (at, at);
        let before = allocations();
        self.session.complete(at, self.previous, self.probes, into);
        self.allocated += allocations() - before;
        self.previous = at;
    }
}

fn info() -> Arc<ProcessInfo> {
    thread_local! {
        static INFO: Arc<ProcessInfo> = Arc::new(ProcessInfo { name: "listed.exe".into(), ..ProcessInfo::default() });
    }
    INFO.with(Arc::clone)
}

pub(super) const ALL: Probes = Probes::SCHED.union(Probes::WAITS).union(Probes::IRQ);

/// Run, ready and blocked time, switches (voluntary, involuntary) of a thread in an interval, ms.
pub(super) fn times(interval: &Interval, tid: u32) -> (i64, i64, i64, (i64, i64)) {
    let row = interval.threads.iter().find(|row| row.key.tid == tid).unwrap();
    let ms = |ns: i64| ns / MS.cast_signed();
    let delta = &row.delta;
    assert_eq!(delta.user_ns + delta.system_ns, delta.run_ns);
    let switches = (delta.voluntary_switches, delta.involuntary_switches);
    (ms(delta.run_ns), ms(delta.run_delay_ns), ms(row.sched.blocked_ns), switches)
}
