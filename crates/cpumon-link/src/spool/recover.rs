//! Recovery when a spool is opened: finds where the previous writer stopped, in whatever state a kill or a power cut left its
//! segments. Unfinished tails are cut off, damaged segments are set aside; neither is fatal.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use cpumon_wire::spool::{Entry, Records, SEGMENT_HEADER_BYTES, SegmentHeader, Step};

use super::error::SpoolError;
use super::files::{self, SegmentFile};
use super::segment::Segment;

/// The segments of a directory, and where numbering goes on.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) segments: VecDeque<Segment>,
    /// The newest header that can be read.
    pub(super) header: Option<SegmentHeader>,
    /// The greatest number of a record; 0 if there is none.
    pub(super) last: u64,
    /// When the last snapshot was made.
    pub(super) last_wall_ns: Option<i64>,
    /// The machines whose snapshots there are.
    pub(super) hosts: Vec<[u8; 16]>,
    pub(super) damaged_segments: u64,
    pub(super) cut_bytes: u64,
}

/// Reads every segment's header, and all of the last segment: only that one can be unfinished.
pub(super) fn recover(dir: &Path) -> Result<Found, SpoolError> {
    let mut found = Found::default();
    let listed = files::list(dir)?;
    let count = listed.len();
    for (at, segment) in listed.into_iter().enumerate() {
        // The file name alone proves that the numbers before it were used, even if no header can be read.
        found.last = found.last.max(segment.first.saturating_sub(1));
        let header = header_of(&segment.path);
        let mut path = segment.path.clone();
        // Segments are written in order, so only the newest file can be without a whole record.
        if at + 1 == count && !segment.is_damaged && found.remove_if_unborn(&path) {
            continue;
        }
        if header.is_none() && !segment.is_damaged {
            path = found.set_aside(dir, &segment);
        }
        found.hosts.extend(header.map(|header| header.origin.host.0));
        // The hosts of segments change rarely, so removing neighbours bounds the list.
        found.hosts.dedup();
        found.header = header.or(found.header);
        if at + 1 == count {
            path = found.recover_last(dir, &segment, path);
        }
        let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
        let mut known = Segment::existing(path, segment.first, bytes);
        known.begin_wall_ns =
            header.map(|header| header.begin_wall_ns).or_else(|| first_wall_ns(&known.path)).unwrap_or(0);
        found.segments.push_back(known);
    }
    Ok(found)
}

fn header_of(path: &Path) -> Option<SegmentHeader> {
    let mut begin = Vec::new();
    // The length field of a header has 16 bits, so no header is longer.
    File::open(path).ok()?.take(u64::from(u16::MAX)).read_to_end(&mut begin).ok()?;
    SegmentHeader::decode(&begin).map(|(header, _)| header)
}

/// When the first snapshot that can be read was made, in a segment whose header cannot be.
fn first_wall_ns(path: &Path) -> Option<i64> {
    let bytes = files::read(path).ok()?;
    let mut records = Records::without_header(&bytes);
    loop {
        match records.step() {
            Step::Entry(Entry::Snapshot(snapshot)) => return Some(snapshot.wall_ns),
            Step::Entry(Entry::Gap(gap)) => return Some(gap.begin_wall_ns),
            Step::End { .. } => return None,
            _ => {}
        }
    }
}

impl Found {
    /// Removes a segment whose writer was killed before its first record was whole.
    fn remove_if_unborn(&mut self, path: &Path) -> bool {
        let Ok(bytes) = files::read(path) else { return false };
        // A kill or a power cut inside the first write leaves less than a header.
        let is_torn_header = bytes.len() < SEGMENT_HEADER_BYTES;
        let has_no_record =
            || Records::new(&bytes).is_ok_and(|mut records| matches!(records.step(), Step::End { .. }));
        let is_unborn = is_torn_header || has_no_record();
        if is_unborn {
            self.cut_bytes += bytes.len() as u64;
            if let Err(error) = std::fs::remove_file(path) {
                log::warn!("cannot remove the unfinished segment {}: {error}", path.display());
                return false;
            }
        }
        is_unborn
    }

    fn set_aside(&mut self, dir: &Path, segment: &SegmentFile) -> PathBuf {
        let to = files::damaged_path_of(dir, segment.first);
        self.damaged_segments += 1;
        match std::fs::rename(&segment.path, &to) {
            Ok(()) => {
                log::warn!("a segment of the log is damaged: it is set aside as {}", to.display());
                to
            }
            Err(error) => {
                log::warn!(
                    "the segment {} is damaged and cannot be set aside: {error}",
                    segment.path.display()
                );
                segment.path.clone()
            }
        }
    }

    /// Finds the last number, cuts an unfinished record, sets the segment aside if there is damage before its end.
    fn recover_last(&mut self, dir: &Path, segment: &SegmentFile, path: PathBuf) -> PathBuf {
        let bytes = match files::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                log::warn!("cannot read the segment {}: {error}", path.display());
                return path;
            }
        };
        let end = self.scan(&bytes);
        // A segment that is set aside stays as it is, for reading what can be read.
        if path != segment.path || segment.is_damaged {
            return path;
        }
        if end.has_damage {
            return self.set_aside(dir, segment);
        }
        if end.sound_bytes < bytes.len() as u64 {
            // This writer begins a new segment and never appends here, so failing to cut is no error.
            let cut = cpumon_files::open_to_write(&path).and_then(|file| file.set_len(end.sound_bytes));
            match cut {
                Ok(()) => self.cut_bytes += bytes.len() as u64 - end.sound_bytes,
                Err(error) => log::warn!("cannot cut the unfinished end of {}: {error}", path.display()),
            }
        }
        path
    }

    fn scan(&mut self, bytes: &[u8]) -> End {
        // Without a header its numbers still show which ones were used.
        let mut records = Records::new(bytes).unwrap_or_else(|_| Records::without_header(bytes));
        let mut end = End { sound_bytes: 0, has_damage: false };
        // A damaged payload of the very last record is an unfinished one: a power cut writes pages in any order.
        let mut damaged_at = None;
        loop {
            let at = records.offset();
            match records.step() {
                Step::Entry(entry) => {
                    // A sound record follows the damaged one, so that was not an unfinished end.
                    end.has_damage |= damaged_at.take().is_some();
                    self.note(&entry);
                }
                Step::Damaged(damaged) => {
                    // A record with a damaged header has no known length: it need not be the last one.
                    end.has_damage |= damaged_at.is_some() || damaged.number.is_none();
                    damaged_at = Some(at);
                    // Numbers that were used are not used again: the hole is of their size.
                    self.last = self.last.max(damaged.number.unwrap_or_else(|| records.greatest_behind()));
                }
                Step::End { .. } => {
                    end.sound_bytes = damaged_at.unwrap_or(at) as u64;
                    return end;
                }
            }
        }
    }

    fn note(&mut self, entry: &Entry<'_>) {
        let number = match entry {
            Entry::Snapshot(snapshot) => {
                self.last_wall_ns = Some(snapshot.wall_ns);
                snapshot.number
            }
            Entry::Gap(gap) => gap.last,
            Entry::Unknown(number) => *number,
        };
        self.last = self.last.max(number);
    }
}

/// Where the sound part of a segment ends.
struct End {
    sound_bytes: u64,
    has_damage: bool,
}
