//! v2 frames: what goes in comes out, in few bytes.

use cpumon_model::{Interval, Snapshot};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions, Frame, decode};

use crate::carried::as_carried;
use crate::machine::Machine;

/// Puts all datagrams of a snapshot together as a receiver without history would.
pub fn gather(datagrams: &Datagrams) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for (at, bytes) in datagrams.iter().enumerate() {
        let frame = decode(bytes).unwrap();
        assert_eq!(usize::from(frame.header.fragment), at);
        assert_eq!(usize::from(frame.header.fragment_count), datagrams.len());
        add(&frame, &mut snapshot);
    }
    snapshot.sort();
    snapshot
}

fn add(frame: &Frame, snapshot: &mut Snapshot) {
    use cpumon_model::{CgroupSample, ExitSample, IrqSample, ProcessSample};
    use std::sync::Arc;
    let header = &frame.header;
    (snapshot.host, snapshot.boot) = (header.host, header.boot);
    (snapshot.sequence, snapshot.end) = (header.sequence, header.end);
    (snapshot.fields, snapshot.source) = (header.fields, header.source);
    snapshot.is_complete = header.is_complete;
    snapshot.irq_in_run_time = header.irq_in_run_time;
    if let Some(totals) = &frame.totals {
        snapshot.begin = totals.begin;
        snapshot.exited_total = totals.exited_total;
        snapshot.health = totals.health;
        (snapshot.pressure, snapshot.cgroups_left_out) = (totals.pressure, totals.cgroups_left_out);
        (snapshot.thread_count, snapshot.process_count) = (totals.thread_count, totals.process_count);
    }
    snapshot.cpus.extend(&frame.cpus);
    snapshot.threads.extend(frame.threads.iter().map(|row| row.sample));
    snapshot.processes.extend(frame.processes.iter().map(|row| ProcessSample {
        key: row.key,
        parent_pid: row.parent_pid,
        info: row.info.map(|text| Arc::new(frame.info(&text))).unwrap_or_default(),
        ended_threads: row.ended_threads,
    }));
    snapshot.irqs.extend(frame.irqs.iter().map(|row| IrqSample {
        irq: row.irq,
        name: frame.irq_name(row).unwrap_or_default().into(),
        time_ns: row.time_ns,
        count: row.count,
    }));
    snapshot.cgroups.extend(frame.cgroups.iter().filter_map(|row| {
        let about = row.about.as_ref()?;
        Some(CgroupSample {
            id: row.id,
            path: frame.cgroup_path(about).into(),
            limit: about.limit,
            limiter_bytes: about.limiter_bytes,
            throttle: row.throttle,
            pressure: row.pressure,
        })
    }));
    snapshot.waits_for.extend(&frame.waits_for);
    for row in &frame.delays {
        if let Some(delays) = snapshot.delays.iter_mut().find(|delays| delays.of == row.of) {
            Arc::make_mut(&mut delays.histogram).add(row.bucket, row.count);
        } else {
            let histogram = Arc::new([(row.bucket, row.count)].into_iter().collect());
            snapshot.delays.push(cpumon_model::Delays { of: row.of, histogram });
        }
    }
    snapshot.exits.extend(frame.exits.iter().map(|row| ExitSample {
        thread: row.thread,
        parent_pid: row.parent_pid,
        info: row.info.map(|text| Arc::new(frame.info(&text))).unwrap_or_default(),
        end_ns: row.end_ns,
        ends_process: row.ends_process,
    }));
}

#[test]
fn a_full_snapshot_comes_back_whole() {
    let mut machine = Machine::new(1, 50, 700, 200);
    machine.run();
    machine.churn(5, 5);
    let mut encoder = Encoder::new(EncoderOptions::default());
    let mut out = Datagrams::new();
    let report = encoder.encode(&machine.host, &machine.snapshot, &Interval::default(), &mut out);
    assert_eq!((report.rows_lost, report.texts_cut), (0, 0));
    assert!(out.iter().all(|datagram| datagram.len() <= 1_400));
    assert_eq!(gather(&out), as_carried(&machine.snapshot));
}

/// Bytes of frames per changed thread if 200 threads change: headers, totals and CPUs included, names left out.
fn bytes_per_changed_thread(has_sched: bool) -> f64 {
    let mut total = (0, 0);
    for seed in 0..10 {
        let mut machine = Machine::new(seed, 50, 200, 200);
        if !has_sched {
            machine.forget_sched();
        }
        let options = EncoderOptions { refresh_snapshots: 65_535, ..EncoderOptions::default() };
        let mut encoder = Encoder::new(options);
        let mut out = Datagrams::new();
        for round in 0..6 {
            let before = machine.snapshot.clone();
            machine.run();
            let interval = Interval::between(&before, &machine.snapshot);
            let report = encoder.encode(&machine.host, &machine.snapshot, &interval, &mut out);
            if round >= 3 {
                assert_eq!((report.changed_threads, report.refreshed_threads), (200, 0));
                total = (total.0 + out.byte_count(), total.1 + 200);
            }
        }
    }
    total.0 as f64 / f64::from(total.1)
}

#[test]
fn two_hundred_changed_threads_take_less_than_23_bytes_each() {
    let bytes = bytes_per_changed_thread(false);
    eprintln!("{bytes:.2} bytes per changed thread, headers and totals included");
    assert!(bytes <= 23.0, "{bytes:.2} bytes per changed thread");
}

#[test]
fn the_schedulers_events_take_at_most_18_bytes_more() {
    let bytes = bytes_per_changed_thread(true) - bytes_per_changed_thread(false);
    eprintln!("{bytes:.2} bytes more with the scheduler's and interrupts' events");
    assert!(bytes <= 18.0, "{bytes:.2} bytes more per changed thread");
}

#[test]
fn many_short_rows_go_into_datagrams_that_a_decoder_takes() {
    let mut machine = Machine::new(1, 3, 9, 3);
    machine.forget_sched();
    let first = machine.snapshot.threads[0];
    let start_ns = first.key.start_ns;
    // As with /proc: threads that began in the same tick, and end without a record.
    machine.snapshot.threads.extend((1..=9_000).map(|more| cpumon_model::ThreadSample {
        key: cpumon_model::ThreadKey { tid: 100_000 + more, start_ns },
        counters: cpumon_model::Counters::default(),
        ..first
    }));
    machine.snapshot.sort();
    let before = machine.snapshot.clone();
    machine.idle();
    machine.snapshot.threads.retain(|thread| thread.key.tid < 100_000);
    let interval = Interval::between(&before, &machine.snapshot);
    for max_datagram in [1_400, 9_000, 65_000] {
        let options = EncoderOptions { max_datagram, full_snapshots: 1, ..EncoderOptions::default() };
        let (mut encoder, mut out) = (Encoder::new(options), Datagrams::new());
        for (snapshot, interval) in [(&before, &Interval::default()), (&machine.snapshot, &interval)] {
            let report = encoder.encode(&machine.host, snapshot, interval, &mut out);
            assert_eq!(report.rows_lost, 0);
        }
        let gone: usize = out.iter().map(|bytes| decode(bytes).unwrap().gone.len()).sum();
        assert_eq!(gone, 9_000, "datagrams of {max_datagram} bytes");
    }
}
