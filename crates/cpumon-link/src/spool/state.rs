//! What a spool remembers: the file `state`, and [`SpoolProgress`], what a receiver has stored of it and where reading goes on.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use cpumon_wire::connection::MAX_MESSAGE_BYTES;
use cpumon_wire::spool::{Gap, GapReason, RECORD_HEADER_BYTES, STATE_BYTES, State};

/// Longest payload that fits a message of the connection, bytes.
pub(super) const MAX_SENT_BYTES: usize = MAX_MESSAGE_BYTES - RECORD_HEADER_BYTES - 64;

/// What a receiver has stored, and where reading is.
#[derive(Debug, Default)]
pub(super) struct SpoolProgress {
    /// A connection empties this spool.
    pub(super) is_drained: bool,
    /// Every snapshot up to this number is on a receiver's disk.
    pub(super) acked: u64,
    /// The acknowledged number that the state file has.
    pub(super) noted: u64,
    /// Start of the hole before the oldest segment; 0: there is none, or it begins with the spool.
    pub(super) dropped_begin_wall_ns: i64,
    /// Why it is there; [`GapReason::Unknown`]: the spool had reached its size.
    pub(super) dropped_reason: GapReason,
    /// That hole, as it was given out last and is not acknowledged yet.
    pub(super) given_hole: Option<Gap>,
    pub(super) positions: VecDeque<SpoolPosition>,
}

impl SpoolProgress {
    /// Restores what the state file recorded.
    pub(super) fn of(state: Option<&State>) -> Self {
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
pub(super) struct SpoolPosition {
    /// Number of the next record to give out.
    pub(super) cursor: u64,
    /// Number of the first record in the segment.
    pub(super) segment: u64,
    pub(super) offset: u64,
    /// When the last snapshot before it was made; 0: not known.
    pub(super) wall_ns: i64,
    /// Something before it could not be read: only a full snapshot can follow.
    pub(super) is_broken: bool,
}

/// The file `state`: made once at full size, overwritten in place from then on, so that a full disk cannot refuse it. The open file, if there
/// is one: on a disk that was full from the start there is none until space is freed.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    file: Option<File>,
    generation: u64,
}

impl StateFile {
    /// Opens the file of the spool in `dir` and reads what it remembers.
    pub(super) fn open(dir: &Path) -> (Self, Option<State>) {
        let path = dir.join("state");
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(STATE_BYTES as u64).read_to_end(&mut bytes));
        let state = read.ok().and_then(|_| State::decode(&bytes));
        let generation = state.map_or(0, |state| state.generation);
        (Self { path, file: None, generation }, state)
    }

    /// Writes the state; with `sync` it also survives a power cut.
    pub(super) fn put(&mut self, state: State, sync: bool) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(make(&self.path)?),
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
fn make(path: &Path) -> io::Result<File> {
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
