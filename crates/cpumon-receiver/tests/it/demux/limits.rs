//! What the demultiplexer refuses of senders that send too much, or garbage.

use cpumon_model::{IrqSample, LOCAL_IRQ_FROM};

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
    let sender = *link.demux.refusals.iter().next().unwrap();
    assert_eq!((sender.source, sender.count), (FROM.ip().into(), 3));
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
        let from = SocketAddr::from(([10, 0, 1, u8::try_from(seed).unwrap()], 1));
        // The second one gives out an interval, so that both keep their places for a while.
        for sequence in 0..2 {
            let mut datagram = out.as_slice()[0].clone();
            (datagram[44], datagram[54]) = (sequence, 1);
            let result = demux.accept(&datagram, from, Moment::default(), &mut |_, _| {});
            assert_eq!(result.is_err(), seed == 2);
        }
    }
    let other = |number: u8| SocketAddr::from(([10, 0, 0, number], 1));
    for number in 0..3 {
        let v1 = demux.accept(&v1_process(7, "a"), other(number), Moment::default(), &mut |_, _| {});
        let is_full = number == 2;
        assert_eq!(
            v1.err(),
            is_full.then_some(Rejected::TooManyHosts { max_hosts: 2 }),
            "a table of its own"
        );
    }
    let full = demux.tables();
    assert_eq!((full.plain_hosts, full.v1_hosts, full.max_hosts), (2, 2, 2));
    assert_eq!((demux.hosts().count(), demux.totals().rejected_by_kind.of(RejectKind::Host)), (4, 3));
    let mut closed =
        Demux::new(DemuxOptions { accept_v1: false, accept_v2: false, ..DemuxOptions::default() });
    for datagram in [&v1_process(7, "a"), &out.as_slice()[0]] {
        let result = closed.accept(datagram, FROM, Moment::default(), &mut |_, _| {});
        assert!(matches!(result, Err(Rejected::NotAllowed { .. })));
    }
}

/// A limit of memory for any host.
fn small(bytes: usize) -> DemuxOptions {
    DemuxOptions { plain: MemoryLimits::one_host(bytes), ..DemuxOptions::default() }
}

fn deliver_first(demux: &mut Demux, machine: &Machine, from: SocketAddr) {
    let mut out = Datagrams::new();
    let snapshot = &machine.snapshot;
    Encoder::new(EncoderOptions::default()).encode(&machine.host, snapshot, &Interval::default(), &mut out);
    for datagram in &out {
        demux.accept(datagram, from, Moment::default(), &mut |_, _| {}).unwrap();
    }
}

#[test]
fn rows_beyond_the_limit_are_left_out_and_counted() {
    const LIMIT: usize = 60_000;
    let machine = Machine::new(1, 10, 300, 10);
    let mut demux = Demux::new(small(LIMIT));
    deliver_first(&mut demux, &machine, FROM);
    let known = demux.snapshot(machine.host.host).unwrap();
    let (threads, over) = (known.threads.len(), demux.totals().rows_over_limit);
    assert!((50..200).contains(&threads), "{threads} threads");
    assert!(over >= 300 - threads as u64, "{over} rows left out, {threads} threads kept");
    let held = demux.held_bytes();
    assert!(held <= LIMIT && held > LIMIT / 4, "{held} bytes");
}

/// They were counted for the host alone, and no frontend had the number.
#[test]
fn rows_of_v1_beyond_the_limit_are_in_the_totals() {
    let limits = v1::AssemblerLimits { max_processes: 3, ..v1::AssemblerLimits::default() };
    let mut demux = Demux::new(DemuxOptions { v1: limits, max_hosts: 1, ..DemuxOptions::default() });
    for pid in 1..=5 {
        demux.accept(&v1_process(pid, "many"), FROM, Moment::default(), &mut |_, _| {}).unwrap();
    }
    assert_eq!(demux.totals().rows_over_limit, 2);
    // The host gives way to another one, and its rows still count.
    let later = Moment { mono_ns: 60_000_000_000, ..Moment::default() };
    let other = SocketAddr::from(([10, 0, 0, 9], 1));
    demux.accept(&v1_process(1, "one"), other, later, &mut |_, _| {}).unwrap();
    assert_eq!((demux.hosts().count(), demux.totals().rows_over_limit), (1, 2));
}

#[test]
fn all_lines_of_an_agent_are_taken_with_its_local_interrupts() {
    let mut machine = Machine::new(1, 2, 4, 2);
    let numbers = (0..1_024).chain(LOCAL_IRQ_FROM..LOCAL_IRQ_FROM + 6);
    let random = &mut machine.random;
    let irqs = numbers.map(|irq| IrqSample {
        irq,
        name: "line".into(),
        time_ns: random.log_between(1e6, 1e11),
        count: random.log_between(1e2, 1e8),
    });
    machine.snapshot.irqs = irqs.collect();
    let mut demux = Demux::new(small(4 << 20));
    deliver_first(&mut demux, &machine, FROM);
    let known = demux.snapshot(machine.host.host).unwrap();
    assert_eq!((known.irqs.len(), demux.totals().rows_over_limit), (1_024 + 6, 0));
    assert_eq!(known.irqs.last().map(|irq| irq.irq), Some(LOCAL_IRQ_FROM + 5));
}

#[test]
fn a_host_at_its_limit_still_replaces_what_is_known() {
    let mut link = Link::new(3, EncoderOptions { full_snapshots: 1_000, ..EncoderOptions::default() });
    link.demux = Demux::new(small(88_000));
    let first = link.first();
    link.deliver(&first);
    for _ in 0..10 {
        let datagrams = link.step(Some((5, 5)), true);
        link.deliver(&datagrams);
    }
    let ran = link.intervals.last().unwrap().threads.iter().filter(|row| row.delta.run_ns > 0).count();
    assert!(ran > 30, "{ran} threads of the newest interval ran");
    assert!(link.demux.held_bytes() <= 88_000);
    let rows = link.intervals.iter().flat_map(|one| &one.threads);
    let unseen = rows.filter(|row| row.flags.contains(Flags::NO_FINAL_COUNTERS)).count();
    assert_eq!(unseen, 0, "rows that were left out are no endings");
}

#[test]
fn hosts_of_one_source_share_its_limit_and_others_have_their_own() {
    let limits = MemoryLimits { host: 100_000, source: 110_000, all: 1 << 20, per_sent_byte: 64 };
    let mut demux = Demux::new(DemuxOptions { plain: limits, ..DemuxOptions::default() });
    let machines: Vec<Machine> = (0..3).map(|seed| Machine::new(seed, 10, 300, 10)).collect();
    let other = SocketAddr::from(([10, 0, 0, 9], 1));
    for (machine, from) in machines.iter().zip([FROM, FROM, other]) {
        deliver_first(&mut demux, machine, from);
    }
    let threads = |at: usize| demux.snapshot(machines[at].host.host).unwrap().threads.len();
    assert!(threads(0) > threads(1) * 3 / 2, "{} and {}", threads(0), threads(1));
    assert_eq!(threads(0), threads(2));
    let held = demux.held_bytes();
    assert!(held <= 210_000, "{held} bytes");
}

#[test]
fn a_host_that_is_named_by_the_id_of_another_one_gets_another_name() {
    let mut link = Link::new(11, EncoderOptions::default());
    let other = HostId([0xab; 16]);
    link.machine.host.hostname = other.to_string().into();
    let first = link.first();
    link.deliver(&first);
    for _ in 0..3 {
        let datagrams = link.step(None, true);
        link.deliver(&datagrams);
    }
    assert_eq!(*link.status().info.hostname, *format!("host-{other}"));
    assert_eq!(link.demux.totals().changed_names, 1, "once, however often it is repeated");
}
