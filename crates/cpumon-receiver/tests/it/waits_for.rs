//! Waits by who ended them, from the encoder to the receiver: an interval has those that ended in it, and a sender's number of rows is
//! bounded.

use std::net::SocketAddr;

use cpumon_model::{Interval, Moment, ProcessKey, WaitFor, WaitKind, WaitReason, WaitedOn};
use cpumon_receiver::{Demux, DemuxOptions, MemoryLimits};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions};

use crate::machine::Machine;

const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4000);

struct Link {
    machine: Machine,
    encoder: Encoder,
    demux: Demux,
    now_ns: u64,
    intervals: Vec<Interval>,
}

fn row(waiter: u32, on: u32) -> WaitFor {
    let key = |pid| ProcessKey { pid, start_ns: 1_000 * u64::from(pid) };
    let kind = WaitKind::Blocked(WaitReason::DISK);
    WaitFor { waiter: key(waiter), kind, on: WaitedOn::Process(key(on)), ns: 7_000_000, count: 2 }
}

impl Link {
    fn new(is_lossless: bool) -> Self {
        let options = EncoderOptions { is_lossless, full_snapshots: 1, ..EncoderOptions::default() };
        let plain = MemoryLimits::one_host(8 << 20);
        Self {
            machine: Machine::new(1, 3, 6, 2),
            encoder: Encoder::new(options),
            demux: Demux::new(DemuxOptions { plain, ..DemuxOptions::default() }),
            now_ns: 0,
            intervals: Vec::new(),
        }
    }

    /// The next second, in which these waits ended.
    fn step(&mut self, waits_for: Vec<WaitFor>, is_lost: bool) {
        let before = self.machine.snapshot.clone();
        self.machine.run();
        self.machine.snapshot.waits_for = waits_for;
        let interval = Interval::between(&before, &self.machine.snapshot);
        let mut out = Datagrams::new();
        self.encoder.encode(&self.machine.host, &self.machine.snapshot, &interval, &mut out);
        self.now_ns += 1_000_000_000;
        let received = Moment { mono_ns: self.now_ns, ..Moment::default() };
        for datagram in out.as_slice().iter().filter(|_| !is_lost) {
            let intervals = &mut self.intervals;
            let mut take = |_: &_, interval: &Interval| intervals.push(interval.clone());
            self.demux.accept(datagram, FROM, received, &mut take).unwrap();
        }
    }

    /// Rows of the last interval.
    fn rows(&self) -> &[WaitFor] {
        let last = self.intervals.last().unwrap();
        assert_eq!(last.end, self.machine.snapshot.end);
        &last.waits_for
    }
}

#[test]
fn an_interval_has_the_waits_that_ended_in_it_and_none_of_a_lost_snapshot() {
    for is_lossless in [false, true] {
        let mut link = Link::new(is_lossless);
        link.step(vec![row(1, 9)], false);
        link.step(vec![row(1, 9), row(2, 9)], false);
        assert_eq!(link.rows(), [row(1, 9), row(2, 9)], "as recordings: {is_lossless}");
        link.step(Vec::new(), false);
        assert!(link.rows().is_empty());
        link.step(vec![row(3, 9)], true);
        link.step(vec![row(4, 9)], false);
        assert_eq!(link.rows(), [row(4, 9)]);
    }
}

#[test]
fn of_more_rows_than_an_interval_has_the_others_are_counted() {
    let mut link = Link::new(false);
    link.step(Vec::new(), false);
    let most = u32::try_from(WaitFor::MAX_ROWS).unwrap();
    let rows: Vec<WaitFor> = (1..=most + 44).map(|pid| row(pid, 9)).collect();
    link.step(rows.clone(), false);
    assert_eq!(link.rows(), &rows[..WaitFor::MAX_ROWS]);
    assert_eq!(link.demux.totals().rows_over_limit, 44);
    link.step(vec![row(5, 9)], false);
    assert_eq!(link.rows(), [row(5, 9)]);
}

/// They were taken for rows of tasks: the end of a thread whose datagrams were lost went unseen for as long as waits were too many.
#[test]
fn rows_beyond_the_limit_leave_a_snapshot_complete() {
    let mut link = Link::new(false);
    link.encoder = Encoder::new(EncoderOptions { full_snapshots: 1_000, ..EncoderOptions::default() });
    let threads = |link: &Link| link.demux.snapshot(link.machine.host.host).unwrap().threads.len();
    link.step(Vec::new(), false);
    assert_eq!(threads(&link), 6);
    link.machine.snapshot.threads.pop();
    // Both datagrams that report its end are lost.
    link.step(Vec::new(), true);
    link.step(Vec::new(), true);
    link.step((1..=700).map(|pid| row(pid, 9)).collect(), false);
    assert_eq!((threads(&link), link.rows().len()), (5, WaitFor::MAX_ROWS));
}

/// Waits took the space of processes, which had no names and no times then.
#[test]
fn waits_get_the_space_that_tasks_leave() {
    let mut link = Link::new(false);
    link.encoder = Encoder::new(EncoderOptions { max_datagram: 65_000, ..EncoderOptions::default() });
    link.demux =
        Demux::new(DemuxOptions { plain: MemoryLimits::one_host(60_000), ..DemuxOptions::default() });
    link.step((1..=512).map(|pid| row(pid, 9)).collect(), false);
    let known = link.demux.snapshot(link.machine.host.host).unwrap();
    assert_eq!((known.processes.len(), known.threads.len()), (3, 6));
    assert!(link.demux.totals().rows_over_limit > 0, "of the waits");
}
