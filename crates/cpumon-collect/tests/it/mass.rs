//! Thousands of threads that begin or end in one moment, on this very kernel: its buffers overflow, and still no interval has more CPU
//! time than there was, and no run queue a length that it cannot have. Needs root (or `CAP_BPF` and `CAP_PERFMON`): in CI it must run.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cpumon_collect::Opened;
use cpumon_model::{Flags, Interval, Life, Snapshot};

use crate::bpf::{ALL, bpf};

const PROCESSES: u32 = 3;
const THREADS: u32 = 3_400;
const CROWDS: u32 = PROCESSES * THREADS;
/// Some two minutes.
const MOST_PASSES: usize = 1_000;
const BURNERS: usize = 4;
/// For the child below: how many threads it has to start.
const CROWD: &str = "CPUMON_TEST_CROWD";

/// Not a test by itself: the process with many sleeping threads that the tests below start.
#[test]
#[ignore = "the other tests of this file start it"]
fn crowd() {
    let Some(count) = std::env::var(CROWD).ok().and_then(|count| count.parse::<usize>().ok()) else { return };
    for _ in 0..count {
        std::thread::Builder::new().stack_size(16 << 10).spawn(std::thread::park).unwrap();
    }
    println!("started");
    std::thread::sleep(Duration::from_mins(1));
}

struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

/// A process with many threads that sleep; ready when `wait` returns.
fn start_crowd() -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["mass::crowd", "--exact", "--ignored", "--nocapture"]);
    command.env(CROWD, THREADS.to_string()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Waits until all its threads have begun.
fn wait_for(crowd: &mut Child) {
    let (mut text, mut byte) = (String::new(), [0]);
    let out = crowd.stdout.as_mut().unwrap();
    while !text.contains("started") {
        if out.read(&mut byte).unwrap() == 0 {
            let ended = crowd.wait();
            panic!("{THREADS} threads cannot begin here: {ended:?} {text}");
        }
        text.push(byte[0].into());
    }
}

fn burner() -> Child {
    Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap()
}

/// Takes passes, and checks each interval between two passes.
struct Passes {
    source: Opened,
    before: Snapshot,
    intervals: Vec<Interval>,
}

impl Passes {
    fn new(mut source: Opened) -> Self {
        let mut before = Snapshot::default();
        source.source.snapshot(&mut before).unwrap();
        Self { source, before, intervals: Vec::new() }
    }

    fn next(&mut self) -> &Interval {
        let mut after = Snapshot::default();
        self.source.source.snapshot(&mut after).unwrap();
        let interval = Interval::between(&self.before, &after);
        println!(
            "{:4} ms {:?} {:?} {} lost {} drops {} untracked {:?}",
            interval.duration_ns() / 1_000_000,
            interval.ledger,
            interval.run_queue_mean(),
            interval.health.exits_lost,
            interval.health.ring_drops,
            interval.health.sched_untracked,
            interval.flags
        );
        let passes_ns = [&self.before, &after].map(|pass| pass.end.mono_ns - pass.begin.mono_ns);
        check(&interval, passes_ns.iter().sum());
        self.before = after;
        self.intervals.push(interval);
        self.intervals.last().unwrap()
    }
}

/// `passes_ns` is how long the two passes took: threads are read one after the other in it.
fn check(interval: &Interval, passes_ns: u64) {
    let ledger = &interval.ledger;
    assert!(ledger.exited_ns <= ledger.capacity_ns, "who ended ran longer than there was: {ledger:?}");
    // Time that was unknown in the interval before may turn out to be known in this one.
    let over_ns = -(ledger.unattributed_ns() - ledger.unknown_ns.min(0));
    assert!(over_ns <= ledger.capacity_ns / 20, "{over_ns} ns more than there was: {ledger:?}");
    let Some(mean) = interval.run_queue_mean() else {
        return assert!(interval.flags.contains(Flags::RUN_QUEUE_UNKNOWN), "no data without a reason");
    };
    // After losses, rows and run queue are corrected by different passes.
    if interval.health.ring_drops > 0 {
        return;
    }
    let sum = |of: fn(&cpumon_model::Delta) -> i64| {
        interval.processes.iter().map(|row| of(&row.delta)).sum::<i64>()
    };
    let ready_ns = sum(|delta| delta.run_delay_ns);
    // Interrupts and the hypervisor take their time while a thread is in the queue; time that is unknown may be a thread's.
    let ran_ns = sum(|delta| delta.run_ns);
    let most_ns =
        ran_ns + ledger.irq_ns + ledger.softirq_ns + ledger.steal_ns + ledger.unattributed_ns().max(0);
    let tasks = |ns: i64| ns as f64 / interval.duration_ns() as f64;
    // A fiftieth of each of two CPUs, and the time of all tasks during the pass.
    let slack = 0.04 + mean.max(tasks(most_ns + ready_ns)) * tasks(passes_ns.cast_signed());
    let (least, most) = (tasks(ran_ns + ready_ns) - slack, tasks(most_ns + ready_ns) + slack);
    assert!(
        least <= mean && mean <= most,
        "{mean} tasks; {ran_ns} ns ran and {ready_ns} ns ready: {ledger:?}"
    );
}

#[test]
fn a_mass_exit_counts_no_cpu_time_twice_and_processes_keep_their_names() {
    let Some((source, _turn)) = bpf(ALL) else { return };
    let mut passes = Passes::new(source);
    let mut children = Children((0..PROCESSES).map(|_| start_crowd()).collect());
    children.0.iter_mut().for_each(wait_for);
    let burners: Vec<Child> = (0..BURNERS).map(|_| burner()).collect();
    let pids: Vec<u32> = burners.iter().map(Child::id).collect();
    children.0.extend(burners);
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(250));
        passes.next();
    }
    let (begin, crowded) = (passes.intervals.len(), passes.before.thread_count);
    for child in &mut children.0 {
        child.kill().unwrap();
    }
    // Until all have ended. A thread can lose its CPU while it exits; where the event that began its exit was lost, the run queue is
    // unknown until it runs again, which takes long beside other tests.
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let threads = passes.next().thread_count;
        let ended = &passes.intervals[begin..];
        let rows = ended.iter().flat_map(|interval| &interval.processes);
        let named = rows.filter(|row| pids.contains(&row.key.pid) && row.life == Life::Ended).count();
        let known = ended.iter().rev().take(4).filter(|interval| interval.run_queue_mean().is_some()).count();
        if threads + CROWDS < crowded + 500 && named >= BURNERS && known == 4 {
            break;
        }
        assert!(
            ended.len() < MOST_PASSES,
            "processes end beside thousands of threads, each with its name, {named} here, and then the run queues are known again, \
             {known} of 4: {threads} threads"
        );
    }
}

#[test]
fn a_mass_birth_counts_every_thread_and_the_time_that_it_waited() {
    let Some((source, _turn)) = bpf(ALL) else { return };
    let mut passes = Passes::new(source);
    let before = passes.before.thread_count;
    let mut children = Children((0..PROCESSES).map(|_| start_crowd()).collect());
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(100));
        passes.next();
    }
    children.0.iter_mut().for_each(wait_for);
    let after = passes.next().thread_count;
    assert!(after - before.min(after) + 500 >= CROWDS, "{before} threads, then {after}");
    let delayed = passes.intervals.iter().flat_map(|interval| {
        let most_ns = interval.duration_ns().cast_signed() + 1_000_000;
        interval.threads.iter().filter(move |row| row.delta.run_delay_ns > most_ns)
    });
    assert_eq!(delayed.count(), 0, "a thread waited longer than the interval");
}
