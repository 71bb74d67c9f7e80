//! Identities: ids that are reused, programs that become others.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use cpumon_model::{ExitSample, Interval, Life, Probes, ProcessInterval, ProcessKey, Snapshot};

use super::bpf;
use super::support::{
    BURNER, LAST_SWITCH, burn, burner, exits_of, ns, pass, taken_out_ns, wait_with_usage, watch,
};
use crate::eventually::eventually;

super::twice! {
    a_reused_pid_is_another_process
    an_exec_renames_the_process
    an_exec_by_another_thread_counts_nothing_twice
    a_thread_with_another_s_id_that_ends_within_a_pass_is_there_once
}

/// Makes the kernel hand out `pid` next, if no other process takes it first.
fn ask_for_pid(pid: u32) -> bool {
    std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).is_ok()
}

fn a_reused_pid_is_another_process(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let before = pass(&mut source);
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
    assert_eq!(pids.len(), 2, "the pid was not used again");
    std::thread::sleep(LAST_SWITCH);
    let after = pass(&mut source);
    // Other tests and other programs may have had the number in between and afterwards.
    let of = |name: &str| {
        let exits =
            after.exits.iter().filter(|exit| exit.thread.key.tid == pids[0] && *exit.info.name == *name);
        let ours: Vec<_> = exits.filter(|exit| exit.parent_pid == std::process::id()).collect();
        assert!(matches!(ours[..], [exit] if exit.ends_process), "{name}: {:?}", after.exits);
        ours[0].thread.process
    };
    let (first, second) = (of("true"), of("echo"));
    assert!(first.start_ns < second.start_ns, "{first:?} {second:?}");
    let interval = Interval::between(&before, &after);
    let rows = |key: ProcessKey| interval.processes.iter().filter(|row| row.key == key).count();
    assert_eq!([first, second].map(rows), [1, 1]);
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
    let (key, shell, _) = name_of(&pass(&mut source)).unwrap();
    assert_ne!(shell, BURNER);
    std::io::Write::write_all(&mut input, b"\n").unwrap();
    let renamed = eventually("the shell has called exec", || {
        name_of(&pass(&mut source)).filter(|(.., comm)| *comm == BURNER[..15])
    });
    assert_eq!(renamed, (key, BURNER.to_owned(), BURNER[..15].to_owned()));
    drop(input);
    wait_with_usage(&mut child);
    let exit = exits_of(&mut source, &[pid]).remove(0);
    assert_eq!((exit.thread.process, &*exit.info.name, exit.ends_process), (key, BURNER, true));
    assert_eq!(name_of(&pass(&mut source)), None);
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

/// It is idle, is passed by as unchanged, and ends before the pass is over: its copy of the cut must not be a second thread.
fn a_thread_with_another_s_id_that_ends_within_a_pass_is_there_once(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let dir = tempfile::tempdir().unwrap();
    let program = burner(dir.path());
    let children: Vec<Child> =
        (0..40).map(|_| exec_from_second_thread(&program, Duration::from_millis(1))).collect();
    let gate = RwLock::new(());
    std::thread::scope(|scope| {
        // Opens when this ends, however it ends.
        let closed = gate.write().unwrap();
        // The iterator comes to these last, so most of a pass comes after the children.
        let late: Vec<_> = (0..2_000).map(|_| scope.spawn(|| gate.read().is_ok())).collect();
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(30));
            pass(&mut source);
        }
        let ended = scope.spawn(|| {
            for mut child in children {
                drop(child.stdin.take());
                child.wait().unwrap();
            }
        });
        // `pass` checks that each is there once.
        while !ended.is_finished() {
            pass(&mut source);
        }
        drop(closed);
        // The scope waits for their work, not for their ends: 2,000 of these would fill the buffer of the next test.
        let all = late.len();
        for thread in late {
            thread.join().unwrap();
        }
        let mut seen = 0;
        eventually("they have ended", || {
            let snapshot = pass(&mut source);
            let is_ours = |exit: &&ExitSample| exit.thread.process.pid == std::process::id();
            seen += snapshot.exits.iter().filter(is_ours).count();
            let lost = usize::try_from(snapshot.health.exits_lost).unwrap();
            (seen + lost >= all).then_some(())
        });
    });
}

fn an_exec_by_another_thread_counts_nothing_twice(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let dir = tempfile::tempdir().unwrap();
    let program = burner(dir.path());
    let (stop, before) = (AtomicBool::new(false), pass(&mut source));
    let (mut rows, mut interrupts_ns) = (Vec::<ProcessInterval>::new(), 0);
    let (child_pid, is_seen) = (AtomicU32::new(0), AtomicBool::new(false));
    let (pid, truth_ns) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            watch(&mut source, before, &stop, Duration::from_millis(15), |interval| {
                interrupts_ns += taken_out_ns(interval);
                rows.extend(
                    interval.processes.iter().filter(|row| row.parent_pid == std::process::id()).cloned(),
                );
                let pid = child_pid.load(Ordering::SeqCst);
                let Some(last) = rows.iter().rfind(|row| row.key.pid == pid) else { return false };
                is_seen.fetch_or(&*last.info.name == BURNER, Ordering::SeqCst);
                last.life == Life::Ended
            });
        });
        std::thread::sleep(Duration::from_millis(50));
        let mut child = exec_from_second_thread(&program, Duration::from_millis(100));
        child_pid.store(child.id(), Ordering::SeqCst);
        eventually("a pass sees what it became", || is_seen.load(Ordering::SeqCst).then_some(()));
        drop(child.stdin.take());
        let truth_ns = ns(wait_with_usage(&mut child));
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
