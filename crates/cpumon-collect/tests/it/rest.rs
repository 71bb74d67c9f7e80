//! Idle threads: sent in one word, and still reported unchanged. Against this very kernel; needs root.

use std::fs;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use cpumon_collect::{Opened, SourceChoice, SourceOptions, open};
use cpumon_model::{
    Comm, Fields, Interval, Probes, Snapshot, ThreadKey, ThreadSample, WaitReason, syscall_number,
};
use rustix::process::{Pid, setpriority_process};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

use crate::at_rest::wait_until_at_rest;
use crate::bpf::{ALL, bpf};
use crate::eventually::eventually;

/// A thread that is idle until it is sent a time to run.
struct Rester {
    tid: Pid,
    wake: Sender<Duration>,
}

impl Rester {
    fn spawn() -> Self {
        let (wake, woken) = mpsc::channel::<Duration>();
        let (sender, tid) = mpsc::channel();
        std::thread::spawn(move || {
            sender.send(gettid()).unwrap();
            for time in woken {
                let begin = Instant::now();
                while begin.elapsed() < time {
                    std::hint::spin_loop();
                }
            }
        });
        let rester = Self { tid: tid.recv().unwrap(), wake };
        wait_until_at_rest(&[rester.number()]);
        rester
    }

    fn number(&self) -> u32 {
        self.tid.as_raw_nonzero().get().cast_unsigned()
    }

    fn of<'a>(&self, snapshot: &'a Snapshot) -> &'a ThreadSample {
        snapshot.threads.iter().find(|thread| thread.key.tid == self.number()).unwrap()
    }
}

/// Two snapshots that change places, as the agent has them.
struct Pair {
    source: Opened,
    now: Snapshot,
    before: Snapshot,
}

impl Pair {
    fn pass(&mut self) -> &Snapshot {
        std::mem::swap(&mut self.now, &mut self.before);
        self.source.source.snapshot(&mut self.now).unwrap();
        &self.now
    }
}

fn a_resting_thread_is_reported_unchanged(probes: Probes) {
    let Some((source, _turn)) = bpf(probes) else { return };
    let rester = Rester::spawn();
    let mut pair = Pair { source, now: Snapshot::default(), before: Snapshot::default() };
    let first = *rester.of(pair.pass());
    for _ in 0..5 {
        let still = rester.of(pair.pass());
        assert_eq!((still.counters, still.comm), (first.counters, first.comm));
    }
    fs::write(format!("/proc/self/task/{}/comm", rester.number()), "by-another").unwrap();
    assert_eq!(rester.of(pair.pass()).comm, Comm::new(b"by-another"));
    assert_eq!(rester.of(pair.pass()).comm, Comm::new(b"by-another"));
    setpriority_process(Some(rester.tid), 7).unwrap();
    let nice = rester.of(pair.pass());
    assert_eq!((nice.nice, nice.priority, nice.counters), (7, 27, first.counters));
    let (all, mut one) = (sched_getaffinity(Some(rester.tid)).unwrap(), CpuSet::new());
    one.set(0);
    for (cpus, expected) in [(&one, true), (&all, all.count() == 1)] {
        sched_setaffinity(Some(rester.tid), cpus).unwrap();
        assert_eq!(rester.of(pair.pass()).has_one_cpu, expected);
    }
    assert!(pair.now.fields.contains(Fields::AFFINITY));
    rester.wake.send(Duration::from_millis(20)).unwrap();
    let rests_again = |seen: &ThreadSample| {
        seen.state.letter() == 'S' && seen.counters.voluntary_switches > first.counters.voluntary_switches
    };
    let ran = eventually("it has run", || Some(*rester.of(pair.pass())).filter(rests_again)).counters;
    assert!(ran.run_ns > first.counters.run_ns, "{ran:?}");
    assert_eq!(rester.of(pair.pass()).counters, ran);
}

#[test]
fn a_resting_thread_is_reported_unchanged_by_clocks() {
    a_resting_thread_is_reported_unchanged(Probes::empty());
}

#[test]
fn a_resting_thread_is_reported_unchanged_by_switches() {
    a_resting_thread_is_reported_unchanged(ALL);
}

/// The part in which two sources must agree for a thread that did not run. Each splits user and system time for itself.
fn outside(thread: &ThreadSample) -> impl PartialEq + std::fmt::Debug + use<> {
    let ThreadSample { key, process, comm, state, nice, priority, last_cpu, counters, .. } = *thread;
    let switches = (counters.voluntary_switches, counters.involuntary_switches);
    (
        key,
        process,
        comm,
        state,
        (nice, priority, last_cpu),
        (counters.run_ns, counters.run_delay_ns, switches),
    )
}

#[test]
fn a_source_after_many_passes_reports_what_a_new_one_reports() {
    let Some((source, _turn)) = bpf(Probes::empty()) else { return };
    let mut pair = Pair { source, now: Snapshot::default(), before: Snapshot::default() };
    let mut threads: Vec<Rester> = (0..50).map(|_| Rester::spawn()).collect();
    for round in 0..20 {
        // Places in the list move, now and then not.
        if round % 4 < 2 {
            drop(threads.remove(round));
            threads.push(Rester::spawn());
        }
        threads[round].wake.send(Duration::from_millis(1)).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        pair.pass();
    }
    let mut new = open(&SourceOptions { choice: SourceChoice::Bpf, ..SourceOptions::default() }).unwrap();
    let mut fresh = Snapshot::default();
    new.source.snapshot(&mut fresh).unwrap();
    let seen = pair.pass();
    let key = |thread: &ThreadSample| -> ThreadKey { thread.key };
    let mut resting = 0;
    for thread in &fresh.threads {
        let Ok(at) = seen.threads.binary_search_by_key(&thread.key, key) else { continue };
        let known = &seen.threads[at];
        let switches = |thread: &ThreadSample| {
            let counters = thread.counters;
            (counters.run_ns, counters.voluntary_switches + counters.involuntary_switches)
        };
        let sleeps = [known, thread].iter().all(|seen| seen.state.letter() == 'S');
        // A sleeper that the scheduler left in its queue (Linux 6.12) can be moved to another CPU without running.
        if sleeps && switches(known) == switches(thread) && known.last_cpu == thread.last_cpu {
            assert_eq!(outside(known), outside(thread));
            resting += 1;
        }
    }
    assert!(resting > 50, "{resting} of {} rest", fresh.threads.len());
}

#[test]
fn a_thread_that_is_stuck_on_a_lock_has_waited_for_it_and_so_has_its_process() {
    let Some((source, _turn)) = bpf(ALL) else { return };
    let futex = WaitReason::syscall(syscall_number("futex").unwrap());
    let rester = Rester::spawn();
    let mut pair = Pair { source, now: Snapshot::default(), before: Snapshot::default() };
    pair.pass();
    let (mut waited_ns, mut passed_ns) = (0, 0);
    for _ in 0..5 {
        std::thread::sleep(Duration::from_secs(1));
        pair.pass();
        let interval = Interval::between(&pair.before, &pair.now);
        let row = interval.threads.iter().find(|row| row.key.tid == rester.number()).unwrap();
        assert_eq!((row.delta.is_zero(), row.sched.open_wait), (true, futex));
        waited_ns += row.sched.waits.of(futex);
        passed_ns += interval.duration_ns();
        let own = interval.threads.iter().filter(|other| other.process == row.process);
        let blocked_ns: i64 = own.map(|row| row.sched.blocked_ns).sum();
        let process = interval.process(row.process).unwrap();
        assert_eq!(process.sched.blocked_ns, blocked_ns);
        assert!(process.sched.waits.of(futex) >= row.sched.waits.of(futex));
    }
    assert!(waited_ns.abs_diff(passed_ns) < passed_ns / 100, "{waited_ns} of {passed_ns} ns");
}
