//! Run-delay histograms from the encoder to the receiver: a loss costs resolution, never a delay.

use std::net::SocketAddr;

use cpumon_model::{DelayHistogram, DelayOf, Delays, Fields, Interval, Moment};
use cpumon_receiver::{Demux, DemuxOptions};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions};

use crate::carried::wait_for_cpus;
use crate::machine::{Machine, Random};

const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4000);

struct Link {
    machine: Machine,
    encoder: Encoder,
    demux: Demux,
    now_ns: u64,
    intervals: Vec<Interval>,
}

impl Link {
    fn new(seed: u64, refresh_snapshots: u32) -> Self {
        let options = EncoderOptions { refresh_snapshots, max_datagram: 800, ..EncoderOptions::default() };
        let mut machine = Machine::new(seed, 12, 40, 20);
        wait_for_cpus(&mut machine, 12);
        Self {
            machine,
            encoder: Encoder::new(options),
            demux: Demux::new(DemuxOptions::default()),
            now_ns: 0,
            intervals: Vec::new(),
        }
    }

    /// The next second, as datagrams, and what the device itself sees.
    fn step(&mut self, busy: usize, ends: usize) -> (Vec<Vec<u8>>, Interval) {
        let before = self.machine.snapshot.clone();
        self.machine.run();
        self.machine.churn(ends, ends);
        wait_for_cpus(&mut self.machine, busy);
        let interval = Interval::between(&before, &self.machine.snapshot);
        (self.encode(&interval), interval)
    }

    fn encode(&mut self, interval: &Interval) -> Vec<Vec<u8>> {
        let mut out = Datagrams::new();
        let report = self.encoder.encode(&self.machine.host, &self.machine.snapshot, interval, &mut out);
        assert_eq!(report.rows_lost, 0);
        out.as_slice().to_vec()
    }

    fn deliver(&mut self, datagrams: &[Vec<u8>]) {
        for datagram in datagrams {
            self.now_ns += 1_000;
            let received = Moment { mono_ns: self.now_ns, ..Moment::default() };
            let intervals = &mut self.intervals;
            self.demux
                .accept(datagram, FROM, received, &mut |_, interval| intervals.push(interval.clone()))
                .unwrap();
        }
    }

    fn flush(&mut self) {
        self.now_ns += 10_000_000_000;
        let now = Moment { mono_ns: self.now_ns, ..Moment::default() };
        let intervals = &mut self.intervals;
        self.demux.flush(now, &mut |_, interval| intervals.push(interval.clone()));
    }

    /// All that was charged to an owner.
    fn charged(&self, of: DelayOf) -> DelayHistogram {
        let mut sum = DelayHistogram::default();
        self.intervals.iter().filter_map(|interval| interval.delays_of(of)).for_each(|delays| sum += delays);
        sum
    }
}

#[test]
fn without_loss_the_receiver_counts_what_the_device_counted() {
    let mut link = Link::new(1, 7);
    let first = link.encode(&Interval::default());
    link.deliver(&first);
    let mut ended = 0;
    for _ in 0..30 {
        let (datagrams, there) = link.step(9, 1);
        link.deliver(&datagrams);
        let here = link.intervals.last().unwrap();
        assert!(here.fields.contains(Fields::HISTOGRAMS) && there.delays.len() > 4);
        assert_eq!(here.delays, there.delays);
        let processes = &link.machine.snapshot.processes;
        let has_ended = |row: &&Delays| match row.of {
            DelayOf::Process(key) => processes.binary_search_by_key(&key, |row| row.key).is_err(),
            _ => false,
        };
        ended += here.delays.iter().filter(has_ended).count();
    }
    assert!(ended > 0, "last delays of a process that ended");
}

#[test]
fn whatever_is_lost_no_delay_is_lost_or_counted_twice() {
    for seed in 0..20 {
        let mut link = Link::new(seed, 5);
        let mut random = Random(seed ^ 0x77);
        let begin = link.machine.snapshot.delays.clone();
        let first = link.encode(&Interval::default());
        link.deliver(&first);
        for _ in 0..25 {
            let (mut datagrams, _) = link.step(6, 0);
            datagrams.retain(|_| !random.one_in(3));
            link.deliver(&datagrams);
        }
        link.flush();
        // One refresh without loss: whatever was missed is sent by now.
        for _ in 0..7 {
            let (datagrams, _) = link.step(0, 0);
            link.deliver(&datagrams);
        }
        for row in link.machine.snapshot.delays.clone() {
            let before = begin.iter().find(|known| known.of == row.of);
            let counted =
                before.map_or((*row.histogram).clone(), |before| row.histogram.since(&before.histogram));
            assert_eq!(link.charged(row.of), counted, "{:?}, seed {seed}", row.of);
        }
    }
}

#[test]
fn a_receiver_that_starts_late_is_charged_nothing_from_before() {
    let mut link = Link::new(5, 4);
    link.encode(&Interval::default());
    for _ in 0..10 {
        link.step(6, 0);
    }
    let begin = link.machine.snapshot.delays.clone();
    for _ in 0..12 {
        let (datagrams, _) = link.step(6, 0);
        link.deliver(&datagrams);
    }
    let mut charged = 0;
    for row in begin {
        let now = cpumon_model::find_delays(&link.machine.snapshot.delays, row.of).unwrap();
        let most = now.since(&row.histogram);
        let here = link.charged(row.of);
        charged += here.total();
        assert!(here.iter().all(|(bucket, count)| count <= most.count(bucket)), "{:?}", row.of);
    }
    assert!(charged > 0);
}

#[test]
fn what_a_changed_histogram_takes() {
    let mut link = Link::new(3, 65_535);
    (0..3).for_each(|_| drop(link.step(12, 0)));
    let (mut bytes, mut buckets) = (0, 0);
    for _ in 0..20 {
        let (with, interval) = link.step(12, 0);
        let mut machine = link.machine.clone();
        machine.snapshot.delays.clear();
        let mut encoder = Encoder::new(*link.encoder.options());
        let mut size = |snapshot| {
            let mut out = Datagrams::new();
            encoder.encode(&machine.host, snapshot, &interval, &mut out);
            out.byte_count()
        };
        (0..3).for_each(|_| assert!(size(&machine.snapshot) > 0));
        let with: usize = with.iter().map(Vec::len).sum();
        bytes += with.saturating_sub(size(&machine.snapshot));
        buckets += interval.delays.iter().map(|row| row.histogram.iter().count()).sum::<usize>();
    }
    let each = bytes as f64 / buckets as f64;
    eprintln!("{each:.1} bytes for each changed bucket, owners included");
    assert!(each < 6.0, "{each}");
}
