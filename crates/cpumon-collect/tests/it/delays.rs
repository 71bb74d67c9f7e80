//! Run-delay histograms of this very kernel against the summed run delay, which is counted apart from them. Needs root (or
//! `CAP_BPF` and `CAP_PERFMON`): in CI it must run.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cpumon_collect::SourceOptions;
use cpumon_model::{DelayHistogram, DelayOf, Fields, Interval, Probes, ProcessKey, Snapshot};

use crate::bpf::bpf_for;
use crate::calm::when_calm;

const NAME: &str = "delay-load";
const PASSES: usize = 15;

/// Threads that push each other off the CPU, and wake up beside each other.
fn load(stop: &AtomicBool, pauses: bool) {
    while !stop.load(Ordering::Relaxed) {
        (0..20_000).for_each(|_| std::hint::spin_loop());
        if pauses {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

fn own_key(snapshot: &Snapshot) -> ProcessKey {
    let pid = std::process::id();
    snapshot.processes.iter().find(|process| process.key.pid == pid).unwrap().key
}

/// The largest error: delays that are open at either end, and those that ended between the cut and the reading of the histograms.
fn slack_ns(interval: &Interval, rows: usize) -> u64 {
    let longest = interval.processes.iter().map(|row| row.sched.longest_delay_ns).max().unwrap_or(0);
    u64::try_from(longest).unwrap() * 2 * rows as u64 + 5_000_000
}

#[test]
fn a_histogram_agrees_with_the_summed_run_delay() {
    when_calm(|| {
        let options = SourceOptions {
            probes: Probes::HISTOGRAMS,
            histogram_threads: vec![format!("{NAME}*").parse().unwrap()],
            ..SourceOptions::default()
        };
        let Some((mut opened, _turn)) = bpf_for(options) else { return };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for at in 0..6 {
                let stop = &stop;
                let spawn = std::thread::Builder::new().name(format!("{NAME}-{at}"));
                spawn.spawn_scoped(scope, move || load(stop, at % 2 == 0)).unwrap();
            }
            std::thread::sleep(Duration::from_millis(50));
            let mut snapshots = [Snapshot::default(), Snapshot::default()];
            // The first names the threads, the second counts theirs.
            for _ in 0..2 {
                opened.source.snapshot(&mut snapshots[0]).unwrap();
            }
            let mut merged = DelayHistogram::default();
            for _ in 0..PASSES {
                std::thread::sleep(Duration::from_millis(100));
                let [before, after] = &mut snapshots;
                opened.source.snapshot(after).unwrap();
                let interval = Interval::between(before, after);
                merged += check(before, after, &interval);
                snapshots.swap(0, 1);
            }
            stop.store(true, Ordering::Relaxed);
            println!(
                "p50 {:?} p99 {:?} max {:?} ns",
                merged.percentile_ns(50, None),
                merged.percentile_ns(99, None),
                merged.percentile_ns(100, None)
            );
            assert!(merged.total() > 200, "{merged:?}");
            assert!(merged.percentile_ns(50, None) < merged.percentile_ns(99, None), "{merged:?}");
        });
    });
}

/// Delays of some owners so far.
fn counted(snapshot: &Snapshot, which: impl Fn(DelayOf) -> bool) -> u64 {
    snapshot.delays.iter().filter(|row| which(row.of)).map(|row| row.histogram.total()).sum()
}

fn check<'i>(before: &Snapshot, after: &Snapshot, interval: &'i Interval) -> &'i DelayHistogram {
    assert!(interval.fields.contains(Fields::HISTOGRAMS));
    let key = own_key(after);
    let process = interval.process(key).unwrap();
    let own = interval.delays_of(DelayOf::Process(key)).expect("its threads wait for a CPU");
    let summed = u64::try_from(process.delta.run_delay_ns).unwrap();
    let slack = slack_ns(interval, 8);
    let range = own.sum_ns();
    assert!(
        summed + slack >= *range.start() && summed <= *range.end() + slack,
        "{summed} ns are not within {range:?}, give or take {slack}"
    );
    let threads: Vec<_> = interval.threads.iter().filter(|row| row.process == key).collect();
    let mut has_selected = false;
    for row in threads {
        let of = interval.delays_of(DelayOf::Thread(row.process, row.key));
        let is_named = row.comm.to_str_lossy().starts_with(NAME);
        assert!(of.is_none() || is_named, "{row:?} was not selected");
        let Some(of) = of else { continue };
        has_selected |= !of.is_empty();
        let summed = u64::try_from(row.delta.run_delay_ns).unwrap();
        assert!(
            summed <= *of.sum_ns().end() + slack && summed + slack >= *of.sum_ns().start(),
            "{row:?} {of:?}"
        );
    }
    assert!(has_selected);
    // A pass reads one after the other, and delays end in between: those that it counted for a part are in the next
    // pass's count of the whole.
    let of_threads = counted(before, |of| matches!(of, DelayOf::Thread(process, _) if process == key));
    let of_process = |snapshot| counted(snapshot, |of| of == DelayOf::Process(key));
    assert!(of_threads <= of_process(after), "{of_threads} of {}", of_process(after));
    let of_cpus = counted(after, |of| matches!(of, DelayOf::Cpu(_)));
    assert!(of_process(before) <= of_cpus, "each delay ends on a CPU: {} of {of_cpus}", of_process(before));
    assert_eq!(after.health.histogram_drops, 0);
    own
}

/// More processes than there are slots at the same time, but not more than ever: slots are given back.
#[test]
fn slots_of_ended_processes_are_used_again() {
    let options = SourceOptions { probes: Probes::HISTOGRAMS, ..SourceOptions::default() };
    let Some((mut opened, _turn)) = bpf_for(options) else { return };
    let mut snapshot = Snapshot::default();
    let mut named = 0;
    for _ in 0..12 {
        for _ in 0..200 {
            assert!(Command::new("/bin/true").status().unwrap().success());
        }
        opened.source.snapshot(&mut snapshot).unwrap();
        let is_short = |row: &&cpumon_model::Delays| match row.of {
            DelayOf::Process(key) => snapshot.processes.binary_search_by_key(&key, |row| row.key).is_err(),
            _ => false,
        };
        named += snapshot.delays.iter().filter(is_short).count();
        assert!(snapshot.delays.is_sorted_by(|a, b| a.of < b.of));
        assert!(snapshot.delays.len() < 2_048, "{}", snapshot.delays.len());
    }
    // A process that got the CPU at once may have waited for none it could count.
    assert!(named > 1_000, "{named} processes lived and died with a histogram");
    assert_eq!(snapshot.health.histogram_drops, 0);
}

/// Memory of this process that is mapped from BPF maps and may be written, KiB: the histograms, and two pages.
fn writable_map_kib() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_map = false;
    let mut kib = 0;
    for line in maps.lines() {
        if let Some(rss) = line.strip_prefix("Rss:") {
            let rss: u64 = rss.trim().trim_end_matches(" kB").parse().unwrap();
            kib += if is_map { rss } else { 0 };
        } else if line.contains('-') && line.split(' ').nth(1).is_some_and(|rights| rights.len() == 4) {
            is_map = line.contains(" rw-s ") && line.ends_with("anon_inode:bpf-map");
        }
    }
    kib
}

#[test]
fn only_the_histograms_in_use_are_mapped() {
    let options = SourceOptions { probes: Probes::HISTOGRAMS, ..SourceOptions::default() };
    let Some((mut opened, _turn)) = bpf_for(options) else { return };
    let mut snapshot = Snapshot::default();
    for _ in 0..3 {
        opened.source.snapshot(&mut snapshot).unwrap();
    }
    let owners = snapshot.delays.iter().filter(|row| matches!(row.of, DelayOf::Process(_))).count() as u64;
    assert!(owners > 0);
    // 1,040 bytes each, and up to the next power of two; many ended before the first snapshot.
    let kib = writable_map_kib();
    assert!(kib > owners && kib < 64 + owners.max(128) * 4, "{kib} KiB for {owners} histograms");
}
