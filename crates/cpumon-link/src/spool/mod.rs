//! The spool: snapshots on the device's own disk, in segment files, so that they survive while no receiver is reachable.
//!
//! # Overview
//! [`Spool`] writes: it numbers the snapshots it accepts, bounds its size, coalesces writes, and continues when the disk is
//! full or fails. [`SpoolReader`] reads a directory, also one that is being written. `cpumon_wire::spool` defines the bytes
//! (docs/spool-format.md), docs/durability.md the guarantees. As a [`Backlog`](crate::Backlog), a spool deletes what a receiver
//! has acknowledged; the file `state` remembers that.

mod backlog;
mod open;
mod read;
mod segment;
mod write;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cpumon_wire::connection::MAX_MESSAGE_BYTES;
use cpumon_wire::spool::{Gap, GapReason, RECORD_HEADER_BYTES, STATE_BYTES, State};

pub use self::read::{ReadReport, SpoolEvent, SpoolReader};
pub use self::write::Spool;

/// When accepted snapshots are written to disk and synced.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Each snapshot is on the disk (written and fdatasync(2)) before the next one is made.
    Always,
    /// Snapshots are gathered in memory and written together this often, with one fdatasync(2) by a thread of its own.
    Every(Duration),
    /// Snapshots stay in memory until the spool is closed: the disk is not touched before.
    AtEnd,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolOptions {
    /// Directory of the spool; created if it is missing.
    pub dir: PathBuf,
    /// Greatest size, bytes, in files and in memory together; the oldest snapshots go first.
    pub max_bytes: u64,
    pub sync: SyncPolicy,
    /// Time between two snapshots: what would be due before the next one is written with this one.
    pub interval: Duration,
}

impl SpoolOptions {
    pub const MIN_BYTES: u64 = 64 << 10;
    pub const DEFAULT_BYTES: u64 = 256 << 20;
    /// Default time between two writes.
    pub const DEFAULT_EVERY: Duration = Duration::from_secs(10);

    /// A spool of the usual size, written every ten seconds, with a snapshot each second.
    pub fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            max_bytes: Self::DEFAULT_BYTES,
            sync: SyncPolicy::Every(Self::DEFAULT_EVERY),
            interval: Duration::from_secs(1),
        }
    }
}

/// Counts of a spool since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolStatus {
    /// Snapshots accepted, on the disk or in memory.
    pub stored: u64,
    /// Snapshots that could not be stored.
    pub lost: u64,
    /// Why the last of the lost snapshots could not be stored.
    pub lost_reason: GapReason,
    /// Snapshots that were dropped because the spool was full, the oldest first.
    pub dropped: u64,
    /// Segments set aside when the spool was opened, because something in them is damaged.
    pub damaged_segments: u64,
    /// Bytes of a last record that the writer before left unfinished, and that were cut off.
    pub cut_bytes: u64,
    pub segments: u64,
    /// Current size, in files and in memory together.
    pub bytes: u64,
    /// Snapshots in memory that are not yet written to the disk.
    pub waiting: u64,
    pub written_bytes: u64,
    pub writes: u64,
    /// Times that the disk refused a write or a sync.
    pub disk_errors: u64,
    /// The disk's last answer, as long as it refuses.
    pub trouble: Option<Arc<str>>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    #[error("cannot {operation} {}: {error}", path.display())]
    Io { operation: &'static str, path: PathBuf, error: io::Error },
    #[error("{} is being written by {holder}", path.display())]
    Locked {
        path: PathBuf,
        /// `pid N`, or `another process` if its number could not be read.
        holder: String,
    },
    #[error("{} holds no recording: there is no *.segment file in it", path.display())]
    Empty { path: PathBuf },
    /// The directory holds snapshots of another machine, which must not be sent as this one's.
    #[error("{} holds snapshots of another machine: choose another directory, or `cpumon import` it first", path.display())]
    Foreign { path: PathBuf },
    #[error("a spool of {bytes} bytes is too small: it needs at least {least}")]
    TooSmall { bytes: u64, least: u64 },
}

fn failed(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> SpoolError {
    move |error| SpoolError::Io { operation, path: path.into(), error }
}

/// Longest payload that fits a message of the connection, bytes.
const MAX_SENT_BYTES: usize = MAX_MESSAGE_BYTES - RECORD_HEADER_BYTES - 64;

/// What a receiver has stored, and where reading is.
#[derive(Debug, Default)]
struct SpoolProgress {
    /// A connection empties this spool.
    is_drained: bool,
    /// Every snapshot up to this number is on a receiver's disk.
    acked: u64,
    /// The acknowledged number that the state file has.
    noted: u64,
    /// Start of the hole before the oldest segment; 0: there is none, or it begins with the spool.
    dropped_begin_wall_ns: i64,
    /// Why it is there; [`GapReason::Unknown`]: the spool had reached its size.
    dropped_reason: GapReason,
    /// That hole, as it was given out last and is not acknowledged yet.
    given_hole: Option<Gap>,
    positions: VecDeque<SpoolPosition>,
}

impl SpoolProgress {
    /// Restores what the state file recorded.
    fn of(state: Option<&State>) -> Self {
        let Some(state) = state else { return Self::default() };
        Self {
            acked: state.acked,
            noted: state.acked,
            dropped_begin_wall_ns: state.dropped_begin_wall_ns,
            dropped_reason: state.dropped_reason,
            ..Self::default()
        }
    }
}

#[derive(Copy, Clone, Debug, Default)]
struct SpoolPosition {
    /// Number of the next record to give out.
    cursor: u64,
    /// Number of the first record in the segment.
    segment: u64,
    /// 0: before the segment's header.
    offset: u64,
    /// When the last snapshot before it was made; 0: not known.
    wall_ns: i64,
    /// Something before it could not be read: only a full snapshot can follow.
    is_broken: bool,
    /// Number of the next snapshot when reading here failed first; 0: the last read did not fail.
    failed_at: u64,
}

/// The file `state`: made once at full size, overwritten in place from then on, so that a full disk cannot refuse it. The open file, if there
/// is one: on a disk that was full from the start there is none until space is freed.
#[derive(Debug)]
struct StateFile {
    path: PathBuf,
    file: Option<File>,
    generation: u64,
}

impl StateFile {
    /// Reads the state of the spool in `dir`; `None` without a valid file. The first [`StateFile::put`] opens the file for writing.
    ///
    /// # Errors
    /// The file is there and cannot be opened.
    fn open(dir: &Path) -> Result<(Self, Option<State>), SpoolError> {
        let path = dir.join("state");
        let mut bytes = Vec::new();
        let read = match File::open(&path) {
            Ok(file) => file.take(STATE_BYTES as u64).read_to_end(&mut bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => return Err(failed("open", &path)(error)),
        };
        let state = read.as_ref().ok().and_then(|_| State::decode(&bytes));
        let fault = match read {
            Err(error) => Some(format!("cannot be read ({error})")),
            // Zeros: a kill came between making the file and writing it.
            Ok(_) if state.is_none() && bytes.iter().any(|&byte| byte != 0) => Some("is damaged".to_owned()),
            Ok(_) => None,
        };
        if let Some(fault) = fault {
            let forgotten = "what a receiver has, and a hole behind the newest segment, are no longer known";
            log::warn!("{} {fault}: {forgotten}", path.display());
        }
        let generation = state.map_or(0, |state| state.generation);
        Ok((Self { path, file: None, generation }, state))
    }

    /// Writes the state; with `sync` it also survives a power cut.
    fn put(&mut self, state: State, sync: bool) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open_state(&self.path)?),
        };
        // The slots take turns: a power cut inside this write leaves the other one sound.
        let (at, slot) = State { generation: self.generation + 1, ..state }.slot();
        file.seek(SeekFrom::Start(at))?;
        file.write_all(&slot)?;
        self.generation += 1;
        if sync { file.sync_data() } else { Ok(()) }
    }
}

/// Opens the file for writing, at its full size: its blocks are taken now.
fn open_state(path: &Path) -> io::Result<File> {
    let mut file = cpumon_files::open_to_write(path)?;
    let length = file.metadata()?.len();
    let missing = usize::try_from((STATE_BYTES as u64).saturating_sub(length)).unwrap_or(0);
    if missing > 0 {
        file.seek(SeekFrom::End(0))?;
        // Written and not only extended: a sparse file would need blocks when the disk is full.
        file.write_all(&vec![0; missing])?;
        file.sync_all()?;
    }
    Ok(file)
}
