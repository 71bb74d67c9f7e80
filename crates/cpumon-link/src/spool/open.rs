//! Opening a [`Spool`]: locks the directory, recovers what the previous writer left, and restores numbers and holes from the
//! state file.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::Instant;

use cpumon_files::{LockError, LockFile};
use cpumon_wire::spool::{Gap, GapReason, Origin};

use super::error::{At, SpoolError, is_no_space};
use super::options::SpoolOptions;
use super::progress::Progress;
use super::recover::recover;
use super::state::StateFile;
use super::status::SpoolStatus;
use super::unwritten::Unwritten;
use super::write::Spool;

impl Spool {
    /// Opens the spool of a directory for writing; goes on where the writer before ended. Snapshots of `origin` follow.
    ///
    /// # Errors
    /// The directory cannot be made, read or locked, or the size is too small.
    pub fn open(options: &SpoolOptions, origin: Origin) -> Result<Self, SpoolError> {
        let least = SpoolOptions::MIN_BYTES;
        if options.max_bytes < least {
            return Err(SpoolError::TooSmall { bytes: options.max_bytes, least });
        }
        let dir = &options.dir;
        cpumon_files::create_dir(dir).at("make the directory", dir)?;
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
        let (state, remembered) = StateFile::open(dir);
        let header = found.header.filter(|header| header.origin.host == origin.host);
        // Another host's numbers go on, but they are another spool's.
        let known = remembered.filter(|state| header.is_none_or(|header| header.spool == state.spool));
        let known = known.filter(|_| header.is_some() || found.header.is_none());
        let lost = known
            .and_then(|state| state.lost)
            .and_then(|lost| still_lost(lost, found.last, found.last_wall_ns));
        let mut spool = Self {
            origin,
            id: header
                .map(|header| header.spool)
                .or(known.map(|state| state.spool))
                .unwrap_or_else(random_id),
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
            unwritten: Unwritten::default(),
            state,
            syncer: None,
            is_closing: false,
            sync_errors: 0,
            progress: Progress::of(known.as_ref()),
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
            && !is_no_space(&error)
        {
            return Err(error).at("write in", dir);
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

/// What of a hole that was remembered is not in a segment. `last`: the greatest number there, and when it was made.
fn still_lost(lost: Gap, last: u64, last_wall_ns: Option<i64>) -> Option<Gap> {
    // Part of the hole is in a segment already: the rest begins where the last record there ends.
    let is_partly_there = last >= lost.first;
    let begin_wall_ns = last_wall_ns.filter(|_| is_partly_there).unwrap_or(lost.begin_wall_ns);
    (last < lost.last).then_some(Gap { first: lost.first.max(last + 1), begin_wall_ns, ..lost })
}

/// 128 bits that no other spool has.
fn random_id() -> [u8; 16] {
    let mut id = [0; 16];
    for (half, place) in id.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        // `RandomState` takes its keys from the system's random numbers, and no two have the same.
        *place = RandomState::new().hash_one((half, std::process::id())).to_le_bytes();
    }
    id
}
