//! Reads a recording (a directory of segments) as intervals and gaps in order. Import and replay share it.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::{ControlFlow, Range};

use anyhow::Result;
use cpumon_link::spool::{ReadReport, SpoolEvent, SpoolReader};
use cpumon_model::{HostStatus, Interval, Moment, Trust};
use cpumon_receiver::{Demux, DemuxOptions, MemoryLimits, Rejected};
use cpumon_wire::spool::{Gap, SegmentHeader, SnapshotRecord};

/// The sender address of recorded frames, which have none.
const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The events of a recording, in order.
#[derive(Copy, Clone)]
pub(crate) enum RecordingEvent<'a> {
    /// A segment begins; its header names the host and the recording.
    Segment(&'a SegmentHeader),
    /// An interval of a host.
    Interval(&'a HostStatus, &'a Interval),
    /// The end of snapshot `number`, made at `wall_ns`. The first snapshot ends no interval.
    Snapshot { number: u64, wall_ns: i64 },
    /// Snapshots that are missing.
    Gap(Gap),
}

/// Counts of a reading.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) report: ReadReport,
    pub(crate) refused: RefusedFrames,
}

/// Undamaged frames that cannot be used.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct RefusedFrames {
    pub(crate) count: u64,
    /// Why the last one.
    pub(crate) last: Option<Rejected>,
}

impl RefusedFrames {
    /// What to report of them; `None`: there are none.
    pub(crate) fn describe(&self) -> Option<String> {
        let Self { count, last } = self;
        last.map(|last| {
            let remedy =
                if last.needs_newer_version() { "; they need a newer version of cpumon" } else { "" };
            format!("{count} frames cannot be used; the last: {}{remedy}", last.fault())
        })
    }
}

/// Reads a range of segments; the first error of `out` ends the reading.
pub(crate) fn read(
    reader: &SpoolReader,
    segments: Range<usize>,
    out: &mut dyn FnMut(RecordingEvent<'_>) -> Result<()>,
) -> Result<Reading> {
    let mut demux = Demux::new(DemuxOptions { plain: MemoryLimits::ENROLLED, ..DemuxOptions::default() });
    let (mut refused, mut result) = (RefusedFrames::default(), Ok(()));
    let report = reader.read_segments(segments, &mut |event| {
        let done = match event {
            SpoolEvent::Segment(header) => out(RecordingEvent::Segment(header)),
            SpoolEvent::Gap(gap) => out(RecordingEvent::Gap(gap)),
            SpoolEvent::Snapshot(snapshot) => decode(&mut demux, &snapshot, &mut refused, out),
        };
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                // `read_segments` has its own error type, so an error of `out` takes this way around it.
                result = Err(error);
                ControlFlow::Break(())
            }
        }
    })?;
    result.map(|()| Reading { report, refused })
}

fn decode(
    demux: &mut Demux,
    snapshot: &SnapshotRecord<'_>,
    refused: &mut RefusedFrames,
    out: &mut dyn FnMut(RecordingEvent<'_>) -> Result<()>,
) -> Result<()> {
    let (number, wall_ns) = (snapshot.number, snapshot.wall_ns);
    let received = Moment { wall_ns, ..Moment::default() };
    let mut result = Ok(());
    for frame in snapshot.frames() {
        let accepted = demux.accept(frame, FROM, received, &mut |status, interval| {
            let status = HostStatus { trust: Trust::Imported, address: Box::default(), ..status.clone() };
            // A frame can complete several intervals; after an error the others must not reach `out`.
            if result.is_ok() {
                result = out(RecordingEvent::Interval(&status, interval));
            }
        });
        // It must not end the reading: the rest of the recording may be readable.
        if let Err(rejected) = accepted {
            *refused = RefusedFrames { count: refused.count + 1, last: Some(rejected) };
        }
    }
    result?;
    out(RecordingEvent::Snapshot { number, wall_ns })
}

#[cfg(test)]
mod tests {
    use cpumon_wire::v2::decode;

    use super::*;

    #[test]
    fn a_refused_frame_is_only_called_newer_if_it_is() {
        let described = |bytes: &[u8]| {
            let refused = RefusedFrames { count: 4, last: decode(bytes).err().map(Rejected::Decode) };
            refused.describe().unwrap()
        };
        let newer = [0x63, 0xb5, 0x6d, 0x32, 3, 87];
        assert_eq!(described(b"no frame"), "4 frames cannot be used; the last: not a v2 frame");
        assert!(
            described(&newer).ends_with("; they need a newer version of cpumon"),
            "{}",
            described(&newer)
        );
        assert_eq!(RefusedFrames::default().describe(), None);
    }
}
