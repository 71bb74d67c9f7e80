//! Memory of the source: passes that see nothing new neither grow nor allocate.

use std::process::Command;
use std::time::Instant;

use cpumon_model::{Probes, Snapshot};

use super::bpf;
use crate::alone::{is_alone, run_alone};
use crate::counting::allocations;
use crate::eventually::PATIENCE;

super::twice! {
    many_passes_do_not_grow
    a_quiet_pass_allocates_nothing
    a_storm_leaves_no_capacity_behind
}

/// Memory of this process that is not a mapped file, KiB. (The ring buffer's pages count as they are used, once.)
fn anonymous_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

fn many_passes_do_not_grow(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    if !is_alone() {
        // Here other tests begin meanwhile, each with memory of its own.
        drop(source);
        let by = if probes.is_empty() { "by_clocks" } else { "by_switches" };
        return run_alone("", &format!("bpf::memory::{by}::many_passes_do_not_grow"));
    }
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
    let begin = Instant::now();
    // The machine is never quiet for long.
    while quiet < 100 {
        assert!(begin.elapsed() < PATIENCE, "{quiet} quiet passes");
        let [before, after] = &mut snapshots;
        std::mem::swap(before, after);
        let count = allocations();
        source.source.snapshot(after).unwrap();
        let taken = allocations() - count;
        let keys = |snapshot: &Snapshot| snapshot.threads.iter().map(|thread| thread.key).collect::<Vec<_>>();
        let same_names = before.processes.iter().map(|p| &p.info).eq(after.processes.iter().map(|p| &p.info));
        alike =
            if after.exits.is_empty() && keys(before) == keys(after) && same_names { alike + 1 } else { 0 };
        // Lists change places, so each needs a pass to grow.
        if alike > 4 {
            quiet += 1;
            grown += usize::from(taken > 0);
        }
    }
    // Threads that no pass sees, for they live and die between two passes, may make each list grow a few times.
    assert!(grown <= 1 + quiet / 8, "{grown} of {quiet} quiet passes allocated");
}

fn a_storm_leaves_no_capacity_behind(probes: Probes) {
    let Some((mut source, _turn)) = bpf(probes) else { return };
    let mut snapshots = [Snapshot::default(), Snapshot::default()];
    for snapshot in &mut snapshots {
        // Where the thread that empties the ring buffer waits for a CPU, some ends are lost: then again.
        let is_storm = (0..10).any(|_| {
            for _ in 0..6_000 {
                std::thread::spawn(|| ()).join().unwrap();
            }
            source.source.snapshot(snapshot).unwrap();
            snapshot.exits.len() > 5_000
        });
        assert!(is_storm, "{}", snapshot.exits.len());
    }
    let stormy_kib = anonymous_kib();
    for at in 0..20 {
        source.source.snapshot(&mut snapshots[at % 2]).unwrap();
    }
    let capacities = snapshots.each_ref().map(|snapshot| snapshot.exits.capacity());
    assert!(capacities.iter().all(|space| *space < 5_000), "{capacities:?}");
    println!("{stormy_kib} KiB in the storm, {} KiB after it", anonymous_kib());
}
