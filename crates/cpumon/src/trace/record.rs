//! `cpumon trace record`: from the kernel's ring buffers to a file.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use cpumon_collect::{SourceOptions, TraceRecorder, TraceRecorderOptions, TraceSink, host_info, now};
use cpumon_model::{SchedEvent, TraceIdentity};
use cpumon_trace::{Compression, FileHeader, TraceWriter, WrittenCounts};

use crate::cli::{TraceCompression, TraceRecordArgs};
use crate::exit::Outcome;
use crate::signals::Signals;
use crate::units::show_bytes;

/// zstd's own default. Higher ones take more time than they save bytes.
const ZSTD_LEVEL: i32 = 3;
/// Between two passes over the ring buffers, while little happens.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// How full a buffer may be before passes come more often.
const BUSY_FILL: f64 = 0.2;
/// Readers can follow the file in steps of this, and sort what lies between.
const SYNC_EVERY: Duration = Duration::from_millis(250);
/// A probe that read the clock has submitted its record after this: it runs without pause, except that a hypervisor may stop its CPU.
const SUBMITTED_AFTER_NS: u64 = 10_000_000;
/// How long a command has to end after it was asked to.
const END_WITHIN: Duration = Duration::from_secs(2);

type Writer = TraceWriter<BufWriter<File>>;

/// Takes what the recorder reads.
struct ToFile(Option<Writer>);

impl TraceSink for ToFile {
    fn event(&mut self, event: SchedEvent) {
        if let Some(writer) = &mut self.0 {
            writer.event(&event);
        }
    }

    fn identity(&mut self, identity: &TraceIdentity) {
        if let Some(writer) = &mut self.0 {
            writer.identity(identity);
        }
    }
}

impl ToFile {
    fn sync(&mut self, before_ns: u64) -> anyhow::Result<WrittenCounts> {
        let writer = self.0.as_mut().context("the trace was ended before")?;
        writer.sync(before_ns)?;
        Ok(writer.counts())
    }
}

/// `cpumon trace record`.
pub(crate) fn record(args: &TraceRecordArgs) -> anyhow::Result<Outcome> {
    let path = args.output.display();
    let signals = Signals::install()?;
    let file = create(&args.output)?;
    let recorded = record_to(file, args, &signals).map_err(|error| {
        // Before the first event there is nothing in it but a header.
        if error.is::<cpumon_collect::CollectError>() {
            let _ = std::fs::remove_file(&args.output);
        }
        error.context(format!("cannot record to {path}"))
    })?;
    let Recorded { counts, lost, length, status } = recorded;
    let summary = format!(
        "{:.3} s, {} events, {} lost, {} in {path}",
        length.as_secs_f64(),
        counts.events,
        lost,
        show_bytes(counts.bytes)
    );
    // Standard error may be closed; the trace is complete all the same.
    let _ = writeln!(io::stderr(), "cpumon: {summary}");
    Ok(outcome(args, status, lost, &signals))
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

/// Names and command lines of all users' programs are in it: only its owner may read it.
fn create(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
        match error.kind() {
            io::ErrorKind::AlreadyExists => {
                anyhow!("{} exists; give another name with -o, or remove it", path.display())
            }
            _ => anyhow!("cannot create {}: {error}", path.display()),
        }
    })
}

struct Recorded {
    counts: WrittenCounts,
    lost: u64,
    length: Duration,
    status: Option<ExitStatus>,
}

fn record_to(file: File, args: &TraceRecordArgs, signals: &Signals) -> anyhow::Result<Recorded> {
    let sink = Rc::new(RefCell::new(ToFile(None)));
    let options = TraceRecorderOptions { buffer_bytes: u32::try_from(args.buffer).unwrap_or(u32::MAX) };
    let shared: Rc<RefCell<dyn TraceSink>> = Rc::<RefCell<ToFile>>::clone(&sink);
    let mut recorder = TraceRecorder::open(options, shared)?;
    let header = header()?;
    let compression = match args.compression {
        TraceCompression::Zstd => Compression::Zstd(ZSTD_LEVEL),
        TraceCompression::None => Compression::None,
    };
    sink.borrow_mut().0 =
        Some(TraceWriter::new(BufWriter::with_capacity(1 << 18, file), &header, compression)?);
    let mut child = spawn(args)?;
    hurry();
    let began = Instant::now();
    let ended = watch(&mut recorder, &sink, &mut Run { args, signals, child: child.as_mut(), began });
    let end_ns = now().mono_ns;
    let length = began.elapsed();
    // Whatever happened: what was recorded is written.
    recorder.stop()?;
    let writer = sink.borrow_mut().0.take().context("the trace was ended before")?;
    let (_, counts) = writer.finish(end_ns, recorder.lost())?;
    let status = ended?;
    let status = match (status, child) {
        (None, Some(child)) => end(child)?,
        (status, _) => status,
    };
    if recorder.malformed() > 0 {
        bail!("{} records could not be read: this is a fault of cpumon", recorder.malformed());
    }
    Ok(Recorded { counts, lost: recorder.lost(), length, status })
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
    let child = Command::new(program).args(rest).spawn();
    child.map(Some).with_context(|| format!("cannot run {}", program.display()))
}

/// Where every CPU is busy, a reader that waits for its turn loses events. Without the right to it, nothing changes.
fn hurry() {
    if let Err(error) = rustix::process::setpriority_process(None, -20) {
        log::debug!("cannot raise the priority: {error}");
    }
}

/// What ends a recording.
struct Run<'r> {
    args: &'r TraceRecordArgs,
    signals: &'r Signals,
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
    sink: &Rc<RefCell<ToFile>>,
    run: &mut Run<'_>,
) -> anyhow::Result<Option<ExitStatus>> {
    let mut wait = LONGEST_WAIT / 5;
    let mut synced = Instant::now();
    let mut progress = Progress::new();
    loop {
        std::thread::sleep(wait.min(run.time_left()));
        let (is_over, status) = run.is_over()?;
        let before_ns = now().mono_ns.saturating_sub(SUBMITTED_AFTER_NS);
        let fill = recorder.drain()?;
        wait = if fill > BUSY_FILL { wait / 2 } else { wait * 5 / 4 }.clamp(SHORTEST_WAIT, LONGEST_WAIT);
        if synced.elapsed() >= SYNC_EVERY {
            synced = Instant::now();
            let counts = sink.borrow_mut().sync(before_ns)?;
            progress.show(run.began.elapsed(), counts, recorder.lost());
        }
        if is_over {
            progress.end();
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
        std::thread::sleep(LONGEST_WAIT);
    }
    log::warn!("the command does not end; it goes on without being recorded");
    Ok(None)
}

/// One line on a terminal, over and over.
struct Progress {
    is_shown: bool,
    is_begun: bool,
}

impl Progress {
    fn new() -> Self {
        Self { is_shown: io::stderr().is_terminal(), is_begun: false }
    }

    fn show(&mut self, length: Duration, counts: WrittenCounts, lost: u64) {
        if self.is_shown {
            self.is_begun = true;
            let (seconds, bytes) = (length.as_secs_f64(), show_bytes(counts.bytes));
            // A terminal that went away must not end the recording.
            let _ =
                write!(io::stderr(), "\r{seconds:.1} s  {} events  {lost} lost  {bytes}   ", counts.events);
        }
    }

    fn end(&self) {
        if self.is_begun {
            let _ = writeln!(io::stderr());
        }
    }
}
