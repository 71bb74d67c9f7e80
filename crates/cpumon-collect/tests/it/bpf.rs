//! The BPF source against this very kernel. Needs root (or `CAP_BPF` and `CAP_PERFMON`): in CI it must run.

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cpumon_collect::{Opened, SourceChoice, SourceOptions, open};
use cpumon_model::{Interval, Life, Probes, ProcessKey, Snapshot, SourceKind, ThreadInterval};
use rustix::time::{ClockId, clock_gettime};

use crate::alloc::allocations;
use crate::skip::skip;

/// Longer than the 15 bytes of a comm.
const BURNER: &str = "short-lived-burner-program";

/// A task is joined or reaped some microseconds before its last switch; on a crowded machine it may be pushed off the CPU
/// between the two.
const LAST_SWITCH: Duration = Duration::from_millis(60);

/// The tests load the machine, choose pids and look at memory: each has the kernel for itself.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits for the machine.
pub fn turn() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Each of these once by the kernel's own clocks and once by its switches.
macro_rules! twice {
    ($($test:ident)+) => {
        mod by_clocks {
            $(#[test] fn $test() { super::$test(cpumon_model::Probes::empty()); })+
        }
        mod by_switches {
            $(#[test] fn $test() { super::$test(super::ALL); })+
        }
    };
}

twice! {
    a_spinner_gets_its_cpu_time
    a_fork_storm_is_charged_to_its_program
    threads_that_come_and_go_leave_their_time
    a_reused_pid_is_another_process
    an_exec_renames_the_process
    an_exec_by_another_thread_counts_nothing_twice
    many_passes_do_not_grow
    a_quiet_pass_allocates_nothing
}

/// Every probe that can be chosen.
pub const ALL: Probes = Probes::SCHED.union(Probes::WAITS).union(Probes::IRQ);

/// `None` where the test has to be skipped.
pub fn bpf(probes: Probes) -> Option<(Opened, MutexGuard<'static, ()>)> {
    bpf_for(SourceOptions { probes, ..SourceOptions::default() })
}

/// Likewise.
pub fn bpf_for(options: SourceOptions) -> Option<(Opened, MutexGuard<'static, ()>)> {
    let turn = turn();
    match open(&SourceOptions { choice: SourceChoice::Bpf, ..options }) {
        Ok(opened) => Some((opened, turn)),
        Err(error) => {
            skip(format!("needs root for BPF: {error}"));
            None
        }
    }
}

fn look(source: &mut Opened) -> Snapshot {
    let mut snapshot = Snapshot::default();
    source.source.snapshot(&mut snapshot).unwrap();
    check_shape(&snapshot);
    snapshot
}

/// What holds for every snapshot.
fn check_shape(snapshot: &Snapshot) {
    assert!(snapshot.is_complete);
    assert!(snapshot.threads.is_sorted_by(|a, b| a.key < b.key), "ascending, each once");
    assert!(snapshot.processes.is_sorted_by(|a, b| a.key < b.key), "ascending, each once");
    assert!(snapshot.exits.is_sorted_by(|a, b| a.thread.key < b.thread.key), "ascending, each once");
    for thread in &snapshot.threads {
        assert_ne!(thread.key.tid, 0, "the idle task");
        assert_eq!(thread.counters.user_ns + thread.counters.system_ns, thread.counters.run_ns);
        assert_eq!(thread.counters.user_ns % 1_000, 0);
        let process = snapshot.processes.binary_search_by_key(&thread.process, |process| process.key);
        assert!(process.is_ok(), "{thread:?} without its process");
        let ended = snapshot.exits.binary_search_by_key(&thread.key, |exit| exit.thread.key);
        assert!(ended.is_err(), "{thread:?} both lives and ended");
    }
    for exit in &snapshot.exits {
        assert!(exit.end_ns >= exit.thread.key.start_ns && exit.end_ns <= snapshot.end.boot_ns, "{exit:?}");
    }
    assert_eq!(snapshot.health.malformed, 0);
}

/// Nothing is there twice: exits add up to their total, and all threads together ran no longer than the CPUs.
fn check_books(before: &Snapshot, after: &Snapshot, interval: &Interval) {
    assert_eq!(after.health.exits_lost, 0);
    let ended_ns: u64 = after.exits.iter().map(|exit| exit.thread.counters.run_ns).sum();
    assert_eq!(after.exited_total.run_ns - before.exited_total.run_ns, ended_ns);
    let booked_ns = interval.ledger.threads_ns + interval.ledger.exited_ns;
    // Counters move in steps of a tick (10 ms at worst), and were read at some time during each pass.
    let pass_ns = |look: &Snapshot| i64::try_from(look.end.mono_ns - look.begin.mono_ns).unwrap();
    let slack_ns = (10_000_000 + pass_ns(before) + pass_ns(after)) * i64::try_from(after.cpus.len()).unwrap();
    assert!(booked_ns <= interval.ledger.capacity_ns + slack_ns, "{:?}", interval.ledger);
}

/// Looks until `stop`, and hands every interval since `before` on.
fn watch(
    source: &mut Opened,
    mut before: Snapshot,
    stop: &AtomicBool,
    pause: Duration,
    mut each: impl FnMut(&Interval),
) {
    loop {
        let is_last = stop.load(Ordering::SeqCst);
        let after = look(source);
        let interval = Interval::between(&before, &after);
        check_books(&before, &after, &interval);
        each(&interval);
        before = after;
        if is_last {
            return;
        }
        std::thread::sleep(pause);
    }
}

/// What interrupts took out of the threads, which the kernel's own clocks have inside them.
fn taken_out_ns(interval: &Interval) -> i64 {
    interval.ledger.irq_ns + interval.ledger.softirq_ns
}

fn burn(time: Duration) {
    let end_ns = thread_cpu_ns() + ns(time);
    while thread_cpu_ns() < end_ns {
        std::hint::spin_loop();
    }
}

/// CPU time of the calling thread.
fn thread_cpu_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn ns(time: Duration) -> i64 {
    time.as_nanos().try_into().unwrap()
}

/// A copy of the shell under a name of our own.
fn burner(dir: &Path) -> PathBuf {
    let program = dir.join(BURNER);
    std::fs::copy("/bin/sh", &program).unwrap();
    program
}

/// Waits for a child and returns its CPU time, which the kernel scales to its exact run time.
#[expect(unsafe_code, reason = "std knows no wait4")]
fn wait_with_usage(child: &mut Child) -> Duration {
    // SAFETY: both pointers are to live values; the child is ours and is waited for here only.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        let pid = libc::pid_t::try_from(child.id()).unwrap();
        assert_eq!(libc::wait4(pid, std::ptr::null_mut(), 0, &raw mut usage), pid);
        usage
    };
    let time = |time: libc::timeval| {
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_usec).unwrap() * 1_000)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn a_spinner_gets_its_cpu_time(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    assert_eq!(source.kind, SourceKind::Bpf);
    let stop = AtomicBool::new(false);
    let cpu_ns = AtomicI64::new(0);
    std::thread::scope(|scope| {
        let spinner = std::thread::Builder::new().name("bpf-spinner".into());
        spinner
            .spawn_scoped(scope, || {
                while !stop.load(Ordering::Relaxed) {
                    burn(Duration::from_millis(1));
                    cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
                }
            })
            .unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let (cpu_before, before) = (cpu_ns.load(Ordering::Relaxed), look(&mut source));
        std::thread::sleep(Duration::from_millis(700));
        let (cpu_after, after) = (cpu_ns.load(Ordering::Relaxed), look(&mut source));
        stop.store(true, Ordering::Relaxed);
        let interval = Interval::between(&before, &after);
        let row = interval.threads.iter().find(|row| row.comm.as_bytes() == b"bpf-spinner").unwrap();
        // The spinner tells its time each ms, and a running thread's counter is up to a tick (10 ms at worst) old.
        let truth_ns = cpu_after - cpu_before;
        assert!((row.delta.run_ns - truth_ns).abs() < 15_000_000, "{} of {truth_ns}", row.delta.run_ns);
        assert_eq!(row.delta.user_ns + row.delta.system_ns, row.delta.run_ns);
        assert_eq!((row.life, row.process.pid), (Life::Alive, std::process::id()));
    });
}

fn a_fork_storm_is_charged_to_its_program(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let dir = tempfile::tempdir().unwrap();
    let program = burner(dir.path());
    let (stop, before) = (AtomicBool::new(false), look(&mut source));
    let storm = || {
        let end = Instant::now() + Duration::from_secs(2);
        let mut children = Vec::new();
        while Instant::now() < end {
            let count = 2_000 + children.len() % 4 * 1_500;
            let script = format!("i=0; while [ $i -lt {count} ]; do i=$((i+1)); done");
            let mut child = Command::new(&program).args(["-c", &script]).spawn().unwrap();
            let usage = wait_with_usage(&mut child);
            children.push((child.id(), usage));
        }
        children
    };
    let (mut charged_ns, mut interrupts_ns) = (0, 0);
    let mut rows = HashMap::<ProcessKey, u32>::new();
    let mut children = Vec::new();
    std::thread::scope(|scope| {
        let storms = [scope.spawn(storm), scope.spawn(storm)];
        let watcher = scope.spawn(|| {
            watch(&mut source, before, &stop, Duration::from_millis(200), |interval| {
                interrupts_ns += taken_out_ns(interval);
                for process in interval.processes.iter().filter(|row| &*row.info.name == BURNER) {
                    charged_ns += process.delta.run_ns;
                    let ended = matches!(process.life, Life::Ended | Life::BornEnded);
                    *rows.entry(process.key).or_default() += u32::from(ended);
                }
            });
        });
        children.extend(storms.into_iter().flat_map(|storm| storm.join().unwrap()));
        // A child is reaped some microseconds before its last switch.
        std::thread::sleep(LAST_SWITCH);
        stop.store(true, Ordering::SeqCst);
        watcher.join().unwrap();
    });
    let truth_ns: i64 = children.iter().map(|child| ns(child.1)).sum();
    let part = |ns: i64| ns as f64 / truth_ns as f64;
    let (share, in_interrupts) = (part(charged_ns), part(interrupts_ns));
    println!("{} children, {} ms, charged {:.3} %", children.len(), truth_ns / 1_000_000, share * 100.0);
    assert!(children.len() > 20, "{}", children.len());
    // rusage is read before the last switch, and up to a tick old then: the truth is a little more.
    assert!(share + in_interrupts > 0.99 && share < 1.06, "{share}, {in_interrupts} in interrupts");
    for (pid, _) in &children {
        let ends = rows.iter().filter(|(key, _)| key.pid == *pid).map(|(_, ends)| ends).sum::<u32>();
        assert_eq!(ends, 1, "each child ends once, under its own name: {pid}");
    }
}

fn threads_that_come_and_go_leave_their_time(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let (stop, before) = (AtomicBool::new(false), look(&mut source));
    let (mut charged_ns, mut interrupts_ns, mut ended) = (0, 0, 0);
    let truth_ns = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            watch(&mut source, before, &stop, Duration::from_millis(30), |interval| {
                interrupts_ns += taken_out_ns(interval);
                let is_ours = |row: &&ThreadInterval| row.comm.as_bytes() == b"bpf-churn";
                for row in interval.threads.iter().filter(is_ours) {
                    assert_eq!(row.process.pid, std::process::id());
                    assert_eq!(row.flags, cpumon_model::Flags::empty(), "{row:?}");
                    charged_ns += row.delta.run_ns;
                    ended += u32::from(matches!(row.life, Life::Ended | Life::BornEnded));
                }
            });
        });
        let mut truth_ns = 0;
        for _ in 0..300 {
            let churn = std::thread::Builder::new().name("bpf-churn".into());
            let thread = churn.spawn(|| {
                burn(Duration::from_millis(1));
                thread_cpu_ns()
            });
            truth_ns += thread.unwrap().join().unwrap();
        }
        std::thread::sleep(LAST_SWITCH);
        stop.store(true, Ordering::SeqCst);
        watcher.join().unwrap();
        truth_ns
    });
    println!("charged {charged_ns} of {truth_ns}");
    // What a thread runs after it told its time: the end of the thread.
    assert!(
        charged_ns + interrupts_ns >= truth_ns && charged_ns < truth_ns + truth_ns / 10,
        "{charged_ns} of {truth_ns}, {interrupts_ns} in interrupts"
    );
    assert_eq!(ended, 300);
}

/// Makes the kernel hand out `pid` next, if nobody is faster.
fn ask_for_pid(pid: u32) -> bool {
    std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).is_ok()
}

fn a_reused_pid_is_another_process(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let before = look(&mut source);
    let mut pids = Vec::new();
    let mut child = Command::new("/bin/true").spawn().unwrap();
    wait_with_usage(&mut child);
    pids.push(child.id());
    for _ in 0..200 {
        assert!(ask_for_pid(child.id()), "root may choose pids");
        let mut next = Command::new("/bin/echo").stdout(Stdio::null()).spawn().unwrap();
        wait_with_usage(&mut next);
        if next.id() == child.id() {
            pids.push(next.id());
            break;
        }
    }
    assert_eq!(pids.len(), 2, "nobody gave the pid back");
    std::thread::sleep(LAST_SWITCH);
    let after = look(&mut source);
    let mut names: Vec<_> = after
        .exits
        .iter()
        .filter(|exit| exit.thread.key.tid == pids[0] && exit.parent_pid == std::process::id())
        .map(|exit| (exit.thread.key.start_ns, exit.info.name.to_string(), exit.ends_process))
        .collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[0].0 < names[1].0 && names[0].1 != names[1].1 && names[0].2 && names[1].2, "{names:?}");
    let interval = Interval::between(&before, &after);
    let rows = interval.processes.iter().filter(|row| row.key.pid == pids[0]).count();
    assert_eq!(rows, 2);
}

fn an_exec_renames_the_process(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let dir = tempfile::tempdir().unwrap();
    let program = burner(dir.path());
    let script = format!("read line; exec {} -c 'read line; :'", program.display());
    let mut child = Command::new("/bin/sh").args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let pid = child.id();
    let name_of = |snapshot: &Snapshot| {
        let process = snapshot.processes.iter().find(|process| process.key.pid == pid);
        process.map(|process| (process.key, process.info.name.to_string(), process.info.comm.to_string()))
    };
    std::thread::sleep(Duration::from_millis(100));
    let (key, shell, _) = name_of(&look(&mut source)).unwrap();
    assert_ne!(shell, BURNER);
    std::io::Write::write_all(&mut input, b"\n").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let renamed = name_of(&look(&mut source)).unwrap();
    assert_eq!(renamed, (key, BURNER.to_owned(), BURNER[..15].to_owned()));
    drop(input);
    wait_with_usage(&mut child);
    std::thread::sleep(LAST_SWITCH);
    let last = look(&mut source);
    let exit = last.exits.iter().find(|exit| exit.thread.process == key).unwrap();
    assert_eq!((&*exit.info.name, exit.ends_process), (BURNER, true));
    assert_eq!(name_of(&last), None);
}

/// A child whose second thread burns `time`, then calls exec, while the first one sleeps.
#[expect(unsafe_code, reason = "the child must start a thread before exec")]
fn exec_from_second_thread(program: &Path, time: Duration) -> Child {
    let target = program.to_owned();
    let mut command = Command::new("/bin/false");
    command.stdin(Stdio::piped());
    // SAFETY: the C library keeps its allocator usable in the child of a fork; nothing else of the parent is touched.
    unsafe {
        command.pre_exec(move || {
            let target = target.clone();
            let second = std::thread::spawn(move || {
                burn(time);
                Command::new(target).args(["-c", "read line; :"]).exec()
            });
            Err(second.join().unwrap())
        });
    }
    command.spawn().unwrap()
}

fn an_exec_by_another_thread_counts_nothing_twice(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let dir = tempfile::tempdir().unwrap();
    let program = burner(dir.path());
    let (stop, before) = (AtomicBool::new(false), look(&mut source));
    let (mut rows, mut interrupts_ns) = (Vec::new(), 0);
    let (pid, truth_ns) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            watch(&mut source, before, &stop, Duration::from_millis(15), |interval| {
                interrupts_ns += taken_out_ns(interval);
                rows.extend(
                    interval.processes.iter().filter(|row| row.parent_pid == std::process::id()).cloned(),
                );
            });
        });
        std::thread::sleep(Duration::from_millis(50));
        let mut child = exec_from_second_thread(&program, Duration::from_millis(100));
        std::thread::sleep(Duration::from_millis(100));
        drop(child.stdin.take());
        let truth_ns = ns(wait_with_usage(&mut child));
        std::thread::sleep(LAST_SWITCH);
        stop.store(true, Ordering::SeqCst);
        watcher.join().unwrap();
        (child.id(), truth_ns)
    });
    rows.retain(|row| row.key.pid == pid);
    let charged_ns: i64 = rows.iter().map(|row| row.delta.run_ns).sum();
    println!("charged {charged_ns} of {truth_ns}");
    // rusage is read before the last switch.
    assert!(
        charged_ns + interrupts_ns > truth_ns * 99 / 100 && charged_ns < truth_ns * 110 / 100,
        "{charged_ns} of {truth_ns}, {interrupts_ns} in interrupts"
    );
    assert!(rows.iter().all(|row| row.key == rows[0].key), "one process all along");
    assert_eq!(rows.iter().filter(|row| row.life == Life::Born).count(), 1);
    assert_eq!(rows.iter().filter(|row| row.life == Life::Ended).count(), 1);
    assert_eq!(rows.last().map(|row| &*row.info.name), Some(BURNER));
    assert!(rows.iter().all(|row| row.flags.is_empty()), "{rows:?}");
}

/// Drops this thread's privileges.
#[expect(unsafe_code, reason = "capset(2)")]
fn drop_capabilities() {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    // _LINUX_CAPABILITY_VERSION_3; effective, permitted and inheritable sets of 2 x 32 bits: none.
    let (header, none) = (Header { version: 0x2008_0522, pid: 0 }, [0_u32; 6]);
    // SAFETY: both pointers are to live values of the layout that capset(2) tells.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    assert_eq!(result, 0);
}

#[test]
fn without_permission_the_reason_says_what_to_grant() {
    let unprivileged = std::thread::spawn(|| {
        drop_capabilities();
        let choose = |choice| open(&SourceOptions { choice, ..SourceOptions::default() });
        let refused = choose(SourceChoice::Bpf).unwrap_err().to_string();
        assert!(refused.contains("CAP_BPF CAP_PERFMON") && !refused.contains('\n'), "{refused}");
        println!("{refused}");
        let fallen_back = choose(SourceChoice::Auto).unwrap();
        assert_eq!(fallen_back.kind, SourceKind::Procfs);
        assert!(fallen_back.reason.starts_with("procfs: ") && fallen_back.reason.contains("CAP_BPF"));
    });
    unprivileged.join().unwrap();
}

/// Memory of this process that is not a mapped file, KiB. (The ring buffer's pages count as they are used, once.)
fn anonymous_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

fn many_passes_do_not_grow(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let mut snapshot = Snapshot::default();
    let mut most_threads = 0;
    let mut kib_after = |passes| {
        for _ in 0..passes {
            source.source.snapshot(&mut snapshot).unwrap();
            most_threads = most_threads.max(u64::from(snapshot.thread_count));
        }
        anonymous_kib()
    };
    let early = kib_after(100);
    let late = kib_after(700);
    println!("{early} KiB, {late} KiB");
    // Buffers hold the most threads there ever were: less than 1 KiB for each. One leaked record for each thread and
    // pass would be much more.
    assert!(late < early + 1_024 + most_threads, "{early} {late} {most_threads}");
}

fn a_quiet_pass_allocates_nothing(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let mut snapshots = [Snapshot::default(), Snapshot::default()];
    // Every list gets to know some execs and exits; the lists of events change places at each pass.
    for snapshot in &mut snapshots {
        for _ in 0..30 {
            assert!(Command::new("/bin/true").status().unwrap().success());
        }
        source.source.snapshot(snapshot).unwrap();
    }
    let (mut alike, mut quiet, mut grown) = (0, 0, 0);
    for _ in 0..300 {
        let [before, after] = &mut snapshots;
        std::mem::swap(before, after);
        let count = allocations();
        source.source.snapshot(after).unwrap();
        let taken = allocations() - count;
        let keys = |snapshot: &Snapshot| snapshot.threads.iter().map(|thread| thread.key).collect::<Vec<_>>();
        let same_names = before.processes.iter().map(|p| &p.info).eq(after.processes.iter().map(|p| &p.info));
        alike =
            if after.exits.is_empty() && keys(before) == keys(after) && same_names { alike + 1 } else { 0 };
        // The machine is never quiet for long. Lists change places, so each needs a pass to grow.
        if alike > 4 {
            quiet += 1;
            grown += usize::from(taken > 0);
        }
    }
    // Threads that nobody sees, for they live and die between two passes, may make a list grow once.
    assert!(quiet > 10 && grown <= 1 + quiet / 50, "{grown} of {quiet} quiet passes allocated");
}
