//! Limits of control groups from the encoder to the receiver: lost rows come later, and ended groups go.

use std::net::SocketAddr;

use cpumon_model::{CgroupSample, CpuLimit, Fields, Interval, Moment, Pressure, Throttle};
use cpumon_receiver::{Demux, DemuxOptions, MemoryLimits};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions};

use crate::machine::Machine;

const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4000);
const HALF: CpuLimit = CpuLimit::Millionths(500_000);

struct Link {
    machine: Machine,
    encoder: Encoder,
    demux: Demux,
    now_ns: u64,
    intervals: Vec<Interval>,
}

fn group(id: u64, limit: CpuLimit) -> CgroupSample {
    CgroupSample {
        id,
        path: format!("/pod/g{id}").into(),
        limit,
        limiter_bytes: 4,
        throttle: limit.is_limited().then(Throttle::default),
        pressure: Some(Pressure::default()),
    }
}

impl Link {
    fn new() -> Self {
        let options = EncoderOptions { refresh_snapshots: 4, full_snapshots: 1, ..EncoderOptions::default() };
        let mut machine = Machine::new(1, 3, 6, 2);
        machine.snapshot.fields |= Fields::CGROUPS;
        machine.snapshot.pressure = Some(Pressure::default());
        machine.snapshot.cgroups = vec![group(1, HALF), group(2, CpuLimit::Unlimited), group(3, HALF)];
        let demux = Demux::new(DemuxOptions::default());
        Self { machine, encoder: Encoder::new(options), demux, now_ns: 0, intervals: Vec::new() }
    }

    /// The next second, in which these groups are throttled for 5 ms.
    fn step(&mut self, throttled: &[u64], is_lost: bool) {
        let before = self.machine.snapshot.clone();
        self.machine.run();
        let snapshot = &mut self.machine.snapshot;
        snapshot.pressure.as_mut().unwrap().some_ns += 3_000;
        for row in snapshot.cgroups.iter_mut().filter(|row| throttled.contains(&row.id)) {
            if let Some(throttle) = &mut row.throttle {
                throttle.add(Throttle { periods: 10, throttled_periods: 4, throttled_ns: 5_000_000 });
            }
            row.pressure.as_mut().unwrap().some_ns += 7_000;
        }
        let interval = Interval::between(&before, snapshot);
        let mut out = Datagrams::new();
        self.encoder.encode(&self.machine.host, &self.machine.snapshot, &interval, &mut out);
        for datagram in out.as_slice().iter().filter(|_| !is_lost) {
            self.now_ns += 1_000_000_000;
            let received = Moment { mono_ns: self.now_ns, ..Moment::default() };
            let intervals = &mut self.intervals;
            let mut take = |_: &_, interval: &Interval| intervals.push(interval.clone());
            self.demux.accept(datagram, FROM, received, &mut take).unwrap();
        }
        if !is_lost {
            let last = self.intervals.last().map(|interval| interval.end);
            assert!(last.is_none_or(|end| end == self.machine.snapshot.end));
        }
    }

    /// Paths of the last interval with their throttled and their waiting time.
    fn rows(&self) -> Vec<(&str, CpuLimit, Option<u64>, Option<u64>)> {
        let rows = self.intervals.last().unwrap().cgroups.iter();
        rows.map(|row| {
            (&*row.path, row.limit, row.throttle.map(|t| t.throttled_ns), row.pressure.map(|p| p.some_ns))
        })
        .collect()
    }
}

#[test]
fn limits_arrive_whatever_is_lost_and_go_when_their_group_ends() {
    let mut link = Link::new();
    link.step(&[], false);
    link.step(&[1, 2], false);
    let all = [
        ("/pod/g1", HALF, Some(5_000_000), Some(7_000)),
        ("/pod/g2", CpuLimit::Unlimited, None, Some(7_000)),
        ("/pod/g3", HALF, Some(0), Some(0)),
    ];
    assert_eq!(link.rows(), all, "one that rests keeps its limit");
    let last = link.intervals.last().unwrap();
    assert_eq!(last.pressure, Some(Pressure { some_ns: 3_000, full_ns: 0 }));
    assert!(last.knows_limits());
    // The lost second comes with the next one.
    link.step(&[1], true);
    link.step(&[1], false);
    assert_eq!(link.rows()[0], ("/pod/g1", HALF, Some(10_000_000), Some(14_000)));
    assert_eq!(link.rows().len(), 2, "the group without limit has no news");
    assert_eq!(link.intervals.last().unwrap().pressure, Some(Pressure { some_ns: 6_000, full_ns: 0 }));
    // Another limit, and an end.
    link.machine.snapshot.cgroups[0].limit = CpuLimit::Millionths(200_000);
    link.machine.snapshot.cgroups.remove(2);
    link.step(&[1], false);
    assert_eq!(link.rows(), [("/pod/g1", CpuLimit::Millionths(200_000), Some(5_000_000), Some(7_000))]);
}

#[test]
fn a_group_whose_end_was_lost_is_forgotten_after_some_turns() {
    let mut link = Link::new();
    (0..3).for_each(|_| link.step(&[1, 3], false));
    link.machine.snapshot.cgroups.clear();
    link.step(&[], true);
    link.step(&[], false);
    assert_eq!(link.rows().len(), 2, "nothing reports that they ended");
    (0..20).for_each(|_| link.step(&[], false));
    assert_eq!(link.rows(), []);
}

/// Those that ended shared the limit of 256 rows with the others. What was left out of them stayed, and took the places of groups at rest.
#[test]
fn ended_groups_go_however_many_begin_at_once() {
    // At each place of the rotation: at one of them all groups are sent.
    for steps in 6..10 {
        let mut link = Link::new();
        let options = EncoderOptions {
            max_datagram: 65_000,
            refresh_snapshots: 4,
            full_snapshots: 1,
            ..EncoderOptions::default()
        };
        link.encoder = Encoder::new(options);
        let plain = MemoryLimits::one_host(8 << 20);
        link.demux = Demux::new(DemuxOptions { plain, ..DemuxOptions::default() });
        let groups = |first: u64| (first..first + 256).map(|id| group(id, HALF)).collect::<Vec<_>>();
        link.machine.snapshot.cgroups = groups(1);
        (0..steps).for_each(|_| link.step(&[], false));
        link.machine.snapshot.cgroups = groups(201);
        (0..2).for_each(|_| link.step(&[], false));
        let rows = &link.intervals.last().unwrap().cgroups;
        let ids: Vec<u64> = rows.iter().map(|row| row.id).collect();
        assert_eq!(ids, (201..457).collect::<Vec<_>>(), "{steps}");
        assert_eq!(link.demux.totals().rows_over_limit, 0, "{steps}");
    }
}
