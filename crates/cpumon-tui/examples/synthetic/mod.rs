//! Made-up hosts: intervals that are always the same for the same number, and a [`Feed`] over them, for tests, snapshots and the
//! demo.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_model::{
    BootId, Comm, CpuInterval, CpuSched, CpuTimes, DelayHistogram, DelayOf, Delays, Delta, Fields, Flags,
    HostId, HostInfo, HostStatus, Interval, Life, Moment, Probes, ProcessInfo, ProcessInterval, ProcessKey,
    SchedDelta, SourceKind, TaskState, ThreadInterval, ThreadKey, Trust, WaitReason, delay_bucket,
};
use cpumon_query::Seek;
use cpumon_tui::{Feed, FeedError, HistoryPoint, Subject};

/// 2026-11-21 14:05:00 UTC.
pub const EPOCH_NS: i64 = 1_795_269_900_000_000_000;
const SECOND: i64 = 1_000_000_000;
const CPUS: u32 = 4;

/// Which machine.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Some dozen tasks.
    Normal,
    /// Names that try to break the screen.
    Hostile,
    /// Ten thousand threads.
    Many,
    /// A source that measures nothing but user and system time.
    NoFields,
}

/// pid, parent, name, threads, run time in permille of a CPU, uid, container.
type Spec = (u32, u32, &'static str, u32, i64, u32, &'static str);

const TASKS: [Spec; 14] = [
    (1, 0, "systemd", 1, 2, 0, ""),
    (2, 0, "kthreadd", 1, 0, 0, ""),
    (17, 2, "ksoftirqd/0", 1, 12, 0, ""),
    (23, 2, "kworker/1:2-events", 1, 3, 0, ""),
    (402, 1, "systemd-journald", 1, 8, 0, "systemd-journald.service"),
    (611, 1, "sshd", 1, 0, 0, "ssh.service"),
    (1204, 611, "sshd-session", 1, 1, 0, "ssh.service"),
    (1260, 1204, "bash", 1, 0, 1000, "session-4.scope"),
    (1711, 1260, "cargo", 4, 210, 1000, "session-4.scope"),
    (1733, 1711, "rustc", 6, 1430, 1000, "session-4.scope"),
    (1790, 1711, "rustc", 5, 640, 1000, "session-4.scope"),
    (2210, 1, "postgres", 1, 35, 113, "3f2a9c0d71be"),
    (2214, 2210, "postgres", 1, 122, 113, "3f2a9c0d71be"),
    (2215, 2210, "postgres", 1, 51, 113, "3f2a9c0d71be"),
];

const HOSTILE: [&str; 8] = [
    "evil\u{1b}[2J\u{1b}[31mname",
    "line\nbreak\ttab\r",
    "日本語のとても長いプログラム名",
    "e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}zalgo",
    "\u{202e}gpj.exe",
    "=cmd|' /C calc'!A0",
    "שלום עולם",
    "👩\u{200d}👩\u{200d}👧 family \u{fe0f}",
];

/// The host that a kind of machine is.
pub fn status(kind: Kind) -> HostStatus {
    let is_hostile = kind == Kind::Hostile;
    HostStatus {
        info: HostInfo {
            host: HostId([kind as u8 + 1; 16]),
            boot: BootId([9; 16]),
            hostname: if is_hostile { "evil\u{1b}]0;x\u{7}host" } else { "build-7" }.into(),
            kernel: "Linux 6.18.4".into(),
            arch: "x86_64".into(),
            agent: "cpumon 0.1.0".into(),
            source_reason: "bpf: permitted, so exits are seen".into(),
            cpu_count: CPUS,
            interval_ns: 1_000_000_000,
        },
        address: if is_hostile { "10.1.2.3:3001" } else { "" }.into(),
        trust: if is_hostile { Trust::Unauthenticated } else { Trust::Local },
        source: SourceKind::Bpf,
        loss: cpumon_model::LossCounts {
            snapshots_lost: if is_hostile { 3 } else { 0 },
            rejected: if is_hostile { 12 } else { 0 },
            ..cpumon_model::LossCounts::default()
        },
        ..HostStatus::default()
    }
}

/// The fields that the source of a kind of machine measures; the one with many processes has no scheduler events.
fn fields(kind: Kind) -> Fields {
    match kind {
        Kind::NoFields => Fields::USER | Fields::SYSTEM,
        Kind::Many => Fields::FIRST_RELEASE,
        _ => Fields::all(),
    }
}

/// The interval with this number.
pub fn interval(kind: Kind, number: u64) -> Interval {
    let begin = SECOND * i64::try_from(number).unwrap_or(0);
    let mut made = Interval {
        host: HostId([kind as u8 + 1; 16]),
        boot: BootId([9; 16]),
        sequence: number,
        source: if kind == Kind::NoFields { SourceKind::V1 } else { SourceKind::Bpf },
        fields: fields(kind),
        begin: moment(begin),
        end: moment(begin + SECOND),
        pass_ns: 1_870_000,
        ..Interval::default()
    };
    let specs: Vec<Spec> = match kind {
        Kind::Many => (0..2000).map(|n| (100 + n * 10, 1, "worker", 5, i64::from(n % 7), 1000, "")).collect(),
        Kind::Hostile => {
            (0..8).map(|n| (n + 10, 0, HOSTILE[n as usize], 2, 100 - i64::from(n), 0, "")).collect()
        }
        _ => TASKS.to_vec(),
    };
    for spec in &specs {
        push(&mut made, spec, number);
    }
    made.processes.sort_by_key(|row| row.key);
    made.threads.sort_by_key(|row| row.key);
    if kind != Kind::NoFields {
        balance_ledger(&mut made);
    }
    made.process_count = u32::try_from(made.processes.len()).unwrap_or(0);
    made.delays.sort_unstable_by_key(|row| row.of);
    made.thread_count = u32::try_from(made.threads.len()).unwrap_or(0);
    made.health.own_cpu_ns = 3_200_000 * number;
    made.health.own_rss_bytes = 7 << 20;
    made.health.probes = Probes::all();
    made
}

fn moment(after_ns: i64) -> Moment {
    let since_boot = 500_000_000_000 + u64::try_from(after_ns).unwrap_or(0);
    Moment { mono_ns: since_boot, boot_ns: since_boot, wall_ns: EPOCH_NS + after_ns }
}

/// Run time that goes up and down with the number of the interval.
fn wave(permille: i64, number: u64, shift: u32) -> i64 {
    let at = (number + u64::from(shift) * 7) % 40;
    let swing = if at < 20 { at } else { 40 - at };
    permille * 1_000_000 * (60 + 4 * i64::try_from(swing).unwrap_or(0)) / 100
}

fn push(made: &mut Interval, spec: &Spec, number: u64) {
    let &(pid, parent_pid, name, threads, permille, uid, container) = spec;
    let key = ProcessKey { pid, start_ns: 1_000_000 * u64::from(pid) };
    let (mut sum, mut sched_sum) = (Delta::default(), SchedDelta::default());
    for nth in 0..threads {
        // The first thread does half of the work, each further one half of the rest.
        let run_ns = wave(permille, number, pid) >> (nth + 1).min(10);
        let delta = Delta {
            user_ns: run_ns * 3 / 4,
            system_ns: run_ns / 4,
            run_ns,
            run_delay_ns: run_ns / 9,
            voluntary_switches: run_ns / 400_000,
            involuntary_switches: run_ns / 9_000_000,
            minor_faults: run_ns / 500_000,
            major_faults: run_ns / 90_000_000,
        };
        sum += &delta;
        if !delta.is_zero() {
            sched_sum += &sched(name, nth, &delta);
        }
        // One thread was selected.
        if (name, nth) == ("postgres", 0) {
            let of = DelayOf::Thread(key, ThreadKey { tid: pid, start_ns: key.start_ns });
            made.delays.push(Delays { of, histogram: delays(&delta, &sched(name, nth, &delta)) });
        }
        let comm = if nth == 0 { name.to_string() } else { format!("{name}-w{nth}") };
        made.threads.push(ThreadInterval {
            key: ThreadKey { tid: pid + nth, start_ns: key.start_ns + u64::from(nth) },
            process: key,
            comm: Comm::new(comm.as_bytes()),
            state: TaskState(if permille > 100 { b'R' } else { b'S' }),
            nice: if name == "cargo" { 5 } else { 0 },
            priority: 20,
            last_cpu: u16::try_from((pid + nth) % CPUS).unwrap_or(0),
            life: life(pid, nth),
            flags: if pid == 2215 { Flags::COUNTER_RESET } else { Flags::empty() },
            delta,
            sched: sched(name, nth, &delta),
        });
    }
    if sum.run_delay_ns > 0 {
        made.delays.push(Delays { of: DelayOf::Process(key), histogram: delays(&sum, &sched_sum) });
    }
    made.processes.push(ProcessInterval {
        key,
        parent_pid,
        info: Arc::new(ProcessInfo {
            name: name.into(),
            comm: name.into(),
            cmdline: format!("/usr/bin/{name} --flag value").into(),
            container: container.into(),
            uid,
            user: if uid == 1000 { "ada".into() } else { "".into() },
            is_kernel: pid == 2 || parent_pid == 2,
            ..ProcessInfo::default()
        }),
        thread_rows: threads,
        life: if pid == 1790 { Life::Ended } else { life(pid, 0) },
        flags: Flags::empty(),
        delta: sum,
        sched: sched_sum,
    });
}

/// Many short waits for a CPU and few long ones.
fn delays(delta: &Delta, sched: &SchedDelta) -> Arc<DelayHistogram> {
    let (all, longest) = (delta.run_delay_ns.unsigned_abs(), sched.longest_delay_ns.unsigned_abs());
    let counts = [(all / 900, 500), (all / 400, 90), (longest / 2, 8), (longest, 1)];
    Arc::new(counts.into_iter().map(|(ns, count)| (delay_bucket(ns.min(longest)), count)).collect())
}

/// A thread's waits while it did not run.
fn sched(name: &str, nth: u32, delta: &Delta) -> SchedDelta {
    let blocked_ns = (SECOND - delta.run_ns - delta.run_delay_ns).max(0);
    let calls = [202, 232, 7, 0, 61].map(WaitReason::syscall);
    let main = calls[(name.len() + nth as usize) % calls.len()];
    let disk_ns = if name.len().is_multiple_of(2) { blocked_ns.unsigned_abs() / 7 } else { 0 };
    SchedDelta {
        delay_after_wakeup_ns: delta.run_delay_ns / 3,
        blocked_ns,
        wakeups: delta.voluntary_switches,
        migrations: delta.voluntary_switches / 20,
        longest_delay_ns: delta.run_delay_ns / 5,
        waits: [(WaitReason::DISK, disk_ns), (main, blocked_ns.unsigned_abs() - disk_ns)]
            .into_iter()
            .collect(),
        open_wait: if delta.run_ns > SECOND / 10 { WaitReason::NONE } else { main },
    }
}

fn life(pid: u32, nth: u32) -> Life {
    match (pid, nth) {
        (1790, _) => Life::Ended,
        (2214, _) | (1733, 5) => Life::Born,
        (1711, 3) => Life::BornEnded,
        _ => Life::Alive,
    }
}

/// CPUs and ledger that fit the rows.
fn balance_ledger(made: &mut Interval) {
    let run = |ended: bool| {
        let is_ended = |life: Life| matches!(life, Life::Ended | Life::BornEnded);
        let rows = made.threads.iter().filter(move |row| is_ended(row.life) == ended);
        rows.map(|row| row.delta.run_ns).sum::<i64>()
    };
    let ledger = &mut made.ledger;
    (ledger.threads_ns, ledger.exited_ns) = (run(false), run(true));
    ledger.capacity_ns = SECOND * i64::from(CPUS);
    (ledger.irq_ns, ledger.softirq_ns, ledger.steal_ns) = (4_000_000, 16_000_000, 20_000_000);
    let booked = ledger.threads_ns + ledger.exited_ns + 40_000_000;
    ledger.idle_ns = (ledger.capacity_ns - booked - 1_200_000).max(0);
    ledger.unknown_ns = 100_000 * i64::from(CPUS);
    for cpu in 0..CPUS {
        let busy =
            u64::try_from((ledger.threads_ns + ledger.exited_ns) / 10 * i64::from(cpu + 1)).unwrap_or(0);
        made.cpus.push(CpuInterval {
            cpu,
            times: CpuTimes {
                user_ns: busy * 3 / 4,
                system_ns: busy / 4,
                irq_ns: 10_000_000,
                softirq_ns: 40_000_000,
                steal_ns: 50_000_000,
                iowait_ns: 30_000_000,
                idle_ns: 870_000_000_u64.saturating_sub(busy),
                ..CpuTimes::default()
            },
            sched: CpuSched {
                unknown_ns: 100_000,
                run_queue_ns: busy + busy / 4,
                run_queue_max: 2 + cpu,
                switches: 900,
                softirq_ns: [0, 5_000_000, 0, 20_000_000, 0, 0, 0, 10_000_000, 0, 5_000_000],
            },
            ..CpuInterval::default()
        });
    }
}

/// A feed of made-up intervals.
pub struct MadeUp {
    kind: Kind,
    every: Duration,
    next: u64,
    last: Option<Instant>,
    /// Hands out five intervals and then no more.
    pub is_silent: bool,
    /// Panics at this interval, so that a test can see the terminal restored.
    pub panics_at: Option<u64>,
    /// Overrides the source of its kind.
    pub source: Option<SourceKind>,
    /// Overrides the user of all processes.
    pub uid: Option<u32>,
    /// Exits that its agent lost.
    pub exits_lost: u64,
}

impl MadeUp {
    /// One second of the machine every `every`.
    pub fn new(kind: Kind, every: Duration) -> Self {
        Self {
            kind,
            every,
            next: 100,
            last: None,
            is_silent: false,
            panics_at: None,
            source: None,
            uid: None,
            exits_lost: 0,
        }
    }
}

impl Feed for MadeUp {
    fn title(&self) -> String {
        "made up".into()
    }

    fn hosts(&self) -> Vec<HostStatus> {
        [Kind::Normal, Kind::Hostile, Kind::Many, Kind::NoFields].map(status).into()
    }

    fn host(&self) -> Option<HostId> {
        Some(status(self.kind).info.host)
    }

    fn select(&mut self, host: HostId) {
        let kinds = [Kind::Normal, Kind::Hostile, Kind::Many, Kind::NoFields];
        self.kind = kinds.into_iter().find(|kind| status(*kind).info.host == host).unwrap_or(self.kind);
        self.last = None;
    }

    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
        let is_early = self.last.is_some_and(|last| last.elapsed() < self.every);
        if is_early || (self.is_silent && self.next >= 105) {
            return Ok(None);
        }
        assert!(self.panics_at != Some(self.next - 100), "made-up panic");
        self.last = Some(Instant::now());
        self.next += 1;
        let mut made = interval(self.kind, self.next - 1);
        made.source = self.source.unwrap_or(made.source);
        made.health.exits_lost = self.exits_lost;
        for process in made.processes.iter_mut().filter(|_| self.uid.is_some()) {
            let uid = self.uid.unwrap_or(process.info.uid);
            process.info = Arc::new(ProcessInfo { uid, user: "".into(), ..(*process.info).clone() });
        }
        Ok(Some(Arc::new(made)))
    }

    fn age(&self) -> Option<Duration> {
        self.last.map(|last| last.elapsed())
    }

    fn seek(&mut self, to: Seek) -> Result<Option<Arc<Interval>>, FeedError> {
        let number = |wall_ns: i64| (wall_ns - EPOCH_NS) / SECOND;
        let number = match to {
            Seek::At(wall_ns) => number(wall_ns - 1),
            Seek::Before(wall_ns) => number(wall_ns - 1) - 1,
            Seek::After(wall_ns) => number(wall_ns.max(EPOCH_NS)),
        };
        let number = u64::try_from(number).ok().filter(|number| *number < self.next);
        Ok(number.map(|number| Arc::new(interval(self.kind, number))))
    }

    fn history(&mut self, of: Subject, wall_ns: Range<i64>) -> Result<Option<Vec<HistoryPoint>>, FeedError> {
        let point = |number: u64| HistoryPoint::of(&interval(self.kind, number), of);
        let points = (0..self.next.min(400)).map(point);
        Ok(Some(points.filter(|point| wall_ns.contains(&point.end_wall_ns)).collect()))
    }
}
