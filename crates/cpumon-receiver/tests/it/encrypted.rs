//! Encrypted datagrams at the receiver: their hosts, refusals, and the counts of refusals.

use std::net::{Ipv4Addr, SocketAddr};

use cpumon_model::{Interval, Moment, Trust};
use cpumon_receiver::{Demux, DemuxOptions, RejectKind, Rejected};
use cpumon_wire::encrypted::{DecryptError, Encryptor};
use cpumon_wire::v2::{Encoder, EncoderOptions};
use cpumon_wire::{Datagrams, v1};

use crate::encrypted_agent::{Agent, frame, key};
use crate::machine::Machine;

const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), 40_000);

#[test]
fn damaged_encryption_and_encrypted_damage_never_panic() {
    let mut random = crate::machine::Random(20_261_122);
    let mut demux = Demux::new(DemuxOptions { max_hosts: 20, ..DemuxOptions::default() });
    demux.decryptor.set_keys(&[key(1)]);
    let mut agent = Agent::start(&key(1), 5, 6, 100);
    let rounds = if cfg!(debug_assertions) { 8_000 } else { 60_000 };
    for round in 0..rounds {
        let bytes = if round % 2 == 0 { agent.datagram() } else { frame(5, 6, round) };
        let mut damaged = bytes;
        for _ in 0..=random.below(4) {
            let at = usize::try_from(random.below(damaged.len() as u64)).unwrap();
            match random.below(3) {
                0 => damaged[at] ^= 1 << random.below(8),
                1 => damaged[at] = random.next().to_le_bytes()[0],
                _ => damaged.truncate(at + 1),
            }
        }
        let mut one = Datagrams::from(vec![damaged]);
        if round % 2 == 1 {
            agent.encryptor.encrypt(&mut one).unwrap();
        }
        for datagram in &one {
            let _ = demux.accept(datagram, FROM, Moment::default(), &mut |_, _| {});
        }
    }
    let totals = demux.totals();
    assert!(totals.opened > 100 && totals.rejected_by_kind.of(RejectKind::BadTag) > 100, "{totals:?}");
}

/// A receiver that has a key.
fn demux(v1: bool, v2: bool) -> Demux {
    let mut demux = Demux::new(DemuxOptions { accept_v1: v1, accept_v2: v2, ..DemuxOptions::default() });
    demux.decryptor.set_keys(&[key(1)]);
    demux
}

#[test]
fn hosts_of_encrypted_and_of_plain_datagrams_are_kept_apart() {
    let mut machine = Machine::new(3, 5, 20, 20);
    let (mut encoder, mut plain) = (Encoder::new(EncoderOptions::default()), Datagrams::new());
    let mut encryptor = Encryptor::new(&key(1), 1, [7; 16]);
    let mut demux = demux(true, true);
    let (mut trusts, mut run_ns) = (Vec::new(), 0_u64);
    for second in 1..=3 {
        let before = machine.snapshot.clone();
        machine.run();
        let interval = Interval::between(&before, &machine.snapshot);
        encoder.encode(&machine.host, &machine.snapshot, &interval, &mut plain);
        let mut encrypted = plain.clone();
        encryptor.encrypt(&mut encrypted).unwrap();
        let now = Moment { mono_ns: second * 1_000_000_000, ..Moment::default() };
        for datagram in plain.iter().chain(&encrypted) {
            let take = |status: &cpumon_model::HostStatus, interval: &Interval| {
                trusts.push(status.trust);
                run_ns += interval.threads.iter().map(|row| row.delta.run_ns.unsigned_abs()).sum::<u64>();
            };
            demux.accept(datagram, FROM, now, &mut { take }).unwrap();
        }
    }
    trusts.sort_by_key(|trust| trust.name());
    assert_eq!(trusts, [Trust::Encrypted, Trust::Encrypted, Trust::Unauthenticated, Trust::Unauthenticated]);
    assert_eq!(demux.hosts().count(), 2);
    assert!(demux.decryptor.hosts().eq([machine.host.host]) && demux.snapshot(machine.host.host).is_some());
    assert!(run_ns > 0);
}

#[test]
fn what_is_refused_is_counted_by_kind_and_by_sender() {
    let mut demux = demux(false, false);
    let mut agent = Agent::start(&key(1), 5, 6, 100);
    let good = agent.datagram();
    let mut bad = agent.datagram();
    bad[60] ^= 1;
    let foreign = Agent::start(&key(2), 5, 6, 100).datagram();
    let plain = frame(5, 6, 9);
    let v1 = v1::END_OF_TRANSFER;
    let mut take = |datagram: &[u8]| demux.accept(datagram, FROM, Moment::default(), &mut |_, _| {});
    assert_eq!(take(&good), Ok(()));
    assert!(matches!(take(&good), Err(Rejected::Decrypt(DecryptError::Replayed))));
    for refused in [&bad[..], &foreign, &plain, &v1, b"cpu", &[0x63, 0xb5, 0x6d, 0x73, 1]] {
        assert!(take(refused).is_err());
    }
    let counts: Vec<(&str, u64)> =
        demux.totals().rejected_by_kind.iter().map(|(kind, count)| (kind.name(), count)).collect();
    let expected =
        [("malformed", 1), ("plain", 1), ("v1", 2), ("unknown_key", 1), ("bad_seal", 1), ("replayed", 1)];
    assert_eq!(counts, expected, "three bytes of another kind are v1 as well");
    let sender = demux.refusals.iter().next().unwrap();
    assert_eq!((sender.count, sender.by_kind.of(RejectKind::BadTag)), (7, 1));
    let loss = demux.hosts().next().unwrap().loss;
    assert_eq!((loss.duplicates, loss.rejected), (1, 1));
}
