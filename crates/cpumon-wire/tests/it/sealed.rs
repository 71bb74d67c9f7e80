//! Sealed datagrams against everybody who has no key, or an old recording: what is let in was sealed by the group, once.

use std::net::{Ipv4Addr, SocketAddr};

use cpumon_model::{BootId, HostId, HostInfo, Interval, Moment, Snapshot, Trust};
use cpumon_wire::sealed::{GroupKey, HEADER_BYTES, MAX_KEYS, OVERHEAD_BYTES, Opener, SealError, Sealer};
use cpumon_wire::v2::{Encoder, EncoderOptions};
use cpumon_wire::{Datagrams, Demux, DemuxOptions, RejectKind, Rejected, v1};

use crate::machine::Machine;

const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), 40_000);

fn key(of: u8) -> GroupKey {
    GroupKey::new([of; 32])
}

/// A frame of this host and boot, with nothing in it.
fn frame(host: u8, boot: u8, sequence: u64) -> Vec<u8> {
    let info = HostInfo { host: HostId([host; 16]), boot: BootId([boot; 16]), ..HostInfo::default() };
    let snapshot = Snapshot { host: info.host, boot: info.boot, sequence, ..Snapshot::default() };
    let mut datagrams = Datagrams::new();
    Encoder::new(EncoderOptions::default()).encode(&info, &snapshot, &Interval::default(), &mut datagrams);
    datagrams.as_slice()[0].clone()
}

/// One agent start.
struct Agent {
    sealer: Sealer,
    host: u8,
    boot: u8,
    sequence: u64,
}

impl Agent {
    fn start(group: &GroupKey, host: u8, boot: u8, started: u64) -> Self {
        let random = (u128::from(started) << 16 | u128::from(host) << 8 | u128::from(boot)).to_be_bytes();
        Self { sealer: Sealer::new(group, started, random), host, boot, sequence: 0 }
    }

    fn datagram(&mut self) -> Vec<u8> {
        self.sequence += 1;
        let mut one = Datagrams::from(vec![frame(self.host, self.boot, self.sequence)]);
        self.sealer.seal(&mut one).unwrap();
        one.as_slice()[0].clone()
    }
}

fn opener(keys: &[GroupKey]) -> Opener {
    let mut opener = Opener::default();
    opener.set_keys(keys);
    opener
}

#[test]
fn what_the_group_sealed_comes_out_as_it_went_in() {
    let mut agent = Agent::start(&key(1), 5, 6, 100);
    let mut opener = opener(&[key(1)]);
    assert!(!opener.knows(HostId([5; 16])));
    for sequence in 1..50 {
        let datagram = agent.datagram();
        assert_eq!(opener.open(&datagram).unwrap(), frame(5, 6, sequence));
        assert_eq!(datagram.len(), frame(5, 6, sequence).len() + OVERHEAD_BYTES);
    }
    assert!(opener.knows(HostId([5; 16])) && opener.opened() == 49);
}

#[test]
fn each_changed_byte_and_each_cut_breaks_the_seal() {
    let datagram = Agent::start(&key(1), 5, 6, 100).datagram();
    let mut opener = opener(&[key(1)]);
    for at in 0..datagram.len() {
        for bit in [1, 0x80] {
            let mut changed = datagram.clone();
            changed[at] ^= bit;
            assert!(opener.open(&changed).is_err(), "byte {at}");
        }
        assert!(opener.open(&datagram[..at]).is_err(), "cut at {at}");
    }
    let longer = [&datagram[..], &[0]].concat();
    assert!(matches!(opener.open(&longer), Err(SealError::BadSeal(_))));
    assert!(!opener.knows(HostId([5; 16])), "nothing of them was kept");
    assert!(opener.open(&datagram).is_ok());
}

#[test]
fn a_key_that_is_not_in_use_opens_nothing() {
    let datagram = Agent::start(&key(1), 5, 6, 100).datagram();
    assert_eq!(opener(&[key(2)]).open(&datagram), Err(SealError::UnknownKey(key(1).id())));
    assert_eq!(opener(&[]).open(&datagram), Err(SealError::UnknownKey(key(1).id())));
    // Whoever writes another key's name on it.
    let mut renamed = datagram.clone();
    renamed[6..10].copy_from_slice(&key(2).id().0.to_le_bytes());
    assert_eq!(opener(&[key(2)]).open(&renamed), Err(SealError::BadSeal(key(2).id())));
}

#[test]
fn two_keys_are_good_while_one_replaces_the_other() {
    let (mut old, mut new) = (Agent::start(&key(1), 1, 1, 100), Agent::start(&key(2), 2, 2, 100));
    let mut opener = opener(&[key(1)]);
    assert!(opener.open(&old.datagram()).is_ok());
    assert!(opener.open(&new.datagram()).is_err());
    opener.set_keys(&[key(2), key(1)]);
    assert!(opener.open(&old.datagram()).is_ok() && opener.open(&new.datagram()).is_ok());
    // The device of the old key starts its agent anew with the new one: the host goes on.
    let mut moved = Agent::start(&key(2), 1, 1, 200);
    assert!(opener.open(&moved.datagram()).is_ok());
    let recorded = old.datagram();
    opener.set_keys(&[key(2)]);
    assert_eq!(opener.open(&recorded), Err(SealError::UnknownKey(key(1).id())));
    assert!(opener.open(&moved.datagram()).is_ok());
    opener.set_keys(&[key(2), key(1)]);
    assert_eq!(opener.open(&recorded), Err(SealError::Earlier), "a key that comes back brings nothing back");
    let many: Vec<GroupKey> = (0..9).map(key).collect();
    opener.set_keys(&many);
    assert_eq!(opener.key_ids().count(), MAX_KEYS);
}

#[test]
fn nothing_is_taken_twice_in_whatever_order_it_comes() {
    let mut agent = Agent::start(&key(1), 5, 6, 100);
    let mut opener = opener(&[key(1)]);
    let sent: Vec<Vec<u8>> = (0..100).map(|_| agent.datagram()).collect();
    for datagram in sent.iter().rev() {
        assert!(opener.open(datagram).is_ok());
        assert_eq!(opener.open(datagram), Err(SealError::Replayed));
    }
    for _ in 0..3_000 {
        opener.open(&agent.datagram()).unwrap();
    }
    assert_eq!(opener.open(&sent[0]), Err(SealError::Replayed), "out of the window");
}

#[test]
fn a_receiver_that_begins_again_remembers() {
    let (mut one, mut other) = (Agent::start(&key(1), 5, 6, 100), Agent::start(&key(1), 5, 6, 900));
    let mut before = opener(&[key(1)]);
    let recorded: Vec<Vec<u8>> = (0..20).flat_map(|_| [one.datagram(), other.datagram()]).collect();
    for datagram in &recorded {
        before.open(datagram).unwrap();
    }
    let text = before.memory();
    let mut after = opener(&[key(1)]);
    assert_eq!(after.recall(&text), 0, "{text}");
    assert_eq!(after.memory(), text);
    assert!(after.knows(HostId([5; 16])));
    for datagram in &recorded {
        assert_eq!(after.open(datagram), Err(SealError::Replayed));
    }
    assert!(after.open(&one.datagram()).is_ok() && after.open(&other.datagram()).is_ok());
    // Without the key these starts are over for good.
    let mut keyless = opener(&[key(2)]);
    keyless.recall(&text);
    keyless.set_keys(&[key(1)]);
    assert_eq!(keyless.open(&one.datagram()), Err(SealError::Earlier));
    assert!(keyless.open(&Agent::start(&key(1), 5, 6, 901).datagram()).is_ok());
    assert!(keyless.open(&Agent::start(&key(1), 5, 7, 3).datagram()).is_ok(), "another boot counts anew");
    assert_eq!(opener(&[]).recall("something else\nheard x"), 2);
    assert_eq!(opener(&[]).recall("cpumon sealed 1\nheard x\nover 1 2 3\n\n"), 3);
}

#[test]
fn the_agent_starts_of_a_host_are_bounded_and_old_ones_stay_over() {
    let mut opener = opener(&[key(1)]);
    let mut first = Agent::start(&key(1), 5, 6, 10);
    let recorded = first.datagram();
    assert!(opener.open(&recorded).is_ok());
    for start in 1..=20 {
        opener.open(&Agent::start(&key(1), 5, 6, 10 + start).datagram()).unwrap();
    }
    assert_eq!(opener.open(&recorded), Err(SealError::Earlier));
    assert_eq!(opener.open(&first.datagram()), Err(SealError::Earlier));
    assert_eq!(opener.memory().lines().filter(|line| line.starts_with("heard")).count(), 8);
    for boot in 0..200 {
        opener.open(&Agent::start(&key(1), 5, boot, 10_000).datagram()).unwrap();
    }
    assert!(opener.memory().lines().count() < 100);
}

#[test]
fn a_start_speaks_for_one_host() {
    let group = key(1);
    let mut opener = opener(std::slice::from_ref(&group));
    let mut sealer = Sealer::new(&group, 1, [9; 16]);
    let mut seal = |bytes: Vec<u8>| {
        let mut one = Datagrams::from(vec![bytes]);
        sealer.seal(&mut one).unwrap();
        one.as_slice()[0].clone()
    };
    assert!(opener.open(&seal(frame(1, 1, 1))).is_ok());
    assert_eq!(opener.open(&seal(frame(2, 1, 2))), Err(SealError::OtherHost));
    assert!(matches!(opener.open(&seal(vec![1, 2, 3])), Err(SealError::Malformed(_))));
}

#[test]
fn a_later_version_is_refused_by_name_and_a_longer_header_is_read() {
    let datagram = Agent::start(&key(1), 5, 6, 100).datagram();
    let mut later = datagram.clone();
    later[4] = 2;
    let error = opener(&[key(1)]).open(&later).unwrap_err();
    assert!(error.to_string().contains("version"), "{error}");
    // What a later program adds to the header is authenticated with the rest: without its seal it is broken.
    let mut longer = datagram.clone();
    longer[5] += 2;
    longer.splice(HEADER_BYTES..HEADER_BYTES, [1, 2]);
    assert!(matches!(opener(&[key(1)]).open(&longer), Err(SealError::BadSeal(_))));
}

#[test]
fn damaged_seals_and_sealed_damage_never_panic() {
    let mut random = crate::machine::Random(20_261_122);
    let mut demux = Demux::new(DemuxOptions { max_hosts: 20, ..DemuxOptions::default() });
    demux.set_keys(&[key(1)]);
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
            agent.sealer.seal(&mut one).unwrap();
        }
        for datagram in &one {
            let _ = demux.accept(datagram, FROM, Moment::default(), &mut |_, _| {});
        }
    }
    let totals = demux.totals();
    assert!(totals.opened > 100 && totals.rejected_by_kind.of(RejectKind::BadSeal) > 100, "{totals:?}");
}

/// A receiver that has a key.
fn demux(v1: bool, v2: bool) -> Demux {
    let mut demux = Demux::new(DemuxOptions { accept_v1: v1, accept_v2: v2, ..DemuxOptions::default() });
    demux.set_keys(&[key(1)]);
    demux
}

#[test]
fn hosts_of_sealed_and_of_plain_datagrams_are_kept_apart() {
    let mut machine = Machine::new(3, 5, 20, 20);
    let (mut encoder, mut plain) = (Encoder::new(EncoderOptions::default()), Datagrams::new());
    let mut sealer = Sealer::new(&key(1), 1, [7; 16]);
    let mut demux = demux(true, true);
    let (mut trusts, mut run_ns) = (Vec::new(), 0_u64);
    for second in 1..=3 {
        let before = machine.snapshot.clone();
        machine.run();
        let interval = Interval::between(&before, &machine.snapshot);
        encoder.encode(&machine.host, &machine.snapshot, &interval, &mut plain);
        let mut sealed = plain.clone();
        sealer.seal(&mut sealed).unwrap();
        let now = Moment { mono_ns: second * 1_000_000_000, ..Moment::default() };
        for datagram in plain.iter().chain(&sealed) {
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
    assert!(demux.sealed_hosts().eq([machine.host.host]) && demux.snapshot(machine.host.host).is_some());
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
    assert!(matches!(take(&good), Err(Rejected::Seal(SealError::Replayed))));
    for refused in [&bad[..], &foreign, &plain, &v1, b"cpu", &[0x63, 0xb5, 0x6d, 0x73, 1]] {
        assert!(take(refused).is_err());
    }
    let counts: Vec<(&str, u64)> =
        demux.totals().rejected_by_kind.iter().map(|(kind, count)| (kind.name(), count)).collect();
    let expected =
        [("malformed", 1), ("plain", 1), ("v1", 2), ("unknown_key", 1), ("bad_seal", 1), ("replayed", 1)];
    assert_eq!(counts, expected, "three bytes of another kind are v1 as well");
    let sender = demux.rejected_senders().next().unwrap();
    assert_eq!((sender.datagrams, sender.by_kind.of(RejectKind::BadSeal)), (7, 1));
    let loss = demux.hosts().next().unwrap().loss;
    assert_eq!((loss.duplicates, loss.rejected), (1, 1));
}
