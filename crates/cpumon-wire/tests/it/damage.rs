//! Damage to bytes, by chance. Shared with the receiver's tests.

use cpumon_model::Interval;
use cpumon_wire::Datagrams;
use cpumon_wire::v1::{self, ProcessDatagram, ThreadEntry};
use cpumon_wire::v2::{self, Encoder, EncoderOptions};

use crate::machine::{Machine, Random};

/// Datagrams of both protocols to damage.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut list = Vec::new();
    for seed in 0..4 {
        let mut machine = Machine::new(seed, 6, 30, 20);
        let mut encoder = Encoder::new(EncoderOptions { max_datagram: 700, ..EncoderOptions::default() });
        let mut out = Datagrams::new();
        for _ in 0..4 {
            let before = machine.snapshot.clone();
            machine.run();
            machine.churn(1, 2);
            let interval = Interval::between(&before, &machine.snapshot);
            encoder.encode(&machine.host, &machine.snapshot, &interval, &mut out);
            list.extend(out.iter().cloned());
        }
    }
    list.push(v1::END_OF_TRANSFER.to_vec());
    for threads in [0, 1, 5] {
        let process = ProcessDatagram {
            name: "device.exe".into(),
            process_id: 4,
            threads: vec![ThreadEntry::default(); threads],
            ..ProcessDatagram::default()
        };
        let mut bytes = Vec::new();
        v1::encode(&v1::Datagram::Process(process), &mut bytes).unwrap();
        list.push(bytes);
    }
    list
}

/// Flips, sets, cuts, repeats and joins bytes.
pub fn damage(seeds: &[Vec<u8>], random: &mut Random, bytes: &mut Vec<u8>) {
    let pick = |random: &mut Random, limit: usize| usize::try_from(random.below(limit as u64)).unwrap();
    bytes.clone_from(&seeds[pick(random, seeds.len())]);
    for _ in 0..=random.below(6) {
        if bytes.is_empty() {
            break;
        }
        let at = pick(random, bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][pick(random, 5)],
            2 => bytes[at] = random.next().to_le_bytes()[0],
            3 => bytes.truncate(at),
            4 => bytes.extend_from_within(at..),
            // Behind the header, where the tables describe themselves.
            _ => {
                let at = v2::HEADER_BYTES + pick(random, 40);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.next().to_le_bytes()[0];
                }
            }
        }
    }
}
