//! `cpumon trace record`: from the kernel's ring buffers to a file at once, or into memory, from which the last part can be written.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use cpumon_agent::{DrainPace, SUBMITTED_AFTER_NS, SYNC_EVERY, WindowFile, hurry};
use cpumon_collect::{
    CollectError, SourceOptions, TraceRecorder, TraceRecorderOptions, TraceSink, host_info, now,
};
use cpumon_model::{SchedEvent, TraceGroup, TraceIdentity};
use cpumon_trace::{Compression, FileHeader, TraceWriter, WindowLimits, WrittenCounts};
use signal_hook::consts::SIGUSR1;

use crate::cli::{TraceRecordArgs, file_of};
use crate::exit::{Outcome, Signals, Usage, say};
use crate::output::{ProgressLine, needs_file};
use crate::units::show_bytes;

/// Between two times that a command is asked whether it has ended.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How long a command has to end after it was asked to.
const END_WITHIN: Duration = Duration::from_secs(2);

const BUFFER_BYTES: usize = 1 << 18;

pub(crate) fn record(args: &TraceRecordArgs) -> anyhow::Result<Outcome> {
    cpumon_agent::log_to_stderr("cpumon", log::LevelFilter::Warn);
    let path = args.output.display();
    let output = file_of(Some(&args.output));
    let is_stdout = output.is_none();
    if is_stdout && args.last.is_some() {
        return Err(Usage("--last writes files as it is asked to; give their name with -o".to_owned()).into());
    }
    needs_file(output, "a trace")?;
    let signals = Signals::install()?;
    let file = if is_stdout { stdout_file()? } else { create(&args.output)? };
    let recorded = record_to(args, file, &signals).map_err(|error| {
        // Before the first event there is nothing in it but a header.
        if !is_stdout && error.is::<CollectError>() {
            let _ = fs::remove_file(&args.output);
        }
        error.context(format!("cannot record to {path}"))
    })?;
    let Recorded { counts, path, lost, length, status } = recorded;
    say(&summary(length, counts, lost, &path));
    Ok(outcome(args, status, lost, &signals))
}

fn stdout_file() -> anyhow::Result<File> {
    let stdout = io::stdout().as_fd().try_clone_to_owned().context("cannot write to standard output")?;
    Ok(File::from(stdout))
}

fn summary(length: Duration, counts: WrittenCounts, lost: u64, path: &Path) -> String {
    format!(
        "{:.3} s, {} events, {lost} lost, {} in {}",
        length.as_secs_f64(),
        counts.events,
        show_bytes(counts.bytes),
        path.display()
    )
}

fn outcome(args: &TraceRecordArgs, status: Option<ExitStatus>, lost: u64, signals: &Signals) -> Outcome {
    let code = status.map_or(0, |status| {
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        u8::try_from(code).unwrap_or(1)
    });
    if code != 0 {
        return Outcome::Code(code);
    }
    let is_interrupted = (args.length.is_some() || !args.command.is_empty()) && status.is_none();
    match signals.outcome() {
        // Without an end of its own, Ctrl-C is how a recording ends.
        Outcome::Interrupted if is_interrupted => Outcome::Interrupted,
        _ if lost > 0 => Outcome::DataMissing,
        _ => Outcome::Done,
    }
}

struct Recorded {
    counts: WrittenCounts,
    path: PathBuf,
    lost: u64,
    length: Duration,
    status: Option<ExitStatus>,
}

fn record_to(args: &TraceRecordArgs, file: File, signals: &Signals) -> anyhow::Result<Recorded> {
    let sink = Rc::new(RefCell::new(Sink::Closed));
    let buffer_bytes = u32::try_from(args.buffer).unwrap_or(u32::MAX);
    let options = TraceRecorderOptions { buffer_bytes, has_interrupts: args.irq };
    let shared: Rc<RefCell<dyn TraceSink>> = Rc::<RefCell<Sink>>::clone(&sink);
    let wanted = Arc::new(AtomicBool::new(false));
    if args.last.is_some() {
        signal_hook::flag::register(SIGUSR1, Arc::clone(&wanted)).context("cannot handle SIGUSR1")?;
    }
    let mut recorder = TraceRecorder::open(options, shared)?;
    *sink.borrow_mut() = open_sink(args, file)?;
    let mut child = spawn(args)?;
    hurry();
    let began = Instant::now();
    let mut run = Run { args, signals, wanted: &wanted, child: child.as_mut(), began };
    let ended = watch(&mut recorder, &sink, &mut run);
    let end_ns = now().mono_ns;
    let length = began.elapsed();
    // In any case the recorded events are written.
    recorder.stop()?;
    let (counts, path) = sink.borrow_mut().finish(&args.output, end_ns, recorder.lost())?;
    let status = ended?;
    let status = match (status, child) {
        (None, Some(child)) => end(child)?,
        (status, _) => status,
    };
    if recorder.malformed() > 0 {
        bail!("{} records could not be read: this is a fault of cpumon", recorder.malformed());
    }
    Ok(Recorded { counts, path, lost: recorder.lost(), length, status })
}

fn open_sink(args: &TraceRecordArgs, file: File) -> anyhow::Result<Sink> {
    let header = header()?;
    let Some(last) = args.last else { return Sink::file(file, &header, args.compression) };
    // Created only to see that it can be: a window is written when it is asked for.
    drop(file);
    fs::remove_file(&args.output).context("cannot remove the empty file")?;
    let limits = WindowLimits {
        length_ns: u64::try_from(last.as_nanos()).unwrap_or(u64::MAX),
        bytes: usize::try_from(args.memory).unwrap_or(usize::MAX),
    };
    let (memory, pid, path) = (show_bytes(args.memory), std::process::id(), args.output.display());
    say(&format!(
        "the last {last:?} stay in at most {memory}; `kill -USR1 {pid}` writes them to {path} and records on, Ctrl-C \
         writes them and ends"
    ));
    Sink::window(&args.output, header, limits, args.compression)
}

fn header() -> anyhow::Result<FileHeader> {
    let info = host_info(&SourceOptions::default())?;
    // Taken when every program is attached: from here on no event is missed.
    let began = now();
    Ok(FileHeader {
        boot: info.boot,
        began,
        cpus: u16::try_from(info.cpu_count).unwrap_or(u16::MAX),
        host: info.hostname,
    })
}

fn spawn(args: &TraceRecordArgs) -> anyhow::Result<Option<Child>> {
    let Some((program, rest)) = args.command.split_first() else { return Ok(None) };
    let mut command = Command::new(program);
    if file_of(Some(&args.output)).is_none() {
        // Standard output is the trace.
        command.stdout(io::stderr());
    }
    let child = command.args(rest).spawn();
    child.map(Some).with_context(|| format!("cannot run {}", program.display()))
}

/// Conditions that end a recording.
struct Run<'r> {
    args: &'r TraceRecordArgs,
    signals: &'r Signals,
    /// The window is to be written.
    wanted: &'r AtomicBool,
    child: Option<&'r mut Child>,
    began: Instant,
}

impl Run<'_> {
    /// Whether it is over, and how the command ended if it did.
    fn is_over(&mut self) -> anyhow::Result<(bool, Option<ExitStatus>)> {
        if let Some(child) = &mut self.child
            && let Some(status) = child.try_wait().context("cannot wait for the command")?
        {
            return Ok((true, Some(status)));
        }
        let has_passed = self.args.length.is_some_and(|length| self.began.elapsed() >= length);
        Ok((has_passed || self.signals.stop().load(Ordering::Relaxed), None))
    }

    fn time_left(&self) -> Duration {
        self.args.length.map_or(Duration::MAX, |length| length.saturating_sub(self.began.elapsed()))
    }
}

/// Reads until the recording is over.
fn watch(
    recorder: &mut TraceRecorder,
    sink: &Rc<RefCell<Sink>>,
    run: &mut Run<'_>,
) -> anyhow::Result<Option<ExitStatus>> {
    let mut pace = DrainPace::default();
    let mut synced = Instant::now();
    let mut line = ProgressLine::new(true);
    loop {
        std::thread::sleep(pace.wait().min(run.time_left()));
        let (is_over, status) = run.is_over()?;
        let before_ns = now().mono_ns.saturating_sub(SUBMITTED_AFTER_NS);
        pace.passed(recorder.drain()?);
        let is_wanted = run.wanted.swap(false, Ordering::Relaxed);
        if is_wanted || synced.elapsed() >= SYNC_EVERY {
            synced = Instant::now();
            let lost = recorder.lost();
            sink.borrow_mut().sync(before_ns, lost)?;
            line.show(|| sink.borrow().progress(run.began.elapsed(), lost));
        }
        if let Sink::Window(window) = &mut *sink.borrow_mut() {
            // A disk that is full, or too slow, must not end the recording.
            let begun = if is_wanted { window.begin_copy() } else { Ok(()) };
            match begun.and_then(|()| Ok(window.recent.copy_part()?)) {
                Ok(None) => {}
                Ok(Some((counts, path))) => {
                    line.end();
                    say(&summary(run.began.elapsed(), counts, recorder.lost(), &path));
                }
                Err(error) => {
                    line.end();
                    log::warn!("the window was not written: {error:#}");
                }
            }
            if window.recent.is_copying() {
                pace.hasten();
            }
        }
        if is_over {
            line.end();
            return Ok(status);
        }
    }
}

/// Ends the command of a recording that ended before it.
fn end(mut child: Child) -> anyhow::Result<Option<ExitStatus>> {
    let pid = rustix::process::Pid::from_child(&child);
    // It may have ended just now.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    let until = Instant::now() + END_WITHIN;
    while Instant::now() < until {
        if child.try_wait().context("cannot wait for the command")?.is_some() {
            return Ok(None);
        }
        std::thread::sleep(ASK_EVERY);
    }
    log::warn!("the command is still running; it continues without being recorded");
    Ok(None)
}

type Writer = BufWriter<File>;

/// Receives the recorder's records.
enum Sink {
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
    fn file(file: File, header: &FileHeader, compression: Compression) -> anyhow::Result<Self> {
        let to = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self::File(Box::new(TraceWriter::new(to, header, compression)?)))
    }

    fn window(
        path: &Path,
        header: FileHeader,
        limits: WindowLimits,
        compression: Compression,
    ) -> anyhow::Result<Self> {
        let recent = WindowFile::new(header, limits, compression)?;
        Ok(Self::Window(Box::new(Window { recent, path: path.to_owned(), written: 0 })))
    }

    /// All events before this are there. `lost`: since the recording began.
    fn sync(&mut self, before_ns: u64, lost: u64) -> anyhow::Result<()> {
        match self {
            Self::Closed => bail!("the trace was ended before"),
            Self::File(file) => file.sync_if_due(before_ns)?,
            Self::Window(window) => window.recent.sync(before_ns, lost)?,
        }
        Ok(())
    }

    /// The state of a recording of this length so far.
    fn progress(&self, length: Duration, lost: u64) -> String {
        let seconds = length.as_secs_f64();
        match self {
            Self::Closed => String::new(),
            Self::File(file) => {
                let WrittenCounts { events, bytes, .. } = file.counts();
                format!("{seconds:.1} s  {events} events  {lost} lost  {}", show_bytes(bytes))
            }
            Self::Window(window) => {
                let last = window.recent.length().as_secs_f64();
                format!("{seconds:.1} s  the last {last:.1} s in memory  {lost} lost")
            }
        }
    }

    /// Ends the recording. Returns the counts and the name of the last file.
    fn finish(&mut self, path: &Path, end_ns: u64, lost: u64) -> anyhow::Result<(WrittenCounts, PathBuf)> {
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

/// The last part of a recording, and the files to which it is copied.
struct Window {
    recent: WindowFile,
    path: PathBuf,
    /// Files so far.
    written: u32,
}

impl Window {
    /// Begins to write the window to the next file, unless one is being written.
    fn begin_copy(&mut self) -> anyhow::Result<()> {
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
fn create(path: &Path) -> anyhow::Result<File> {
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
