//! Opening a [`Spool`]: locks the directory, finds where the previous writer stopped, in whatever state a kill or a power cut left its
//! segments, and restores numbers and holes from the file `state`. Unfinished tails are cut off, damaged segments are set aside; neither
//! is fatal.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use cpumon_files::{LockError, LockFile};
use cpumon_wire::spool::{Entry, Gap, GapReason, Origin, Records, SEGMENT_HEADER_BYTES, SegmentHeader, Step};

use super::segment::{self, SegmentFile, SpoolSegment};
use super::write::Spool;
use super::{SpoolError, SpoolOptions, SpoolProgress, SpoolStatus, StateFile, failed};
use crate::tls::random;

impl Spool {
    /// Opens the spool of a directory for writing, and continues where the previous writer ended. Snapshots of `origin` follow.
    ///
    /// # Errors
    /// The directory cannot be made, read or locked, a file in it cannot be opened, or the size is too small.
    pub fn open(options: &SpoolOptions, origin: Origin) -> Result<Self, SpoolError> {
        let least = SpoolOptions::MIN_BYTES;
        if options.max_bytes < least {
            return Err(SpoolError::TooSmall { bytes: options.max_bytes, least });
        }
        let dir = &options.dir;
        cpumon_files::create_dir(dir).map_err(failed("make the directory", dir))?;
        let lock = lock(dir)?;
        // After the lock: recovery cuts and renames files, which another writer could still be using.
        let found = recover(dir)?;
        if let Some(mode) =
            found.segments.back().and_then(|last| cpumon_files::readable_by_others(&last.path))
        {
            log::warn!(
                "other users can read the recording in {} (mode {mode:03o}): chmod 700 the directory unless that is wanted",
                dir.display()
            );
        }
        let (state, remembered) = StateFile::open(dir)?;
        let header = found.header.filter(|header| header.origin.host == origin.host);
        // Another host's numbers go on, but they are another spool's.
        let known = remembered.filter(|state| header.is_none_or(|header| header.spool == state.spool));
        let known = known.filter(|_| header.is_some() || found.header.is_none());
        let lost = known
            .and_then(|state| state.lost)
            .and_then(|lost| still_lost(lost, found.last, found.last_wall_ns));
        let mut spool = Self {
            origin,
            id: match header.map(|header| header.spool).or(known.map(|state| state.spool)) {
                Some(id) => id,
                None => random().map_err(|error| failed("name the spool", dir)(io::Error::other(error)))?,
            },
            begin_wall_ns: header
                .map_or(known.map_or(0, |state| state.begin_wall_ns), |h| h.spool_begin_wall_ns),
            segments: found.segments,
            is_open: false,
            // A number must not come twice. The state may be older than the segments, or name numbers that
            // only memory had.
            next: known.map_or(0, |state| state.next).max(found.last + 1),
            lost,
            last_wall_ns: found.last_wall_ns,
            written_at: Instant::now(),
            refused: GapReason::NoSpace,
            unwritten: VecDeque::new(),
            state,
            syncer: None,
            is_closing: false,
            sync_errors: Arc::default(),
            noticed_errors: 0,
            progress: SpoolProgress::of(known.as_ref()),
            status: SpoolStatus {
                damaged_segments: found.damaged_segments,
                cut_bytes: found.cut_bytes,
                ..SpoolStatus::default()
            },
            hosts: found.hosts,
            options: options.clone(),
            _lock: lock,
        };
        // Report a directory that cannot be written now. A full disk is no reason to fail: space may be freed later.
        if let Err(error) = spool.remember(false)
            && !cpumon_files::is_no_space(&error)
        {
            return Err(failed("write in", dir)(error));
        }
        // The size may be smaller than when the spool was written.
        spool.drop_beyond(0);
        spool.count();
        Ok(spool)
    }
}

/// One writer per spool: two would give out the same numbers.
fn lock(dir: &Path) -> Result<LockFile, SpoolError> {
    let path = dir.join("lock");
    LockFile::take(&path).map_err(|error| match error {
        LockError::Held { holder } => SpoolError::Locked { path: dir.into(), holder },
        LockError::Io { operation, error } => SpoolError::Io { operation, path, error },
    })
}

/// The part of a remembered hole that no segment has. `last`: the greatest number in the segments; `last_wall_ns`: when the last
/// snapshot there was made.
fn still_lost(lost: Gap, last: u64, last_wall_ns: Option<i64>) -> Option<Gap> {
    // Part of the hole is in a segment already: the rest begins where the last record there ends.
    let is_partly_there = last >= lost.first;
    let begin_wall_ns = last_wall_ns.filter(|_| is_partly_there).unwrap_or(lost.begin_wall_ns);
    (last < lost.last).then_some(Gap { first: lost.first.max(last + 1), begin_wall_ns, ..lost })
}

/// The segments of a directory, and where numbering continues.
#[derive(Debug, Default)]
struct FoundSegments {
    segments: VecDeque<SpoolSegment>,
    /// The newest header that can be read.
    header: Option<SegmentHeader>,
    /// The greatest number of a record; 0 if there is none.
    last: u64,
    /// When the last snapshot was made.
    last_wall_ns: Option<i64>,
    /// The machines whose snapshots there are.
    hosts: Vec<[u8; 16]>,
    damaged_segments: u64,
    cut_bytes: u64,
}

/// Reads every segment's header, and all of the last segment: only that one can be unfinished.
fn recover(dir: &Path) -> Result<FoundSegments, SpoolError> {
    let mut found = FoundSegments::default();
    let listed = segment::list(dir)?;
    let count = listed.len();
    for (at, segment) in listed.into_iter().enumerate() {
        // The file name alone proves that the numbers before it were used, even if no header can be read.
        found.last = found.last.max(segment.first.saturating_sub(1));
        // What cannot be opened (no rights, no descriptor left) is not damaged, so nothing is changed because of it.
        let file = File::open(&segment.path).map_err(failed("open", &segment.path))?;
        let read = segment::header_of(file);
        let mut path = segment.path.clone();
        // Segments are written in order, so only the newest file can be without a whole record.
        if at + 1 == count && !segment.is_damaged && found.remove_if_unborn(&path) {
            continue;
        }
        match &read {
            Ok(None) if !segment.is_damaged => path = found.set_aside(dir, &segment),
            Err(error) => {
                log::warn!("cannot read the segment {}: {error}; it stays as it is", path.display());
            }
            Ok(_) => {}
        }
        let header = read.ok().flatten();
        found.hosts.extend(header.map(|header| header.origin.host.0));
        // The hosts of segments change rarely, so removing neighbours bounds the list.
        found.hosts.dedup();
        found.header = header.or(found.header);
        if at + 1 == count {
            path = found.recover_last(dir, &segment, path);
        }
        let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
        let mut known = SpoolSegment::new(path, segment.first, bytes);
        known.begin_wall_ns =
            header.map(|header| header.begin_wall_ns).or_else(|| first_wall_ns(&known.path)).unwrap_or(0);
        found.segments.push_back(known);
    }
    Ok(found)
}

/// When the first snapshot that can be read was made, in a segment whose header cannot be.
fn first_wall_ns(path: &Path) -> Option<i64> {
    let bytes = segment::read(path).ok()?;
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

impl FoundSegments {
    /// Removes a segment whose writer was killed before its first record was whole.
    fn remove_if_unborn(&mut self, path: &Path) -> bool {
        let Ok(bytes) = segment::read(path) else { return false };
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
        let to = segment::damaged_path_of(dir, segment.first);
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
        let bytes = match segment::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                log::warn!("cannot read the segment {}: {error}", path.display());
                // Its name proves that one number was used; the next segment must not get the same name.
                self.last = self.last.max(segment.first);
                return path;
            }
        };
        let (sound_bytes, has_damage) = self.scan(&bytes);
        // A segment that is set aside stays as it is, for reading what can be read.
        if path != segment.path || segment.is_damaged {
            return path;
        }
        if has_damage {
            return self.set_aside(dir, segment);
        }
        if sound_bytes < bytes.len() as u64 {
            // This writer begins a new segment and never appends here, so failing to cut is no error.
            let cut = cpumon_files::open_to_write(&path).and_then(|file| file.set_len(sound_bytes));
            match cut {
                Ok(()) => self.cut_bytes += bytes.len() as u64 - sound_bytes,
                Err(error) => log::warn!("cannot cut the unfinished end of {}: {error}", path.display()),
            }
        }
        path
    }

    /// Bytes of the sound part of a segment, and whether there is damage before its end.
    fn scan(&mut self, bytes: &[u8]) -> (u64, bool) {
        // Without a header its numbers still show which ones were used.
        let mut records = Records::new(bytes).unwrap_or_else(|_| Records::without_header(bytes));
        let mut has_damage = false;
        // A damaged payload of the very last record is an unfinished one: a power cut writes pages in any order.
        let mut damaged_at = None;
        loop {
            let at = records.offset();
            match records.step() {
                Step::Entry(entry) => {
                    // A sound record follows the damaged one, so that was not an unfinished end.
                    has_damage |= damaged_at.take().is_some();
                    self.note(&entry);
                }
                Step::Damaged(damaged) => {
                    // A record with a damaged header has no known length: it need not be the last one.
                    has_damage |= damaged_at.is_some() || damaged.number.is_none();
                    damaged_at = Some(at);
                    // Numbers that were used are not used again: the hole is of their size.
                    self.last = self.last.max(damaged.number.unwrap_or_else(|| records.greatest_behind()));
                }
                Step::End { .. } => return (damaged_at.unwrap_or(at) as u64, has_damage),
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
