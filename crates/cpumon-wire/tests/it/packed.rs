//! Packed records of a simulated machine: they come back bit by bit and are small; hostile bytes cost little.

use cpumon_model::Interval;
use cpumon_wire::Datagrams;
use cpumon_wire::packed::{Packer, Unpacker};
use cpumon_wire::spool::push_snapshot;
use cpumon_wire::v2::{Encoder, EncoderOptions};

use crate::machine::{Machine, Random};

/// Records as an agent's connection has them, each with the number of threads that changed.
fn records(machine: &mut Machine, count: u64, has_churn: bool) -> Vec<(Vec<u8>, u64)> {
    let options =
        EncoderOptions { max_datagram: 65_000, full_snapshots: 1, is_lossless: true, ..Default::default() };
    let mut encoder = Encoder::new(options);
    let mut datagrams = Datagrams::new();
    let mut record = |number: u64| {
        let before = machine.snapshot.clone();
        machine.run();
        if has_churn {
            machine.churn(2, 3);
            crate::carried::wait_for_cpus(machine, 3);
        }
        if number % 16 == 1 {
            encoder.begin_again();
        }
        let (is_full, interval) = (encoder.is_next_full(), Interval::between(&before, &machine.snapshot));
        let report = encoder.encode(&machine.host, &machine.snapshot, &interval, &mut datagrams);
        let mut record = Vec::new();
        assert!(push_snapshot(
            &mut record,
            number,
            machine.snapshot.end.wall_ns,
            is_full,
            datagrams.as_slice()
        ));
        (record, report.changed_threads)
    };
    (1..=count).map(&mut record).collect()
}

fn packed(packer: &mut Packer, record: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    assert!(packer.pack(record, &mut packed));
    packed
}

#[test]
fn records_of_a_busy_machine_come_back_bit_by_bit() {
    for seed in 1..=4 {
        let mut machine = Machine::new(seed, 20, 120, 50);
        machine.reports_exits = seed % 2 == 0;
        let (mut packer, mut unpacker, mut back) = (Packer::default(), Unpacker::default(), Vec::new());
        for (record, _) in records(&mut machine, 40, true) {
            let packed = packed(&mut packer, &record);
            assert!(unpacker.unpack(&packed, &mut back).is_ok());
            assert!(back == record && packed.len() < record.len());
        }
    }
}

#[test]
fn a_record_that_is_sent_as_it_is_between_packed_ones_does_not_matter() {
    let all = records(&mut Machine::new(5, 10, 60, 20), 12, true);
    let (mut packer, mut unpacker, mut back) = (Packer::default(), Unpacker::default(), Vec::new());
    for (at, (record, _)) in all.iter().enumerate().filter(|(at, _)| at % 4 != 2) {
        assert!(unpacker.unpack(&packed(&mut packer, record), &mut back).is_ok(), "{at}");
        assert!(back == *record);
        assert!(!packer.pack(record, &mut Vec::new()), "numbers ascend");
    }
}

#[test]
fn a_channel_can_begin_at_any_full_snapshot() {
    let all = records(&mut Machine::new(6, 10, 60, 20), 40, true);
    for begin in [16, 32] {
        let (mut packer, mut unpacker, mut back) = (Packer::default(), Unpacker::default(), Vec::new());
        for (record, _) in &all[begin..] {
            assert!(unpacker.unpack(&packed(&mut packer, record), &mut back).is_ok());
            assert!(back == *record);
        }
    }
}

#[test]
fn packed_bytes_that_are_lost_doubled_or_damaged_are_refused_and_never_taken_for_others() {
    let all = records(&mut Machine::new(7, 10, 60, 20), 12, true);
    let mut packer = Packer::default();
    let sound: Vec<Vec<u8>> = all.iter().map(|(record, _)| packed(&mut packer, record)).collect();
    let until = |last: usize| {
        let (mut unpacker, mut back) = (Unpacker::default(), Vec::new());
        assert!(sound[..last].iter().all(|packed| unpacker.unpack(packed, &mut back).is_ok()));
        unpacker
    };
    let mut back = Vec::new();
    assert!(until(5).unpack(&sound[6], &mut back).is_err(), "one is missing");
    assert!(until(5).unpack(&sound[4], &mut back).is_err(), "one comes twice");
    let mut random = Random(7);
    for _ in 0..300 {
        let mut bytes = sound[5].clone();
        let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
        bytes[at] ^= 1 << random.below(8);
        bytes.truncate(bytes.len() - usize::try_from(random.below(3)).unwrap());
        // Damage that decompresses all the same is found by the checksum.
        let taken = until(5).unpack(&bytes, &mut back);
        assert!(taken.is_err() || back == all[5].0, "byte {at}");
    }
}

#[test]
fn a_few_bytes_do_not_become_many() {
    for fill in [0, 0xff, 0x55] {
        for length in [4, 64, 4_096] {
            let (mut unpacker, mut back) = (Unpacker::default(), Vec::new());
            for _ in 0..4 {
                assert!(unpacker.unpack(&vec![fill; length], &mut back).is_err());
                assert!(back.capacity() <= 32 << 20, "{} bytes", back.capacity());
            }
        }
    }
}

/// `cargo test -p cpumon-wire packed -- --nocapture` prints what docs/packed-format.md quotes.
#[test]
fn two_hundred_changed_threads_with_the_schedulers_events_take_at_most_55_percent() {
    let mut machine = Machine::new(1, 50, 400, 200);
    let all = records(&mut machine, 60, false);
    let mut packer = Packer::default();
    let (mut bytes, mut plain, mut rows) = (0, 0, 0);
    for (at, (record, changed)) in all.iter().enumerate() {
        let packed = packed(&mut packer, record);
        // The first ones are what the others are compared with; full ones have names.
        if at >= 8 && at % 16 != 0 {
            (bytes, plain, rows) = (bytes + packed.len() as u64, plain + record.len() as u64, rows + changed);
        }
    }
    let each = |bytes: u64| bytes as f64 / rows as f64;
    println!("{:.1} bytes a changed thread as records, {:.1} packed", each(plain), each(bytes));
    assert!(100 * bytes < 55 * plain, "{}", each(bytes));
}
