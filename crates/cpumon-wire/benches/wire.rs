//! What a snapshot costs as bytes: encode, decode. `cargo bench -p cpumon-wire`.
//! Also prints the size of a frame per changed thread.

use std::hint::black_box;
use std::time::Duration;

use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions, Frame};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use frames::{datagrams_of, history};

#[path = "support/frames.rs"]
mod frames;
#[path = "../tests/it/machine.rs"]
mod machine;

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

fn receive(criterion: &mut Criterion) {
    for (threads, has_sched) in [(200, true), (200, false), (2_000, true), (10_000, true)] {
        let (_, rest, rows) = datagrams_of(threads, has_sched);
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
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = encode, receive
}
criterion_main!(benches);
