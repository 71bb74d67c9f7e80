//! [`Scene`] makes intervals of one second of a machine with two CPUs. Times are ms a second.

use std::sync::Arc;

use cpumon_model::{
    CgroupInterval, CpuInterval, CpuLimit, CpuSched, CpuTimes, Delta, Fields, Flags, HostId, HostInfo,
    HostStatus, Interval, Ledger, Life, Moment, ProcessInfo, ProcessInterval, ProcessKey, TaskState,
    ThreadInterval, ThreadKey, Throttle, Trust, WaitFor, WaitKind, WaitReason, WaitedOn, syscall_number,
};
use cpumon_store::Segment;

use super::super::facts::Facts;
use super::super::part::WhyPart;
use super::super::subject::{self, FoundSubject};
use super::super::threads::ThreadSums;
use super::super::{Why, WhySubject, answer_of};
use crate::time::TimeRange;

pub(super) const MS: i64 = 1_000_000;
pub(super) const SECOND_NS: i64 = 1000 * MS;
pub(super) const BEGIN_NS: i64 = 1_800_000_000 * SECOND_NS;
/// Seconds of a scene.
pub(super) const SECONDS: i64 = 10;

/// What devices send that record for a long time.
pub(super) const USUAL: Fields =
    Fields::FIRST_RELEASE.union(Fields::FAULTS).union(Fields::CGROUPS).union(Fields::WAITS_FOR);

pub(super) fn key(pid: u32) -> ProcessKey {
    ProcessKey { pid, start_ns: 7 }
}

pub(super) fn on(pid: u32) -> WaitedOn {
    WaitedOn::Process(key(pid))
}

pub(super) fn thread_key(tid: u32) -> ThreadKey {
    ThreadKey { tid, start_ns: 7 }
}

pub(super) fn syscall(name: &str) -> WaitKind {
    WaitKind::Blocked(WaitReason::syscall(syscall_number(name).unwrap()))
}

/// A thread of a scene.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) tid: u32,
    pub(super) comm: &'static str,
    pub(super) run: i64,
    pub(super) ready: i64,
    pub(super) nice: i8,
    pub(super) priority: i16,
    /// The only CPU that it uses; `None`: one after the other.
    pub(super) cpu: Option<u16>,
    /// By its affinity.
    pub(super) has_one_cpu: bool,
    pub(super) state: u8,
    /// How often it goes to sleep.
    pub(super) sleeps: i64,
}

/// A process of a scene.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) pid: u32,
    pub(super) name: &'static str,
    pub(super) cgroup: &'static str,
    pub(super) threads: Vec<Made>,
    pub(super) system: i64,
    pub(super) switches: i64,
    pub(super) faults: i64,
    pub(super) began: bool,
    pub(super) is_kernel: bool,
    /// The second of ten in which it ends.
    pub(super) last: i64,
    pub(super) parent: u32,
}

/// A second of a machine.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) fields: Fields,
    pub(super) programs: Vec<Program>,
    pub(super) waits: Vec<WaitFor>,
    /// Name, parent, number and run time in µs of processes that began and ended.
    pub(super) short: Option<(&'static str, u32, u32, i64)>,
    /// Idle time of each CPU.
    pub(super) idle: [i64; 2],
    pub(super) softirq: i64,
    pub(super) steal: i64,
    /// Of each CPU the time in soft interrupts, and what the hypervisor took.
    pub(super) cpu_softirq: [i64; 2],
    pub(super) cpu_steal: [i64; 2],
    pub(super) limit: Option<CgroupInterval>,
}

impl Scene {
    /// A machine with nothing to do.
    pub(super) fn new() -> Self {
        Self {
            fields: USUAL,
            programs: Vec::new(),
            waits: Vec::new(),
            short: None,
            idle: [1000; 2],
            softirq: 0,
            steal: 0,
            cpu_softirq: [0; 2],
            cpu_steal: [0; 2],
            limit: None,
        }
    }

    /// A machine whose CPUs are never idle.
    pub(super) fn busy() -> Self {
        Self { idle: [0; 2], ..Self::new() }
    }

    /// Adds a process of one thread that runs and is ready for so long.
    pub(super) fn with(mut self, pid: u32, name: &'static str, run: i64, ready: i64) -> Self {
        let thread = Made {
            tid: pid,
            comm: name,
            run,
            ready,
            nice: 0,
            priority: 20,
            cpu: None,
            has_one_cpu: false,
            state: b'S',
            sleeps: 0,
        };
        self.programs.push(Program {
            pid,
            name,
            cgroup: "/",
            threads: vec![thread],
            system: 0,
            switches: 100,
            faults: 0,
            began: false,
            is_kernel: false,
            last: SECONDS,
            parent: 1_000,
        });
        self
    }

    /// Changes the process that was added last.
    pub(super) fn but(mut self, change: impl FnOnce(&mut Program)) -> Self {
        change(self.programs.last_mut().unwrap());
        self
    }

    /// Changes the only thread of the process that was added last.
    pub(super) fn whose_thread(self, change: impl FnOnce(&mut Made)) -> Self {
        self.but(|program| change(&mut program.threads[0]))
    }

    /// Adds waits of a process.
    pub(super) fn waits(mut self, pid: u32, kind: WaitKind, on: WaitedOn, ms: i64) -> Self {
        let ns = (ms * MS).unsigned_abs();
        self.waits.push(WaitFor { waiter: key(pid), kind, on, ns, count: 46 });
        self
    }

    fn processes(&self, second: i64) -> Vec<ProcessInterval> {
        let there = self.programs.iter().filter(|program| program.is_there(second));
        let mut all: Vec<ProcessInterval> = there.map(|program| program.row(second)).collect();
        if let Some((name, parent_pid, count, run_us)) = self.short {
            let info = Arc::new(ProcessInfo { name: name.into(), ..ProcessInfo::default() });
            all.extend((0..count).map(|nth| ProcessInterval {
                key: ProcessKey { pid: 50_000 + nth, start_ns: second.unsigned_abs() },
                parent_pid,
                info: Arc::clone(&info),
                life: Life::BornEnded,
                delta: Delta { run_ns: run_us * 1000, ..Delta::default() },
                ..ProcessInterval::default()
            }));
        }
        all.sort_by_key(|row| row.key);
        all
    }

    /// The interval of a second.
    pub(super) fn interval(&self, second: i64) -> Interval {
        let moment = |second: i64| Moment {
            mono_ns: (second * SECOND_NS).unsigned_abs(),
            boot_ns: (second * SECOND_NS).unsigned_abs(),
            wall_ns: BEGIN_NS + second * SECOND_NS,
        };
        let processes = self.processes(second);
        let run_ns: i64 = processes.iter().map(|row| row.delta.run_ns).sum();
        let ns = |ms: i64| (ms * MS).unsigned_abs();
        let cpu = |(at, idle): (usize, &i64)| CpuInterval {
            cpu: u32::try_from(at).unwrap(),
            times: CpuTimes {
                idle_ns: ns(*idle),
                softirq_ns: ns(self.cpu_softirq[at]),
                steal_ns: ns(self.cpu_steal[at]),
                user_ns: ns(1000 - *idle - self.cpu_softirq[at] - self.cpu_steal[at]),
                ..CpuTimes::default()
            },
            sched: CpuSched {
                softirq_ns: [0, 0, 0, ns(self.softirq) / 2, 0, 0, 0, 0, 0, 0],
                ..CpuSched::default()
            },
            ..CpuInterval::default()
        };
        let mut waits_for = self.waits.clone();
        waits_for.sort_unstable_by_key(WaitFor::key);
        Interval {
            host: HostId([6; 16]),
            sequence: (second + 100).unsigned_abs(),
            fields: self.fields,
            begin: moment(second - 1),
            end: moment(second),
            cpus: self.idle.iter().enumerate().map(cpu).collect(),
            ledger: Ledger {
                capacity_ns: 2 * SECOND_NS,
                threads_ns: run_ns,
                softirq_ns: self.softirq * MS,
                steal_ns: self.steal * MS,
                idle_ns: self.idle.iter().sum::<i64>() * MS,
                ..Ledger::default()
            },
            cgroups: self.limit.iter().cloned().collect(),
            threads: {
                let there = self.programs.iter().filter(|program| program.is_there(second));
                there.flat_map(|program| program.thread_rows(second)).collect()
            },
            waits_for,
            processes,
            ..Interval::default()
        }
    }

    pub(super) fn intervals(&self, from: i64) -> Vec<Interval> {
        (from + 1..=from + SECONDS).map(|second| self.interval(second)).collect()
    }
}

impl Program {
    fn is_there(&self, second: i64) -> bool {
        nth(second) <= self.last
    }

    fn row(&self, second: i64) -> ProcessInterval {
        let mut delta = Delta::default();
        self.thread_rows(second).iter().for_each(|row| delta += &row.delta);
        let info = ProcessInfo {
            name: self.name.into(),
            cgroup: self.cgroup.into(),
            is_kernel: self.is_kernel,
            uid: 1000,
            user: "ann".into(),
            ..ProcessInfo::default()
        };
        ProcessInterval {
            key: key(self.pid),
            parent_pid: self.parent,
            info: Arc::new(info),
            life: match (self.began && nth(second) == 1, nth(second) == self.last && self.last < SECONDS) {
                (true, true) => Life::BornEnded,
                (true, false) => Life::Born,
                (false, true) => Life::Ended,
                (false, false) => Life::Alive,
            },
            delta: Delta {
                system_ns: self.system * MS,
                voluntary_switches: self.switches,
                major_faults: self.faults,
                ..delta
            },
            ..ProcessInterval::default()
        }
    }

    fn thread_rows(&self, second: i64) -> Vec<ThreadInterval> {
        let row = |thread: &Made| ThreadInterval {
            key: thread_key(thread.tid),
            process: key(self.pid),
            comm: thread.comm.into(),
            state: TaskState(thread.state),
            nice: thread.nice,
            priority: thread.priority,
            last_cpu: thread.cpu.unwrap_or(u16::from(second % 2 == 0)),
            flags: if thread.has_one_cpu { Flags::ONE_CPU } else { Flags::empty() },
            delta: Delta {
                run_ns: thread.run * MS,
                run_delay_ns: thread.ready * MS,
                system_ns: self.system * MS,
                voluntary_switches: thread.sleeps,
                ..Delta::default()
            },
            ..ThreadInterval::default()
        };
        self.threads.iter().map(row).collect()
    }
}

/// The number of a second in its scene, from 1.
fn nth(second: i64) -> i64 {
    (second - 1) % SECONDS + 1
}

/// A limit of 0.2 CPUs of a group that is used up in every period.
pub(super) fn limit(path: &str, throttled: i64) -> CgroupInterval {
    CgroupInterval {
        path: path.into(),
        limit: CpuLimit::Millionths(200_000),
        limiter_bytes: u16::try_from(path.len()).unwrap(),
        throttle: Some(Throttle {
            periods: 10,
            throttled_periods: 10,
            throttled_ns: (throttled * MS).unsigned_abs(),
        }),
        ..CgroupInterval::default()
    }
}

pub(super) fn host() -> HostStatus {
    let info = HostInfo { host: HostId([6; 16]), hostname: "vm".into(), cpu_count: 2, ..HostInfo::default() };
    HostStatus { info, trust: Trust::Local, ..HostStatus::default() }
}

pub(super) fn part(intervals: &[Interval], from: i64) -> WhyPart {
    let since_ns = BEGIN_NS + from * SECOND_NS;
    let mut part = WhyPart::new(TimeRange { since_ns, until_ns: since_ns + SECONDS * SECOND_NS });
    for interval in intervals {
        part.add(&Segment::of(interval));
    }
    part.end();
    part
}

/// The answer of ten seconds of a scene, after ten seconds of another one.
pub(super) fn why_after(before: &Scene, now: &Scene, subject: &WhySubject) -> Why {
    why_of(&before.intervals(0), &now.intervals(SECONDS), subject)
}

/// The answer of the second ten seconds, after the first.
pub(super) fn why_of(before: &[Interval], now: &[Interval], subject: &WhySubject) -> Why {
    let parts = [part(before, 0), part(now, SECONDS)];
    let FoundSubject { rows, target } = subject::find(&parts, "vm", subject).unwrap();
    let mut threads = ThreadSums::default();
    for interval in now {
        threads.add(interval);
    }
    let [before, now] = &parts;
    answer_of(&host(), Facts::new(&target, &rows, now, Some(before), &threads), None)
}

/// The answer for program `shop`, which was the same before.
pub(super) fn why_shop(scene: &Scene) -> Why {
    why_after(scene, scene, &WhySubject::Named("shop".into()))
}
