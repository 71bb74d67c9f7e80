//! [`Machine`]: a made-up host whose threads run as real ones do. In: a seed. Out: complete snapshots, one after the other.
//! Why: sizes and rates must be measured on numbers as long as real ones; shared by tests and benches.

use std::sync::Arc;

use cpumon_model::{
    BootId, Comm, Counters, CpuSample, CpuSched, CpuTimes, ExitSample, Fields, HostId, HostInfo, IrqSample,
    Moment, ProcessInfo, ProcessKey, ProcessSample, SchedTimes, Snapshot, SourceKind, TaskState, ThreadKey,
    ThreadSample, WaitReason,
};

/// splitmix64: small, seeded, good enough for test data.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Log-uniform between two values: each order of magnitude as likely as another.
    pub fn log_between(&mut self, low: f64, high: f64) -> u64 {
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "both bounds are positive"
        )]
        let value = (low * (high / low).powf(unit)) as u64;
        value
    }
}

/// A made-up host.
#[derive(Clone, Debug)]
pub struct Machine {
    pub random: Random,
    pub host: HostInfo,
    pub snapshot: Snapshot,
    next_pid: u32,
    active: usize,
    /// Threads that end leave an exit record, as with BPF; else their time goes to their process, as with /proc.
    pub reports_exits: bool,
}

const SECOND: u64 = 1_000_000_000;

impl Machine {
    /// `processes` with together `threads` threads. In each interval `active` threads run, spread over the list.
    pub fn new(seed: u64, processes: usize, threads: usize, active: usize) -> Self {
        let mut random = Random(seed);
        let host = HostInfo {
            host: HostId(std::array::from_fn(|_| random.next().to_le_bytes()[0])),
            boot: BootId(std::array::from_fn(|_| random.next().to_le_bytes()[0])),
            hostname: "device-7".into(),
            kernel: "Linux 6.18.4".into(),
            arch: "x86_64".into(),
            agent: "cpumon-agent 0.1.0".into(),
            source_reason: "BPF task iterator".into(),
            cpu_count: 4,
            interval_ns: SECOND,
        };
        let boot_ns = 10 * 3_600 * SECOND;
        let mut snapshot = Snapshot {
            host: host.host,
            boot: host.boot,
            source: SourceKind::Bpf,
            fields: Fields::CARRIED,
            is_complete: true,
            begin: moment(boot_ns - 4_000_000),
            end: moment(boot_ns),
            cpus: (0..4)
                .map(|cpu| CpuSample { cpu, times: cpu_times(&mut random), sched: cpu_sched(&mut random) })
                .collect(),
            irqs: irqs(&mut random),
            ..Snapshot::default()
        };
        let mut machine =
            Self { random, host, next_pid: 300, active, reports_exits: true, snapshot: Snapshot::default() };
        let mut left = threads;
        // Process ids are given in the order of start.
        let mut start_ns = SECOND;
        for process in 0..processes {
            let share = left / (processes - process);
            start_ns += whole_us(machine.random.log_between(1e6, 1e12));
            machine.spawn(&mut snapshot, start_ns, share, aged_counters);
            left -= share;
        }
        snapshot.sort();
        machine.snapshot = snapshot;
        machine.count();
        machine
    }

    /// A process with its threads: most begin with it, a fifth at any time later.
    fn spawn(
        &mut self,
        snapshot: &mut Snapshot,
        start_ns: u64,
        threads: usize,
        counters: impl Fn(&mut Random) -> Counters,
    ) -> ProcessKey {
        self.next_pid += 1 + u32::try_from(self.random.below(40)).unwrap();
        let key = ProcessKey { pid: self.next_pid, start_ns };
        let name = format!("worker-{}", key.pid % 23);
        let info = ProcessInfo {
            name: name.as_str().into(),
            comm: name.as_str().into(),
            cgroup: format!("/system.slice/{name}.service").into(),
            container: format!("{name}.service").into(),
            uid: key.pid % 7,
            user: format!("user{}", key.pid % 7).into(),
            interpreter: if key.pid.is_multiple_of(3) { "python3.11".into() } else { "".into() },
            session: (!key.pid.is_multiple_of(3)).then_some(key.pid % 4),
            product: if key.pid.is_multiple_of(3) { "".into() } else { "Größe® 3".into() },
            base_priority: (!key.pid.is_multiple_of(3)).then_some(8),
            ..ProcessInfo::default()
        };
        let info = Arc::new(info);
        snapshot.processes.push(ProcessSample {
            key,
            parent_pid: 1,
            info,
            ended_threads: Counters::default(),
        });
        let mut thread_start = start_ns;
        for thread in 0..threads {
            let (tid, begun) = if thread == 0 {
                (key.pid, start_ns)
            } else {
                self.next_pid += 1;
                thread_start += whole_us(if self.random.one_in(5) {
                    self.random.log_between(1e8, 1e11)
                } else {
                    self.random.log_between(3e4, 4e5)
                });
                (self.next_pid, thread_start)
            };
            let random = &mut self.random;
            snapshot.threads.push(ThreadSample {
                key: ThreadKey { tid, start_ns: begun },
                process: key,
                comm: Comm::from(format!("{}/{}", &name[..6], tid % 16).as_str()),
                state: TaskState(b'S'),
                nice: 0,
                priority: 20,
                last_cpu: u16::try_from(random.below(4)).unwrap(),
                has_one_cpu: false,
                counters: counters(random),
                sched: sched(random),
            });
        }
        key
    }

    fn count(&mut self) {
        self.snapshot.thread_count = u32::try_from(self.snapshot.threads.len()).unwrap();
        self.snapshot.process_count = u32::try_from(self.snapshot.processes.len()).unwrap();
    }

    /// Removes the counters of the scheduler's and interrupts' events, as with a source that does not see them.
    pub fn forget_sched(&mut self) {
        let snapshot = &mut self.snapshot;
        snapshot.fields = Fields::FIRST_RELEASE;
        snapshot.irqs.clear();
        snapshot.threads.iter_mut().for_each(|thread| thread.sched = SchedTimes::default());
        snapshot.exits.iter_mut().for_each(|exit| exit.thread.sched = SchedTimes::default());
        snapshot.cpus.iter_mut().for_each(|cpu| cpu.sched = CpuSched::default());
    }

    /// A second in which nothing runs.
    pub fn idle(&mut self) {
        let snapshot = &mut self.snapshot;
        snapshot.sequence += 1;
        snapshot.exits.clear();
        let passed_ns = SECOND + self.random.below(1_000_000);
        let boot_ns = snapshot.end.boot_ns + passed_ns;
        snapshot.threads.iter_mut().for_each(|thread| thread.sched.go_on_waiting(passed_ns));
        (snapshot.begin, snapshot.end) = (moment(boot_ns - 4_000_000), moment(boot_ns));
    }

    /// The active threads run for one second.
    pub fn run(&mut self) {
        self.idle();
        let snapshot = &mut self.snapshot;
        for cpu in &mut snapshot.cpus {
            cpu.times.user_ns += 10_000_000 * self.random.below(60);
            cpu.times.idle_ns += 10_000_000 * self.random.below(60);
            if !snapshot.irqs.is_empty() {
                run_cpu_sched(&mut cpu.sched, &mut self.random);
            }
        }
        for irq in snapshot.irqs.iter_mut().take(4) {
            irq.time_ns += self.random.log_between(1e4, 1e7);
            irq.count += 1 + self.random.below(500);
        }
        let stride = (snapshot.threads.len() / self.active.max(1)).max(1);
        for thread in snapshot.threads.iter_mut().step_by(stride).take(self.active) {
            let run_ns = self.random.log_between(2e4, 3e8);
            let user_ns = (run_ns * self.random.below(100) / 100) / 1_000 * 1_000;
            let counters = &mut thread.counters;
            counters.run_ns += run_ns;
            counters.user_ns += user_ns;
            counters.system_ns = counters.run_ns - counters.user_ns;
            counters.run_delay_ns += self.random.log_between(1e3, 1e7);
            counters.voluntary_switches += 1 + self.random.below(200);
            counters.involuntary_switches += self.random.below(5);
            thread.last_cpu = u16::try_from(self.random.below(4)).unwrap();
            thread.state = TaskState(if self.random.one_in(20) { b'R' } else { b'S' });
            if !snapshot.irqs.is_empty() {
                run_sched(&mut thread.sched, &mut self.random);
            }
        }
    }

    /// `births` processes begin and `deaths` threads end in the interval just run; sometimes one more process does both.
    pub fn churn(&mut self, births: usize, deaths: usize) {
        let mut snapshot = std::mem::take(&mut self.snapshot);
        for _ in 0..births {
            let threads = 1 + usize::try_from(self.random.below(3)).unwrap();
            let start_ns = whole_us(snapshot.end.boot_ns - self.random.below(SECOND / 2));
            self.spawn(&mut snapshot, start_ns, threads, young_counters);
        }
        for _ in 0..deaths {
            if snapshot.threads.len() < 4 {
                break;
            }
            let at = usize::try_from(self.random.below(snapshot.threads.len() as u64)).unwrap();
            self.end_thread(&mut snapshot, at);
        }
        if deaths > 0 && self.random.one_in(3) {
            self.come_and_go(&mut snapshot);
        }
        snapshot.sort();
        self.snapshot = snapshot;
        self.count();
    }

    /// A process that begins and ends within the interval.
    fn come_and_go(&mut self, snapshot: &mut Snapshot) {
        let start_ns = whole_us(snapshot.end.boot_ns - SECOND / 3);
        self.spawn(snapshot, start_ns, 1, young_counters);
        self.end_thread(snapshot, snapshot.threads.len() - 1);
    }

    fn end_thread(&mut self, snapshot: &mut Snapshot, at: usize) {
        let mut thread = snapshot.threads.remove(at);
        let more_ns = self.random.below(1_000_000);
        thread.counters.run_ns += more_ns;
        thread.counters.system_ns += more_ns;
        snapshot.exited_total += &thread.counters;
        let process = snapshot.processes.iter().find(|process| process.key == thread.process).cloned();
        let info = process.map(|process| process.info).unwrap_or_default();
        let ends_process = !snapshot.threads.iter().any(|other| other.process == thread.process);
        if ends_process {
            snapshot.processes.retain(|process| process.key != thread.process);
        }
        if !self.reports_exits {
            if let Some(process) = snapshot.processes.iter_mut().find(|row| row.key == thread.process) {
                process.ended_threads += &thread.counters;
            }
            return;
        }
        let end_ns = snapshot.end.boot_ns - self.random.below(SECOND / 4);
        snapshot.exits.push(ExitSample { thread, parent_pid: 1, info, end_ns, ends_process });
    }
}

/// The resolution of start times in keys, as the BPF source reports them.
fn whole_us(ns: u64) -> u64 {
    ns / 1_000 * 1_000
}

fn moment(boot_ns: u64) -> Moment {
    Moment { mono_ns: boot_ns - 17, boot_ns, wall_ns: 1_795_000_000_000_000_000 + boot_ns.cast_signed() }
}

fn cpu_times(random: &mut Random) -> CpuTimes {
    CpuTimes::from_array(std::array::from_fn(|mode| {
        if mode < 7 { 10_000_000 * random.log_between(1.0, 3.6e6) } else { 0 }
    }))
}

/// Counters of a thread that has run for 1 s to 10 h: ns for the scheduler's clock, µs for the user share.
fn aged_counters(random: &mut Random) -> Counters {
    let run_ns = random.log_between(1e9, 3.6e13);
    let user_ns = if random.one_in(4) { 0 } else { run_ns / 100 * random.below(100) / 1_000 * 1_000 };
    Counters {
        user_ns,
        system_ns: run_ns - user_ns,
        run_ns,
        run_delay_ns: random.log_between(1e5, run_ns as f64 / 4.0),
        voluntary_switches: random.log_between(1.0, 5e6),
        involuntary_switches: random.log_between(1.0, 3e5),
        ..Counters::default()
    }
}

/// What a second with some work adds: wakeups, migrations, delays, and sometimes waits of up to 0.2 s for another reason than the open one.
fn run_sched(sched: &mut SchedTimes, random: &mut Random) {
    sched.wakeups += 1 + random.below(200);
    sched.migrations += random.below(4);
    sched.delay_after_wakeup_ns += random.log_between(1e3, 8e6);
    sched.longest_delay_ns = random.log_between(1e3, 5e6);
    let also = sched.waits.iter().find(|(reason, _)| *reason != sched.open_wait);
    if let Some((reason, _)) = also.filter(|_| random.one_in(2)) {
        let ns = random.log_between(1e4, 2e8);
        sched.waits.add(reason, ns);
        sched.blocked_ns += ns;
    }
}

/// One to four reasons to wait. The main one has 1 s to 10 h, each other up to 100 s.
fn sched(random: &mut Random) -> SchedTimes {
    let mains = [202, 232, 7, 230, 0].map(WaitReason::syscall);
    let others = [WaitReason::DISK, WaitReason::syscall(1), WaitReason::PAGE_FAULT];
    let main = mains[usize::try_from(random.below(5)).unwrap()];
    let mut sched = SchedTimes { open_wait: main, ..SchedTimes::default() };
    sched.waits.add(main, random.log_between(1e9, 3.6e13));
    for (other, one_in) in others.into_iter().zip([3, 5, 9]) {
        if random.one_in(one_in) {
            sched.waits.add(other, random.log_between(1e5, 1e11));
        }
    }
    sched.blocked_ns = sched.waits.total_ns();
    sched.wakeups = random.log_between(1.0, 5e6);
    sched.migrations = random.log_between(1.0, 1e5);
    sched.delay_after_wakeup_ns = random.log_between(1e5, 1e12);
    sched
}

/// Softirq kinds that occur on any machine: timer, `net_rx`, sched, rcu.
const SOFTIRQS: [usize; 4] = [1, 3, 7, 9];

fn cpu_sched(random: &mut Random) -> CpuSched {
    let mut sched = CpuSched {
        unknown_ns: random.log_between(1e3, 1e8),
        run_queue_ns: random.log_between(1e11, 1e14),
        run_queue_max: 3,
        switches: random.log_between(1e5, 1e9),
        ..CpuSched::default()
    };
    for kind in SOFTIRQS {
        sched.softirq_ns[kind] = random.log_between(1e8, 1e12);
    }
    sched
}

fn run_cpu_sched(sched: &mut CpuSched, random: &mut Random) {
    sched.run_queue_ns += random.log_between(1e8, 4e9);
    sched.run_queue_max = u32::try_from(random.below(9)).unwrap();
    sched.switches += random.log_between(1e2, 1e5);
    for kind in SOFTIRQS {
        sched.softirq_ns[kind] += random.log_between(1e5, 1e8);
    }
}

fn irqs(random: &mut Random) -> Vec<IrqSample> {
    let names = ["virtio0-input.0", "virtio0-output.0", "nvme0q1", "ACPI", "rtc0", "timer"];
    let lines = [25, 26, 30, 9, 8, 1 << 16].into_iter().zip(names);
    let mut irqs: Vec<_> = lines
        .map(|(irq, name)| IrqSample {
            irq,
            name: name.into(),
            time_ns: random.log_between(1e6, 1e11),
            count: random.log_between(1e2, 1e8),
        })
        .collect();
    irqs.sort_by_key(|irq| irq.irq);
    irqs
}

fn young_counters(random: &mut Random) -> Counters {
    let run_ns = random.log_between(1e5, 1e8);
    let user_ns = run_ns / 2_000 * 1_000;
    Counters {
        user_ns,
        system_ns: run_ns - user_ns,
        run_ns,
        run_delay_ns: random.below(1_000_000),
        voluntary_switches: random.below(20),
        involuntary_switches: random.below(3),
        ..Counters::default()
    }
}
