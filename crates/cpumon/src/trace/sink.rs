//! Where a recording goes: to a file at once, or into memory of which the last part can be written.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use cpumon_agent::WindowFile;
use cpumon_collect::TraceSink;
use cpumon_model::{SchedEvent, TraceGroup, TraceIdentity};
use cpumon_trace::{Compression, FileHeader, TraceWriter, WindowLimits, WrittenCounts};

use crate::units::show_bytes;

const BUFFER_BYTES: usize = 1 << 18;

type Writer = BufWriter<File>;

/// Takes what the recorder reads.
pub(super) enum Sink {
    /// The programs are being attached, or the recording is over.
    Closed,
    File(Box<TraceWriter<Writer>>),
    Window(Box<Window>),
}

impl TraceSink for Sink {
    fn event(&mut self, event: SchedEvent) {
        match self {
            Self::Closed => {}
            Self::File(file) => file.event(&event),
            Self::Window(window) => window.recent.event(event),
        }
    }

    fn identity(&mut self, identity: &TraceIdentity) {
        match self {
            Self::Closed => {}
            Self::File(file) => file.identity(identity),
            Self::Window(window) => window.recent.identity(identity),
        }
    }

    fn group(&mut self, group: &TraceGroup) {
        match self {
            Self::Closed => {}
            Self::File(file) => file.group(group),
            Self::Window(window) => window.recent.group(group),
        }
    }
}

impl Sink {
    pub(super) fn file(file: File, header: &FileHeader, compression: Compression) -> anyhow::Result<Self> {
        let to = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self::File(Box::new(TraceWriter::new(to, header, compression)?)))
    }

    pub(super) fn window(
        path: &Path,
        header: FileHeader,
        limits: WindowLimits,
        compression: Compression,
    ) -> anyhow::Result<Self> {
        let recent = WindowFile::new(header, limits, compression)?;
        Ok(Self::Window(Box::new(Window { recent, path: path.to_owned(), written: 0 })))
    }

    /// All events before this are there. `lost`: since the recording began. Returns what there is now.
    pub(super) fn sync(&mut self, before_ns: u64, lost: u64) -> anyhow::Result<Progress> {
        match self {
            Self::Closed => Err(anyhow!("the trace was ended before")),
            Self::File(file) => {
                file.sync_if_due(before_ns)?;
                Ok(Progress::Written(file.counts()))
            }
            Self::Window(window) => {
                window.recent.sync(before_ns, lost)?;
                Ok(Progress::InMemory(window.recent.length()))
            }
        }
    }

    /// Ends the recording. Returns what the last file has, and its name.
    pub(super) fn finish(
        &mut self,
        path: &Path,
        end_ns: u64,
        lost: u64,
    ) -> anyhow::Result<(WrittenCounts, PathBuf)> {
        match std::mem::replace(self, Self::Closed) {
            Self::Closed => Err(anyhow!("the trace was ended before")),
            Self::File(file) => Ok((file.finish(end_ns, lost)?.1, path.to_owned())),
            Self::Window(mut window) => {
                window.recent.sync(end_ns, lost)?;
                // One that was asked for a moment ago ends first.
                while window.recent.is_copying() {
                    window.recent.copy_part()?;
                }
                window.begin_copy()?;
                loop {
                    if let Some(done) = window.recent.copy_part()? {
                        return Ok(done);
                    }
                }
            }
        }
    }
}

/// What a recording has so far.
pub(super) enum Progress {
    Written(WrittenCounts),
    /// So long.
    InMemory(Duration),
}

impl Progress {
    pub(super) fn line(&self, length: Duration, lost: u64) -> String {
        let seconds = length.as_secs_f64();
        match self {
            Self::Written(counts) => {
                format!("{seconds:.1} s  {} events  {lost} lost  {}", counts.events, show_bytes(counts.bytes))
            }
            Self::InMemory(window) => {
                format!("{seconds:.1} s  the last {:.1} s in memory  {lost} lost", window.as_secs_f64())
            }
        }
    }
}

/// The last part of a recording, and the files to which it is copied.
pub(super) struct Window {
    pub(super) recent: WindowFile,
    path: PathBuf,
    /// Files so far.
    written: u32,
}

impl Window {
    /// Begins to write the window to the next file, unless one is being written.
    pub(super) fn begin_copy(&mut self) -> anyhow::Result<()> {
        if !self.recent.is_copying() {
            let path = numbered(&self.path, self.written);
            self.written += 1;
            self.recent.begin_copy(path.clone()).map_err(|error| cannot_create(&path, &error))?;
        }
        Ok(())
    }
}

/// `spike.trace`, then `spike-2.trace`, `spike-3.trace`.
fn numbered(path: &Path, written: u32) -> PathBuf {
    if written == 0 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{}", written + 1));
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

/// For its owner only.
pub(super) fn create(path: &Path) -> anyhow::Result<File> {
    cpumon_files::create_new(path).map_err(|error| cannot_create(path, &error))
}

fn cannot_create(path: &Path, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            anyhow!("{} exists; give another name with -o, or remove it", path.display())
        }
        _ => anyhow!("cannot create {}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_windows_have_a_number() {
        let name = |path: &str, written| numbered(Path::new(path), written).display().to_string();
        assert_eq!(name("/a.b/spike.trace", 0), "/a.b/spike.trace");
        assert_eq!(name("/a.b/spike.trace", 1), "/a.b/spike-2.trace");
        assert_eq!(name("spike", 11), "spike-12");
    }
}
