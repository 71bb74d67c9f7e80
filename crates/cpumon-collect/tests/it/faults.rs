//! Page faults of a thread, by each source, against the kernel's own count in /proc.

use std::sync::mpsc;

use cpumon_collect::{Opened, SourceChoice, SourceOptions, open};
use cpumon_model::{Fields, Interval, Probes, Snapshot};
use rustix::thread::gettid;

use crate::at_rest::wait_until_at_rest;
use crate::bpf::{ALL, bpf};

/// More than the allocator ever takes from memory that it has: the pages are new.
const TOUCHED_BYTES: usize = 40 << 20;

fn pass(source: &mut Opened) -> Snapshot {
    let mut snapshot = Snapshot::default();
    source.source.snapshot(&mut snapshot).unwrap();
    snapshot
}

/// Minor and major faults of a thread that rests: fields 10 and 12 of its stat (proc(5)).
fn faults_of(tid: u32) -> [i64; 2] {
    wait_until_at_rest(&[tid]);
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    [fields[7], fields[9]].map(|count| count.parse().unwrap())
}

fn faults_are_those_of_the_kernel(mut source: Opened) {
    let (wake, woken) = mpsc::channel::<()>();
    let (sender, sent) = mpsc::channel::<u32>();
    let toucher = std::thread::spawn(move || {
        let tid = gettid().as_raw_nonzero().get().cast_unsigned();
        sender.send(tid).unwrap();
        woken.recv().unwrap();
        // Each first write is a fault, or one of each huge page.
        let pages = std::hint::black_box(vec![1_u8; TOUCHED_BYTES]);
        sender.send(tid).unwrap();
        woken.recv().unwrap();
        drop(pages);
    });
    let tid = sent.recv().unwrap();
    let first = faults_of(tid);
    let before = pass(&mut source);
    wake.send(()).unwrap();
    sent.recv().unwrap();
    let touched = faults_of(tid);
    assert!(touched[0] > first[0], "{touched:?} after {first:?}");
    let after = pass(&mut source);
    let interval = Interval::between(&before, &after);
    wake.send(()).unwrap();
    toucher.join().unwrap();
    assert!(interval.fields.contains(Fields::FAULTS));
    let row = interval.threads.iter().find(|row| row.key.tid == tid).unwrap();
    let measured = [row.delta.minor_faults, row.delta.major_faults];
    assert_eq!(measured, [touched[0] - first[0], touched[1] - first[1]]);
    let process = interval.process(row.process).unwrap();
    assert!(process.delta.minor_faults >= measured[0], "{:?}", process.delta);
}

#[test]
fn faults_by_procfs_are_those_of_the_kernel() {
    let _turn = crate::bpf::turn();
    let options = SourceOptions { choice: SourceChoice::Procfs, ..SourceOptions::default() };
    faults_are_those_of_the_kernel(open(&options).unwrap());
}

#[test]
fn faults_by_bpf_are_those_of_the_kernel() {
    for probes in [Probes::empty(), ALL] {
        let Some((source, _turn)) = bpf(probes) else { return };
        faults_are_those_of_the_kernel(source);
    }
}
