//! The file `state`: made once at full size, overwritten in place from then on, so that a full disk cannot refuse it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use cpumon_wire::spool::{STATE_BYTES, State};

/// The open file, if there is one: on a disk that was full from the start there is none until space is freed.
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

    /// Remembers; `sync`: also over a power cut.
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
