//! Exits that found no space, summed by the parent's program: the receiver has the rows, marked, and no CPU time is lost or there
//! twice, whatever datagrams are lost.

use std::net::SocketAddr;
use std::sync::Arc;

use cpumon_model::{
    Counters, Fields, Flags, Interval, Moment, ProcessInfo, ProcessKey, ProcessSample, Snapshot,
};
use cpumon_receiver::{Demux, DemuxOptions};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions};

use crate::machine::{Machine, Random};

const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4000);
const PARENTS: [&str; 3] = ["sh", "make", "others"];

/// The row of a parent's children: it begins when it is first needed.
fn find(snapshot: &Snapshot, parent: usize) -> Option<usize> {
    snapshot.processes.iter().position(|row| row.key.pid == 0 && row.info.name.contains(PARENTS[parent]))
}

/// `parent` has so much more run time of children that found no space.
fn lose(snapshot: &mut Snapshot, parent: usize, run_ns: u64) {
    let at = find(snapshot, parent).unwrap_or_else(|| {
        let name = format!("children of {} (summed)", PARENTS[parent]).into();
        let info = Arc::new(ProcessInfo { name, ..ProcessInfo::default() });
        let start_ns = snapshot.end.boot_ns / 1_000 * 1_000 - 3_000 + 1_000 * parent as u64;
        let key = ProcessKey { pid: 0, start_ns };
        let row = ProcessSample { key, parent_pid: 0, info, ended_threads: Counters::default() };
        let at = snapshot.processes.partition_point(|row| row.key < key);
        snapshot.processes.insert(at, row);
        at
    });
    let more = Counters { run_ns, voluntary_switches: 1, ..Counters::default() };
    snapshot.processes[at].ended_threads += &more;
    snapshot.exited_total += &more;
    snapshot.health.exits_lost += 1;
    snapshot.health.ring_drops += 3;
}

/// A device, and what a receiver makes of its datagrams.
pub struct Link {
    pub machine: Machine,
    encoder: Encoder,
    demux: Demux,
    pub intervals: Vec<Interval>,
    now_ns: u64,
}

impl Link {
    pub fn new(seed: u64) -> Self {
        let options = EncoderOptions { refresh_snapshots: 5, max_datagram: 800, ..EncoderOptions::default() };
        let mut machine = Machine::new(seed, 12, 40, 20);
        machine.snapshot.fields |= Fields::EXITS;
        let (encoder, demux) = (Encoder::new(options), Demux::new(DemuxOptions::default()));
        Self { machine, encoder, demux, intervals: Vec::new(), now_ns: 0 }
    }

    /// The next second; returns what the device itself sees. `drops`: whether a datagram is lost.
    fn step(&mut self, lost: &[(usize, u64)], drops: impl FnMut() -> bool) -> Interval {
        let lose_all = |snapshot: &mut Snapshot| {
            for &(parent, run_ns) in lost {
                lose(snapshot, parent, run_ns);
            }
        };
        self.step_with(lose_all, drops)
    }

    /// The next second, in which `change` happens too.
    pub fn step_with(
        &mut self,
        change: impl FnOnce(&mut Snapshot),
        mut drops: impl FnMut() -> bool,
    ) -> Interval {
        let before = self.machine.snapshot.clone();
        self.machine.run();
        change(&mut self.machine.snapshot);
        let interval = Interval::between(&before, &self.machine.snapshot);
        let mut out = Datagrams::new();
        self.encoder.encode(&self.machine.host, &self.machine.snapshot, &interval, &mut out);
        for datagram in out.as_slice().iter().filter(|_| !drops()) {
            self.now_ns += 1_000;
            let received = Moment { mono_ns: self.now_ns, ..Moment::default() };
            let intervals = &mut self.intervals;
            self.demux
                .accept(datagram, FROM, received, &mut |_, interval| intervals.push(interval.clone()))
                .unwrap();
        }
        interval
    }

    /// All that the receiver charged to a parent's children.
    fn charged(&self, parent: usize) -> i64 {
        let rows = self.intervals.iter().flat_map(|interval| &interval.processes);
        rows.filter(|row| row.key.pid == 0 && row.info.name.contains(PARENTS[parent]))
            .map(|row| row.delta.run_ns)
            .sum()
    }
}

fn summed(interval: &Interval) -> Vec<(String, i64, Flags)> {
    let rows = interval.processes.iter().filter(|row| row.key.pid == 0 && row.key.start_ns != 0);
    rows.map(|row| (row.info.name.to_string(), row.delta.run_ns, row.flags)).collect()
}

#[test]
fn the_receiver_has_the_rows_that_the_device_has_and_marks_them() {
    let mut link = Link::new(1);
    (0..2).for_each(|_| drop(link.step(&[], || false)));
    let mut seen = 0;
    for second in 0..20_u64 {
        // Sometimes none, sometimes one, sometimes all.
        let lost: Vec<_> = (0..3)
            .filter(|at| second % (*at as u64 + 2) == 0)
            .map(|at| (at, 7_000_000 + second * 1_000))
            .collect();
        let there = link.step(&lost, || false);
        let here = link.intervals.last().unwrap();
        let grew: Vec<_> = summed(here).into_iter().filter(|row| row.1 > 0).collect();
        assert_eq!(grew, summed(&there).into_iter().filter(|row| row.1 > 0).collect::<Vec<_>>());
        assert_eq!(grew.len(), lost.len());
        assert!(grew.iter().all(|row| row.2 == Flags::SUMMED && row.0.ends_with(" (summed)")), "{grew:?}");
        assert_eq!((here.ledger, here.health), (there.ledger, there.health));
        seen += grew.len();
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn whatever_datagrams_are_lost_the_cpu_time_of_the_lost_exits_is_there_once() {
    for seed in 0..10 {
        let mut link = Link::new(seed);
        let (mut random, mut drops) = (Random(seed ^ 0x5a), Random(seed ^ 0xa5));
        link.step(&[], || false);
        // The first of each row comes through: of what a row had before it was first seen nothing is known.
        link.step(&[(0, 4_000_000), (1, 4_000_000), (2, 4_000_000)], || false);
        let mut truth = [4_000_000_i64; 3];
        for _ in 0..25 {
            let parent = usize::try_from(random.below(3)).unwrap();
            truth[parent] += 4_000_000;
            link.step(&[(parent, 4_000_000)], || drops.one_in(3));
        }
        link.now_ns += 10_000_000_000;
        let now = Moment { mono_ns: link.now_ns, ..Moment::default() };
        let intervals = &mut link.intervals;
        link.demux.flush(now, &mut |_, interval| intervals.push(interval.clone()));
        // A refresh without loss.
        (0..7).for_each(|_| drop(link.step(&[], || false)));
        assert_eq!([0, 1, 2].map(|parent| link.charged(parent)), truth, "seed {seed}");
    }
}

#[test]
fn a_row_whose_first_frame_is_lost_is_charged_from_its_birth_though_its_name_may_come_later() {
    for seed in 0..10 {
        let mut link = Link::new(seed);
        link.step(&[], || false);
        link.step(&[(0, 4_000_000), (1, 4_000_000), (2, 4_000_000)], || true);
        (0..9).for_each(|_| drop(link.step(&[(1, 3_000_000)], || false)));
        let rows = link.intervals.iter().flat_map(summed);
        assert_eq!(rows.map(|row| row.1).sum::<i64>(), 3 * 4_000_000 + 9 * 3_000_000, "seed {seed}");
    }
}
