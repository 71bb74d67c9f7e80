//! A receiver that gets snapshots of any tasks and tables of any columns, from three hosts behind three addresses: in any order, some
//! changed, some twice, some not at all. Intervals come out sorted, and what hosts hold is bounded.
#![no_main]

mod made;

use std::net::{Ipv4Addr, SocketAddr};

use cpumon_model::{Interval, Moment};
use cpumon_receiver::{Demux, DemuxOptions, MemoryLimits};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

fn check(interval: &Interval) {
    assert!(interval.processes.is_sorted_by(|a, b| a.key < b.key), "processes ascend");
    assert!(interval.cpus.is_sorted_by(|a, b| a.cpu < b.cpu), "CPUs ascend");
}

fn run(from: &mut Unstructured<'_>) -> Result<()> {
    let mut demux = Demux::new(DemuxOptions { max_hosts: 8, ..DemuxOptions::default() });
    let (mut now, mut taken) = (Moment::default(), 0);
    for step in 0..from.int_in_range(1..=12)? {
        let sequence = if from.ratio(1, 4)? { from.int_in_range(0..=12)? } else { step };
        let mut datagrams =
            if from.arbitrary()? { made::encoded(from, sequence)? } else { vec![made::framed(from, sequence)?] };
        if from.arbitrary()? {
            datagrams.reverse();
        }
        let address = Ipv4Addr::from_bits(from.int_in_range(1..=3)?);
        for datagram in &mut datagrams {
            if from.ratio(1, 8)? {
                made::change(from, datagram)?;
            }
            for _ in 0..from.int_in_range(0..=4)?.min(2) {
                now.mono_ns += 50_000_000;
                let from = SocketAddr::new(address.into(), 3001);
                let _ = demux.accept(datagram, from, now, &mut |_, interval| check(interval));
                taken += 1;
                let most = 3 * MemoryLimits::PLAIN.source;
                assert!(demux.held_bytes() <= most, "{:?}", demux.tables());
            }
        }
        demux.flush(now, &mut |_, interval| check(interval));
    }
    assert_eq!(demux.totals().datagrams, taken);
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    // An input that ends too early is one of fewer datagrams.
    let _ = run(&mut Unstructured::new(bytes));
});
