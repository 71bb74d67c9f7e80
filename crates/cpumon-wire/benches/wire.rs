//! What a snapshot costs as bytes: encode, decode, demux (with the differ). `cargo bench -p cpumon-wire`.
//! Also prints the size of a frame per changed thread.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use cpumon_model::{Interval, Moment, Snapshot};
use cpumon_wire::v2::{Encoder, EncoderOptions, Frame};
use cpumon_wire::{Datagrams, Demux, DemuxOptions};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use machine::Machine;

#[path = "../tests/it/machine.rs"]
mod machine;

/// Snapshots of a machine, each with the interval that it ends.
fn history(
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

fn encode(criterion: &mut Criterion) {
    for (name, threads, active, has_sched) in [
        ("encode 200 changed of 200", 200, 200, true),
        ("encode 200 changed of 200, without the scheduler's events", 200, 200, false),
        ("encode 200 changed of 10,000", 10_000, 200, true),
        ("encode 0 changed of 10,000", 10_000, 0, true),
    ] {
        let (machine, list) = history(50, threads, active, 30, has_sched);
        let mut encoder = Encoder::new(EncoderOptions { refresh_snapshots: 30, ..EncoderOptions::default() });
        let mut out = Datagrams::new();
        let mut bytes = 0;
        for (snapshot, interval) in &list {
            encoder.encode(&machine.host, snapshot, interval, &mut out);
            bytes = out.byte_count();
        }
        eprintln!("{name}: {bytes} bytes in {} datagrams, refreshed tasks included", out.len());
        let mut at = 0;
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                at = 1 + at % (list.len() - 1);
                let (snapshot, interval) = &list[at];
                encoder.encode(&machine.host, black_box(snapshot), interval, &mut out)
            });
        });
    }
}

/// Datagrams of all snapshots but the first, of a sender that repeats nothing.
fn stream(threads: usize, has_sched: bool) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, u64) {
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

fn receive(criterion: &mut Criterion) {
    let from = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 3001);
    for (threads, has_sched) in [(200, true), (200, false), (2_000, true), (10_000, true)] {
        let (first, rest, rows) = stream(threads, has_sched);
        let bytes: usize = rest.iter().map(Vec::len).sum();
        eprintln!("{rows} rows in {bytes} bytes: {:.1} bytes a row", bytes as f64 / rows as f64);
        let mut group = criterion.benchmark_group(if has_sched {
            format!("200 changed of {threads}")
        } else {
            format!("200 changed of {threads}, without the scheduler's events")
        });
        group.throughput(Throughput::Elements(rows));
        let mut frame = Frame::default();
        group.bench_function("decode", |bencher| {
            bencher.iter(|| rest.iter().filter(|datagram| frame.decode(black_box(datagram)).is_ok()).count());
        });
        group.bench_function("demux", |bencher| {
            bencher.iter_batched_ref(
                || {
                    let mut demux = Demux::new(DemuxOptions::default());
                    for datagram in &first {
                        assert!(demux.accept(datagram, from, Moment::default(), &mut |_, _| {}).is_ok());
                    }
                    demux
                },
                |demux| {
                    let mut threads = 0;
                    for datagram in &rest {
                        let accepted = demux.accept(datagram, from, Moment::default(), &mut |_, interval| {
                            threads += interval.threads.len();
                        });
                        assert!(accepted.is_ok());
                    }
                    threads
                },
                criterion::BatchSize::LargeInput,
            );
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = encode, receive
}
criterion_main!(benches);
