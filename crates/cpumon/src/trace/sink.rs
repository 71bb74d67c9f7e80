//! Where a recording goes: to a file at once, or into memory of which the last part can be written.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use cpumon_collect::{TraceSink, now};
use cpumon_model::{SchedEvent, TraceIdentity};
use cpumon_trace::{
    Compression, FileHeader, TraceWindow, TraceWriter, WindowCopy, WindowLimits, WrittenCounts,
};

use crate::units::show_bytes;

const BUFFER_BYTES: usize = 1 << 18;
/// How long parts of a copy are written before the ring buffers are emptied again.
const COPY_FOR: Duration = Duration::from_millis(5);

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
            Self::Window(window) => window.recent.event(&event),
        }
    }

    fn identity(&mut self, identity: &TraceIdentity) {
        match self {
            Self::Closed => {}
            Self::File(file) => file.identity(identity),
            Self::Window(window) => window.recent.identity(identity),
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
        let window = TraceWindow::new(header, limits, compression)?;
        Ok(Self::Window(Box::new(Window { recent: window, path: path.to_owned(), written: 0, copy: None })))
    }

    /// All events before this are there. `lost`: since the recording began. Returns what there is now.
    pub(super) fn sync(&mut self, before_ns: u64, lost: u64) -> anyhow::Result<Progress> {
        match self {
            Self::Closed => Err(anyhow!("the trace was ended before")),
            Self::File(file) => {
                file.sync(before_ns)?;
                Ok(Progress::Written(file.counts()))
            }
            Self::Window(window) => {
                window.recent.sync(before_ns, lost)?;
                let (from_ns, until_ns) = window.recent.span_ns();
                Ok(Progress::InMemory(Duration::from_nanos(until_ns.saturating_sub(from_ns))))
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
                // One that was asked for a moment ago is this one.
                window.copy = None;
                window.begin_copy()?;
                loop {
                    if let Some(done) = window.copy_part()? {
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

/// The last part of a recording, and the copy of it that is being written.
pub(super) struct Window {
    recent: TraceWindow,
    path: PathBuf,
    /// Files so far.
    written: u32,
    copy: Option<(WindowCopy<Writer>, PathBuf)>,
}

impl Window {
    /// Begins to write the window to the next file, unless one is being written.
    pub(super) fn begin_copy(&mut self) -> anyhow::Result<()> {
        if self.copy.is_none() {
            let path = numbered(&self.path, self.written);
            let file = BufWriter::with_capacity(BUFFER_BYTES, create(&path)?);
            self.copy = Some((self.recent.begin_copy(file, now())?, path));
            self.written += 1;
        }
        Ok(())
    }

    /// Goes on with the copy for a moment. Returns what it has once it is complete.
    pub(super) fn copy_part(&mut self) -> anyhow::Result<Option<(WrittenCounts, PathBuf)>> {
        let Some((copy, path)) = &mut self.copy else { return Ok(None) };
        let begin = Instant::now();
        while self.recent.copy_part(copy).with_context(|| format!("cannot write {}", path.display()))? {
            if begin.elapsed() >= COPY_FOR {
                return Ok(None);
            }
        }
        let Some((copy, path)) = self.copy.take() else { return Ok(None) };
        Ok(Some((copy.finish()?.1, path)))
    }

    pub(super) fn is_copying(&self) -> bool {
        self.copy.is_some()
    }

    /// Gives the copy up; its file goes.
    pub(super) fn abandon_copy(&mut self) {
        if let Some((_, path)) = self.copy.take() {
            let _ = std::fs::remove_file(path);
        }
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

/// Names and command lines of all users' programs are in it: only its owner may read it.
pub(super) fn create(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
        match error.kind() {
            io::ErrorKind::AlreadyExists => {
                anyhow!("{} exists; give another name with -o, or remove it", path.display())
            }
            _ => anyhow!("cannot create {}: {error}", path.display()),
        }
    })
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
