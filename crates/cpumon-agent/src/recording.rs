//! [`SwitchRecording`]: every context switch of this machine, read from the kernel's ring buffers at a pace at which none is lost, into a file or
//! into memory that is copied to files. `cpumon trace record`, the flight recorder and recordings on request use it.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cpumon_collect::{
    AllowedPaths, CollectError, RetainedCapabilities, TraceItem, TraceRecorder, TraceRecorderOptions,
    confine_files, drop_capabilities, now,
};
use cpumon_link::attachments::{PREFIX, SUFFIX};
use cpumon_model::{HostInfo, Moment, SourceKind, Utc};
use cpumon_trace::{
    Compression, FileHeader, TraceWindow, TraceWriter, WindowCopy, WindowLimits, WriteError, WrittenCounts,
};

const BUFFER_BYTES: usize = 1 << 18;
/// Windows begin and end at most this long before or after the time that was asked for.
const SYNC_EVERY: Duration = Duration::from_millis(250);
/// A probe that read the clock has submitted its record after this: it runs without pause, except that a hypervisor may stop its CPU.
const SUBMITTED_AFTER_NS: u64 = 10_000_000;
/// How long parts of a copy are written before the ring buffers are emptied again.
const COPY_FOR: Duration = Duration::from_millis(5);
/// Between two passes over the ring buffers while little happens.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// How full a buffer may be before passes come more often.
const BUSY_FILL: f64 = 0.2;

pub enum RecordingOutput {
    /// The whole recording goes to a file.
    File(Box<TraceWriter<BufWriter<File>>>),
    /// The last part stays in memory.
    Window(Box<TraceWindow>),
}

impl RecordingOutput {
    /// Begins a file.
    ///
    /// # Errors
    /// The file cannot be written, or the compression cannot be prepared.
    pub fn file(to: File, header: &FileHeader, compression: Compression) -> Result<Self, WriteError> {
        let to = BufWriter::with_capacity(BUFFER_BYTES, to);
        Ok(Self::File(Box::new(TraceWriter::new(to, header, compression)?)))
    }

    /// Begins an empty window.
    ///
    /// # Errors
    /// The compression cannot be prepared.
    pub fn window(
        header: FileHeader,
        limits: WindowLimits,
        compression: Compression,
    ) -> Result<Self, WriteError> {
        Ok(Self::Window(Box::new(TraceWindow::new(header, limits, compression)?)))
    }

    fn take(&mut self, item: &TraceItem) {
        match (self, item) {
            (Self::File(file), TraceItem::Event(event)) => file.event(event),
            (Self::File(file), TraceItem::Identity(identity)) => file.identity(identity),
            (Self::File(file), TraceItem::Group(group)) => file.group(group),
            (Self::Window(window), TraceItem::Event(event)) => window.event(event),
            (Self::Window(window), TraceItem::Identity(identity)) => window.identity(identity),
            (Self::Window(window), TraceItem::Group(group)) => window.group(group),
        }
    }
}

/// A recording under way.
pub struct SwitchRecording {
    recorder: TraceRecorder,
    pub output: RecordingOutput,
    /// A copy of the window that is being written.
    copy: Option<(WindowCopy<BufWriter<File>>, PathBuf)>,
    /// How long to wait between two passes over the ring buffers: shorter the fuller they were.
    pause: Duration,
    synced: Instant,
}

impl SwitchRecording {
    /// Attaches the programs and then begins the output, with the moment from which on no event is missed.
    ///
    /// # Errors
    /// Context switches cannot be recorded here, or the output cannot be begun.
    pub fn open<E: From<CollectError>>(
        options: TraceRecorderOptions,
        output: impl FnOnce(Moment) -> Result<RecordingOutput, E>,
    ) -> Result<Self, E> {
        let recorder = TraceRecorder::open(options)?;
        let output = output(now())?;
        Ok(Self { recorder, output, copy: None, pause: LONGEST_PAUSE / 5, synced: Instant::now() })
    }

    /// Waits until the ring buffers are to be read again, `most` at most. Unparking the thread ends the wait.
    pub fn wait(&self, most: Duration) {
        let pause = if self.is_copying() { SHORTEST_PAUSE } else { self.pause };
        std::thread::park_timeout(pause.min(most));
    }

    /// Reads the ring buffers, and syncs the output if it is time or `is_due`. Returns whether it did.
    ///
    /// # Errors
    /// The buffers cannot be read, or the output cannot be written.
    pub fn pass<E: From<CollectError> + From<WriteError>>(&mut self, is_due: bool) -> Result<bool, E> {
        let before_ns = now().mono_ns.saturating_sub(SUBMITTED_AFTER_NS);
        let fill = self.recorder.drain(&mut |item| self.output.take(&item))?;
        let pause = if fill > BUSY_FILL { self.pause / 2 } else { self.pause * 5 / 4 };
        self.pause = pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let syncs = is_due || self.synced.elapsed() >= SYNC_EVERY;
        if syncs {
            self.synced = Instant::now();
            match &mut self.output {
                RecordingOutput::File(file) => file.sync_if_due(before_ns)?,
                RecordingOutput::Window(window) => window.sync(before_ns, self.recorder.lost())?,
            }
        }
        Ok(syncs)
    }

    /// The next pass comes as soon as it can.
    pub(crate) fn hasten(&mut self) {
        self.pause = SHORTEST_PAUSE;
    }

    /// Detaches the programs, reads the remaining events, and ends the file. A window then has all events up to now.
    ///
    /// # Errors
    /// Fails as [`SwitchRecording::pass`] does.
    pub fn finish<E: From<CollectError> + From<WriteError>>(&mut self) -> Result<(), E> {
        let end_ns = now().mono_ns;
        self.recorder.stop(&mut |item| self.output.take(&item))?;
        let lost = self.recorder.lost();
        match &mut self.output {
            RecordingOutput::File(file) => file.end(end_ns, lost)?,
            RecordingOutput::Window(window) => window.sync(end_ns, lost)?,
        }
        Ok(())
    }

    /// Events that did not fit in the ring buffers.
    pub fn lost(&self) -> u64 {
        self.recorder.lost()
    }

    /// As [`TraceRecorder::malformed`].
    pub fn malformed(&self) -> u64 {
        self.recorder.malformed()
    }

    /// Counts of the file; a window has none.
    pub fn counts(&self) -> WrittenCounts {
        match &self.output {
            RecordingOutput::File(file) => file.counts(),
            RecordingOutput::Window(_) => WrittenCounts::default(),
        }
    }

    /// The memory with the last part; `None`: all goes into a file.
    pub(crate) fn window(&mut self) -> Option<&mut TraceWindow> {
        match &mut self.output {
            RecordingOutput::File(_) => None,
            RecordingOutput::Window(window) => Some(window),
        }
    }

    /// Whether a copy of the window is being written.
    pub fn is_copying(&self) -> bool {
        self.copy.is_some()
    }

    /// Begins to write the window to a new file, unless another copy is being written.
    ///
    /// # Errors
    /// The file exists, or cannot be created or written.
    pub fn begin_copy(&mut self, path: PathBuf) -> io::Result<()> {
        if let (RecordingOutput::Window(window), None) = (&self.output, &self.copy) {
            let file = BufWriter::with_capacity(BUFFER_BYTES, cpumon_files::create_new(&path)?);
            self.copy = Some((window.begin_copy(file, now()).map_err(|error| error.error)?, path));
        }
        Ok(())
    }

    /// Writes more of the copy, for some milliseconds. Returns its counts and its path once it is complete.
    ///
    /// # Errors
    /// The file cannot be written, or not fast enough: it is removed.
    pub fn copy_part(&mut self) -> Result<Option<(WrittenCounts, PathBuf)>, WriteError> {
        let RecordingOutput::Window(window) = &self.output else { return Ok(None) };
        let Some((mut copy, path)) = self.copy.take() else { return Ok(None) };
        let begin = Instant::now();
        let done = loop {
            match window.copy_part(&mut copy) {
                Ok(true) if begin.elapsed() < COPY_FOR => {}
                Ok(true) => {
                    self.copy = Some((copy, path));
                    return Ok(None);
                }
                Ok(false) => break copy.finish().map(|(_, counts)| counts),
                Err(error) => break Err(error),
            }
        };
        if done.is_err() {
            // Half a window is of no use beside the message.
            let _ = std::fs::remove_file(&path);
        }
        Ok(Some((done?, path)))
    }
}

/// Drops the capabilities and files that a recording thread does not need; it writes to `dir`. Returns a description of its sandbox.
pub(crate) fn confine_recorder(recorder: &str, dir: &Path, keep: RetainedCapabilities) -> String {
    if let Err(error) = drop_capabilities(SourceKind::Unknown, keep) {
        log::warn!("the {recorder} cannot give up capabilities: {error}");
    }
    let allowed = AllowedPaths { write: vec![dir.to_owned()], ..AllowedPaths::default() };
    confine_files(&allowed).unwrap_or_else(|error| {
        log::warn!("cannot restrict the files of the {recorder}: {error}");
        "no Landlock".to_owned()
    })
}

/// The header of a trace of this machine that begins at `began`.
pub fn trace_header(info: &HostInfo, began: Moment) -> FileHeader {
    FileHeader {
        boot: info.boot,
        began,
        cpus: u16::try_from(info.cpu_count).unwrap_or(u16::MAX),
        host: info.hostname.clone(),
    }
}

/// The name of a trace that is made now and waits for a receiver.
pub(crate) fn attachment_in(dir: &Path) -> PathBuf {
    dir.join(format!("{PREFIX}{}{SUFFIX}", stamp(now().wall_ns)))
}

/// A time as part of a file name, in UTC: it sorts, and no file system refuses it.
pub(crate) fn stamp(wall_ns: i64) -> String {
    let text = Utc(wall_ns).to_string();
    let (seconds, nanos) = text.split_once('.').unwrap_or((&text, ""));
    let millis = nanos.get(..3).unwrap_or_default();
    format!("{}.{millis}Z", seconds.replace([':', '-'], ""))
}
