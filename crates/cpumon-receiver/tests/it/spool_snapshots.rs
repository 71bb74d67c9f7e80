//! Snapshots sent once and in order, as a file keeps them: reading may begin at any full one, and CPU time agrees.

use std::net::{Ipv4Addr, SocketAddr};

use cpumon_model::{Interval, Moment};
use cpumon_receiver::{Demux, DemuxOptions};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions};

use crate::machine::Machine;

const FULL_EVERY: usize = 10;
const SNAPSHOTS: usize = 45;

/// The frames of a host's snapshots, and its complete intervals.
fn recorded(seed: u64, reports_exits: bool) -> (Vec<Vec<Vec<u8>>>, Vec<Interval>) {
    let mut machine = Machine::new(seed, 30, 150, 40);
    machine.reports_exits = reports_exits;
    let options = EncoderOptions {
        max_datagram: 65_000,
        full_snapshots: 1,
        is_lossless: true,
        ..EncoderOptions::default()
    };
    let mut encoder = Encoder::new(options);
    let (mut datagrams, mut frames, mut intervals) = (Datagrams::new(), Vec::new(), Vec::new());
    for at in 0..SNAPSHOTS {
        let before = machine.snapshot.clone();
        if at > 0 {
            machine.run();
            machine.churn(2, 3);
            intervals.push(Interval::between(&before, &machine.snapshot));
        }
        if at % FULL_EVERY == 0 {
            encoder.begin_again();
        }
        assert_eq!(encoder.is_next_full(), at % FULL_EVERY == 0);
        let interval = intervals.last().cloned().unwrap_or_default();
        let report = encoder.encode(&machine.host, &machine.snapshot, &interval, &mut datagrams);
        assert_eq!(report.rows_lost + report.texts_cut, 0);
        frames.push(datagrams.as_slice().to_vec());
    }
    (frames, intervals)
}

fn decoded(snapshots: &[Vec<Vec<u8>>]) -> Vec<Interval> {
    let mut demux = Demux::new(DemuxOptions::default());
    let mut intervals = Vec::new();
    for frame in snapshots.iter().flatten() {
        let from = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let mut out = |_: &_, interval: &Interval| intervals.push(interval.clone());
        demux.accept(frame, from, Moment::default(), &mut out).unwrap();
    }
    intervals
}

fn run_ns(interval: &Interval) -> i64 {
    interval.processes.iter().map(|row| row.delta.run_ns).sum()
}

#[test]
fn cpu_time_agrees_with_the_devices_own_intervals() {
    for (seed, reports_exits) in [(1, true), (2, false), (3, true), (4, false)] {
        let (frames, own) = recorded(seed, reports_exits);
        let read = decoded(&frames);
        assert_eq!(read.len(), own.len());
        for (read, own) in read.iter().zip(&own) {
            assert_eq!((read.sequence, run_ns(read)), (own.sequence, run_ns(own)), "seed {seed}");
            assert_eq!(read.ledger, own.ledger, "seed {seed}");
        }
    }
}

#[test]
fn reading_that_begins_at_a_full_snapshot_gives_the_same() {
    for (seed, reports_exits) in [(5, true), (6, false)] {
        let (frames, _) = recorded(seed, reports_exits);
        // When threads that rest are listed for the store depends on where reading begins.
        let decoded = |frames: &[_]| {
            let unlisted = |one| Interval { resting: None, ..one };
            decoded(frames).into_iter().map(unlisted).collect::<Vec<Interval>>()
        };
        let all = decoded(&frames);
        for begin in (0..SNAPSHOTS).step_by(FULL_EVERY) {
            assert_eq!(decoded(&frames[begin..]), all[begin..], "seed {seed}, from {begin}");
        }
    }
}

#[test]
fn between_full_snapshots_nothing_is_repeated() {
    let (frames, _) = recorded(7, true);
    let bytes = |at: usize| frames[at].iter().map(Vec::len).sum::<usize>();
    let full = bytes(FULL_EVERY);
    assert!((1..FULL_EVERY).all(|at| bytes(FULL_EVERY + at) * 2 < full), "{full}");
}
