//! The live accounts of the BPF source against the analysis of a trace of the same span of this very kernel. Needs root, or
//! `CAP_BPF` and `CAP_PERFMON`.
//!
//! First by the events of the trace alone: the live accounting (its state machine in Rust, which tests of `cpumon-collect` hold equal
//! to the BPF programs) gives each thread the same times, to the ns. Then by the programs themselves. Two probes at one switch read
//! the clock one after the other, so here each switch and wakeup may differ; the bounds say by how much.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use cpumon_collect::{
    SourceChoice, SourceOptions, TraceItem, TraceRecorder, TraceRecorderOptions, now, open,
};
use cpumon_model::{Interval, Moment, Probes, Snapshot, ThreadKey, WaitReason};
use cpumon_trace::{
    Compression, FileHeader, GroupKey, GroupRow, Leaves, Report, ReportBy, SchedEvent, SchedEventKind,
    TraceRange, TraceReader, TraceSource, TraceTask, TraceWriter, analyse,
};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::accounts::{self, Accounts, Switch, Task, ThreadAccount};
use crate::skip::skip;

const WARM_UP: Duration = Duration::from_millis(150);
const LENGTH: Duration = Duration::from_secs(1);
/// Two probes at one switch read the clock so far apart (measured: 0.1 to 1.7 µs on average, the longer the less often the
/// thread runs, because their code and data have left the caches).
const EACH_NS: i64 = 300;
const DEVIATION_NS: i64 = 40_000;
/// From where a wakeup begins to where the thread is in a queue (measured: 2 to 7 µs on average).
const WAKEUP_NS: i64 = 10_000;
/// Eight times the default: beside other tests the thread that reads may have no CPU for a while.
const BUFFER_BYTES: u32 = 64 << 20;
/// Where a hypervisor pauses this machine between two readings, one recording is off; a wrong account is off in all.
const ATTEMPTS: usize = 5;
/// Begin of the names of the threads of the load.
const LOAD: &str = "same-";

/// Ends the load, also when the test fails: a thread waits for its end.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).unwrap();
}

fn spin_for(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Bounded by itself, if the test hangs.
fn goes_on(stop: &AtomicBool, began: Instant) -> bool {
    !stop.load(Ordering::Relaxed) && began.elapsed() < Duration::from_mins(3)
}

fn each(stop: &AtomicBool, mut what: impl FnMut()) {
    let began = Instant::now();
    while goes_on(stop, began) {
        what();
    }
}

fn start<'s>(scope: &'s Scope<'s, '_>, name: &str, load: impl FnOnce() + Send + 's) {
    std::thread::Builder::new().name(format!("{LOAD}{name}")).spawn_scoped(scope, load).unwrap();
}

/// Threads that contend for a CPU, sleep, wake each other, and live for a moment.
fn load<'s>(scope: &'s Scope<'s, '_>, stop: &'s AtomicBool) {
    for number in 0..3 {
        start(scope, &format!("contend{number}"), move || {
            pin(0);
            each(stop, || spin_for(Duration::from_millis(20)));
        });
    }
    for (number, nap) in [(0, 300), (1, 1_000), (2, 7_000)] {
        start(scope, &format!("nap{number}"), move || {
            each(stop, || {
                spin_for(Duration::from_micros(200));
                std::thread::sleep(Duration::from_micros(nap));
            });
        });
    }
    let (mut ping, mut to) = std::io::pipe().unwrap();
    let (mut back, mut pong) = std::io::pipe().unwrap();
    start(scope, "pong", move || {
        let mut byte = [0];
        while ping.read(&mut byte).unwrap() == 1 && pong.write(&byte).is_ok() {}
    });
    start(scope, "ping", move || {
        each(stop, || {
            for _ in 0..20 {
                to.write_all(b"x").unwrap();
                back.read_exact(&mut [0]).unwrap();
            }
            std::thread::sleep(Duration::from_micros(500));
        });
    });
    start(scope, "forks", move || {
        each(stop, || {
            assert!(Command::new("/bin/true").status().unwrap().success());
            std::thread::sleep(Duration::from_millis(5));
        });
    });
}

/// A thread's times in the range, ns.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
struct Times {
    run: u64,
    ready: u64,
    blocked: u64,
}

impl Times {
    fn of_row(row: &GroupRow) -> Self {
        let ready = row.totals.ready_woken_ns + row.totals.ready_preempted_ns;
        Self { run: row.totals.run_ns, ready, blocked: row.blocked.total_ns() }
    }

    fn of_account(account: &ThreadAccount) -> Self {
        let ready = account.delay_wakeup_ns + account.delay_preempt_ns;
        Self { run: account.run_ns, ready, blocked: account.blocked_ns }
    }

    fn since(self, before: Self) -> Self {
        Self {
            run: self.run - before.run,
            ready: self.ready - before.ready,
            blocked: self.blocked - before.blocked,
        }
    }
}

/// One span, measured both ways.
struct Both {
    began: Moment,
    interval: Interval,
    trace: Vec<u8>,
    /// Events that the trace lacks, because this thread had no CPU for too long.
    lost: u64,
}

/// `None`: this test has to be skipped.
fn measure() -> Option<Both> {
    let options = SourceOptions {
        choice: SourceChoice::Bpf,
        probes: Probes::SCHED | Probes::WAITS,
        ..SourceOptions::default()
    };
    let mut opened = match open(&options) {
        Ok(opened) => opened,
        Err(error) => {
            skip(format!("needs root for BPF: {error}"));
            return None;
        }
    };
    let began = now();
    let header = FileHeader { began, cpus: 64, ..FileHeader::default() };
    let mut writer = TraceWriter::new(Vec::new(), &header, Compression::None).unwrap();
    let mut write = |item| match item {
        TraceItem::Event(event) => writer.event(&event),
        TraceItem::Identity(identity) => writer.identity(&identity),
        TraceItem::Group(group) => writer.group(&group),
    };
    let options = TraceRecorderOptions { buffer_bytes: BUFFER_BYTES, ..TraceRecorderOptions::default() };
    let mut recorder = TraceRecorder::open(options).unwrap();
    let mut snapshots = [Snapshot::default(), Snapshot::default()];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        load(scope, &stop);
        for (at, length) in [(0, WARM_UP), (0, WARM_UP), (1, LENGTH)] {
            let begin = Instant::now();
            while begin.elapsed() < length {
                recorder.drain(&mut write).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
            opened.source.snapshot(&mut snapshots[at]).unwrap();
        }
        // The first events after the second cut end the states that were open at it.
        std::thread::sleep(Duration::from_millis(50));
    });
    recorder.stop(&mut write).unwrap();
    assert_eq!(recorder.malformed(), 0);
    let lost = recorder.lost();
    let end_ns = now().mono_ns;
    let (trace, _) = writer.finish(end_ns, lost).unwrap();
    Some(Both { began, interval: Interval::between(&snapshots[0], &snapshots[1]), trace, lost })
}

impl Both {
    fn range(&self) -> TraceRange {
        let [from_ns, until_ns] =
            [self.interval.begin, self.interval.end].map(|end| end.mono_ns - self.began.mono_ns);
        TraceRange { from_ns, until_ns }
    }

    fn report(&self) -> (Report, Vec<GroupRow>) {
        let mut reader = TraceReader::open(self.trace.as_slice()).unwrap();
        let (report, ending) = analyse(&mut reader, self.range()).unwrap();
        assert!(ending.is_whole() && ending.late == 0, "{ending:?}");
        let rows = report.rows(ReportBy::Thread, reader.tasks());
        (report, rows)
    }

    /// Live accounting's times for the trace's events in the range, by thread; `None` where only an event behind an end
    /// of the range shows the thread's state at it.
    fn replayed(&self) -> BTreeMap<ThreadKey, Option<Times>> {
        let mut reader = TraceReader::open(self.trace.as_slice()).unwrap();
        let [from_ns, until_ns] = [self.interval.begin, self.interval.end].map(|end| end.mono_ns);
        let (mut replay, mut before, mut after) = (Replay::default(), None, None);
        let mut open = BTreeSet::new();
        let mut ended = BTreeMap::new();
        reader
            .read(&mut |event| {
                for (at_ns, cut) in [(from_ns, &mut before), (until_ns, &mut after)] {
                    if event.at_ns > at_ns && cut.is_none() {
                        *cut = Some(replay.accounts.as_of(at_ns));
                        open.extend(replay.left_woken());
                    }
                }
                replay.apply(&event);
                if let SchedEventKind::Switch { prev, leaves: Leaves::Dead, .. } = event.kind
                    && let Some(account) = replay.accounts.ended(Task(prev.0))
                    && (from_ns..=until_ns).contains(&event.at_ns)
                {
                    ended.insert(Task(prev.0), account);
                }
            })
            .unwrap();
        let (before, after) = (before.expect("events"), after.expect("events after the range"));
        let before: BTreeMap<_, _> =
            before.threads().map(|(task, its)| (task, Times::of_account(its))).collect();
        let all = after.threads().map(|(task, its)| (task, *its)).chain(ended);
        all.filter_map(|(task, its)| {
            let names = reader.tasks().find(TraceTask(task.0))?;
            let earlier = before.get(&task).copied().unwrap_or_default();
            let times = (!open.contains(&task)).then(|| Times::of_account(&its).since(earlier));
            Some((names.thread, times))
        })
        .collect()
    }
}

/// The events of a trace as live accounting takes them.
#[derive(Default)]
struct Replay {
    accounts: Accounts,
    seen: BTreeSet<Task>,
    running: BTreeSet<Task>,
    /// Woken on the way to sleep, and when they left their CPU. The scheduler stamps such a thread, which here nothing shows.
    woken_early: BTreeMap<Task, u64>,
}

impl Replay {
    /// Threads that left their CPU after a wakeup. Whether they waited for it since then or slept once more, their next event shows.
    fn left_woken(&self) -> impl Iterator<Item = Task> {
        self.woken_early.keys().copied().filter(|task| !self.running.contains(task))
    }

    fn apply(&mut self, event: &SchedEvent) {
        let at_ns = event.at_ns;
        match event.kind {
            SchedEventKind::Born { task, .. } => {
                self.seen.insert(Task(task.0));
                self.accounts.born(at_ns, Task(task.0));
            }
            SchedEventKind::Waking { task, .. } => self.wake(at_ns, Task(task.0)),
            SchedEventKind::Switch { prev, next, leaves } => {
                self.switch(at_ns, event.cpu.into(), Task(prev.0), Task(next.0), leaves);
            }
            _ => {}
        }
    }

    fn wake(&mut self, at_ns: u64, task: Task) {
        if self.running.contains(&task) {
            self.woken_early.insert(task, at_ns);
            return;
        }
        self.woken_early.remove(&task);
        // Its first event: the trace has no earlier data of the task.
        if self.seen.insert(task) {
            self.accounts.born(at_ns, task);
        }
        self.accounts.wake(at_ns, task);
    }

    fn switch(&mut self, at_ns: u64, cpu: u32, prev: Task, next: Task, leaves: Leaves) {
        self.seen.extend([prev, next]);
        self.running.remove(&prev);
        self.running.insert(next);
        if let Some(left_ns) = self.woken_early.get_mut(&prev) {
            *left_ns = at_ns;
        }
        if let Some(left_ns) = self.woken_early.remove(&next) {
            self.accounts.wake(left_ns, next);
        }
        let leaves = match leaves {
            Leaves::Ready => accounts::Leaves::Ready,
            Leaves::Asleep(reason) => accounts::Leaves::Asleep(reason),
            Leaves::Dead => accounts::Leaves::Asleep(WaitReason::OTHER),
        };
        let switch = Switch { prev, leaves, next, steal_ns: 0, lost_run_ns: None };
        self.accounts.switch(at_ns, cpu, &switch);
    }
}

fn key(row: &GroupRow) -> Option<ThreadKey> {
    if let GroupKey::Thread(key, _) = row.key { Some(key) } else { None }
}

/// The ledger of the trace balances, and its threads' run time equals its CPUs'.
fn check_ledger(both: &Both, report: &Report, rows: &[GroupRow]) {
    let totals = report.totals();
    let length_ns = both.interval.duration_ns();
    assert_eq!((totals.length_ns, totals.ledger.capacity_ns()), (length_ns, totals.cpus * length_ns));
    assert_eq!(rows.iter().map(|row| row.totals.run_ns).sum::<u64>(), totals.ledger.run_ns);
}

/// The same events, the same times, to the ns. Some virtual machines hide the switches of the init process: the resulting
/// unknown time stays open on one side, and comes from the kernel's counters on the other.
fn check_replayed(both: &Both, rows: &[GroupRow]) {
    let replayed = both.replayed();
    let is_whole = |row: &&GroupRow| row.totals.unknown_ns == 0 && row.unknown_wakeups == 0;
    let mut of_load = 0;
    for row in rows.iter().filter(is_whole) {
        let Some(key) = key(row) else { continue };
        let its = replayed.get(&key).unwrap_or_else(|| panic!("no times of {row:?}"));
        let Some(its) = its else { continue };
        assert_eq!(*its, Times::of_row(row), "{row:?}");
        of_load += usize::from(row.name.starts_with(LOAD));
    }
    assert!(of_load >= 3, "{of_load} threads of the load in {} rows", rows.len());
}

/// The BPF programs' data about the load's threads must equal the trace's. Returns the differences.
fn compare_live(both: &Both, rows: &[GroupRow]) -> Vec<String> {
    let of: BTreeMap<_, _> = rows.iter().filter_map(|row| Some((key(row)?, row))).collect();
    // Live accounts take it out of the thread, a trace leaves it in.
    let steal_ns = both.interval.ledger.steal_ns;
    let (mut failed, mut compared) = (Vec::new(), 0);
    for live in both.interval.threads.iter().filter(|live| live.comm.to_str_lossy().starts_with(LOAD)) {
        let Some(row) = of.get(&live.key) else { continue };
        let slices = live.delta.voluntary_switches + live.delta.involuntary_switches;
        let wakeups = live.sched.wakeups;
        let less = |live: i64, trace: u64| live - trace.cast_signed();
        let run = less(live.delta.run_ns, row.totals.run_ns);
        let woken = less(live.sched.delay_after_wakeup_ns, row.totals.ready_woken_ns);
        let off = woken
            + less(live.delta.run_delay_ns - live.sched.delay_after_wakeup_ns, row.totals.ready_preempted_ns)
            + less(live.sched.blocked_ns, row.blocked.total_ns());
        println!(
            "{:16} {slices:6} slices: run {:+7.3} µs each, of {:9.1}; {wakeups:6} wakeups: ready {:+7.3} µs each; ready and blocked {:+7.3} µs each",
            live.comm.to_str_lossy(),
            run as f64 / 1e3 / slices as f64,
            live.delta.run_ns as f64 / 1e3,
            woken as f64 / 1e3 / wakeups.max(1) as f64,
            off as f64 / 1e3 / slices as f64,
        );
        let blur = slices * EACH_NS + slices.isqrt() * DEVIATION_NS;
        let blur = blur + row.totals.unknown_ns.cast_signed();
        let is_near = run <= blur && run >= -blur - steal_ns;
        // A wakeup is recorded when it begins; live accounts count from when the thread is in a queue.
        let is_off_near =
            off.abs() <= blur + steal_ns && woken <= blur && woken >= -blur - wakeups * WAKEUP_NS;
        // A switch right at a cut may be on either side.
        let switches = row.totals.voluntary_switches + row.totals.involuntary_switches;
        let has_all = row.totals.unknown_ns > 0 || slices.cast_unsigned().abs_diff(switches) <= 2;
        if !is_near || (!is_off_near && row.unknown_wakeups == 0) || !has_all {
            failed.push(format!(
                "run {run} woken {woken} off {off} blur {blur} steal {steal_ns}: {live:?} {row:?}"
            ));
        }
        compared += 1;
    }
    assert!(compared >= 9, "{compared} threads of the load");
    failed
}

#[test]
fn live_accounts_and_a_trace_of_the_same_span_agree_on_each_thread() {
    let mut failed = Vec::new();
    for _ in 0..ATTEMPTS {
        let Some(both) = measure() else { return };
        if both.lost > 0 {
            failed.push(format!("{} events were lost", both.lost));
            continue;
        }
        let (report, rows) = both.report();
        check_ledger(&both, &report, &rows);
        check_replayed(&both, &rows);
        failed = compare_live(&both, &rows);
        if failed.is_empty() {
            return;
        }
    }
    panic!("{failed:#?}");
}
