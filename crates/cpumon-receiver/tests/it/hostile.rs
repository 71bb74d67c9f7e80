//! Any bytes: the demux refuses or takes them, but never panics and never hoards memory.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use cpumon_model::Moment;
use cpumon_receiver::{Demux, DemuxOptions, RejectKind, SourceRate};
use cpumon_wire::dns_sd::browse;
use cpumon_wire::encrypted::GroupKey;

use crate::damage::{damage, seeds};
use crate::machine::Random;

#[test]
fn two_hundred_thousand_damaged_datagrams_never_panic() {
    let seeds = seeds();
    let mut random = Random(20_261_121);
    let mut demux = Demux::new(DemuxOptions { max_hosts: 50, ..DemuxOptions::default() });
    let mut bytes = Vec::new();
    let mut taken = 0_u32;
    let rounds = if cfg!(debug_assertions) { 60_000 } else { 200_000 };
    for round in 0..rounds {
        damage(&seeds, &mut random, &mut bytes);
        let from = SocketAddr::new(Ipv4Addr::from_bits(round % 80).into(), 3001);
        let now = Moment { mono_ns: u64::from(round) * 1_000_000, ..Moment::default() };
        taken += u32::from(demux.accept(&bytes, from, now, &mut |_, _| {}).is_ok());
        if round % 100 == 0 {
            demux.flush(now, &mut |_, _| {});
        }
    }
    let totals = demux.totals();
    assert_eq!((totals.datagrams, totals.rejected), (u64::from(rounds), u64::from(rounds - taken)));
    assert!(taken > rounds / 20 && totals.rejected > u64::from(rounds / 20));
    let tables = demux.tables();
    assert!(tables.plain_hosts <= 50 && tables.v1_hosts <= 50, "{tables:?}");
}

/// Whatever a fuzzer found worth keeping is taken as a datagram.
#[test]
fn what_fuzzers_kept_is_taken_without_a_panic() {
    let corpora = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus"));
    let from = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 3001);
    let mut demux = Demux::new(DemuxOptions { max_hosts: 8, ..DemuxOptions::default() });
    demux.decryptor.set_keys(&[GroupKey::new([7; 32])]);
    for target in ["connection", "sealed", "spool", "v1", "v2"] {
        for file in std::fs::read_dir(corpora.join(target)).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            let _ = demux.accept(&bytes, from, Moment::default(), &mut |_, _| {});
        }
    }
}

#[test]
fn an_ipv6_network_may_send_no_more_than_one_address() {
    let source_rate = Some(SourceRate { datagrams_per_s: 100, bytes_per_s: 0 });
    let mut demux = Demux::new(DemuxOptions { source_rate, ..DemuxOptions::default() });
    let mut send = |network: u16, host: u16| {
        let from = SocketAddr::new(Ipv6Addr::new(0x2001, 0xdb8, 0, network, 0, 0, 0, host).into(), 3001);
        demux.accept(b"garbage", from, Moment::default(), &mut |_, _| {}).unwrap_err().kind()
    };
    let refused = (0..1_000).filter(|&host| send(1, host) == RejectKind::Rate).count();
    assert_eq!(refused, 800, "all but what one source may send at once");
    assert_ne!(send(2, 1), RejectKind::Rate, "another network");
}

#[test]
fn a_query_for_receivers_is_no_measurement() {
    let mut demux = Demux::new(DemuxOptions::default());
    let bytes = browse(1);
    let from = "10.0.0.1:3001".parse().unwrap();
    demux.accept(&bytes, from, Moment::default(), &mut |_, _| {}).unwrap_err();
    assert_eq!(demux.hosts().count(), 0);
}
