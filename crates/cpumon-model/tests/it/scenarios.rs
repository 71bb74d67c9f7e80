//! Runs `tests/scenarios/*.toml` through `Interval::between`: two snapshots in, the expected rows and ledger out.
//! Times are ms. A task is written `id@start_ms`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use cpumon_model::{
    BootId, Comm, Counters, CpuSample, CpuSched, CpuTimes, ExitSample, Fields, Flags, Interval, IrqSample,
    Life, Moment, ProcessInfo, ProcessKey, ProcessSample, SchedDelta, SchedTimes, Snapshot, ThreadKey,
    ThreadSample, WaitReason, syscall_number,
};
use serde::Deserialize;

const MS: u64 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// What the scenario shows; printed when it fails.
    why: String,
    prev: Side,
    cur: Side,
    /// The expected text, as `render` writes it.
    expect: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Side {
    at_ms: u64,
    #[serde(default = "yes")]
    complete: bool,
    #[serde(default)]
    boot: u8,
    #[serde(default)]
    irq_in_run_time: bool,
    /// idle, steal, irq, softirq of each CPU, ms.
    #[serde(default)]
    cpus: Vec<[u64; 4]>,
    /// `pid@start name`, optionally ` ended=RUN` for the run time of its threads that ended without a row.
    #[serde(default)]
    processes: Vec<String>,
    /// `tid@start pid@start run user system delay voluntary involuntary`, shorter from the end, and `after_wakeup=MS`
    /// `wakeups=N` `migrations=N` `longest=MS` `REASON=MS` (of the time blocked) `open=REASON`.
    #[serde(default)]
    threads: Vec<String>,
    /// Like a thread; a trailing `!` means that the process ended too.
    #[serde(default)]
    exits: Vec<String>,
    /// unknown ms, run queue in task-ms, its maximum and switches of each CPU.
    #[serde(default)]
    queues: Vec<[u64; 4]>,
    /// `number name ms count`.
    #[serde(default)]
    irqs: Vec<String>,
    /// The scheduler's events are not measured.
    #[serde(default)]
    without_sched: bool,
    #[serde(default)]
    exits_lost: u64,
    #[serde(default)]
    exited_total_run: u64,
}

fn yes() -> bool {
    true
}

fn key(text: &str) -> (u32, u64) {
    let (id, start) = text.split_once('@').expect("id@start");
    (id.parse().expect("id"), start.parse::<u64>().expect("start") * MS)
}

fn thread(text: &str) -> ThreadSample {
    let mut words = text.split_whitespace().filter(|word| !word.contains('='));
    let (tid, start_ns) = key(words.next().expect("thread"));
    let (pid, process_start) = key(words.next().expect("process"));
    let mut number = || words.next().map_or(0, |word| word.parse::<u64>().expect("number"));
    let counters = Counters {
        run_ns: number() * MS,
        user_ns: number() * MS,
        system_ns: number() * MS,
        run_delay_ns: number() * MS,
        voluntary_switches: number(),
        involuntary_switches: number(),
        ..Counters::default()
    };
    ThreadSample {
        key: ThreadKey { tid, start_ns },
        process: ProcessKey { pid, start_ns: process_start },
        comm: Comm::from("t"),
        counters,
        sched: sched(text),
        ..ThreadSample::default()
    }
}

fn reason(name: &str) -> WaitReason {
    if name == "disk" { WaitReason::DISK } else { WaitReason::syscall(syscall_number(name).expect("reason")) }
}

fn sched(text: &str) -> SchedTimes {
    let mut sched = SchedTimes::default();
    for (name, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
        let number = || value.parse::<u64>().expect("number");
        match name {
            "after_wakeup" => sched.delay_after_wakeup_ns = number() * MS,
            "wakeups" => sched.wakeups = number(),
            "migrations" => sched.migrations = number(),
            "longest" => sched.longest_delay_ns = number() * MS,
            "open" => sched.open_wait = reason(value),
            name => {
                sched.waits.add(reason(name), number() * MS);
                sched.blocked_ns += number() * MS;
            }
        }
    }
    sched
}

fn irq(text: &str) -> IrqSample {
    let words: Vec<_> = text.split_whitespace().collect();
    let [line, name, ms, count] = words[..] else { panic!("number name ms count") };
    let number = |word: &str| word.parse::<u64>().expect("number");
    IrqSample {
        irq: u32::try_from(number(line)).expect("small"),
        name: name.into(),
        time_ns: number(ms) * MS,
        count: number(count),
    }
}

fn process(text: &str) -> ProcessSample {
    let mut words = text.split_whitespace();
    let (pid, start_ns) = key(words.next().expect("process"));
    let name = words.next().expect("name").into();
    let ended = words.next().map_or(0, |word| word.trim_start_matches("ended=").parse().expect("ended"));
    ProcessSample {
        key: ProcessKey { pid, start_ns },
        info: Arc::new(ProcessInfo { name, ..ProcessInfo::default() }),
        ended_threads: Counters { run_ns: ended * MS, ..Counters::default() },
        ..ProcessSample::default()
    }
}

fn exit(text: &str) -> ExitSample {
    let sample = thread(text.trim_end_matches('!').trim());
    let info = Arc::new(ProcessInfo { name: "exited".into(), ..ProcessInfo::default() });
    ExitSample { thread: sample, info, ends_process: text.ends_with('!'), ..ExitSample::default() }
}

fn snapshot(side: &Side) -> Snapshot {
    let at_ns = side.at_ms * MS;
    let moment = Moment { mono_ns: at_ns, boot_ns: at_ns, wall_ns: 0 };
    let cpu = |(cpu, [idle, steal, irq, softirq]): (usize, &[u64; 4])| CpuSample {
        cpu: u32::try_from(cpu).expect("few CPUs"),
        times: CpuTimes {
            idle_ns: idle * MS,
            steal_ns: steal * MS,
            irq_ns: irq * MS,
            softirq_ns: softirq * MS,
            ..CpuTimes::default()
        },
        sched: side.queues.get(cpu).map_or(CpuSched::default(), |[unknown, queue, max, switches]| CpuSched {
            unknown_ns: unknown * MS,
            run_queue_ns: queue * MS,
            run_queue_max: u32::try_from(*max).expect("small"),
            switches: *switches,
            ..CpuSched::default()
        }),
    };
    let mut snapshot = Snapshot {
        boot: BootId([side.boot; 16]),
        fields: if side.without_sched {
            Fields::all() - Fields::SCHED - Fields::WAITS - Fields::IRQ
        } else {
            Fields::all()
        },
        is_complete: side.complete,
        irq_in_run_time: side.irq_in_run_time,
        begin: moment,
        end: moment,
        cpus: side.cpus.iter().enumerate().map(cpu).collect(),
        processes: side.processes.iter().map(|text| process(text)).collect(),
        threads: side.threads.iter().map(|text| thread(text)).collect(),
        exits: side.exits.iter().map(|text| exit(text)).collect(),
        irqs: side.irqs.iter().map(|text| irq(text)).collect(),
        exited_total: Counters { run_ns: side.exited_total_run * MS, ..Counters::default() },
        ..Snapshot::default()
    };
    snapshot.health.exits_lost = side.exits_lost;
    snapshot.sort();
    snapshot
}

fn life(life: Life) -> &'static str {
    match life {
        Life::Alive => "alive",
        Life::Born => "born",
        Life::Ended => "ended",
        Life::BornEnded => "born+ended",
    }
}

fn ms(ns: i64) -> i64 {
    assert_eq!(ns % 1_000_000, 0, "scenarios are in whole ms");
    ns / 1_000_000
}

fn flag_words(flags: Flags) -> String {
    flags.iter_names().flat_map(|(name, _)| [" ", name]).collect()
}

/// A row's times and counts from the scheduler's events; zeros are left out.
fn sched_words(delta: &SchedDelta) -> String {
    let mut out = String::new();
    let numbers = [
        ("blocked", ms(delta.blocked_ns)),
        ("after_wakeup", ms(delta.delay_after_wakeup_ns)),
        ("longest", ms(delta.longest_delay_ns)),
        ("wakeups", delta.wakeups),
        ("migrations", delta.migrations),
    ];
    for (name, number) in numbers.into_iter().filter(|(_, number)| *number != 0) {
        write!(out, " {name}={number}").expect("string");
    }
    let mut waits: Vec<_> = delta.waits.iter().collect();
    waits.sort_unstable();
    for (reason, ns) in waits {
        write!(out, " {}={}", reason.name(), ns / MS).expect("string");
    }
    if delta.open_wait.is_some() {
        write!(out, " open={}", delta.open_wait.name()).expect("string");
    }
    out
}

fn render(interval: &Interval) -> String {
    let mut out = format!("interval {} ms{}\n", interval.duration_ns() / MS, flag_words(interval.flags));
    for row in &interval.processes {
        let (pid, start) = (row.key.pid, row.key.start_ns / MS);
        let (name, run, rows) = (&row.info.name, ms(row.delta.run_ns), row.thread_rows);
        let tail = format!("{}{}{}", life(row.life), flag_words(row.flags), sched_words(&row.sched));
        writeln!(out, "process {pid}@{start} {name} run={run} threads={rows} {tail}").expect("string");
    }
    for row in &interval.threads {
        let d = &row.delta;
        let (run, user, system) = (ms(d.run_ns), ms(d.user_ns), ms(d.system_ns));
        let (delay, vol, invol) = (ms(d.run_delay_ns), d.voluntary_switches, d.involuntary_switches);
        let tail = format!("{}{}{}", life(row.life), flag_words(row.flags), sched_words(&row.sched));
        let (tid, start) = (row.key.tid, row.key.start_ns / MS);
        writeln!(
            out,
            "thread {tid}@{start} run={run} ({user}+{system}) delay={delay} switches={vol}/{invol} {tail}"
        )
        .expect("string");
    }
    for cpu in interval.cpus.iter().filter(|cpu| cpu.sched != CpuSched::default()) {
        let s = &cpu.sched;
        let (unknown, queue) = (s.unknown_ns / MS, s.run_queue_ns / MS);
        let tail = format!("max={} switches={}", s.run_queue_max, s.switches);
        writeln!(out, "cpu {} unknown={unknown} queue={queue} {tail}", cpu.cpu).expect("string");
    }
    for irq in &interval.irqs {
        writeln!(out, "irq {} {} {} ms {} times", irq.irq, irq.name, irq.time_ns / MS, irq.count)
            .expect("string");
    }
    let l = &interval.ledger;
    let lines =
        [l.capacity_ns, l.threads_ns, l.exited_ns, l.irq_ns, l.softirq_ns, l.steal_ns, l.idle_ns].map(ms);
    let [capacity, threads, exited, irq, softirq, steal, idle] = lines;
    let rest = ms(l.unattributed_ns());
    writeln!(out, "ledger {capacity} = {threads} + {exited} + {irq} + {softirq} + {steal} + {idle} + {rest}")
        .expect("string");
    if l.unknown_ns != 0 {
        writeln!(out, "unknown {}", ms(l.unknown_ns)).expect("string");
    }
    out
}

#[test]
fn every_scenario_file_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut ran = 0;
    for entry in std::fs::read_dir(&folder).expect("scenarios") {
        let path = entry.expect("entry").path();
        let text = std::fs::read_to_string(&path).expect("readable");
        let scenario: Scenario = toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let interval = Interval::between(&snapshot(&scenario.prev), &snapshot(&scenario.cur));
        assert_eq!(render(&interval).trim(), scenario.expect.trim(), "{}: {}", path.display(), scenario.why);
        ran += 1;
    }
    assert!(ran >= 21, "only {ran} scenarios found in {}", folder.display());
}
