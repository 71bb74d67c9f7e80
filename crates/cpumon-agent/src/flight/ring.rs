//! [`DiskRing`]: the flight recorder on disk. Events go to segments, files that each can be read alone; the oldest are
//! deleted when they are too old, or when all files together are too large. A window is a copy of the last segments.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use cpumon_collect::now;
use cpumon_link::attachments::{self, TraceRequests, Why, part_of};
use cpumon_trace::{TraceWindow, WindowCopy, WriteError, segments};

use super::window_files::windows_in;
use crate::error::FlightError;
use crate::recording::stamp;

const BUFFER_BYTES: usize = 1 << 18;
/// How long is written before the ring buffers are emptied again.
const WRITE_FOR: Duration = Duration::from_millis(5);
/// A segment is at most this part of the whole ring, so that little more than the oldest data is deleted at a time.
const PARTS: u32 = 16;
const MIN_SEGMENT_BYTES: u64 = 64 << 10;
const MAX_SEGMENT_BYTES: u64 = 32 << 20;
/// Upper bound of the bytes that end a segment.
const END_BYTES: u64 = 64;
/// A disk that takes nothing is tried again after this.
const PAUSE: Duration = Duration::from_secs(10);
/// Least time between two warnings about the disk.
const WARN_EVERY: Duration = Duration::from_mins(1);

/// Limits of the ring on disk and of a window.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FlightDisk {
    /// Limit of segments and windows together, bytes.
    pub bytes: u64,
    /// Time before the moment that a window is about.
    pub window: Duration,
}

struct OpenSegment {
    copy: WindowCopy<BufWriter<File>>,
    path: PathBuf,
    began: Instant,
    /// Bytes that are complete.
    whole_bytes: u64,
}

/// A segment that is complete, or was left by an earlier recording.
struct Closed {
    path: PathBuf,
    bytes: u64,
    /// When it ended, on the monotonic clock; before it began if that was on an earlier boot.
    end_ns: i64,
    is_own: bool,
}

/// The segments of a directory, and the one that is being written.
pub(super) struct DiskRing {
    dir: PathBuf,
    disk: FlightDisk,
    length: Duration,
    recording: String,
    number: u32,
    open: Option<OpenSegment>,
    closed: VecDeque<Closed>,
    /// Events before this time are in segments, or lost.
    after_ns: u64,
    /// Bytes of the tasks' names in the last segment.
    names_bytes: u64,
    paused: Option<Instant>,
    warnings: DiskWarnings,
    work: DiskWork,
}

impl DiskRing {
    /// Opens the directory, with the segments that earlier recordings left there. The recording began at `began_ns`.
    pub(super) fn open(
        dir: &Path,
        disk: FlightDisk,
        length: Duration,
        began_ns: u64,
    ) -> Result<Self, FlightError> {
        let failed = |error| FlightError::Dir { dir: dir.display().to_string(), error };
        let found = segments::list(dir).map_err(failed)?;
        let now = now();
        let mut wall_ns = now.wall_ns;
        // The clock may have been set back since.
        while found.iter().any(|segment| segment.recording == stamp(wall_ns)) {
            wall_ns += 1_000_000;
        }
        // Their ages count from here: under a clock that is set wrong, all would be too old at once.
        let end_ns = now.mono_ns.cast_signed();
        let mut closed: Vec<(Option<SystemTime>, Closed)> = found
            .into_iter()
            .map(|segment| {
                let modified = segment.path.metadata().and_then(|about| about.modified()).ok();
                let (path, bytes) = (segment.path, segment.bytes);
                (modified, Closed { path, bytes, end_ns, is_own: false })
            })
            .collect();
        closed.sort_by_key(|(modified, _)| *modified);
        Ok(Self {
            dir: dir.to_owned(),
            disk,
            length,
            recording: stamp(wall_ns),
            number: 0,
            open: None,
            closed: closed.into_iter().map(|(_, segment)| segment).collect(),
            after_ns: began_ns,
            names_bytes: MIN_SEGMENT_BYTES,
            paused: None,
            warnings: DiskWarnings::default(),
            work: DiskWork::default(),
        })
    }

    /// Writes the window's events for some milliseconds, and drops them there. True: more is left. If the disk refuses writes, the
    /// oldest segments are dropped first, then new events until it accepts some again; the next segment marks the loss.
    pub(super) fn write(&mut self, window: &mut TraceWindow) -> bool {
        if self.paused.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        self.paused = None;
        match self.try_write(window) {
            Ok(is_more) => is_more,
            Err(error) => {
                self.give_way(&error);
                false
            }
        }
    }

    fn try_write(&mut self, window: &mut TraceWindow) -> Result<bool, WriteError> {
        let begin = Instant::now();
        while let Some(next_bytes) = window.next_bytes() {
            if next_bytes > self.disk.bytes / 2 {
                self.close()?;
                window.drop_oldest();
                continue;
            }
            if self.open.as_ref().is_some_and(|open| open.whole_bytes + next_bytes > self.segment_bytes()) {
                self.close()?;
            }
            self.write_part(window, next_bytes)?;
            if begin.elapsed() >= WRITE_FOR {
                break;
            }
        }
        if self.open.as_ref().is_some_and(|open| open.began.elapsed() >= self.segment_time()) {
            self.close()?;
        }
        Ok(window.next_bytes().is_some())
    }

    fn write_part(&mut self, window: &mut TraceWindow, bytes: u64) -> Result<(), WriteError> {
        if self.open.is_none() {
            self.begin(window, bytes)?;
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        window.extend_copy(&mut open.copy);
        window.copy_part(&mut open.copy)?;
        window.drop_copied(&open.copy);
        if open.whole_bytes == 0 {
            self.names_bytes = open.copy.counts().bytes - bytes;
        }
        open.whole_bytes = open.copy.counts().bytes;
        Ok(())
    }

    fn segment_bytes(&self) -> u64 {
        (self.disk.bytes / u64::from(PARTS)).clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES)
    }

    /// Not longer than a window: it has whole segments.
    fn segment_time(&self) -> Duration {
        (self.length / PARTS).min(self.disk.window).max(Duration::from_secs(1))
    }

    fn begin(&mut self, window: &TraceWindow, bytes: u64) -> Result<(), WriteError> {
        self.evict(self.segment_bytes().max(bytes + self.names_bytes) + END_BYTES);
        let path = self.dir.join(segments::name_of(&self.recording, self.number));
        let create = || cpumon_files::create_new(&path);
        let file = create().map_err(|error| WriteError { operation: "begin a segment", error })?;
        self.number += 1;
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        match window.begin_part(file, now(), self.after_ns) {
            Ok(copy) => self.open = Some(OpenSegment { copy, path, began: Instant::now(), whole_bytes: 0 }),
            Err(error) => {
                self.remove(&path);
                return Err(error);
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), WriteError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let OpenSegment { copy, path, whole_bytes, .. } = open;
        let until_ns = copy.until_ns();
        let finished = copy.finish().and_then(|(file, counts)| {
            let file = file
                .into_inner()
                .map_err(|error| WriteError { operation: "end a segment", error: error.into_error() })?;
            Ok((file, counts.bytes))
        });
        match finished {
            Ok((file, bytes)) => {
                self.keep(path, bytes, until_ns);
                // It waits for the disk, which must not delay the next pass.
                self.work.spawn(move || {
                    if let Err(error) = file.sync_all() {
                        log::warn!("flight recorder: a segment is not on the disk: {error}");
                    }
                });
                Ok(())
            }
            Err(error) => {
                self.cut(&path, whole_bytes, until_ns);
                Err(error)
            }
        }
    }

    fn keep(&mut self, path: PathBuf, bytes: u64, until_ns: u64) {
        self.after_ns = until_ns;
        self.closed.push_back(Closed { path, bytes, end_ns: until_ns.cast_signed(), is_own: true });
    }

    /// Removes the incomplete end of a segment.
    fn cut(&mut self, path: &Path, whole_bytes: u64, until_ns: u64) {
        // Checked first, because opening would create a file that is missing.
        let cut = cpumon_files::check_to_write(path)
            .and_then(|()| cpumon_files::open_to_write(path))
            .and_then(|file| file.set_len(whole_bytes));
        if let Err(error) = &cut {
            self.warnings.warn(&format!("cannot cut {}, which is deleted: {error}", path.display()));
        }
        if whole_bytes == 0 || cut.is_err() {
            self.remove(path);
        } else {
            self.keep(path.to_owned(), whole_bytes, until_ns);
        }
    }

    /// Ends the segment after a failed write; deletes the oldest if the disk is full.
    fn give_way(&mut self, error: &WriteError) {
        if let Some(open) = self.open.take() {
            let OpenSegment { copy, path, whole_bytes, .. } = open;
            let until_ns = copy.until_ns();
            // Its buffer is written when it is dropped, at the latest.
            drop(copy);
            self.cut(&path, whole_bytes, until_ns);
        }
        let freed = if cpumon_files::is_no_space(&error.error) {
            self.delete_oldest() + self.delete_oldest()
        } else {
            0
        };
        if freed == 0 {
            self.paused = Some(Instant::now() + PAUSE);
        }
        let then = if freed > 0 { "the oldest segments were deleted" } else { "tried again in 10 s" };
        self.warnings.warn(&format!("cannot {}: {}; {then}", error.operation, error.error));
    }

    /// Deletes segments that are too old, and as many more as it takes to free `more` bytes.
    fn evict(&mut self, more: u64) {
        let begin_ns = now().mono_ns.cast_signed().saturating_sub(signed_ns(self.length));
        while self.closed.front().is_some_and(|first| first.end_ns < begin_ns) {
            self.delete_oldest();
        }
        let windows: u64 = self.windows().iter().map(|(_, bytes)| bytes).sum();
        while self.segments_bytes() + windows + more > self.disk.bytes && !self.closed.is_empty() {
            self.delete_oldest();
        }
    }

    fn segments_bytes(&self) -> u64 {
        self.closed.iter().map(|segment| segment.bytes).sum()
    }

    /// Returns the number of bytes freed.
    fn delete_oldest(&mut self) -> u64 {
        let Some(first) = self.closed.pop_front() else { return 0 };
        if self.remove(&first.path) { first.bytes } else { 0 }
    }

    /// Deletes a file, which may be gone. False: it is still there, which is reported.
    fn remove(&mut self, path: &Path) -> bool {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.warnings.warn(&format!("cannot delete {}: {error}", path.display()));
                false
            }
            _ => true,
        }
    }

    /// The windows in the directory and their bytes, the oldest first. A directory that cannot be listed is reported and counts as empty;
    /// entries that cannot be read are reported.
    fn windows(&mut self) -> Vec<(PathBuf, u64)> {
        match windows_in(&self.dir) {
            Ok(windows) => {
                if let Some(warning) = windows.warning(&self.dir) {
                    self.warnings.warn(&warning);
                }
                windows.files
            }
            Err(error) => {
                let dir = self.dir.display();
                self.warnings.warn(&format!("cannot list {dir}, whose traces do not count now: {error}"));
                Vec::new()
            }
        }
    }

    /// Writes the last segments, as one trace, to a file with this name, and notifies the thread that sends it.
    pub(super) fn save(
        &mut self,
        window: &mut TraceWindow,
        path: PathBuf,
        why: Why,
        requests: &Arc<TraceRequests>,
    ) -> Result<(), WriteError> {
        while self.write(window) {}
        self.close()?;
        let from_ns = self.after_ns.cast_signed().saturating_sub(signed_ns(self.disk.window));
        let is_wanted = |segment: &&Closed| segment.is_own && segment.end_ns > from_ns;
        let wanted: Vec<&Closed> = self.closed.iter().filter(is_wanted).collect();
        let bytes: u64 = wanted.iter().map(|segment| segment.bytes).sum();
        let refused = |text: &str| WriteError { operation: "keep a window", error: io::Error::other(text) };
        if wanted.is_empty() {
            return Err(refused("nothing is on the disk"));
        }
        if bytes > self.disk.bytes / 2 {
            return Err(refused(
                "it would take more than half of --flight-bytes; give more, or a shorter --flight-window",
            ));
        }
        let opened: io::Result<Vec<File>> = wanted.iter().map(|segment| File::open(&segment.path)).collect();
        let opened = opened.map_err(|error| WriteError { operation: "open a segment", error })?;
        self.make_space(bytes);
        let requests = Arc::clone(requests);
        self.work.spawn(move || {
            match copy(opened, &path).and_then(|()| attachments::complete(&path, &why)) {
                Ok(()) => {
                    log::info!("flight recorder: {} has {} kB", path.display(), bytes / 1_000);
                    requests.notify_new();
                }
                Err(error) => {
                    log::warn!("flight recorder: the window was not written: {error}");
                    let part = part_of(&path);
                    if let Err(error) = std::fs::remove_file(&part)
                        && error.kind() != io::ErrorKind::NotFound
                    {
                        log::warn!("flight recorder: cannot delete {}: {error}", part.display());
                    }
                }
            }
        });
        Ok(())
    }

    /// Windows take half of the bytes at most, and with the segments no more than all.
    fn make_space(&mut self, more: u64) {
        let windows = self.windows();
        let mut left: u64 = windows.iter().map(|(_, bytes)| bytes).sum();
        for (path, bytes) in windows {
            if left + more <= self.disk.bytes / 2 {
                break;
            }
            match attachments::remove(&path) {
                Ok(()) => left -= bytes,
                Err(error) => {
                    self.warnings.warn(&format!("cannot delete {}: {error}", path.display()));
                }
            }
        }
        while self.segments_bytes() + left + more > self.disk.bytes && !self.closed.is_empty() {
            self.delete_oldest();
        }
    }
}

impl Drop for DiskRing {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            log::warn!("flight recorder: cannot {}: {}", error.operation, error.error);
        }
    }
}

/// Errors of the disk as warnings: one a minute at most, with the number of those that were left out.
#[derive(Default)]
struct DiskWarnings {
    at: Option<Instant>,
    left_out: u64,
}

impl DiskWarnings {
    fn warn(&mut self, text: &str) {
        if self.at.is_some_and(|at| at.elapsed() < WARN_EVERY) {
            self.left_out += 1;
            return;
        }
        self.at = Some(Instant::now());
        match std::mem::take(&mut self.left_out) {
            0 => log::warn!("flight recorder: {text}"),
            more => log::warn!("flight recorder: {text}; {more} other errors since the last such warning"),
        }
    }
}

/// Concatenates segments, which makes a valid trace.
fn copy(segments: Vec<File>, path: &Path) -> io::Result<()> {
    let mut to = cpumon_files::create_new(&part_of(path))?;
    for mut segment in segments {
        io::copy(&mut segment, &mut to)?;
    }
    to.flush()
}

fn signed_ns(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Threads that wait for the disk, which must not delay the next pass.
#[derive(Default)]
pub(super) struct DiskWork(Vec<JoinHandle<()>>);

impl DiskWork {
    pub(super) fn spawn(&mut self, work: impl FnOnce() + Send + 'static) {
        self.0.retain(|thread| !thread.is_finished());
        match std::thread::Builder::new().name("flight-sync".to_owned()).spawn(work) {
            Ok(thread) => self.0.push(thread),
            Err(error) => log::warn!("flight recorder: no thread for the disk: {error}"),
        }
    }
}

impl Drop for DiskWork {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // A panic of the thread loses only its window.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
