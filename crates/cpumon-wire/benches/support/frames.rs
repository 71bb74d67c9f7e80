//! Frames of a made-up host, for the benches of those that write, read and gather them.

use cpumon_model::{Interval, Snapshot};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions};

use crate::machine::Machine;

/// Snapshots of a machine, each with the interval that it ends.
pub fn history(
    processes: usize,
    threads: usize,
    active: usize,
    rounds: usize,
    has_sched: bool,
) -> (Machine, Vec<(Snapshot, Interval)>) {
    let mut machine = Machine::new(1, processes, threads, active);
    if !has_sched {
        machine.forget_sched();
    }
    let mut list = vec![(machine.snapshot.clone(), Interval::default())];
    for round in 0..rounds {
        let before = machine.snapshot.clone();
        machine.run();
        if round % 4 == 3 {
            machine.churn(1, 1);
        }
        if !has_sched {
            machine.forget_sched();
        }
        list.push((machine.snapshot.clone(), Interval::between(&before, &machine.snapshot)));
    }
    (machine, list)
}

/// Datagrams of all snapshots but the first, of a sender that repeats nothing.
pub fn datagrams_of(threads: usize, has_sched: bool) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, u64) {
    let (machine, list) = history(50, threads, 200, 60, has_sched);
    let options =
        EncoderOptions { refresh_snapshots: 65_535, full_snapshots: 1, ..EncoderOptions::default() };
    let mut encoder = Encoder::new(options);
    let mut out = Datagrams::new();
    let (mut first, mut rest, mut rows) = (Vec::new(), Vec::new(), 0);
    for (at, (snapshot, interval)) in list.iter().enumerate() {
        let report = encoder.encode(&machine.host, snapshot, interval, &mut out);
        if at == 0 {
            first.extend(out.iter().cloned());
        } else {
            rest.extend(out.iter().cloned());
            rows += report.changed_threads + report.refreshed_threads;
        }
    }
    (first, rest, rows)
}
