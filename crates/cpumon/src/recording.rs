//! Recordings: directories of segments, as agents write them. [`read`] gives all of one in order as intervals and gaps, for an import;
//! [`Recording`] finds any interval, also while it is written, for the screens. It decodes segment by segment, because a recording can
//! be larger than memory.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use cpumon_link::spool::{ReadReport, SpoolError, SpoolEvent, SpoolReader};
use cpumon_model::{HostId, HostStatus, Interval, Moment, Trust, counted};
use cpumon_query::Seek;
use cpumon_receiver::{Demux, DemuxOptions, MemoryLimits, Rejected};
use cpumon_wire::spool::{Gap, SegmentHeader, SnapshotRecord};

use crate::exit::{Outcome, say};
use crate::past::or_missing;
use crate::when;

/// The sender address of recorded frames, which have none.
const FROM: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

#[derive(Copy, Clone)]
pub(crate) enum RecordingEvent<'a> {
    /// A segment begins; its header names the host and the recording.
    Segment(&'a SegmentHeader),
    Interval(&'a HostStatus, &'a Interval),
    /// The end of snapshot `number`, made at `wall_ns`. The first snapshot ends no interval.
    Snapshot {
        number: u64,
        wall_ns: i64,
    },
    Gap(Gap),
}

#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct RecordingSummary {
    pub(crate) report: ReadReport,
    pub(crate) refused: RefusedFrames,
}

/// Most gaps that are listed one by one.
const MAX_SHOWN: usize = 10;

impl RecordingSummary {
    /// The outcome of a command that read this many intervals of a recording, and was done otherwise. Reports that there is none.
    pub(crate) fn judge(&self, dir: &Path, intervals: u64, outcome: Outcome) -> Outcome {
        if intervals == 0 {
            let (shown, snapshots) = (dir.display(), self.report.snapshots);
            say(&format!(
                "no interval in {shown}: each is between two snapshots, and it has {snapshots} that can be read"
            ));
        }
        let is_whole = self.report.missing + self.report.damaged + self.refused.count == 0;
        if is_whole && intervals > 0 { outcome } else { or_missing(outcome) }
    }

    /// A line for each part that could not be read; `gaps` are those that were read with it.
    pub(crate) fn missing_lines(&self, gaps: &[Gap]) -> Vec<String> {
        let mut lines: Vec<String> = gaps.iter().take(MAX_SHOWN).map(describe).collect();
        if let Some(more) = gaps.len().checked_sub(MAX_SHOWN + 1) {
            lines.push(format!("and {} more gaps", more + 1));
        }
        lines.extend(self.refused.describe());
        lines.extend(counted([
            (self.report.damaged, "damaged parts were skipped"),
            (
                self.report.tail_bytes,
                "bytes of an unfinished snapshot at the end: the agent was killed, or is still writing",
            ),
        ]));
        lines
    }
}

fn describe(gap: &Gap) -> String {
    let (begin, end) = (when::show(gap.begin_wall_ns), when::show(gap.end_wall_ns));
    let what = if gap.count() == 1 { "snapshot is" } else { "snapshots are" };
    format!("{} {what} missing between {begin} and {end}: {}", gap.count(), gap.reason.words())
}

/// Undamaged frames that cannot be used.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct RefusedFrames {
    pub(crate) count: u64,
    /// Why the last frame was refused.
    pub(crate) last: Option<Rejected>,
}

impl RefusedFrames {
    /// A message about the refused frames; `None`: there are none.
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
) -> Result<RecordingSummary> {
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
    result.map(|()| RecordingSummary { report, refused })
}

/// Reports what a replay of a whole recording left out, which an import would report; returns the outcome of a command that was done
/// otherwise.
pub(crate) fn report_missing(dir: &Path, outcome: Outcome) -> Result<Outcome> {
    let reader = SpoolReader::open(dir)?;
    let (mut gaps, mut intervals) = (Vec::new(), 0_u64);
    let summary = read(&reader, 0..reader.segment_count(), &mut |event| {
        match event {
            RecordingEvent::Gap(gap) => gaps.push(gap),
            RecordingEvent::Interval(..) => intervals += 1,
            RecordingEvent::Segment(_) | RecordingEvent::Snapshot { .. } => {}
        }
        Ok(())
    })?;
    for line in summary.missing_lines(&gaps) {
        say(&line);
    }
    Ok(summary.judge(dir, intervals, outcome))
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

/// Most decoded segments in memory.
const MAX_LOADED: usize = 8;
/// Most rows in loaded segments (about 240 bytes each); the current segment stays in memory whatever its size.
const MAX_LOADED_ROWS: usize = 500_000;
/// Most segments that are read for the intervals of a time.
const MAX_SEGMENTS: usize = 32;

#[derive(Debug)]
struct Loaded {
    segment: usize,
    intervals: Vec<Arc<Interval>>,
    rows: usize,
}

#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct RecordingPosition {
    segment: usize,
    interval: usize,
}

#[derive(Debug)]
pub(crate) struct Recording {
    /// Reader of segments; `None` if all are loaded.
    reader: Option<SpoolReader>,
    /// Headers of the segments; `None` where one cannot be read.
    index: Vec<Option<SegmentHeader>>,
    loaded: VecDeque<Arc<Loaded>>,
    pub(crate) hosts: BTreeMap<HostId, HostStatus>,
    pub(crate) selected: Option<HostId>,
}

impl Recording {
    /// Opens a recording; its first host is selected.
    pub(crate) fn open(dir: &Path) -> Result<Self, SpoolError> {
        let mut recording = Self {
            reader: Some(SpoolReader::open(dir)?),
            index: Vec::new(),
            loaded: VecDeque::new(),
            hosts: BTreeMap::new(),
            selected: None,
        };
        recording.list();
        // The last segment of a host has its latest name.
        let headers = recording.index.iter().enumerate();
        let last: BTreeMap<HostId, usize> =
            headers.filter_map(|(at, header)| Some(((*header)?.origin.host, at))).collect();
        for segment in last.into_values() {
            recording.load(segment);
        }
        recording.selected = recording.index.iter().flatten().next().map(|header| header.origin.host);
        if let (None, Some(reader)) = (recording.selected, &recording.reader) {
            // No header can be read. Where the system forbids it, that is the error.
            reader.read(&mut |_| ControlFlow::Continue(()))?;
        }
        Ok(recording)
    }

    /// One host, with all intervals in memory.
    pub(crate) fn of_intervals(status: HostStatus, intervals: Vec<Arc<Interval>>) -> Self {
        let mut header = SegmentHeader::default();
        header.origin.host = status.info.host;
        Self {
            reader: None,
            index: vec![Some(header)],
            loaded: VecDeque::from([Arc::new(Loaded { segment: 0, intervals, rows: 0 })]),
            selected: Some(status.info.host),
            hosts: BTreeMap::from([(status.info.host, status)]),
        }
    }

    fn list(&mut self) {
        let headers =
            self.reader.iter().flat_map(|reader| (0..reader.segment_count()).map(|at| reader.header(at)));
        self.index = headers.collect();
    }

    /// The intervals that end in a segment; none if it cannot be read.
    fn load(&mut self, segment: usize) -> Arc<Loaded> {
        if let Some(loaded) = self.loaded.iter().find(|loaded| loaded.segment == segment) {
            return Arc::clone(loaded);
        }
        let mut loaded = Loaded { segment, intervals: Vec::new(), rows: 0 };
        let wanted = self.index.get(segment).copied().flatten();
        let mut is_wanted = false;
        // The first interval of a segment begins in the segment before.
        let range = segment.saturating_sub(1)..segment + 1;
        let Some(reader) = &self.reader else { return Arc::new(loaded) };
        let read = read(reader, range, &mut |event| {
            match event {
                RecordingEvent::Segment(header) => is_wanted = Some(*header) == wanted,
                RecordingEvent::Interval(status, interval) if is_wanted => {
                    loaded.rows += interval.threads.len() + interval.processes.len();
                    loaded.intervals.push(Arc::new(interval.clone()));
                    self.hosts.insert(interval.host, status.clone());
                }
                _ => {}
            }
            Ok(())
        });
        if let Err(error) = read {
            log::warn!("{error:#}");
        }
        let loaded = Arc::new(loaded);
        self.loaded.push_back(Arc::clone(&loaded));
        let rows = |feed: &Self| feed.loaded.iter().map(|loaded| loaded.rows).sum::<usize>();
        // The oldest is dropped first, so the segment just read is never the one that goes.
        while self.loaded.len() > MAX_LOADED || (self.loaded.len() > 1 && rows(self) > MAX_LOADED_ROWS) {
            self.loaded.pop_front();
        }
        loaded
    }

    fn is_of_host(&self, segment: usize) -> bool {
        self.index.get(segment).is_some_and(|header| header.map(|header| header.origin.host) == self.selected)
    }

    pub(crate) fn interval(&mut self, at: RecordingPosition) -> Option<Arc<Interval>> {
        self.load(at.segment).intervals.get(at.interval).cloned()
    }

    /// The first interval at or after `from` that fits.
    fn find_forward(
        &mut self,
        from: RecordingPosition,
        fits: impl Fn(&Interval) -> bool,
    ) -> Option<RecordingPosition> {
        let mut skipped = from.interval;
        for segment in from.segment..self.index.len() {
            if self.is_of_host(segment) {
                let loaded = self.load(segment);
                let rest = loaded.intervals.iter().enumerate().skip(skipped);
                if let Some((interval, _)) = rest.into_iter().find(|(_, interval)| fits(interval)) {
                    return Some(RecordingPosition { segment, interval });
                }
            }
            // `from.interval` counts in the first segment only.
            skipped = 0;
        }
        None
    }

    /// Position of the last interval in these segments that fits.
    fn find_back(
        &mut self,
        segments: Range<usize>,
        fits: impl Fn(&Interval) -> bool,
    ) -> Option<RecordingPosition> {
        let end = segments.end.min(self.index.len());
        for segment in (segments.start..end).rev() {
            if self.is_of_host(segment) {
                let loaded = self.load(segment);
                if let Some(interval) = loaded.intervals.iter().rposition(|interval| fits(interval)) {
                    return Some(RecordingPosition { segment, interval });
                }
            }
        }
        None
    }

    /// The last segment that begins at or before a moment.
    fn segment_at(&self, wall_ns: i64) -> usize {
        let begins = |at: &usize| {
            self.is_of_host(*at)
                && self
                    .index
                    .get(*at)
                    .copied()
                    .flatten()
                    .is_some_and(|header| header.begin_wall_ns <= wall_ns)
        };
        (0..self.index.len()).rev().find(begins).unwrap_or(0)
    }

    pub(crate) fn position_of(&mut self, to: Seek) -> Option<RecordingPosition> {
        match to {
            Seek::Before(wall_ns) => {
                let segment = self.segment_at(wall_ns);
                self.find_back(0..segment + 1, |interval| interval.end.wall_ns < wall_ns)
            }
            Seek::After(wall_ns) => {
                let segment = self.segment_at(wall_ns);
                self.find_forward(RecordingPosition { segment, interval: 0 }, |interval| {
                    interval.end.wall_ns > wall_ns
                })
            }
            Seek::At(wall_ns) => {
                // The interval that contains the moment may end in the next segment.
                let segment = self.segment_at(wall_ns);
                let contains =
                    |interval: &Interval| interval.begin.wall_ns < wall_ns && wall_ns <= interval.end.wall_ns;
                self.find_back(segment..segment + 2, contains)
            }
        }
    }

    /// The interval behind a position; without one, the first.
    pub(crate) fn next(&mut self, at: Option<RecordingPosition>) -> Option<RecordingPosition> {
        let from = at.map_or_else(RecordingPosition::default, |at| RecordingPosition {
            interval: at.interval + 1,
            ..at
        });
        self.find_forward(from, |_| true)
    }

    /// Intervals that end in a time, if that is not too long.
    pub(crate) fn within(&mut self, wall_ns: &Range<i64>) -> Option<Vec<Arc<Interval>>> {
        // The interval that contains the end of the range may end in the next segment.
        let (first, last) = (self.segment_at(wall_ns.start), self.segment_at(wall_ns.end) + 1);
        if last - first > MAX_SEGMENTS {
            return None;
        }
        let mut found = Vec::new();
        for segment in first..=last {
            if self.is_of_host(segment) {
                let loaded = self.load(segment);
                let within =
                    loaded.intervals.iter().filter(|interval| wall_ns.contains(&interval.end.wall_ns));
                found.extend(within.cloned());
            }
        }
        Some(found)
    }

    /// Reads the list of segments again, to find new data; gives where the interval of a position is now.
    pub(crate) fn refresh(&mut self, at: Option<RecordingPosition>) -> Option<RecordingPosition> {
        // The directory may be unreadable for a moment; the next check tries again.
        let Some(Ok(reader)) = self.reader.as_ref().map(|reader| SpoolReader::open(reader.dir())) else {
            return at;
        };
        let first =
            |index: &[Option<SegmentHeader>]| index.first().copied().flatten().map(|header| header.first);
        let (last, first_before) = (self.index.len().saturating_sub(1), first(&self.index));
        self.reader = Some(reader);
        self.list();
        if first(&self.index) == first_before {
            // The last segment may have grown, so it is decoded again; the others are complete.
            self.loaded.retain(|loaded| loaded.segment < last);
            return at;
        }
        // The oldest segment was deleted, so positions have changed. Continue at the end.
        self.loaded.clear();
        self.find_back(0..self.index.len(), |_| true)
    }
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
