//! Run times of known loads: a spinner, a storm of processes, threads that come and go.

use std::collections::HashMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cpumon_model::{Interval, Life, Probes, ProcessKey, SourceKind, ThreadInterval};

use super::bpf;
use super::support::{BURNER, burn, burner, ns, pass, taken_out_ns, thread_cpu_ns, wait_with_usage, watch};

super::twice! {
    a_spinner_gets_its_cpu_time
    a_fork_storm_is_charged_to_its_program
    threads_that_come_and_go_leave_their_time
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
        // On both sides of each pass: this thread may lose its CPU in between.
        let read = || cpu_ns.load(Ordering::Relaxed);
        let (first_ns, before, second_ns) = (read(), pass(&mut source), read());
        std::thread::sleep(Duration::from_millis(700));
        let (third_ns, after, fourth_ns) = (read(), pass(&mut source), read());
        stop.store(true, Ordering::Relaxed);
        let interval = Interval::between(&before, &after);
        let row = interval.threads.iter().find(|row| row.comm.as_bytes() == b"bpf-spinner").unwrap();
        // The spinner publishes its time each ms, and a running thread's counter is up to a tick (10 ms at worst) old.
        let truth_ns = third_ns - second_ns - 15_000_000..=fourth_ns - first_ns + 15_000_000;
        assert!(truth_ns.contains(&row.delta.run_ns), "{} not in {truth_ns:?}", row.delta.run_ns);
        assert_eq!(row.delta.user_ns + row.delta.system_ns, row.delta.run_ns);
        assert_eq!((row.life, row.process.pid), (Life::Alive, std::process::id()));
    });
}

fn a_fork_storm_is_charged_to_its_program(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let dir = tempfile::tempdir().unwrap();
    let program = burner(dir.path());
    let (stop, before) = (AtomicBool::new(false), pass(&mut source));
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
    let (mut children, all) = (Vec::new(), AtomicUsize::new(0));
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
                rows.values().filter(|ends| **ends > 0).count() >= all.load(Ordering::SeqCst)
            });
        });
        children.extend(storms.into_iter().flat_map(|storm| storm.join().unwrap()));
        all.store(children.len(), Ordering::SeqCst);
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
    let (stop, before) = (AtomicBool::new(false), pass(&mut source));
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
                ended >= 300
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
        stop.store(true, Ordering::SeqCst);
        watcher.join().unwrap();
        truth_ns
    });
    println!("charged {charged_ns} of {truth_ns}");
    // Run time of a thread after it published its time: its end.
    assert!(
        charged_ns + interrupts_ns >= truth_ns && charged_ns < truth_ns + truth_ns / 10,
        "{charged_ns} of {truth_ns}, {interrupts_ns} in interrupts"
    );
    assert_eq!(ended, 300);
}
