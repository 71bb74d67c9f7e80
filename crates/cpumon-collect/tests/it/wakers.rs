//! Who made threads wait, on this very kernel: processes with a known part each. Needs root (or `CAP_BPF` and `CAP_PERFMON`): in CI it must
//! run. Each is tried with the probe alone, and beside all others.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cpumon_collect::Opened;
use cpumon_model::{
    Fields, Interval, Probes, Snapshot, WaitFor, WaitKind, WaitReason, WaitedOn, syscall_number,
};

use crate::bpf::{ALL, bpf};
use crate::cgroup::LimitedGroup;
use crate::eventually::eventually;

struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn shell(script: &str) -> KillOnDrop {
    KillOnDrop(Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap())
}

/// Rows of the time in which `during` runs.
fn rows_of(source: &mut Opened, during: impl FnOnce()) -> Vec<WaitFor> {
    let (mut before, mut after) = (Snapshot::default(), Snapshot::default());
    source.source.snapshot(&mut before).unwrap();
    during();
    source.source.snapshot(&mut after).unwrap();
    assert!(after.fields.contains(Fields::WAITS_FOR), "{:?}", after.fields);
    after.waits_for
}

/// The probe alone, and with all others.
fn each_way(test: impl Fn(&mut Opened)) {
    for probes in [Probes::WAKERS, ALL | Probes::WAKERS] {
        let Some((mut source, _turn)) = bpf(probes) else { return };
        test(&mut source);
    }
}

fn reason(call: &str) -> WaitKind {
    WaitKind::Blocked(WaitReason::syscall(syscall_number(call).unwrap()))
}

/// Time of the rows of a process with this kind, ns: on whom it should have waited, and on all.
fn times(rows: &[WaitFor], waiter: u32, kind: WaitKind, is_right: impl Fn(WaitedOn) -> bool) -> (u64, u64) {
    let own = || rows.iter().filter(|row| row.waiter.pid == waiter && row.kind == kind);
    (own().filter(|row| is_right(row.on)).map(|row| row.ns).sum(), own().map(|row| row.ns).sum())
}

/// A row on a line.
fn in_lines(rows: &[WaitFor]) -> String {
    let line = |row: &WaitFor| {
        let kind = match row.kind {
            WaitKind::Blocked(reason) => reason.name().into_owned(),
            kind => format!("{kind:?}"),
        };
        format!("\n{} {kind} on {:?}: {} times, {} ns", row.waiter.pid, row.on, row.count, row.ns)
    };
    rows.iter().map(line).collect()
}

fn is_process(pid: u32) -> impl Fn(WaitedOn) -> bool {
    move |on| matches!(on, WaitedOn::Process(key) if key.pid == pid)
}

#[test]
fn a_reader_of_a_pipe_waits_on_its_writer_and_the_writer_on_its_timer() {
    each_way(|source| {
        let mut writer = shell("while :; do sleep 0.02; echo; done");
        let mut lines = BufReader::new(writer.0.stdout.take().unwrap()).lines();
        let pid = writer.0.id();
        let sleeper = shell("exec perl -e 'while (1) { select undef, undef, undef, 0.02 }'");
        let begin = Instant::now();
        let rows = rows_of(source, || {
            for _ in 0..50 {
                lines.next().unwrap().unwrap();
            }
        });
        let took = u64::try_from(begin.elapsed().as_nanos()).unwrap();
        let (right, all) = times(&rows, std::process::id(), reason("read"), is_process(pid));
        assert!(all > took / 2 && right > all / 4 * 3, "{right} of {all} in {took} ns: {}", in_lines(&rows));
        let (_, on_children) = times(&rows, pid, reason("wait4"), |_| true);
        assert!(on_children > took / 2, "the shell waits for `sleep`: {}", in_lines(&rows));
        let by_timer = |row: &&WaitFor| row.waiter.pid == sleeper.0.id() && row.on == WaitedOn::Interrupt;
        let slept: u64 = rows.iter().filter(by_timer).map(|row| row.ns).sum();
        assert!(slept > took / 2, "{slept} of {took} ns asleep until a timer: {}", in_lines(&rows));
    });
}

#[test]
fn those_who_want_a_lock_wait_on_the_thread_that_sleeps_with_it() {
    each_way(|source| {
        let (lock, stop) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
        let (tid_sent, tids) = std::sync::mpsc::channel();
        let send_tid = |sent: std::sync::mpsc::Sender<u32>| {
            sent.send(rustix::thread::gettid().as_raw_pid().cast_unsigned()).unwrap();
        };
        let worker = |stop: &Arc<AtomicBool>| {
            let (lock, stop, tid_sent) = (Arc::clone(&lock), Arc::clone(stop), tid_sent.clone());
            std::thread::spawn(move || {
                send_tid(tid_sent);
                while !stop.load(Ordering::Relaxed) {
                    drop(lock.lock().unwrap());
                }
            })
        };
        let workers: Vec<_> = (0..4).map(|_| worker(&stop)).collect();
        let (holder_lock, holder_stop) = (Arc::clone(&lock), Arc::clone(&stop));
        let worker_tids: Vec<u32> = workers.iter().map(|_| tids.recv().unwrap()).collect();
        let holder = std::thread::spawn(move || {
            send_tid(tid_sent);
            while !holder_stop.load(Ordering::Relaxed) {
                let held = holder_lock.lock().unwrap();
                std::thread::sleep(Duration::from_millis(20));
                drop(held);
            }
        });
        let tid = tids.recv().unwrap();
        let rows = rows_of(source, || std::thread::sleep(Duration::from_secs(1)));
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().chain([holder]).for_each(|thread| thread.join().unwrap());
        let is_holder = |on| matches!(on, WaitedOn::Thread(key) if key.tid == tid);
        let is_one =
            |on| matches!(on, WaitedOn::Thread(key) if key.tid == tid || worker_tids.contains(&key.tid));
        let futex = |is_right: &dyn Fn(WaitedOn) -> bool| {
            times(&rows, std::process::id(), reason("futex"), is_right).0
        };
        // Other tests of this process have locks of their own.
        let (right, all) = (futex(&is_holder), futex(&is_one));
        assert!(right > 500_000_000 && right > all / 2, "{right} of {all} ns on {tid}: {}", in_lines(&rows));
    });
}

#[test]
fn two_that_share_a_cpu_are_ready_behind_each_other() {
    each_way(|source| {
        let burn = "taskset -cp 0 $$ >/dev/null; while :; do :; done";
        let (one, other) = (shell(burn), shell(burn));
        let (mut before, mut after) = (Snapshot::default(), Snapshot::default());
        source.source.snapshot(&mut before).unwrap();
        // `taskset` has ended when both have run for a while.
        let ran_ns = |of: &Interval, pid| {
            of.processes.iter().find(|row| row.key.pid == pid).map_or(0, |row| row.delta.run_ns)
        };
        let mut ran = 0;
        let took = eventually("both run on one CPU", || {
            source.source.snapshot(&mut after).unwrap();
            let interval = Interval::between(&before, &after);
            std::mem::swap(&mut before, &mut after);
            ran = ran_ns(&interval, other.0.id());
            std::thread::sleep(Duration::from_millis(500));
            (ran > 50_000_000 && ran_ns(&interval, one.0.id()) > 50_000_000).then_some(interval.waits_for)
        });
        // One is ready all the while that the other runs.
        let (right, _) = times(&took, one.0.id(), WaitKind::Ready, is_process(other.0.id()));
        assert!(right > ran.cast_unsigned() / 2, "{right} of {ran}: {}", in_lines(&took));
    });
}

#[test]
fn a_group_at_its_limit_is_throttled_and_waits_on_no_bystander() {
    let group = match LimitedGroup::twentieth("cpumon-wakers") {
        Ok(group) => group,
        Err(error) => return crate::skip::say_skipped(format!("needs root and cgroups: {error}")),
    };
    each_way(|source| {
        let burner = shell("while :; do :; done");
        group.add(burner.0.id());
        let rows = rows_of(source, || std::thread::sleep(Duration::from_secs(2)));
        let (throttled, _) = times(&rows, burner.0.id(), WaitKind::Throttled, |_| true);
        let (_, ready) = times(&rows, burner.0.id(), WaitKind::Ready, |_| true);
        assert!(throttled > 1_000_000_000, "{throttled} and {ready} ns: {}", in_lines(&rows));
        assert!(ready < throttled / 4, "{throttled} and {ready} ns: {}", in_lines(&rows));
    });
}
