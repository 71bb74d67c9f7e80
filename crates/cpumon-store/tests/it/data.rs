//! Intervals for tests: made, not recorded, the same for the same seed.

use std::path::Path;
use std::sync::Arc;

use cpumon_model::{
    BootId, Comm, CpuInterval, CpuSched, CpuTimes, DelayOf, Delays, Delta, Fields, HostId, HostInfo,
    Interval, IrqInterval, Ledger, Life, LossCounts, Moment, Probes, ProcessInfo, ProcessInterval,
    ProcessKey, SchedDelta, SourceKind, TaskState, ThreadInterval, ThreadKey, Trust, WaitFor, WaitKind,
    WaitReason, WaitedOn,
};
use cpumon_store::{Reader, Writer};

/// Compacts everything fresh, whatever its age.
pub fn compact_all(writer: &mut Writer) {
    writer.commit().unwrap();
    for host in Reader::open(writer.path()).unwrap().hosts().unwrap() {
        writer.compact_host(host.info.host).unwrap();
    }
}

/// The number that a query over the store's own tables returns.
pub fn number(path: &Path, text: &str) -> i64 {
    rusqlite::Connection::open(path).unwrap().query_row(text, [], |row| row.get(0)).unwrap()
}

/// 2026-11-21 00:00:00 UTC.
pub const START_NS: i64 = 1_795_219_200_000_000_000;
pub const SECOND_NS: i64 = 1_000_000_000;

/// xorshift: enough for test data.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

pub fn host(number: u8) -> HostInfo {
    HostInfo {
        host: HostId([number; 16]),
        boot: BootId([number; 16]),
        hostname: format!("host-{number}").into(),
        kernel: "Linux 6.18.4".into(),
        arch: "x86_64".into(),
        agent: "test".into(),
        source_reason: "made up".into(),
        cpu_count: 2,
        interval_ns: 1_000_000_000,
    }
}

pub fn loss(number: u64) -> LossCounts {
    LossCounts { datagrams: number, bytes: number * 1000, snapshots: number, ..LossCounts::default() }
}

fn moment(at_ns: i64) -> Moment {
    let since_start = u64::try_from(at_ns - START_NS).unwrap();
    Moment { mono_ns: 5_000_000_000 + since_start, boot_ns: 7_000_000_000 + since_start, wall_ns: at_ns }
}

fn process(index: u32) -> (ProcessKey, Arc<ProcessInfo>) {
    let key = ProcessKey { pid: 100 + index * 10, start_ns: 1_000_000 * u64::from(index + 1) };
    let info = ProcessInfo {
        name: format!("program-{index}").into(),
        comm: format!("program-{index}").into(),
        cgroup: "/system.slice".into(),
        uid: 1000,
        ..ProcessInfo::default()
    };
    (key, Arc::new(info))
}

/// `count` intervals of one second: `threads` threads in a quarter as many processes, about a third of the threads active.
pub fn day(info: &HostInfo, seed: u64, count: u32, threads: u32) -> Vec<Interval> {
    let mut random = Random::new(seed);
    let processes: Vec<_> = (0..threads.div_ceil(4)).map(process).collect();
    (0..count).map(|number| interval(info, &mut random, &processes, number, threads)).collect()
}

fn interval(
    info: &HostInfo,
    random: &mut Random,
    processes: &[(ProcessKey, Arc<ProcessInfo>)],
    number: u32,
    threads: u32,
) -> Interval {
    let begin_ns = START_NS + i64::from(number) * SECOND_NS;
    let mut interval = Interval {
        host: info.host,
        boot: info.boot,
        sequence: u64::from(number),
        source: SourceKind::Simulated,
        fields: Fields::FIRST_RELEASE,
        begin: moment(begin_ns),
        end: moment(begin_ns + SECOND_NS),
        pass_ns: 900_000 + random.below(100_000),
        thread_count: threads,
        process_count: u32::try_from(processes.len()).unwrap(),
        ..Interval::default()
    };
    for (index, (key, process)) in processes.iter().enumerate() {
        let mut row = ProcessInterval {
            key: *key,
            parent_pid: 1,
            info: Arc::clone(process),
            thread_rows: 4,
            ..ProcessInterval::default()
        };
        for thread in 0..4_u32 {
            let thread = thread_row(random, *key, u32::try_from(index).unwrap(), thread);
            row.delta += &thread.delta;
            interval.threads.push(thread);
        }
        interval.processes.push(row);
    }
    let run_ns: i64 = interval.processes.iter().map(|row| row.delta.run_ns).sum();
    interval.ledger = Ledger {
        capacity_ns: 2 * SECOND_NS,
        threads_ns: run_ns,
        idle_ns: 2 * SECOND_NS - run_ns,
        ..Ledger::default()
    };
    let idle_ns = random.below(100) * 10_000_000;
    interval.cpus = (0..2)
        .map(|cpu| CpuInterval {
            cpu,
            times: CpuTimes { idle_ns, user_ns: 1_000_000_000 - idle_ns, ..CpuTimes::default() },
            ..CpuInterval::default()
        })
        .collect();
    interval
}

fn thread_row(random: &mut Random, process: ProcessKey, index: u32, thread: u32) -> ThreadInterval {
    let is_active = random.below(3) == 0;
    let user_ns = i64::try_from(random.below(3_000_000)).unwrap();
    let system_ns = i64::try_from(random.below(800_000)).unwrap();
    let active = Delta {
        user_ns,
        system_ns,
        run_ns: user_ns + system_ns,
        run_delay_ns: i64::try_from(random.below(200_000)).unwrap(),
        voluntary_switches: i64::try_from(random.below(60)).unwrap(),
        involuntary_switches: i64::try_from(random.below(4)).unwrap(),
        ..Delta::default()
    };
    ThreadInterval {
        key: ThreadKey { tid: process.pid + thread, start_ns: process.start_ns + u64::from(thread) },
        process,
        comm: Comm::from(format!("t{index}-{thread}").as_str()),
        state: TaskState(b"SR"[usize::from(random.below(9) == 0)]),
        priority: 20,
        last_cpu: u16::try_from(random.below(2)).unwrap(),
        delta: if is_active { active } else { Delta::default() },
        ..ThreadInterval::default()
    }
}

/// Adds scheduler and interrupt events, in whole µs.
pub fn add_sched(day: &mut [Interval]) {
    let mut random = Random::new(77);
    for interval in day {
        interval.fields |= Fields::SCHED | Fields::WAITS | Fields::IRQ;
        for process in &mut interval.processes {
            process.sched = SchedDelta::default();
        }
        for row in &mut interval.threads {
            row.sched = sched(&mut random);
            if let Ok(at) = interval.processes.binary_search_by_key(&row.process, |process| process.key)
                && !row.delta.is_zero()
            {
                interval.processes[at].sched += &row.sched;
            }
        }
        for cpu in &mut interval.cpus {
            cpu.sched = CpuSched {
                unknown_ns: random.below(9_000),
                run_queue_ns: random.below(3_000_000_000),
                run_queue_max: 1 + u32::try_from(random.below(7)).unwrap(),
                switches: random.below(5_000),
                softirq_ns: [0, random.below(1 << 20), 0, random.below(1 << 22), 0, 0, 0, 5, 0, 0],
            };
        }
        interval.ledger.unknown_ns =
            interval.cpus.iter().map(|cpu| cpu.sched.unknown_ns).sum::<u64>().cast_signed();
        interval.health.sched_missed_switches = 3;
        interval.health.probes = Probes::SCHED | Probes::WAITS | Probes::IRQ;
        interval.irqs = [(25, "virtio0-input.0"), (1 << 16, "timer")]
            .map(|(irq, name)| IrqInterval {
                irq,
                name: name.into(),
                time_ns: random.below(1 << 24),
                count: 1 + random.below(999),
            })
            .into();
    }
}

/// Adds run-delay histograms: of both CPUs, of the processes that have some, of the first thread of each, and of a process
/// and a thread that did nothing else.
pub fn add_delays(day: &mut [Interval]) {
    let mut random = Random::new(78);
    for interval in day {
        interval.fields |= Fields::HISTOGRAMS;
        interval.health.probes |= Probes::HISTOGRAMS;
        interval.health.histogram_drops = 5;
        let mut owners: Vec<DelayOf> = interval.cpus.iter().map(|cpu| DelayOf::Cpu(cpu.cpu)).collect();
        let idle = interval.threads.iter().find(|row| row.delta.is_zero());
        owners.extend(idle.map(|row| DelayOf::Thread(row.process, row.key)));
        owners.extend(idle.map(|row| DelayOf::Process(row.process)));
        for row in
            interval.threads.iter().filter(|row| !row.delta.is_zero() && row.key.tid == row.process.pid)
        {
            owners.extend([DelayOf::Process(row.process), DelayOf::Thread(row.process, row.key)]);
        }
        owners.sort_unstable();
        owners.dedup();
        let mut histogram = || {
            let counts = (0..=random.below(6))
                .map(|_| (u8::try_from(random.below(256)).unwrap(), 1 + random.below(90)));
            Arc::new(counts.collect())
        };
        interval.delays = owners.into_iter().map(|of| Delays { of, histogram: histogram() }).collect();
    }
}

/// Events that found no space.
pub fn add_drops(day: &mut [Interval]) {
    for interval in day {
        interval.health.ring_drops = 6;
        (interval.health.execs_lost, interval.health.endings_lost, interval.health.cuts_lost) = (1, 2, 3);
        interval.health.hidden_left_out = 9;
        interval.health.wakeups_unknown = 4;
    }
}

fn sched(random: &mut Random) -> SchedDelta {
    let main = [202, 232, 7].map(WaitReason::syscall)[usize::try_from(random.below(3)).unwrap()];
    let mut sched = SchedDelta {
        delay_after_wakeup_ns: i64::try_from(random.below(90)).unwrap() * 1_000,
        wakeups: i64::try_from(random.below(60)).unwrap(),
        migrations: i64::try_from(random.below(3)).unwrap(),
        longest_delay_ns: i64::try_from(random.below(5_000)).unwrap() * 1_000,
        open_wait: main,
        ..SchedDelta::default()
    };
    sched.waits.add(main, (900_000 + random.below(99_000)) * 1_000);
    if random.below(4) == 0 {
        sched.waits.add(WaitReason::DISK, (1 + random.below(9_000)) * 1_000);
    }
    sched.blocked_ns = sched.waits.total_ns().cast_signed();
    sched
}

/// What a store gives back of an interval without the threads that rest: active rows, and the sums of these.
pub fn active(interval: &Interval) -> Interval {
    let mut active = active_rows(interval);
    // What ended waits for nothing.
    for row in active.threads.iter_mut().filter(|row| row.life.has_ended()) {
        row.sched.open_wait = WaitReason::NONE;
    }
    for process in active.processes.iter_mut().filter(|_| interval.fields.contains(Fields::SCHED)) {
        process.sched = SchedDelta::default();
        for row in active.threads.iter().filter(|row| row.process == process.key) {
            process.sched += &row.sched;
        }
    }
    active.raise_longest_delays();
    active
}

/// The same of a store that was written before schema version 12: rows that did not run were left out of the sums.
pub fn active_before_12(interval: &Interval) -> Interval {
    let mut active = active_rows(interval);
    active.raise_longest_delays();
    active
}

fn active_rows(interval: &Interval) -> Interval {
    let mut active = Interval { trust: Some(Trust::Local), ..interval.clone() };
    let is_odd = |life: Life, flags: cpumon_model::Flags| life != Life::Alive || !flags.is_empty();
    let has_delays =
        |row: &ThreadInterval| interval.delays_of(DelayOf::Thread(row.process, row.key)).is_some();
    active.threads.retain(|row| !row.delta.is_zero() || is_odd(row.life, row.flags) || has_delays(row));
    let busy: Vec<ProcessKey> = active.threads.iter().map(|row| row.process).collect();
    let has_delays = |row: &ProcessInterval| interval.delays_of(DelayOf::Process(row.key)).is_some();
    active.processes.retain(|row| {
        !row.delta.is_zero() || is_odd(row.life, row.flags) || busy.contains(&row.key) || has_delays(row)
    });
    active
}

/// Scripts among the processes, and names of users.
pub fn add_names(day: &mut [Interval]) {
    for row in day.iter_mut().flat_map(|interval| &mut interval.processes) {
        let is_script = row.key.pid.is_multiple_of(20);
        let interpreter = if is_script { "python3.11".into() } else { Box::default() };
        row.info = Arc::new(ProcessInfo { interpreter, user: "ann".into(), ..ProcessInfo::clone(&row.info) });
    }
}

/// Sessions and base priorities, as processes of Windows have them.
pub fn add_sessions(day: &mut [Interval]) {
    for row in day.iter_mut().flat_map(|interval| &mut interval.processes) {
        let session = (row.key.pid % 2 == 0).then_some(row.key.pid % 3);
        let info =
            ProcessInfo { session, base_priority: session.map(|_| 8), ..ProcessInfo::clone(&row.info) };
        row.info = Arc::new(info);
    }
}

/// Product names of executables, as processes of Windows have them.
pub fn add_products(day: &mut [Interval]) {
    for row in day.iter_mut().flat_map(|interval| &mut interval.processes) {
        let product = if row.info.session.is_some() { "Größe® 3".into() } else { Box::default() };
        row.info = Arc::new(ProcessInfo { product, ..ProcessInfo::clone(&row.info) });
    }
}

/// Adds page faults, as a source reports them that counts them.
pub fn add_faults(day: &mut [Interval]) {
    let mut random = Random::new(19);
    for interval in day {
        interval.fields |= Fields::FAULTS;
        for row in interval.threads.iter_mut().filter(|row| row.delta.run_ns > 0) {
            row.delta.minor_faults = i64::try_from(random.below(9)).unwrap();
            row.delta.major_faults = i64::try_from(random.below(2)).unwrap();
        }
        for row in &mut interval.processes {
            let threads = interval.threads.iter().filter(|thread| thread.process == row.key);
            [row.delta.minor_faults, row.delta.major_faults] = [0, 0];
            for thread in threads {
                row.delta.minor_faults += thread.delta.minor_faults;
                row.delta.major_faults += thread.delta.major_faults;
            }
        }
    }
}

/// Adds waits by who ended them, in whole µs: four of each process, on another one, an interrupt, a thread of its own and others.
pub fn add_waits_for(day: &mut [Interval]) {
    let mut random = Random::new(20);
    let futex = WaitKind::Blocked(WaitReason::syscall(202));
    let kinds = [WaitKind::Ready, WaitKind::Throttled, WaitKind::Blocked(WaitReason::DISK), futex];
    for interval in day {
        interval.fields |= Fields::WAITS_FOR;
        interval.health.probes |= Probes::WAKERS;
        let keys = || interval.processes.iter().map(|row| row.key);
        let others = keys().cycle().skip(1);
        let rows = keys().zip(others).flat_map(|(waiter, other)| {
            let own = ThreadKey { tid: waiter.pid + 1, start_ns: waiter.start_ns + 1 };
            let on = [WaitedOn::Process(other), WaitedOn::Interrupt, WaitedOn::Thread(own), WaitedOn::Others];
            kinds.into_iter().zip(on).map(move |(kind, on)| WaitFor { waiter, kind, on, ns: 0, count: 0 })
        });
        let mut rows: Vec<WaitFor> = rows.collect();
        for row in &mut rows {
            (row.ns, row.count) = ((1_000 + random.below(50_000)) * 1_000, 1 + random.below(3));
        }
        interval.waits_for = rows;
    }
}

/// Adds a process of two threads to each interval that begins and ends inside it, and every third time one that lives into
/// the next interval.
pub fn add_short_lived(day: &mut [Interval]) {
    for at in 0..day.len() {
        let number = u32::try_from(at).unwrap();
        add_process(&mut day[at], number, Life::BornEnded);
        if at % 3 == 0 && at + 1 < day.len() {
            add_process(&mut day[at], 500_000 + number, Life::Born);
            add_process(&mut day[at + 1], 500_000 + number, Life::Ended);
        }
    }
    for interval in day {
        interval.processes.sort_by_key(|row| row.key);
        interval.threads.sort_by_key(|row| row.key);
    }
}

fn add_process(interval: &mut Interval, number: u32, life: Life) {
    let key =
        ProcessKey { pid: 10_000 + number * 4, start_ns: 9_000_000_000 + u64::from(number) * 7_654_321 };
    let (_, info) = process(number % 5);
    let delta = Delta { user_ns: 1000, run_ns: 1000, ..Delta::default() };
    let mut row =
        ProcessInterval { key, parent_pid: 100, info, thread_rows: 2, life, ..ProcessInterval::default() };
    for thread in 0..2_u32 {
        row.delta += &delta;
        interval.threads.push(ThreadInterval {
            key: ThreadKey { tid: key.pid + thread, start_ns: key.start_ns + u64::from(thread) * 1234 },
            process: key,
            comm: Comm::from(format!("worker-{}", number % 90).as_str()),
            priority: 20,
            delta,
            life,
            ..ThreadInterval::default()
        });
    }
    interval.processes.push(row);
}
