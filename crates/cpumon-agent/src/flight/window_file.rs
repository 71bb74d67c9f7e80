//! [`WindowFile`]: the last part of a recording, and the file to which it is being copied.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cpumon_collect::{CollectError, TraceSink, now};
use cpumon_model::{SchedEvent, TraceGroup, TraceIdentity, Utc};
use cpumon_trace::{
    Compression, FileHeader, TraceWindow, WindowCopy, WindowLimits, WriteError, WrittenCounts,
};

const BUFFER_BYTES: usize = 1 << 18;
/// How long parts of a copy are written before the ring buffers are emptied again.
const COPY_FOR: Duration = Duration::from_millis(5);

/// The last part of a recording in memory. Copies are written part by part while the recording continues.
pub struct WindowFile {
    window: TraceWindow,
    copy: Option<(WindowCopy<BufWriter<File>>, PathBuf)>,
}

impl TraceSink for WindowFile {
    fn event(&mut self, event: SchedEvent) {
        self.window.event(&event);
    }

    fn identity(&mut self, identity: &TraceIdentity) {
        self.window.identity(identity);
    }

    fn group(&mut self, group: &TraceGroup) {
        self.window.group(group);
    }
}

impl WindowFile {
    /// An empty window.
    ///
    /// # Errors
    /// The compression cannot be prepared.
    pub fn new(
        header: FileHeader,
        limits: WindowLimits,
        compression: Compression,
    ) -> Result<Self, WriteError> {
        Ok(Self { window: TraceWindow::new(header, limits, compression)?, copy: None })
    }

    /// The window itself.
    pub(super) fn window_mut(&mut self) -> &mut TraceWindow {
        &mut self.window
    }

    /// All events before this are there. `lost`: events lost since the recording began.
    ///
    /// # Errors
    /// The compression failed.
    pub fn sync(&mut self, before_ns: u64, lost: u64) -> Result<(), WriteError> {
        self.window.sync(before_ns, lost)
    }

    /// How long a time is in memory.
    #[must_use]
    pub fn length(&self) -> Duration {
        let (from_ns, until_ns) = self.window.span_ns();
        Duration::from_nanos(until_ns.saturating_sub(from_ns))
    }

    /// Whether a copy is being written.
    #[must_use]
    pub fn is_copying(&self) -> bool {
        self.copy.is_some()
    }

    /// Begins to write the window to a new file, unless another copy is being written.
    ///
    /// # Errors
    /// The file exists, or cannot be created or written.
    pub fn begin_copy(&mut self, path: PathBuf) -> io::Result<()> {
        if self.copy.is_none() {
            let file = BufWriter::with_capacity(BUFFER_BYTES, cpumon_files::create_new(&path)?);
            let copy = self.window.begin_copy(file, now()).map_err(io::Error::other)?;
            self.copy = Some((copy, path));
        }
        Ok(())
    }

    /// Continues the copy for some milliseconds. Once it is complete, returns its counts and path.
    ///
    /// # Errors
    /// The file cannot be written, or not fast enough: it is removed.
    pub fn copy_part(&mut self) -> Result<Option<(WrittenCounts, PathBuf)>, WriteError> {
        let Some((mut copy, path)) = self.copy.take() else { return Ok(None) };
        let begin = Instant::now();
        let done = loop {
            match self.window.copy_part(&mut copy) {
                Ok(true) if begin.elapsed() < COPY_FOR => {}
                Ok(true) => {
                    self.copy = Some((copy, path));
                    return Ok(None);
                }
                Ok(false) => break copy.finish().map(|(_, counts)| counts),
                Err(error) => break Err(error),
            }
        };
        match done {
            Ok(counts) => Ok(Some((counts, path))),
            Err(error) => {
                // Half a window is useless beside the message.
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }
}

/// A time as part of a file name, in UTC: it sorts, and no file system refuses it.
pub(crate) fn stamp(wall_ns: i64) -> String {
    let text = Utc(wall_ns).to_string();
    let (seconds, nanos) = text.split_once('.').unwrap_or((&text, ""));
    let millis = nanos.get(..3).unwrap_or_default();
    format!("{}.{millis}Z", seconds.replace([':', '-'], ""))
}

/// The flight recorder cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlightError {
    /// The directory cannot be made.
    #[error("cannot use {dir} for --flight-dir")]
    Dir {
        /// Path of the directory.
        dir: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Context switches cannot be recorded here.
    #[error("cannot record context switches for --flight-recorder")]
    Record(#[from] CollectError),
    /// The window cannot be prepared.
    #[error(transparent)]
    Window(#[from] WriteError),
    /// The system refuses a thread or a signal handler.
    #[error("cannot start the flight recorder")]
    Start(#[source] io::Error),
}
