//! [`SpoolReader`]: reads the snapshots of a directory in order, with every hole, also while it is being written. Damaged
//! records are counted, are never fatal, and are never returned.

use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use cpumon_wire::spool::{Entry, Gap, GapReason, Records, SegmentHeader, SnapshotRecord, Step};

use super::segment::{self, SegmentFile};
use super::{SpoolError, StateFile, failed};

#[derive(Clone, Debug)]
pub enum SpoolEvent<'a> {
    Segment(&'a SegmentHeader),
    /// A snapshot. The first one, and each one behind a hole, is full.
    Snapshot(SnapshotRecord<'a>),
    Gap(Gap),
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadReport {
    pub segments: u64,
    pub bytes: u64,
    pub snapshots: u64,
    /// Snapshots that the reported gaps cover.
    pub missing: u64,
    pub damaged: u64,
    /// Bytes of last records that were begun and not ended.
    pub tail_bytes: u64,
}

/// Reads the segments that a directory had when it was opened.
#[derive(Clone, Debug)]
pub struct SpoolReader {
    dir: PathBuf,
    files: Vec<SegmentFile>,
}

impl SpoolReader {
    /// The segments that are there now.
    ///
    /// # Errors
    /// The directory cannot be listed, or holds none.
    pub fn open(dir: &Path) -> Result<Self, SpoolError> {
        let files = segment::list(dir)?;
        if files.is_empty() {
            return Err(SpoolError::Empty { path: dir.into() });
        }
        Ok(Self { dir: dir.into(), files })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn segment_count(&self) -> usize {
        self.files.len()
    }

    /// A segment's header; `None` if it cannot be read.
    pub fn header(&self, segment: usize) -> Option<SegmentHeader> {
        segment::header_of(File::open(&self.files.get(segment)?.path).ok()?).ok()?
    }

    pub fn read(
        &self,
        out: &mut dyn FnMut(SpoolEvent<'_>) -> ControlFlow<()>,
    ) -> Result<ReadReport, SpoolError> {
        self.read_segments(0..self.files.len(), out)
    }

    /// Reads some segments. What was dropped before the oldest segment is reported if that segment is among them.
    ///
    /// # Errors
    /// A segment may not be read, or the state not be opened.
    pub fn read_segments(
        &self,
        segments: Range<usize>,
        out: &mut dyn FnMut(SpoolEvent<'_>) -> ControlFlow<()>,
    ) -> Result<ReadReport, SpoolError> {
        // The state says what a receiver had before the oldest segments went: that is no hole.
        let acked = StateFile::open(&self.dir)?.1.map(|state| (state.spool, state.acked));
        let mut walk = SegmentWalk {
            out,
            acked,
            report: ReadReport::default(),
            is_from_begin: segments.start == 0,
            spool: None,
            next: 1,
            last_wall_ns: 0,
            needs_full: true,
            skipped: 0,
            skipped_wall_ns: 0,
        };
        for file in self.files.get(segments).unwrap_or_default() {
            let bytes = match segment::read(&file.path) {
                Ok(bytes) => bytes,
                // The writer dropped it meanwhile; the jump in the numbers becomes a hole.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(failed("read", &file.path)(error));
                }
                Err(error) => {
                    log::warn!("cannot read {}: {error}", file.path.display());
                    walk.report.damaged += 1;
                    continue;
                }
            };
            if walk.segment(&bytes).is_break() {
                return Ok(walk.report);
            }
        }
        // What was skipped at the end is a gap, too. The caller's request to stop does not matter then.
        let _ = walk.missing_up_to(walk.skipped.saturating_add(1), walk.skipped_wall_ns);
        Ok(walk.report)
    }
}

/// Walks over segments and finds gaps in the record numbers.
struct SegmentWalk<'a> {
    out: &'a mut dyn FnMut(SpoolEvent<'_>) -> ControlFlow<()>,
    report: ReadReport,
    /// The first segment of the walk is the oldest one of the spool.
    is_from_begin: bool,
    spool: Option<[u8; 16]>,
    /// The record number that is expected next.
    next: u64,
    last_wall_ns: i64,
    /// Only a full snapshot can follow: any other refers to one that was not returned.
    needs_full: bool,
    /// Up to this number a receiver has the snapshots of this spool, as the state file says: that they are not here is no hole.
    acked: Option<([u8; 16], u64)>,
    /// The greatest number that was skipped, and when its snapshot was made.
    skipped: u64,
    skipped_wall_ns: i64,
}

impl SegmentWalk<'_> {
    fn segment(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        self.report.segments += 1;
        self.report.bytes += bytes.len() as u64;
        // A segment begins with a full snapshot: what comes before that one refers to a snapshot of another
        // segment.
        self.needs_full = true;
        let Ok(mut records) = Records::new(bytes) else {
            self.report.damaged += 1;
            // Its numbers are still good enough to count the loss.
            self.skip_all(Records::without_header(bytes));
            return ControlFlow::Continue(());
        };
        self.begin_segment(records.header());
        (self.out)(SpoolEvent::Segment(records.header()))?;
        loop {
            match records.step() {
                Step::Entry(Entry::Snapshot(snapshot)) => self.snapshot(snapshot)?,
                Step::Entry(Entry::Gap(gap)) => self.recorded_gap(gap)?,
                Step::Entry(Entry::Unknown(number)) => self.skip(number, self.last_wall_ns),
                Step::Damaged(damaged) => {
                    self.report.damaged += 1;
                    self.needs_full = true;
                    self.skip(damaged.number.unwrap_or(0), self.last_wall_ns);
                }
                Step::End { tail_bytes } => {
                    self.report.tail_bytes += tail_bytes as u64;
                    return ControlFlow::Continue(());
                }
            }
        }
    }

    fn begin_segment(&mut self, header: &SegmentHeader) {
        if self.spool == Some(header.spool) {
            return;
        }
        let is_first = self.spool.replace(header.spool).is_none();
        self.last_wall_ns = header.spool_begin_wall_ns;
        if !(is_first && self.is_from_begin) {
            // What lies before was not asked for, or has the numbers of another spool.
            self.next = self.next.max(header.first);
        } else if let Some((_, acked)) = self.acked.filter(|(spool, _)| *spool == header.spool) {
            // A state file of another spool says nothing about these numbers.
            self.next = self.next.max(header.first.min(acked.saturating_add(1)));
        }
    }

    fn skip(&mut self, number: u64, wall_ns: i64) {
        self.skipped = self.skipped.max(number);
        self.skipped_wall_ns = wall_ns;
    }

    fn skip_all(&mut self, mut records: Records<'_>) {
        loop {
            match records.step() {
                Step::Entry(Entry::Snapshot(snapshot)) => self.skip(snapshot.number, snapshot.wall_ns),
                Step::Entry(Entry::Gap(gap)) => self.skip(gap.last, gap.end_wall_ns),
                Step::Entry(Entry::Unknown(number)) => self.skip(number, self.last_wall_ns),
                Step::Damaged(damaged) => self.skip(damaged.number.unwrap_or(0), self.last_wall_ns),
                Step::End { .. } => return,
            }
        }
    }

    fn snapshot(&mut self, snapshot: SnapshotRecord<'_>) -> ControlFlow<()> {
        if snapshot.number < self.next {
            // There already: a copy of a segment, or numbers of another writer.
            self.report.damaged += 1;
            self.needs_full = true;
            return ControlFlow::Continue(());
        }
        // It leaves out what did not change since a snapshot that could not be read.
        if self.needs_full && !snapshot.is_full {
            self.skip(snapshot.number, snapshot.wall_ns);
            return ControlFlow::Continue(());
        }
        self.missing_up_to(snapshot.number, snapshot.wall_ns)?;
        self.needs_full = false;
        self.next = snapshot.number.saturating_add(1);
        self.last_wall_ns = snapshot.wall_ns;
        self.report.snapshots += 1;
        (self.out)(SpoolEvent::Snapshot(snapshot))
    }

    fn recorded_gap(&mut self, gap: Gap) -> ControlFlow<()> {
        // Reported already: a copy of a segment repeats its holes.
        if gap.last < self.next {
            return ControlFlow::Continue(());
        }
        self.missing_up_to(gap.first, gap.begin_wall_ns)?;
        self.needs_full = true;
        self.give_out(Gap { first: gap.first.max(self.next), ..gap })
    }

    /// The numbers from the expected one up to `number` are not there.
    fn missing_up_to(&mut self, number: u64, wall_ns: i64) -> ControlFlow<()> {
        if number <= self.next {
            return ControlFlow::Continue(());
        }
        // Before anything was read, a jump can only be what the writer dropped to keep to its size.
        let is_dropped = self.report.snapshots + self.report.missing + self.report.damaged == 0;
        let reason = if is_dropped { GapReason::Dropped } else { GapReason::Damaged };
        let (first, begin_wall_ns) = (self.next, self.last_wall_ns);
        self.give_out(Gap { first, last: number - 1, begin_wall_ns, end_wall_ns: wall_ns, reason })
    }

    fn give_out(&mut self, gap: Gap) -> ControlFlow<()> {
        self.next = gap.last.saturating_add(1);
        self.last_wall_ns = gap.end_wall_ns;
        self.report.missing += gap.count();
        (self.out)(SpoolEvent::Gap(gap))
    }
}
