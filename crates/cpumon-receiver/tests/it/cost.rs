//! What the worst valid datagrams cost: bytes that are kept, and CPU time. Limits that count bytes on the wire do not bound either.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use cpumon_model::{Interval, Moment};
use cpumon_receiver::{Demux, DemuxOptions, MemoryLimits, Rejected, SourceRate};
use rustix::time::{ClockId, clock_gettime};

use crate::tables::{
    Head, MAX_DATAGRAM, cpus, delays, delays_from, exits, exits_from, gone, gone_in_many_columns, irqs,
    irqs_with_long_name, named_host, named_process, named_processes, processes, processes_from,
    processes_with_long_texts, threads, threads_from, threads_that_ran, totals, waits_for,
};

const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), 40_000);
const SECOND_NS: u64 = 1_000_000_000;

fn at(mono_ns: u64) -> Moment {
    Moment { mono_ns, boot_ns: mono_ns, ..Moment::default() }
}

/// CPU time of this thread: other tests run beside this one.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap(), u32::try_from(now.tv_nsec).unwrap())
}

/// Counts the rows and intervals that are given out.
struct Receiver {
    demux: Demux,
    sent: usize,
    rows: usize,
    sequences: Vec<u64>,
}

impl Receiver {
    fn new(options: DemuxOptions) -> Self {
        Self { demux: Demux::new(options), sent: 0, rows: 0, sequences: Vec::new() }
    }

    fn send(&mut self, datagram: &[u8], from: SocketAddr, mono_ns: u64) -> Result<(), Rejected> {
        assert!(datagram.len() <= MAX_DATAGRAM, "{} bytes", datagram.len());
        self.sent += datagram.len();
        let Self { demux, rows, sequences, .. } = self;
        demux.accept(datagram, from, at(mono_ns), &mut |_, interval: &Interval| {
            *rows += interval.threads.len() + interval.processes.len();
            sequences.push(interval.sequence);
        })
    }

    fn held(&self) -> usize {
        self.demux.held_bytes()
    }
}

/// Sections that together fill a datagram, each row as short as it may be.
fn worst_sections() -> Vec<Vec<Vec<u8>>> {
    let rows = (MAX_DATAGRAM - 200) / 4;
    let no_text = vec![0xff; 60_000];
    vec![
        // Rows that only say that their text is that of the row before.
        vec![totals(60_000), processes_with_long_texts(6_000, 16, &no_text[..24_000])],
        vec![totals(60_000), irqs_with_long_name(1_024, &no_text)],
        vec![totals(60_000), named_processes(120, &"n".repeat(255), &"c".repeat(270))],
        vec![totals(60_000), irqs(rows, 32)],
        // Values that take no bits: the same in each row.
        vec![totals(60_000), gone_in_many_columns(rows, 32, 9)],
        vec![totals(60_000), threads(rows, 32)],
        vec![totals(60_000), processes(rows, 32)],
        vec![totals(60_000), exits(rows - 1_000, 33)],
        vec![totals(60_000), cpus(rows, 32)],
        vec![totals(60_000), gone(rows, 32)],
        vec![totals(60_000), delays(60_000, 8, true)],
        vec![totals(60_000), delays(60_000, 8, false)],
        vec![totals(60_000), waits_for(rows, 32)],
        vec![totals(60_000), threads(2_000, 32), processes(4_000, 32), exits(4_000, 33), cpus(4_500, 32)],
    ]
}

#[test]
fn rows_take_32_bits_of_a_datagram_on_average() {
    let mut receiver = Receiver::new(DemuxOptions::default());
    let short = Head::of(1, 1).frame(&[threads(60_000, 4)]);
    assert!(matches!(receiver.send(&short, FROM, 1), Err(Rejected::Decode(_))), "{} bytes", short.len());
    let parts = vec![threads(15_000, 8); 3];
    assert!(receiver.send(&Head::of(1, 1).frame(&parts), FROM, 1).is_err(), "in parts as well");
    let few = Head::of(1, 1).frame(&[threads(4_000, 4)]);
    assert_eq!(receiver.send(&few, FROM, 1), Ok(()), "an agent may write some that short");
}

#[test]
fn rows_without_counters_have_a_least_length_too() {
    let mut receiver = Receiver::new(DemuxOptions::default());
    for table in [gone(60_000, 8), irqs(60_000, 8), gone(65_000, 4), irqs(65_000, 4)] {
        assert!(receiver.send(&Head::of(1, 1).frame(&[table]), FROM, 1).is_err());
    }
    let delays = vec![delays(65_000, 4, true); 2];
    assert!(receiver.send(&Head::of(1, 1).frame(&delays), FROM, 1).is_err());
    let few = Head::of(1, 1).frame(&[gone(4_000, 4)]);
    assert_eq!(receiver.send(&few, FROM, 1), Ok(()), "an agent may write some that short");
}

#[test]
fn values_that_take_no_bits_are_bounded() {
    let mut receiver = Receiver::new(DemuxOptions::default());
    let many = Head::of(1, 1).frame(&[gone_in_many_columns(16_000, 32, 60)]);
    assert!(matches!(receiver.send(&many, FROM, 1), Err(Rejected::Decode(_))), "a million values");
    let few = Head::of(1, 1).frame(&[gone_in_many_columns(4_000, 8, 60)]);
    assert_eq!(receiver.send(&few, FROM, 1), Ok(()), "an agent may write some");
}

#[test]
fn one_source_holds_no_more_than_its_limit_whatever_it_sends() {
    let limit = MemoryLimits::PLAIN.source;
    let mut receiver = Receiver::new(DemuxOptions::default());
    let (sections, mut most) = (worst_sections(), 0);
    // Three snapshots at a time of each of 40 hosts, in two parts each; the second part comes late.
    for round in 0..240_u64 {
        let (host, kind) = (round % 40, usize::try_from(round).unwrap() % sections.len());
        let head = Head { fragments: 2, ..Head::of(host, round / 40) };
        let _ = receiver.send(&head.frame(&sections[kind]), FROM, SECOND_NS + round * 1_000_000);
        most = most.max(receiver.held());
        assert!(receiver.held() <= limit, "{} bytes after {round} datagrams", receiver.held());
    }
    assert!(most > limit / 2, "the limit was reached: {most} bytes");
    for round in 0..240_u64 {
        let head = Head { fragments: 2, fragment: 1, ..Head::of(round % 40, round / 40) };
        let _ = receiver.send(&head.frame(&[totals(1)]), FROM, 2 * SECOND_NS + round * 1_000_000);
        assert!(receiver.held() <= limit, "{} bytes after the second part {round}", receiver.held());
    }
    println!("{} bytes held at most of {} sent", most, receiver.sent);
    receiver.demux.flush(at(60 * SECOND_NS), &mut |_, _| {});
    receiver.demux.flush(at(90 * SECOND_NS), &mut |_, _| {});
    assert!(receiver.held() <= 4 << 20, "{} bytes a minute later", receiver.held());
}

#[test]
fn three_datagrams_hold_at_most_32_bytes_for_each_byte_sent() {
    let mut receiver = Receiver::new(DemuxOptions::default());
    let rows = (MAX_DATAGRAM - 200) / 4;
    for sequence in 0..3 {
        let datagram = Head { fragments: 2, ..Head::of(1, sequence) }.frame(&[threads(rows, 32)]);
        receiver.send(&datagram, FROM, SECOND_NS).unwrap();
    }
    let most = 32 * receiver.sent + (1 << 20);
    assert!(receiver.held() <= most, "{} bytes of {} sent", receiver.held(), receiver.sent);
    assert!(receiver.held() > most / 2, "{} bytes", receiver.held());
}

#[test]
fn texts_are_cut_and_count() {
    let mut receiver = Receiver::new(DemuxOptions::default());
    for sequence in 0..300_u64 {
        let name = format!("{sequence}{}", "n".repeat(59_000));
        let datagram = Head::of(1, sequence).frame(&[named_process(&name), named_host(&name[..4_000])]);
        receiver.send(&datagram, FROM, SECOND_NS * (sequence + 1)).unwrap();
    }
    assert_eq!(receiver.demux.hosts().next().unwrap().info.hostname.len(), 255);
    let known = receiver.demux.snapshot(receiver.demux.hosts().next().unwrap().info.host).unwrap();
    assert_eq!(known.processes[0].info.name.len(), 255);
    assert!(receiver.held() < 100_000, "{} bytes", receiver.held());
}

/// Tasks in each fragment, and fragments, of the next tests.
const ROWS: usize = 15_000;
const PARTS: u16 = 7;

/// Sends a snapshot of all tasks, a part in each fragment.
fn send_parts(receiver: &mut Receiver, sequence: u64, part: impl Fn(u64) -> Vec<Vec<u8>>) {
    for fragment in 0..PARTS {
        let first = 1 + u64::from(fragment) * ROWS as u64;
        let head = Head { fragments: PARTS, fragment, ..Head::of(1, sequence) };
        receiver.send(&head.frame(&part(first)), FROM, (sequence + 1) * SECOND_NS).unwrap();
    }
}

fn enrolled() -> Receiver {
    Receiver::new(DemuxOptions { plain: MemoryLimits::ENROLLED, ..DemuxOptions::default() })
}

/// CPU time that 105,000 rows may take without optimization: processes and exits take 0.4 s, and took 70 s when each was compared with
/// each; histograms take 1.5 s, and took 22 s when each was inserted by itself.
const MOST: Duration = Duration::from_secs(12);

#[test]
fn many_processes_that_end_at_once_cost_as_much_each_as_few() {
    let mut receiver = enrolled();
    send_parts(&mut receiver, 0, |first| vec![processes_from(first, ROWS)]);
    let before = cpu_time();
    send_parts(&mut receiver, 1, |first| vec![exits_from(first, ROWS)]);
    let took = cpu_time().checked_sub(before).unwrap();
    println!("{took:?}");
    assert!(receiver.rows >= 2 * ROWS * usize::from(PARTS), "{} rows", receiver.rows);
    assert!(took < MOST, "{took:?}");
}

#[test]
fn many_new_histograms_at_once_cost_as_much_each_as_few() {
    let mut receiver = enrolled();
    // A complete snapshot has all histograms, so what comes later had no delays before.
    let mut complete = Head::of(1, 0).frame(&[totals(0), delays_from(1_000_000, 1)]);
    complete[6] = 1;
    receiver.send(&complete, FROM, 1).unwrap();
    let before = cpu_time();
    // The lower ids last: each would move those behind it.
    for (sequence, from) in (1..).zip([400_000, 300_000, 200_000, 100_000]) {
        send_parts(&mut receiver, sequence, |first| {
            vec![delays_from(from + first, ROWS), threads_from(from + first, 1)]
        });
    }
    let took = cpu_time().checked_sub(before).unwrap();
    println!("{took:?}");
    assert!(receiver.held() > ROWS * usize::from(PARTS) * 100, "{} bytes: they are known", receiver.held());
    assert!(took < MOST, "{took:?}");
}

#[test]
fn one_datagram_holds_the_receiving_thread_for_a_moment() {
    let (sections, mut longest) = (worst_sections(), Duration::ZERO);
    for first in 0..sections.len() {
        let mut of_kind = Duration::ZERO;
        // The first snapshot becomes the known one; each later one is compared with the one before.
        let mut receiver = Receiver::new(DemuxOptions::default());
        for (sequence, second) in (0..).zip([first, first, (first + 1) % sections.len(), 2]) {
            for (fragment, kind) in (0..).zip([first, second, second]) {
                let head = Head { fragments: 3, fragment, ..Head::of(1, sequence) };
                let datagram = head.frame(&sections[kind]);
                let before = cpu_time();
                receiver.send(&datagram, FROM, SECOND_NS * (sequence + 1)).unwrap();
                of_kind = of_kind.max(cpu_time().checked_sub(before).unwrap());
            }
        }
        println!("{first}: {of_kind:?}");
        longest = longest.max(of_kind);
    }
    println!("longest: {longest:?}");
    // Measured with optimization: see docs/security.md. Without it some ten times as much.
    let most = if cfg!(debug_assertions) { 600 } else { 40 };
    assert!(longest < Duration::from_millis(most), "{longest:?}");
}

#[test]
fn a_host_begins_no_more_than_20_snapshots_a_second() {
    let options = DemuxOptions { source_rate: Some(SourceRate::default()), ..DemuxOptions::default() };
    let mut receiver = Receiver::new(options);
    receiver.send(&Head::of(1, 0).frame(&[totals(15_000), threads(15_000, 32)]), FROM, SECOND_NS).unwrap();
    let mut taken = 0;
    for number in 1..5_000_u64 {
        let datagram = Head::of(1, number).frame(&[exits(1, 17)]);
        // 1,000 a second.
        taken += u64::from(receiver.send(&datagram, FROM, SECOND_NS + number * 1_000_000).is_ok());
    }
    assert!((295..=301).contains(&taken), "200 at once, and 20 a second for 5 s: {taken}");
}

#[test]
fn a_fragment_older_than_all_that_wait_turns_no_interval_back() {
    let mut receiver = Receiver::new(DemuxOptions::default());
    receiver.send(&Head::of(1, 3).frame(&[threads_that_ran(10)]), FROM, 1).unwrap();
    let part = |sequence: u64, fragment: u16| {
        Head { fragments: 2, fragment, ..Head::of(1, sequence) }.frame(&[threads_that_ran(10)])
    };
    for (sequence, fragment) in [(5, 0), (6, 0), (7, 0), (4, 0), (4, 1), (5, 1), (6, 1), (7, 1)] {
        receiver.send(&part(sequence, fragment), FROM, 2).unwrap();
    }
    assert_eq!(receiver.sequences, [5, 6, 7]);
    let loss = receiver.demux.hosts().next().unwrap().loss;
    assert_eq!(
        (loss.snapshots, loss.snapshots_lost, loss.reordered),
        (4, 1, 4),
        "two of them too late to be used"
    );
}

#[test]
fn a_flood_of_host_ids_leaves_places_for_others() {
    let mut receiver = Receiver::new(DemuxOptions { max_hosts: 64, ..DemuxOptions::default() });
    let good = SocketAddr::from(([10, 0, 0, 1], 9));
    for sequence in 0..2 {
        receiver
            .send(&Head::of(1_000_000, sequence).frame(&[totals(1)]), good, SECOND_NS + sequence)
            .unwrap();
    }
    for id in 0..5_000 {
        let _ = receiver.send(&Head::of(id, 0).frame(&[]), FROM, 2 * SECOND_NS + id * 2_000_000);
    }
    assert_eq!(receiver.demux.tables().plain_hosts, 64);
    let newcomer = SocketAddr::from(([10, 0, 0, 2], 9));
    let now_ns = 13 * SECOND_NS;
    receiver.send(&Head::of(2_000_000, 0).frame(&[totals(1)]), newcomer, now_ns).unwrap();
    receiver.send(&Head::of(1_000_000, 2).frame(&[totals(1)]), good, now_ns + 1).unwrap();
    let loss =
        receiver.demux.hosts().filter(|host| host.address.starts_with("10.0.0.1")).map(|host| host.loss);
    assert_eq!(
        loss.map(|loss| (loss.snapshots, loss.snapshots_lost)).collect::<Vec<_>>(),
        [(3, 0)],
        "it stayed"
    );
    // Hosts of many sources: those that give out intervals keep their places until they are silent for 10 s.
    let mut receiver = Receiver::new(DemuxOptions { max_hosts: 64, ..DemuxOptions::default() });
    let from = |id: u8| SocketAddr::from(([10, 1, 0, id], 9));
    for sequence in 0..2 {
        for id in 0..64 {
            receiver.send(&Head::of(id.into(), sequence).frame(&[]), from(id), SECOND_NS).unwrap();
        }
    }
    let newcomer = Head::of(70, 0).frame(&[]);
    let full = Err(Rejected::TooManyHosts { max_hosts: 64 });
    assert_eq!(receiver.send(&newcomer, from(70), 10 * SECOND_NS), full);
    receiver.send(&Head::of(5, 2).frame(&[]), from(5), 10 * SECOND_NS).unwrap();
    assert_eq!(receiver.send(&newcomer, from(70), 12 * SECOND_NS), Ok(()));
    assert!(receiver.demux.hosts().any(|host| host.address.starts_with("10.1.0.5:")));
}

#[test]
fn v1_names_and_process_ids_are_bounded() {
    use cpumon_wire::v1::{Datagram, ProcessDatagram, encode};
    let mut receiver = Receiver::new(DemuxOptions::default());
    let limit = MemoryLimits::PLAIN.source;
    for process_id in 0..20_000_u32 {
        let name = format!("{process_id}{}", "n".repeat(if process_id < 3_000 { 31_000 } else { 0 }));
        let datagram = ProcessDatagram { name, process_id, duration_ms: 1_000, ..ProcessDatagram::default() };
        let mut bytes = Vec::new();
        encode(&Datagram::Process(datagram), &mut bytes).unwrap();
        receiver.send(&bytes, FROM, SECOND_NS).unwrap();
        assert!(receiver.held() <= limit, "{} bytes", receiver.held());
    }
    assert!(receiver.held() < 8 << 20, "{} bytes", receiver.held());
    receiver.demux.flush(at(10 * SECOND_NS), &mut |_, interval| assert_eq!(interval.processes.len(), 4_096));
    receiver.demux.flush(at(50 * SECOND_NS), &mut |_, _| {});
    assert_eq!(receiver.held(), 0);
}
