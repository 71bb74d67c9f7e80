//! The demux under loss, doubles, disorder and restarts: it charges the time that was run, and counts every fault.

mod limits;

use std::net::{Ipv4Addr, SocketAddr};

use cpumon_model::{
    Flags, HostId, HostStatus, Interval, Life, LossCounts, Moment, SchedDelta, SchedTimes, Snapshot,
    ThreadInterval, ThreadSample, Waits,
};
use cpumon_receiver::{Demux, DemuxOptions, MemoryLimits, RejectKind, Rejected};
use cpumon_wire::v2::{Encoder, EncoderOptions};
use cpumon_wire::{Datagrams, v1};

use crate::carried::as_carried;
use crate::machine::{Machine, Random};

/// A machine, its encoder, a receiver and the sum of what the receiver gave out.
struct Link {
    machine: Machine,
    encoder: Encoder,
    demux: Demux,
    now_ns: u64,
    run_ns: i64,
    intervals: Vec<Interval>,
    datagrams: Datagrams,
}

const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), 40_000);

impl Link {
    fn new(seed: u64, options: EncoderOptions) -> Self {
        Self {
            machine: Machine::new(seed, 20, 150, 100),
            encoder: Encoder::new(options),
            demux: Demux::new(DemuxOptions::default()),
            now_ns: 0,
            run_ns: 0,
            intervals: Vec::new(),
            datagrams: Datagrams::new(),
        }
    }

    /// Runs the machine for a second. Returns the datagrams of its snapshot.
    fn step(&mut self, churn: Option<(usize, usize)>, is_active: bool) -> Vec<Vec<u8>> {
        let before = self.machine.snapshot.clone();
        if is_active {
            self.machine.run();
        } else {
            self.machine.idle();
        }
        if let Some((births, deaths)) = churn {
            self.machine.churn(births, deaths);
        }
        let interval = Interval::between(&before, &self.machine.snapshot);
        self.encode(&interval)
    }

    fn encode(&mut self, interval: &Interval) -> Vec<Vec<u8>> {
        let report =
            self.encoder.encode(&self.machine.host, &self.machine.snapshot, interval, &mut self.datagrams);
        assert_eq!(report.rows_lost, 0);
        self.datagrams.as_slice().to_vec()
    }

    fn first(&mut self) -> Vec<Vec<u8>> {
        self.encode(&Interval::default())
    }

    fn deliver<'a>(&mut self, datagrams: impl IntoIterator<Item = &'a Vec<u8>>) {
        for datagram in datagrams {
            self.deliver_one(datagram).unwrap();
        }
    }

    fn deliver_one(&mut self, datagram: &[u8]) -> Result<(), Rejected> {
        self.now_ns += 1_000;
        let received = Moment { mono_ns: self.now_ns, ..Moment::default() };
        let Self { demux, run_ns, intervals, .. } = self;
        demux.accept(datagram, FROM, received, &mut |_, interval| account(interval, run_ns, intervals))
    }

    fn flush(&mut self) {
        self.now_ns += 10_000_000_000;
        let now = Moment { mono_ns: self.now_ns, ..Moment::default() };
        let Self { demux, run_ns, intervals, .. } = self;
        demux.flush(now, &mut |_, interval| account(interval, run_ns, intervals));
    }

    fn status(&self) -> &HostStatus {
        self.demux.hosts().next().unwrap()
    }

    fn loss(&self) -> LossCounts {
        self.status().loss
    }

    /// Run time of everything that ever ran, dead or alive, ns.
    fn run_total_ns(&self) -> i64 {
        let snapshot = &self.machine.snapshot;
        let alive: u64 = snapshot.threads.iter().map(|thread| thread.counters.run_ns).sum();
        (alive + snapshot.exited_total.run_ns).cast_signed()
    }
}

fn account(interval: &Interval, run_ns: &mut i64, intervals: &mut Vec<Interval>) {
    let threads: i64 = interval.threads.iter().map(|row| row.delta.run_ns).sum();
    let processes: i64 = interval.processes.iter().map(|row| row.delta.run_ns).sum();
    assert!(threads <= processes, "processes are the sums of their threads and of those that ended");
    *run_ns += threads;
    intervals.push(interval.clone());
}

fn changed(interval: &Interval) -> Vec<ThreadInterval> {
    interval.threads.iter().filter(|row| !row.delta.is_zero() || row.life != Life::Alive).copied().collect()
}

/// A row without its waits.
fn counted(row: &ThreadInterval) -> ThreadInterval {
    let sched = SchedDelta { blocked_ns: 0, waits: Waits::default(), ..row.sched };
    ThreadInterval { sched, ..*row }
}

/// Waits are sent in whole µs, and an open wait continues in ns: each reason may be 1 µs off.
fn assert_waited_alike(row: &ThreadInterval, expected: &ThreadInterval) {
    let (here, there) = (&row.sched, &expected.sched);
    let reasons = here.waits.iter().chain(there.waits.iter()).map(|(reason, _)| reason);
    for reason in reasons {
        let off = here.waits.of(reason).abs_diff(there.waits.of(reason));
        assert!(off <= 1_000, "{} of {:?}: {here:?} {there:?}", reason.name(), row.key);
    }
    assert!(here.blocked_ns.abs_diff(there.blocked_ns) <= 3_000, "{:?}: {here:?} {there:?}", row.key);
}

/// Threads without their waits: these continue while no rows arrive.
fn still(threads: &[ThreadSample]) -> Vec<ThreadSample> {
    threads.iter().map(|thread| ThreadSample { sched: SchedTimes::default(), ..*thread }).collect()
}

#[test]
fn a_thread_that_slept_unreported_has_waited_for_the_time_of_its_interval_only() {
    let mut link = Link::new(11, EncoderOptions { refresh_snapshots: 60_000, ..EncoderOptions::default() });
    let first = link.first();
    link.deliver(&first);
    let second = link.step(None, true);
    link.deliver(&second);
    // A minute in which nothing is received of any thread.
    for _ in 0..60 {
        let datagrams = link.step(None, false);
        link.deliver(&datagrams);
        assert!(changed(link.intervals.last().unwrap()).is_empty());
    }
    let datagrams = link.step(None, true);
    link.deliver(&datagrams);
    let interval = link.intervals.last().unwrap();
    let rows = changed(interval);
    assert!(rows.len() >= 100);
    for row in rows {
        let waited_ns = row.sched.blocked_ns;
        // The made-up machine also waits for something else, at most 0.2 s, and runs: all three times fit into the interval.
        let spent_ns = waited_ns + row.delta.run_ns + row.delta.run_delay_ns;
        let most_ns = interval.duration_ns().cast_signed() + 100_000;
        assert!((999_000_000..=most_ns).contains(&spent_ns), "{spent_ns}, at most {most_ns}");
        assert_eq!(row.sched.waits.total_ns().cast_signed(), waited_ns);
        assert!(row.sched.waits.of(row.sched.open_wait) >= 700_000_000, "{row:?}");
    }
}

#[test]
fn without_loss_the_receiver_sees_what_the_device_saw() {
    for reports_exits in [true, false] {
        let mut link = Link::new(3, EncoderOptions::default());
        link.machine.reports_exits = reports_exits;
        sees_what_the_device_saw(link);
    }
}

fn sees_what_the_device_saw(mut link: Link) {
    let first = link.first();
    link.deliver(&first);
    for _ in 0..40 {
        let before = link.machine.snapshot.clone();
        let datagrams = link.step(Some((2, 3)), true);
        link.deliver(&datagrams);
        let there = Interval::between(&as_carried(&before), &as_carried(&link.machine.snapshot));
        let here = link.intervals.last().unwrap();
        let (rows, expected) = (changed(here), changed(&there));
        assert_eq!(
            rows.iter().map(counted).collect::<Vec<_>>(),
            expected.iter().map(counted).collect::<Vec<_>>()
        );
        rows.iter().zip(&expected).for_each(|(row, expected)| assert_waited_alike(row, expected));
        assert!(rows.iter().any(|row| row.sched.blocked_ns > 0) && !here.irqs.is_empty());
        assert_eq!(here.irqs, there.irqs);
        assert_eq!((here.begin, here.end, here.flags), (there.begin, there.end, there.flags));
        assert_eq!((&here.cpus, here.ledger), (&there.cpus, there.ledger));
        for process in there.processes.iter().filter(|row| row.delta.run_ns > 0 || row.life != Life::Alive) {
            let row = here.process(process.key).unwrap();
            assert_eq!((&row.info, row.delta, row.life), (&process.info, process.delta, process.life));
        }
        let known = Snapshot {
            begin: link.machine.snapshot.begin,
            ..link.demux.snapshot(here.host).unwrap().clone()
        };
        assert_eq!(still(&known.threads), still(&link.machine.snapshot.threads));
        assert_eq!(known.processes, link.machine.snapshot.processes);
    }
    let loss = link.loss();
    assert_eq!((loss.snapshots, loss.snapshots_lost, loss.snapshots_partial), (41, 0, 0));
    assert_eq!((loss.duplicates, loss.reordered, loss.rejected), (0, 0, 0));
    assert_eq!(link.status().info, link.machine.host);
}

#[test]
fn whatever_is_lost_every_nanosecond_is_charged_once() {
    for seed in 0..10 {
        let options = EncoderOptions { max_datagram: 700, refresh_snapshots: 5, ..EncoderOptions::default() };
        let mut link = Link::new(seed, options);
        let mut random = Random(seed ^ 0xabcd);
        let first = link.first();
        link.deliver(&first);
        let begin_ns = link.run_total_ns();
        for _ in 0..30 {
            let mut datagrams = link.step(Some((2, 0)), true);
            if random.one_in(6) {
                continue;
            }
            datagrams.retain(|_| !random.one_in(4));
            for _ in 0..datagrams.len() {
                let (a, b) = (random.below(datagrams.len() as u64), random.below(datagrams.len() as u64));
                datagrams.swap(usize::try_from(a).unwrap(), usize::try_from(b).unwrap());
            }
            if random.one_in(3) {
                datagrams.extend_from_within(..datagrams.len() / 2);
            }
            link.deliver(&datagrams);
        }
        // One whole rotation arrives: every task has been sent once more.
        for _ in 0..6 {
            let datagrams = link.step(None, false);
            link.deliver(&datagrams);
        }
        link.flush();
        assert_eq!(link.run_ns, link.run_total_ns() - begin_ns, "seed {seed}");
        let loss = link.loss();
        assert!(loss.snapshots_lost + loss.snapshots_partial > 5, "seed {seed}: {loss:?}");
        assert_eq!(loss.snapshots + loss.snapshots_lost + loss.snapshots_partial, 37, "seed {seed}");
        assert!(link.intervals.iter().any(|interval| interval.flags.contains(Flags::PARTIAL)));
    }
}

#[test]
fn a_lost_snapshot_does_not_lose_the_threads_that_ended_in_it() {
    for seed in 0..8 {
        let mut link = Link::new(seed, EncoderOptions { refresh_snapshots: 4, ..EncoderOptions::default() });
        let first = link.first();
        link.deliver(&first);
        let begin_ns = link.run_total_ns();
        for round in 0..20 {
            let datagrams = link.step(Some((3, 4)), true);
            if round % 2 == 0 {
                link.deliver(&datagrams);
            }
        }
        for _ in 0..5 {
            let datagrams = link.step(None, false);
            link.deliver(&datagrams);
        }
        assert_eq!(link.run_ns, link.run_total_ns() - begin_ns, "seed {seed}");
        assert_eq!(link.loss().snapshots_lost, 10);
        let spanning = link.intervals.iter().filter(|interval| interval.flags.contains(Flags::SPANS_LOSS));
        assert_eq!(spanning.count(), 10);
    }
}

#[test]
fn doubles_and_stragglers_are_counted_and_change_nothing() {
    let mut link = Link::new(5, EncoderOptions { max_datagram: 600, ..EncoderOptions::default() });
    let first = link.first();
    link.deliver(&first);
    let begin_ns = link.run_total_ns();
    let one = link.step(None, true);
    let two = link.step(None, true);
    assert!(one.len() > 3 && two.len() > 3);
    // The last datagram of the first snapshot comes after the first of the second.
    link.deliver(&one[..one.len() - 1]);
    link.deliver(&two[..1]);
    link.deliver(&one[one.len() - 1..]);
    assert_eq!((link.intervals.len(), link.loss().reordered), (1, 1));
    link.deliver(&two[1..]);
    assert_eq!(link.intervals.len(), 2);
    // Everything once more: doubles of the last snapshot, stragglers of the one before.
    link.deliver(&two);
    link.deliver(&one);
    let loss = link.loss();
    assert_eq!((loss.duplicates, loss.reordered), (two.len() as u64, 1 + one.len() as u64));
    assert_eq!((link.intervals.len(), loss.snapshots), (2, 3));
    assert_eq!(link.run_ns, link.run_total_ns() - begin_ns);
}

#[test]
fn a_snapshot_with_a_hole_is_given_out_when_the_next_is_whole_or_time_is_up() {
    let mut link = Link::new(6, EncoderOptions { max_datagram: 600, ..EncoderOptions::default() });
    let first = link.first();
    link.deliver(&first);
    let holed = link.step(None, true);
    link.deliver(&holed[1..]);
    assert_eq!(link.intervals.len(), 0);
    let next = link.step(None, true);
    link.deliver(&next);
    assert_eq!(link.intervals.len(), 2);
    assert_eq!(link.intervals[0].flags, Flags::PARTIAL);
    assert_eq!(link.intervals[1].flags, Flags::empty());
    let holed = link.step(None, true);
    link.deliver(&holed[..1]);
    link.flush();
    assert_eq!(link.intervals.len(), 3);
    assert_eq!((link.loss().snapshots_partial, link.loss().snapshots), (2, 2));
}

#[test]
fn a_receiver_that_comes_late_knows_every_name_within_one_rotation() {
    let options = EncoderOptions { refresh_snapshots: 10, ..EncoderOptions::default() };
    let mut link = Link::new(7, options);
    link.first();
    for _ in 0..25 {
        link.step(None, true);
    }
    let datagrams = link.step(None, true);
    link.deliver(&datagrams);
    let datagrams = link.step(None, true);
    link.deliver(&datagrams);
    let host = link.machine.host.host;
    assert!(link.intervals[0].threads.iter().any(|row| row.flags.contains(Flags::FIRST_SIGHT)));
    for _ in 0..10 {
        let datagrams = link.step(None, true);
        link.deliver(&datagrams);
    }
    let known = link.demux.snapshot(host).unwrap();
    assert_eq!(still(&known.threads), still(&link.machine.snapshot.threads));
    assert_eq!(known.processes, link.machine.snapshot.processes);
    assert_eq!(link.status().info, link.machine.host);
}

#[test]
fn a_thread_that_ended_unseen_is_forgotten_after_the_rotations() {
    let options = EncoderOptions { refresh_snapshots: 2, ..EncoderOptions::default() };
    let mut link = Link::new(8, options);
    let first = link.first();
    link.deliver(&first);
    // The ending and its repetition are lost.
    link.step(Some((0, 5)), true);
    link.step(None, true);
    let host = link.machine.host.host;
    for _ in 0..9 {
        let datagrams = link.step(None, true);
        link.deliver(&datagrams);
    }
    assert_eq!(still(&link.demux.snapshot(host).unwrap().threads), still(&link.machine.snapshot.threads));
    assert!(link.demux.totals().ended_unseen >= 5);
}

#[test]
fn nothing_is_charged_across_a_restart_of_the_agent_or_a_boot() {
    let mut link = Link::new(9, EncoderOptions { agent_start: 1, ..EncoderOptions::default() });
    let first = link.first();
    link.deliver(&first);
    let old = link.step(None, true);
    link.deliver(&old);
    link.encoder = Encoder::new(EncoderOptions { agent_start: 2, ..EncoderOptions::default() });
    link.step(None, true);
    link.machine.snapshot.sequence = 0;
    let first = link.first();
    link.deliver(&first);
    let restart = link.intervals.last().unwrap();
    assert_eq!((restart.flags, restart.threads.len(), restart.duration_ns()), (Flags::RESTART, 0, 0));
    // A straggler of the agent before is counted and does not bring it back.
    let reordered = link.loss().reordered;
    link.deliver(&old[..1]);
    assert_eq!(link.loss().reordered, reordered + 1);
    let before_ns = link.run_total_ns();
    let charged = link.run_ns;
    let datagrams = link.step(None, true);
    link.deliver(&datagrams);
    assert_eq!(link.run_ns - charged, link.run_total_ns() - before_ns);
    assert_eq!(link.intervals.last().unwrap().flags, Flags::empty());
    // Another boot under the same agent start number.
    link.machine.host.boot.0[0] ^= 1;
    link.machine.snapshot.boot = link.machine.host.boot;
    let datagrams = link.first();
    link.deliver(&datagrams);
    assert_eq!(link.intervals.last().unwrap().flags, Flags::RESTART);
    assert_eq!(link.status().info.boot, link.machine.host.boot);
}

#[test]
fn v1_devices_are_separated_by_their_address() {
    let mut demux = Demux::new(DemuxOptions::default());
    let mut seen = Vec::new();
    for (last, pid) in [(1, 10), (2, 20)] {
        let from = SocketAddr::new(Ipv4Addr::new(127, 0, 0, last).into(), 5_000 + u16::from(last));
        for datagram in [v1_process(pid, "twin.exe"), v1::END_OF_TRANSFER.to_vec()] {
            demux
                .accept(
                    &datagram,
                    from,
                    Moment { wall_ns: 5, ..Moment::default() },
                    &mut |status, interval| {
                        seen.push((status.info.host, status.address.clone(), interval.processes[0].key.pid));
                    },
                )
                .unwrap();
        }
    }
    assert_eq!(seen.len(), 2);
    assert_ne!(seen[0].0, seen[1].0);
    assert_eq!((seen[0].2, seen[1].2), (10, 20));
    assert_eq!((&*seen[0].1, &*seen[1].1), ("127.0.0.1:5001", "127.0.0.2:5002"));
    assert_eq!((demux.hosts().count(), demux.totals().intervals), (2, 2));
}

fn v1_process(pid: u32, name: &str) -> Vec<u8> {
    let process = v1::ProcessDatagram {
        name: name.into(),
        timestamp_ticks: 5,
        duration_ms: 3_000,
        user_ms: 9,
        process_id: pid,
        ..v1::ProcessDatagram::default()
    };
    let mut bytes = Vec::new();
    v1::encode(&v1::Datagram::Process(process), &mut bytes).unwrap();
    bytes
}
