//! [`SpoolSegment`]: one segment of a spool that is written, first in memory, then in a file. What a full disk refuses stays in
//! memory until there is space. With it the names of the files.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use cpumon_wire::spool::{
    Entry, MAX_PAYLOAD_BYTES, RECORD_HEADER_BYTES, Records, SEGMENT_HEADER_BYTES, SegmentHeader, Step,
};

use super::{SpoolError, failed};

/// What a record may need beside its payload: its head, a hole before it, a segment's header.
pub(super) const OVERHEAD_BYTES: u64 = (2 * RECORD_HEADER_BYTES + 32 + SEGMENT_HEADER_BYTES) as u64;
/// Longest segment that is read, bytes; [`SpoolSegment::limit`] keeps writers within it.
const MAX_SEGMENT_BYTES: u64 = 128 << 20;

/// A file of records, and the records that are not in it yet.
#[derive(Debug, Default)]
pub(super) struct SpoolSegment {
    pub(super) path: PathBuf,
    /// Number of the segment's first record.
    pub(super) first: u64,
    /// Bytes in the file.
    pub(super) written: u64,
    /// Bytes that follow those in the file and are in memory only.
    pub(super) pending: Vec<u8>,
    pub(super) pending_snapshots: u64,
    /// Snapshots since the segment was begun, by this writer.
    pub(super) snapshots: u64,
    /// Payload length of the first of these snapshots, bytes; it is full.
    pub(super) full_bytes: u64,
    /// When its first snapshot was made; 0: not known.
    pub(super) begin_wall_ns: i64,
    /// Number and offset of the full snapshots that this writer wrote.
    pub(super) fulls: Vec<(u64, u64)>,
    /// Number of its last snapshot, if this writer took it.
    pub(super) last: u64,
    file: Option<File>,
}

#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Written {
    pub(super) is_new: bool,
    pub(super) bytes: u64,
    /// Number of the last snapshot that was written.
    pub(super) last: u64,
}

impl SpoolSegment {
    /// A segment with `written` bytes in its file; at 0 there is no file.
    pub(super) fn new(path: PathBuf, first: u64, written: u64) -> Self {
        Self { path, first, written, ..Self::default() }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Length from which on nothing is added, bytes: that of four full snapshots or `usual`, at most `most`, and so little that the segment
    /// is read whole with one more record of the greatest length.
    pub(super) fn limit(&self, usual: u64, most: u64) -> u64 {
        let readable = MAX_SEGMENT_BYTES - MAX_PAYLOAD_BYTES as u64 - OVERHEAD_BYTES;
        usual.max(4 * self.full_bytes).min(most).min(readable)
    }

    /// At most `most` of its bytes from an offset on, from the file or from memory, and whether there are more behind them.
    pub(super) fn read_at(&self, offset: u64, most: u64) -> io::Result<(Vec<u8>, bool)> {
        // Behind the end of the file, in memory: a connection sends snapshots that no disk has yet.
        if let Some(behind) = offset.checked_sub(self.written) {
            let rest = usize::try_from(behind).ok().and_then(|at| self.pending.get(at..)).unwrap_or_default();
            let piece = rest.get(..usize::try_from(most).unwrap_or(usize::MAX)).unwrap_or(rest);
            return Ok((piece.to_vec(), piece.len() < rest.len()));
        }
        let length = most.min(self.written - offset);
        let mut piece = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        // Opened again, because a segment that will not grow has closed its file.
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(offset))?;
        file.take(length).read_to_end(&mut piece)?;
        Ok((piece, offset + length < self.bytes()))
    }

    /// When the last snapshot up to a number was made, or the last one before the hole that it begins with.
    pub(super) fn last_wall_ns(&self, number: u64) -> Option<i64> {
        let (bytes, _) = self.read_at(0, self.bytes()).ok()?;
        let mut records = Records::new(&bytes).ok()?;
        let mut last = None;
        loop {
            match records.step() {
                Step::Entry(Entry::Snapshot(snapshot)) if snapshot.number <= number => {
                    last = Some(snapshot.wall_ns);
                }
                Step::Entry(Entry::Gap(gap)) if gap.last > number => return last.or(Some(gap.begin_wall_ns)),
                Step::End { .. } => return last,
                _ => {}
            }
        }
    }

    /// Writes the pending bytes. If the disk refuses, the whole snapshots that it took count as written, and the rest stays pending.
    pub(super) fn write(&mut self) -> (Written, io::Result<()>) {
        let is_new = self.written == 0;
        let (taken, done) = self.write_pending();
        let whole = match done {
            Ok(()) => (self.pending.len(), self.pending_snapshots, self.last),
            Err(_) => self.whole_snapshots(taken),
        };
        let (length, snapshots, last) = whole;
        if let (Err(_), Some(file)) = (&done, &self.file) {
            // If this fails, the next writing begins at the same place and covers the bytes there.
            let _ = file.set_len(self.written + length as u64);
        }
        if done.is_err() && length == 0 {
            self.file = None;
            if is_new {
                // An empty file is no segment.
                let _ = std::fs::remove_file(&self.path);
            }
        }
        self.written += length as u64;
        self.pending.drain(..length);
        self.pending_snapshots -= snapshots;
        (Written { is_new, bytes: length as u64, last }, done)
    }

    /// Writes the pending bytes; returns how many the file took, also after an error.
    fn write_pending(&mut self) -> (usize, io::Result<()>) {
        let mut taken = 0;
        let done = (|| {
            let file = match &mut self.file {
                Some(file) => file,
                none if self.written == 0 => {
                    // What is there is none of ours, and who made it could read what is written.
                    cpumon_files::remove(&self.path)?;
                    none.insert(cpumon_files::create_new(&self.path)?)
                }
                // Not truncated: it was written before and closed since.
                none => none.insert(cpumon_files::open_to_write(&self.path)?),
            };
            file.seek(SeekFrom::Start(self.written))?;
            while let Some(rest) = self.pending.get(taken..).filter(|rest| !rest.is_empty()) {
                match file.write(rest) {
                    // Without this a file system that takes nothing would keep this loop running.
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => taken += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })();
        (taken, done)
    }

    /// The part of the first `taken` pending bytes that ends with a whole snapshot: its length, its snapshots, and the last one's number.
    fn whole_snapshots(&self, taken: usize) -> (usize, u64, u64) {
        let taken = self.pending.get(..taken).unwrap_or_default();
        // Only the start of the file has a segment header.
        let records = if self.written == 0 { Records::new(taken) } else { Ok(Records::within(taken)) };
        let Ok(mut records) = records else { return (0, 0, 0) };
        let mut whole = (0, 0, 0);
        loop {
            match records.step() {
                Step::Entry(Entry::Snapshot(snapshot)) => {
                    whole = (records.offset(), whole.1 + 1, snapshot.number);
                }
                Step::Entry(_) => {}
                Step::Damaged(_) | Step::End { .. } => return whole,
            }
        }
    }

    /// The file, for a sync; `None` if nothing was written.
    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Nothing will be added any more: closes the file unless something is pending, and frees spare memory.
    pub(super) fn end(&mut self) {
        // While something is pending the file is needed again.
        if self.pending.is_empty() {
            self.file = None;
        }
        self.pending.shrink_to_fit();
    }

    pub(super) fn remove(&mut self) -> io::Result<()> {
        self.file = None;
        // Nothing was ever written, so there is no file to remove.
        if self.written == 0 {
            return Ok(());
        }
        cpumon_files::remove(&self.path)
    }
}

const SEGMENT: &str = ".segment";
const DAMAGED: &str = ".segment.damaged";
const DIGITS: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SegmentFile {
    /// Number of the first record, taken from the file name.
    pub(super) first: u64,
    /// The segment was set aside because it is damaged.
    pub(super) is_damaged: bool,
    pub(super) path: PathBuf,
}

pub(super) fn path_of(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:0DIGITS$}{SEGMENT}"))
}

/// The path of a segment that is set aside.
pub(super) fn damaged_path_of(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:0DIGITS$}{DAMAGED}"))
}

/// All segments of a directory, the oldest first. Other files are none of ours.
pub(super) fn list(dir: &Path) -> Result<Vec<SegmentFile>, SpoolError> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed("list", dir))? {
        let entry = entry.map_err(failed("list", dir))?;
        if let Some((first, is_damaged)) = entry.file_name().to_str().and_then(parse) {
            files.push(SegmentFile { first, is_damaged, path: entry.path() });
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn parse(name: &str) -> Option<(u64, bool)> {
    let (digits, is_damaged) = match name.strip_suffix(DAMAGED) {
        Some(digits) => (digits, true),
        None => (name.strip_suffix(SEGMENT)?, false),
    };
    let is_number = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    // `parse` alone would take a leading "+" and fewer digits.
    Some((digits.parse().ok().filter(|_| is_number)?, is_damaged))
}

/// A segment's header; `None` if it is damaged.
pub(super) fn header_of(segment: File) -> io::Result<Option<SegmentHeader>> {
    let mut begin = Vec::new();
    // The length field of a header has 16 bits, so no header is longer.
    segment.take(u64::from(u16::MAX)).read_to_end(&mut begin)?;
    Ok(SegmentHeader::decode(&begin).map(|(header, _)| header))
}

/// A whole segment, but no more than [`MAX_SEGMENT_BYTES`]: what a longer file holds behind that is no segment of ours.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len().min(MAX_SEGMENT_BYTES);
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(MAX_SEGMENT_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A snapshot that is accepted but in memory only: how long it has waited, and the hole that it becomes if the disk never takes it.
#[derive(Copy, Clone, Debug)]
pub(super) struct Unwritten {
    pub(super) number: u64,
    /// Number of the first one in the hole before it, or its own.
    pub(super) first: u64,
    /// When the snapshot before `first` was made, ns since the UNIX epoch.
    pub(super) begin_wall_ns: i64,
    pub(super) since: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reading stops at 128 MiB, and a segment of full snapshots of 48 MiB grew to 240.
    #[test]
    fn a_segment_is_never_longer_than_what_is_read() {
        let limit = |full_bytes| {
            let segment = SpoolSegment { full_bytes, ..SpoolSegment::default() };
            segment.limit(1 << 20, 1 << 30)
        };
        assert_eq!((limit(0), limit(10 << 20)), (1 << 20, 40 << 20));
        let longest = limit(MAX_PAYLOAD_BYTES as u64);
        assert_eq!(longest, (80 << 20) - OVERHEAD_BYTES);
        assert_eq!(longest + MAX_PAYLOAD_BYTES as u64 + OVERHEAD_BYTES, MAX_SEGMENT_BYTES);
    }

    #[test]
    fn only_segments_have_a_segments_name() {
        assert_eq!(parse("00000000000000000042.segment"), Some((42, false)));
        assert_eq!(parse("00000000000000000042.segment.damaged"), Some((42, true)));
        for name in [
            "42.segment",
            "+0000000000000000042.segment",
            "state",
            "99999999999999999999.segment",
            ".segment",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
        let path = path_of(Path::new("/d"), 7);
        assert_eq!(parse(path.file_name().unwrap().to_str().unwrap()), Some((7, false)));
    }
}
