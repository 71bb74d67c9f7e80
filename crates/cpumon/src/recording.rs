//! A log as intervals. In: a directory of segments. Out: its intervals in order, and its holes. Why: import and replay read in the same way.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::{ControlFlow, Range};

use anyhow::Result;
use cpumon_link::spool::{ReadReport, SpoolEvent, SpoolReader};
use cpumon_model::{HostStatus, Interval, Moment, Trust};
use cpumon_receiver::{Demux, DemuxOptions};
use cpumon_wire::spool::{Gap, SegmentHeader, SnapshotRecord};

/// Where frames of a log seem to come from.
const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// What a log tells, in order.
#[derive(Copy, Clone)]
pub(crate) enum Told<'a> {
    /// A segment begins: whose snapshots follow, of which spool.
    Segment(&'a SegmentHeader),
    /// An interval.
    Interval(&'a HostStatus, &'a Interval),
    /// Snapshot `number` is through, made at `wall_ns`. The first one ends no interval.
    Snapshot { number: u64, wall_ns: i64 },
    /// A hole.
    Gap(Gap),
}

/// What was read.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) report: ReadReport,
    /// Frames that this program cannot read although their bytes are sound: a newer one wrote them.
    pub(crate) rejected: u64,
}

/// Reads some segments; the first error of `out` ends it.
pub(crate) fn read(
    reader: &SpoolReader,
    segments: Range<usize>,
    out: &mut dyn FnMut(Told<'_>) -> Result<()>,
) -> Result<Reading> {
    let mut demux = Demux::new(DemuxOptions::default());
    let (mut rejected, mut result) = (0, Ok(()));
    let report = reader.read_segments(segments, &mut |event| {
        let done = match event {
            SpoolEvent::Segment(header) => out(Told::Segment(header)),
            SpoolEvent::Gap(gap) => out(Told::Gap(gap)),
            SpoolEvent::Snapshot(snapshot) => decode(&mut demux, &snapshot, &mut rejected, out),
        };
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                result = Err(error);
                ControlFlow::Break(())
            }
        }
    })?;
    result.map(|()| Reading { report, rejected })
}

fn decode(
    demux: &mut Demux,
    snapshot: &SnapshotRecord<'_>,
    rejected: &mut u64,
    out: &mut dyn FnMut(Told<'_>) -> Result<()>,
) -> Result<()> {
    let (number, wall_ns) = (snapshot.number, snapshot.wall_ns);
    let received = Moment { wall_ns, ..Moment::default() };
    let mut result = Ok(());
    for frame in snapshot.frames() {
        let accepted = demux.accept(frame, FROM, received, &mut |status, interval| {
            let status = HostStatus { trust: Trust::Imported, address: Box::default(), ..status.clone() };
            if result.is_ok() {
                result = out(Told::Interval(&status, interval));
            }
        });
        *rejected += u64::from(accepted.is_err());
    }
    result?;
    out(Told::Snapshot { number, wall_ns })
}
