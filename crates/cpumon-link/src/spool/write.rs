//! [`Spool`]: writes snapshots to segments within a size, and counts what did not fit. Once open it returns no errors: recording
//! must go on when the disk fails.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use cpumon_files::DiskThread;
use cpumon_wire::spool::{
    Gap, GapReason, MAX_PAYLOAD_BYTES, Origin, SegmentHeader, State, push_gap, push_snapshot,
};

use super::segment::{self, OVERHEAD_BYTES, SpoolSegment, Unwritten};
use super::{MAX_SENT_BYTES, SpoolOptions, SpoolProgress, SpoolStatus, StateFile, SyncPolicy};

/// A segment ends at this length, bytes; later if its full snapshot takes a large part.
const SEGMENT_BYTES: u64 = 1 << 20;
/// A segment ends after this many snapshots: a damaged record costs at most that many, and going to a moment reads no more.
const SEGMENT_SNAPSHOTS: u64 = 600;
/// Bytes that may wait in memory while the disk refuses them.
const MAX_WAITING_BYTES: u64 = 4 << 20;
const SYNCER_STACK_BYTES: usize = 64 << 10;
/// Files that may wait for a sync. One more makes the writer wait: the disk is that slow.
const MAX_WAITING_FILES: usize = 4;

/// Dropping it writes the pending snapshots.
#[derive(Debug)]
pub struct Spool {
    pub(super) options: SpoolOptions,
    pub(super) origin: Origin,
    pub(super) id: [u8; 16],
    pub(super) begin_wall_ns: i64,
    pub(super) segments: VecDeque<SpoolSegment>,
    /// The last segment may still grow.
    pub(super) is_open: bool,
    pub(super) next: u64,
    pub(super) lost: Option<Gap>,
    pub(super) last_wall_ns: Option<i64>,
    pub(super) written_at: Instant,
    /// Why the disk refused a write last.
    pub(super) refused: GapReason,
    /// The oldest first.
    pub(super) unwritten: VecDeque<Unwritten>,
    pub(super) state: StateFile,
    /// Calls fdatasync(2): a slow flash must not delay the next snapshot.
    pub(super) syncer: Option<DiskThread<File>>,
    pub(super) is_closing: bool,
    /// Number of the syncer's errors; `noticed_errors` is the part that was handled.
    pub(super) sync_errors: Arc<AtomicU64>,
    pub(super) noticed_errors: u64,
    pub(super) progress: SpoolProgress,
    pub(super) status: SpoolStatus,
    pub(super) hosts: Vec<[u8; 16]>,
    pub(super) _lock: cpumon_files::LockFile,
}

impl Spool {
    /// Whether the next snapshot must be full: a segment begins with it, or the one before was lost.
    pub fn wants_full(&self) -> bool {
        !self.is_open || self.lost.is_some()
    }

    /// Takes a snapshot: its frames, when it was made, and whether it is full. It is in the spool then: on the disk, or in memory until the
    /// next write.
    ///
    /// # Errors
    /// It is lost and counted; a hole precedes the next one that is stored.
    pub fn append(
        &mut self,
        wall_ns: i64,
        is_full: bool,
        frames: &[impl AsRef<[u8]>],
    ) -> Result<(), GapReason> {
        if self.begin_wall_ns == 0 {
            self.begin_wall_ns = wall_ns;
        }
        let appended = self.take(wall_ns, is_full, frames);
        match appended {
            Ok(()) => self.status.stored += 1,
            Err(reason) => self.lose(wall_ns, reason),
        }
        let is_due = match self.options.sync {
            SyncPolicy::Always => true,
            // What would be due before the next snapshot is written now: it must not wait longer than
            // `every`.
            SyncPolicy::Every(every) => self.waiting_for() + self.options.interval > every,
            SyncPolicy::AtEnd => false,
        };
        if is_due && !self.write() {
            self.note_number();
        }
        self.count();
        appended
    }

    /// Snapshots up to this number need not be written any more.
    pub(super) fn forget_unwritten(&mut self, number: u64) {
        let done = self.unwritten.partition_point(|one| one.number <= number);
        self.unwritten.drain(..done);
    }

    /// Time since the last write. In a spool that a connection empties, at most the time that the oldest unwritten snapshot has waited:
    /// snapshots that a receiver has need not be written.
    fn waiting_for(&self) -> Duration {
        let oldest = || self.unwritten.front().map(|one| one.since.max(self.written_at));
        let since = if self.progress.is_drained { oldest() } else { Some(self.written_at) };
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub fn status(&self) -> &SpoolStatus {
        &self.status
    }

    /// Writes the pending snapshots, waits for the disk, and returns the final counts.
    pub fn close(mut self) -> SpoolStatus {
        self.finish();
        self.status.clone()
    }

    fn take(&mut self, wall_ns: i64, is_full: bool, frames: &[impl AsRef<[u8]>]) -> Result<(), GapReason> {
        let payload = frames.iter().map(|frame| frame.as_ref().len() as u64 + 4).sum::<u64>();
        // What does not fit a message of the connection could never leave this device.
        let most = if self.progress.is_drained { MAX_SENT_BYTES } else { MAX_PAYLOAD_BYTES };
        if payload > most as u64 {
            return Err(GapReason::TooLarge);
        }
        if self.wants_full() && !is_full {
            return Err(GapReason::Unknown);
        }
        let need = payload + OVERHEAD_BYTES;
        // Before it is taken, so that the spool never exceeds its size.
        if !self.drop_beyond(need) {
            return Err(GapReason::NoSpace);
        }
        self.check_waiting(need)?;
        if self.wants_full() && !is_full {
            // The segment was ended just now.
            return Err(self.refused);
        }
        if !self.is_open {
            self.begin_segment(wall_ns);
        }
        let Some(segment) = self.segments.back_mut() else { return Err(GapReason::Unknown) };
        // A hole is written in front of the first snapshot behind it, which is full.
        let lost = self.lost.take();
        if let Some(lost) = lost {
            push_gap(&mut segment.pending, &Gap { end_wall_ns: wall_ns, ..lost });
        }
        if is_full {
            segment.fulls.push((self.next, segment.bytes()));
        }
        push_snapshot(&mut segment.pending, self.next, wall_ns, is_full, frames);
        let begin_wall_ns = self.last_wall_ns.unwrap_or(wall_ns);
        let (first, begin_wall_ns) =
            lost.map_or((self.next, begin_wall_ns), |lost| (lost.first, lost.begin_wall_ns));
        self.unwritten.push_back(Unwritten {
            number: self.next,
            first,
            begin_wall_ns,
            since: Instant::now(),
        });
        segment.last = self.next;
        segment.pending_snapshots += 1;
        segment.snapshots += 1;
        if segment.snapshots == 1 {
            segment.full_bytes = payload;
        }
        self.next += 1;
        self.last_wall_ns = Some(wall_ns);
        self.end_segment_if_long();
        Ok(())
    }

    fn begin_segment(&mut self, wall_ns: i64) {
        let first = self.lost.map_or(self.next, |lost| lost.first);
        let mut segment = SpoolSegment::new(segment::path_of(&self.options.dir, first), first, 0);
        segment.begin_wall_ns = wall_ns;
        let (spool, origin, spool_begin_wall_ns) = (self.id, self.origin, self.begin_wall_ns);
        let header = SegmentHeader { spool, origin, first, spool_begin_wall_ns, begin_wall_ns: wall_ns };
        header.push(&mut segment.pending);
        self.segments.push_back(segment);
        self.is_open = true;
    }

    fn end_segment_if_long(&mut self) {
        let most = self.options.max_bytes / 4;
        let Some(segment) = self.segments.back_mut() else { return };
        // While the disk refuses, segments are short, so that the newest snapshots fit when some must go.
        let usual = if self.status.trouble.is_some() { 0 } else { SEGMENT_BYTES.min(most / 2) };
        if segment.bytes() >= segment.limit(usual, most) || segment.snapshots >= SEGMENT_SNAPSHOTS {
            segment.end();
            self.is_open = false;
        }
    }

    /// Drops the oldest segments until `need` bytes more fit; false if they do not, or cannot be removed.
    pub(super) fn drop_beyond(&mut self, need: u64) -> bool {
        while self.segments.iter().map(SpoolSegment::bytes).sum::<u64>() + need > self.options.max_bytes {
            // The segment that grows is never dropped: what follows in it needs its full snapshot.
            if self.segments.len() <= usize::from(self.is_open) || !self.drop_oldest(GapReason::Dropped) {
                return false;
            }
        }
        true
    }

    /// Drops the oldest segment; false if there is none, or it cannot be removed.
    pub(super) fn drop_oldest(&mut self, reason: GapReason) -> bool {
        // The state file records the drop before the segment is deleted: a kill in between must not lose the reason.
        self.note_drop(reason);
        let Some(oldest) = self.segments.front_mut() else { return false };
        if let Err(error) = oldest.remove() {
            self.trouble(&error, "remove the oldest segment of the log");
            return false;
        }
        let first = oldest.first;
        self.segments.pop_front();
        let behind = self.lost.map_or(self.next, |lost| lost.first);
        let next = self.segments.front().map_or(behind, |segment| segment.first);
        // What a receiver has already is not lost with the segment.
        self.status.dropped += next.saturating_sub(first.max(self.progress.acked + 1));
        self.forget_unwritten(next.saturating_sub(1));
        true
    }

    /// Whether there is memory for `need` bytes more while the disk does not take any; a spool that a connection empties drops its
    /// oldest segment for it.
    fn check_waiting(&mut self, need: u64) -> Result<(), GapReason> {
        // Everything is meant to stay in memory here, and `drop_beyond` bounds it.
        if self.options.sync == SyncPolicy::AtEnd {
            return Ok(());
        }
        let most = MAX_WAITING_BYTES.min(self.options.max_bytes / 4);
        let waiting =
            |spool: &Self| spool.segments.iter().map(|segment| segment.pending.len() as u64).sum::<u64>();
        let is_over = |spool: &Self| waiting(spool) > 0 && waiting(spool) + need > most;
        if is_over(self) && !self.write_newest(&is_over) && is_over(self) {
            return Err(self.refused);
        }
        Ok(())
    }

    fn lose(&mut self, wall_ns: i64, reason: GapReason) {
        let number = self.next;
        self.next += 1;
        let begin_wall_ns = self.last_wall_ns.unwrap_or(wall_ns);
        let lost = self.lost.get_or_insert(Gap {
            first: number,
            last: number,
            begin_wall_ns,
            end_wall_ns: wall_ns,
            reason,
        });
        // One hole at most follows the last snapshot, so its last reason is the one that is reported.
        (lost.last, lost.end_wall_ns, lost.reason) = (number, wall_ns, reason);
        self.status.lost += 1;
        self.status.lost_reason = reason;
        self.note_number();
    }

    /// Notes the next number and the hole, so that a snapshot outside the segments is at least counted after a kill.
    fn note_number(&mut self) {
        if let Err(error) = self.remember(false) {
            log::debug!("cannot note a snapshot that is not on the disk: {error}");
        }
    }

    /// Writes everything that waits. False if the disk refuses; then the rest still waits.
    pub(super) fn write(&mut self) -> bool {
        self.written_at = Instant::now();
        // Otherwise what was acknowledged would appear as dropped after a kill.
        if self.has_news() && !self.note_acked() {
            return false;
        }
        for at in 0..self.segments.len() {
            let Some(segment) = self.segments.get_mut(at).filter(|segment| !segment.pending.is_empty())
            else {
                continue;
            };
            let (written, done) = segment.write();
            if written.bytes > 0 {
                self.status.written_bytes += written.bytes;
                self.status.writes += 1;
                self.forget_unwritten(written.last);
                self.sync(at, written.is_new);
            }
            if let Err(error) = done {
                self.refuse(&error);
                return false;
            }
        }
        if self.status.trouble.take().is_some() {
            log::warn!("writing the log again");
            // A kill would lose nothing any more, so the state must not name a hole.
            self.note_number();
        }
        true
    }

    /// Makes what was written last over a power cut, now or soon.
    fn sync(&mut self, at: usize, is_new: bool) {
        let is_last = at + 1 == self.segments.len();
        self.start_syncer();
        let Some(segment) = self.segments.get_mut(at) else { return };
        let done = match (&self.syncer, segment.file()) {
            (_, None) => Ok(()),
            // A descriptor of its own, because the segment may end and close the file before the sync.
            (Some(syncer), Some(file)) => file.try_clone().map(|file| syncer.put(file)),
            (None, Some(file)) => file.sync_data(),
        };
        // fdatasync(2) of a new file does not store its name: that is in the directory (fsync(2)).
        let done = if is_new { done.and_then(|()| cpumon_files::sync_dir(&self.options.dir)) } else { done };
        if !(is_last && self.is_open) {
            segment.end();
        }
        let errors = self.syncer.as_ref().map_or(0, |_| self.sync_errors.load(Ordering::Relaxed));
        let has_failed = errors > std::mem::replace(&mut self.noticed_errors, errors);
        if let Err(error) = done {
            self.trouble(&error, "sync the log");
            self.is_open = false;
        } else if has_failed {
            // What the disk did not take may be gone: what comes must not build on it.
            self.status.disk_errors += 1;
            self.is_open = false;
        }
    }

    /// Starts the thread that syncs with the first write: by then its owner has given up the rights that it does not need.
    fn start_syncer(&mut self) {
        if self.is_closing || self.syncer.is_some() || !matches!(self.options.sync, SyncPolicy::Every(_)) {
            return;
        }
        let errors = Arc::clone(&self.sync_errors);
        let sync = move |file: File| {
            if let Err(error) = file.sync_data()
                && errors.fetch_add(1, Ordering::Relaxed) == 0
            {
                log::warn!("cannot sync the spool to its disk: {error}");
            }
        };
        let thread = Builder::new().name("spool-sync".to_owned()).stack_size(SYNCER_STACK_BYTES);
        match DiskThread::start(thread, "syncs the log", MAX_WAITING_FILES, sync) {
            Ok(syncer) => self.syncer = Some(syncer),
            Err(error) => self.trouble(&error, "start the thread that syncs the log"),
        }
    }

    /// Writes the state; `is_urgent`: over a power cut too.
    pub(super) fn remember(&mut self, is_urgent: bool) -> io::Result<()> {
        let state = State {
            generation: 0,
            next: self.next_after_a_kill(),
            spool: self.id,
            begin_wall_ns: self.begin_wall_ns,
            lost: self.hole_after_a_kill(),
            acked: self.progress.acked,
            dropped_begin_wall_ns: self.progress.dropped_begin_wall_ns,
            dropped_reason: self.progress.dropped_reason,
        };
        self.state.put(state, is_urgent || self.options.sync == SyncPolicy::Always)
    }

    fn finish(&mut self) {
        // From here on the sync is waited for.
        (self.is_closing, self.syncer) = (true, None);
        self.write_newest(&|_| true);
        if let Some(file) = self.segments.back().and_then(SpoolSegment::file)
            && let Err(error) = file.sync_data()
        {
            self.trouble(&error, "sync the log");
        }
        if let Err(error) = self.remember(false) {
            log::debug!("cannot write the log's state: {error}");
        }
        self.count();
    }

    pub(super) fn count(&mut self) {
        self.status.segments = self.segments.len() as u64;
        self.status.bytes = self.segments.iter().map(SpoolSegment::bytes).sum();
        self.status.waiting = self.segments.iter().map(|segment| segment.pending_snapshots).sum();
    }

    /// The oldest segment is about to be dropped: from where on snapshots are missing, and why, must be known after a restart too.
    pub(super) fn note_drop(&mut self, reason: GapReason) {
        let Some(oldest) = self.segments.front().filter(|_| self.progress.is_drained) else { return };
        let behind = self.segments.get(1).map_or(self.next, |segment| segment.first);
        let acked = self.progress.acked;
        // Also if only what the first unsent snapshot is compared with goes: then its interval is lost.
        let is_loss = behind > acked;
        let is_first = is_loss && oldest.first <= acked + 1;
        let has_begin = self.progress.dropped_begin_wall_ns != 0;
        // Directly behind an acknowledged hole the begin is known already.
        let is_news = is_first && (!has_begin || self.progress.dropped_reason == GapReason::Unknown);
        if is_news {
            self.progress.dropped_reason = reason;
        }
        if is_news && !has_begin {
            // Where nothing is acknowledged the hole begins with the spool.
            let last = (acked > 0).then(|| oldest.last_wall_ns(acked).unwrap_or(oldest.begin_wall_ns));
            self.progress.dropped_begin_wall_ns = last.unwrap_or(0);
        }
        if is_news || self.progress.noted != acked {
            self.note_acked();
        }
    }

    /// Before segments are written or deleted: otherwise what was acknowledged would appear as dropped after a restart.
    pub(super) fn note_acked(&mut self) -> bool {
        if let Err(error) = self.remember(true) {
            self.trouble(&error, "note what a receiver has");
            return false;
        }
        self.progress.noted = self.progress.acked;
        true
    }

    /// The state file does not say yet what a receiver has.
    pub(super) fn has_news(&self) -> bool {
        self.progress.is_drained && self.progress.noted != self.progress.acked
    }

    pub(super) fn trouble(&mut self, error: &io::Error, operation: &str) {
        self.refused =
            if cpumon_files::is_no_space(error) { GapReason::NoSpace } else { GapReason::DiskFailed };
        self.status.disk_errors += 1;
        let words = format!("cannot {operation} in {}: {error}", self.options.dir.display());
        if self.status.trouble.is_none() {
            log::warn!("{words}; it stays in memory and is tried again");
        }
        self.status.trouble = Some(words.into());
    }

    /// The disk did not take everything. The segment on it ends there, so that it can be deleted as soon as a receiver has it: the next
    /// snapshot is full and begins another segment.
    pub(super) fn refuse(&mut self, error: &io::Error) {
        self.trouble(error, "write the log");
        // A segment that has not reached the disk need not end, so it may grow.
        if self.segments.back().is_some_and(|newest| newest.written > 0) {
            self.is_open = false;
        }
    }

    /// Writes the pending bytes. While the disk has no space for them and `is_needed`, a spool that a connection empties drops its
    /// oldest segment. False if something is still pending.
    pub(super) fn write_newest(&mut self, is_needed: &dyn Fn(&Self) -> bool) -> bool {
        while !self.write() {
            let may_drop =
                self.progress.is_drained && self.refused == GapReason::NoSpace && self.segments.len() > 1;
            if !may_drop || !is_needed(self) || !self.drop_oldest(GapReason::NoSpace) {
                return false;
            }
        }
        true
    }

    /// The next number if nothing more can be written. Snapshots that only wait their time are not accepted yet: their numbers are used
    /// again, or they would appear as a hole. Snapshots that the disk refuses are accepted, and are a hole if they stay in memory.
    pub(super) fn next_after_a_kill(&self) -> u64 {
        if self.lost.is_some() || self.is_closing || self.status.trouble.is_some() {
            return self.next;
        }
        let unwritten: u64 = self.segments.iter().map(|segment| segment.pending_snapshots).sum();
        // A receiver may have what was never written: those numbers are used up.
        self.next.saturating_sub(unwritten).max(self.progress.acked + 1)
    }

    /// The hole behind the snapshots on the disk, if nothing more can be written: those that the disk refuses, and those lost since.
    pub(super) fn hole_after_a_kill(&self) -> Option<Gap> {
        let refused = self.unwritten.front().filter(|_| self.status.trouble.is_some());
        let Some(oldest) = refused else { return self.lost };
        let last_wall_ns = self.last_wall_ns.unwrap_or(oldest.begin_wall_ns);
        Some(Gap {
            // Sent from memory and stored there: it is not missing, although the disk refused it.
            first: oldest.first.max(self.progress.acked + 1),
            last: self.next.saturating_sub(1),
            begin_wall_ns: oldest.begin_wall_ns,
            end_wall_ns: self.lost.map_or(last_wall_ns, |lost| lost.end_wall_ns),
            reason: self.refused,
        })
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.finish();
    }
}
