//! What the demultiplexer refuses of senders that send too much, or garbage.

use super::*;

#[test]
fn garbage_is_counted_by_sender_and_stops_no_one() {
    let mut link = Link::new(10, EncoderOptions::default());
    let first = link.first();
    link.deliver(&first);
    assert!(link.deliver_one(b"hello").is_err());
    assert!(link.deliver_one(&first[0][..60]).is_err());
    let mut other_count = first[0].clone();
    other_count[54] ^= 1;
    other_count[44] = 99;
    link.deliver_one(&other_count).unwrap();
    other_count[54] ^= 3;
    assert!(link.deliver_one(&other_count).is_err());
    let totals = link.demux.totals();
    assert_eq!((totals.rejected, link.loss().rejected), (3, 1));
    let sender = *link.demux.rejected_senders().next().unwrap();
    assert_eq!((sender.address, sender.datagrams), (FROM.ip(), 3));
}

#[test]
fn hosts_beyond_the_limit_are_refused_and_counted() {
    let mut demux = Demux::new(DemuxOptions { max_hosts: 2, ..DemuxOptions::default() });
    let mut out = Datagrams::new();
    for seed in 0..3 {
        let machine = Machine::new(seed, 2, 4, 2);
        Encoder::new(EncoderOptions::default()).encode(
            &machine.host,
            &machine.snapshot,
            &Interval::default(),
            &mut out,
        );
        let result = demux.accept(&out.as_slice()[0], FROM, Moment::default(), &mut |_, _| {});
        assert_eq!(result.is_err(), seed == 2);
    }
    let v1 = demux.accept(&v1_process(7, "a"), FROM, Moment::default(), &mut |_, _| {});
    assert_eq!(v1, Err(Rejected::TooManyHosts { max_hosts: 2 }));
    assert_eq!((demux.hosts().count(), demux.totals().rejected_by_kind.of(RejectKind::Host)), (2, 2));
    let mut closed =
        Demux::new(DemuxOptions { accept_v1: false, accept_v2: false, ..DemuxOptions::default() });
    for datagram in [&v1_process(7, "a"), &out.as_slice()[0]] {
        let result = closed.accept(datagram, FROM, Moment::default(), &mut |_, _| {});
        assert!(matches!(result, Err(Rejected::NotAllowed { .. })));
    }
}

#[test]
fn threads_beyond_the_limit_are_left_out_and_counted() {
    let machine = Machine::new(1, 10, 100, 10);
    let mut out = Datagrams::new();
    Encoder::new(EncoderOptions::default()).encode(
        &machine.host,
        &machine.snapshot,
        &Interval::default(),
        &mut out,
    );
    let mut demux = Demux::new(DemuxOptions { max_threads_per_host: 30, ..DemuxOptions::default() });
    for datagram in &out {
        demux.accept(datagram, FROM, Moment::default(), &mut |_, _| {}).unwrap();
    }
    assert_eq!(demux.snapshot(machine.host.host).unwrap().threads.len(), 30);
    assert_eq!(demux.totals().rows_over_limit, 70);
}

#[test]
fn all_hosts_together_have_a_limit_and_so_have_their_texts() {
    let options = DemuxOptions {
        max_threads: 150,
        max_text_bytes_per_host: 1_200,
        max_text_bytes: 1_800,
        ..DemuxOptions::default()
    };
    let mut demux = Demux::new(options);
    let mut hosts = Vec::new();
    for seed in 0..2 {
        let machine = Machine::new(seed, 10, 100, 10);
        let mut out = Datagrams::new();
        Encoder::new(EncoderOptions::default()).encode(
            &machine.host,
            &machine.snapshot,
            &Interval::default(),
            &mut out,
        );
        for datagram in &out {
            demux.accept(datagram, FROM, Moment::default(), &mut |_, _| {}).unwrap();
        }
        hosts.push(machine.host.host);
    }
    let known = |host: usize| demux.snapshot(hosts[host]).unwrap();
    assert_eq!((known(0).threads.len(), known(1).threads.len()), (100, 50));
    let named = |host: usize| known(host).processes.iter().filter(|row| !row.info.name.is_empty()).count();
    assert!(named(0) > named(1) && named(0) < 10 && known(0).processes.len() == 10);
    assert!(demux.totals().rows_over_limit > 50);
}
