//! What a snapshot costs from datagram to interval, in CPU time of the thread. `cargo bench -p cpumon-receiver`.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use cpumon_model::Moment;
use cpumon_receiver::{Demux, DemuxOptions};
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use frames::datagrams_of;
use rustix::time::{ClockId, clock_gettime};

#[path = "../../cpumon-wire/benches/support/frames.rs"]
mod frames;
#[path = "../../cpumon-wire/tests/it/machine.rs"]
mod machine;

/// CPU time of this thread: on a machine that does other things too, it is what two variants can be compared by.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).unwrap_or(0))
    }

    fn end(&self, begin: Duration) -> Duration {
        self.start().saturating_sub(begin)
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, time: &Duration) -> f64 {
        time.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

fn receive(criterion: &mut Criterion<CpuTime>) {
    let from = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 3001);
    for (threads, has_sched) in [(200, true), (200, false), (2_000, true), (10_000, true)] {
        let (first, rest, rows) = datagrams_of(threads, has_sched);
        let mut group = criterion.benchmark_group(if has_sched {
            format!("200 changed of {threads}")
        } else {
            format!("200 changed of {threads}, without the scheduler's events")
        });
        group.throughput(Throughput::Elements(rows));
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
    config = Criterion::default().with_measurement(CpuTime).sample_size(20).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = receive
}
criterion_main!(benches);
