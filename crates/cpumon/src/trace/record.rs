//! `cpumon trace record`: from the kernel's ring buffers to a file at once, or into memory, from which the last part can be written.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use cpumon_agent::{RecordingOutput, SwitchRecording, hurry, trace_header};
use cpumon_collect::{CollectError, SourceOptions, TraceRecorderOptions, host_info};
use cpumon_model::Moment;
use cpumon_trace::{WindowLimits, WrittenCounts};
use signal_hook::consts::SIGUSR1;

use crate::cli::{TraceRecordArgs, file_of};
use crate::exit::{Outcome, Signals, Usage, say};
use crate::output::{ProgressLine, needs_file};
use crate::units::show_bytes;

/// Between two times that a command is asked whether it has ended.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How long a command has to end after it was asked to.
const END_WITHIN: Duration = Duration::from_secs(2);

pub(crate) fn record(args: &TraceRecordArgs) -> anyhow::Result<Outcome> {
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
    let buffer_bytes = u32::try_from(args.buffer).unwrap_or(u32::MAX);
    let options = TraceRecorderOptions { buffer_bytes, has_interrupts: args.irq };
    let wanted = Arc::new(AtomicBool::new(false));
    if args.last.is_some() {
        signal_hook::flag::register(SIGUSR1, Arc::clone(&wanted)).context("cannot handle SIGUSR1")?;
    }
    let recording = SwitchRecording::open(options, |began| open_output(args, file, began))?;
    let mut child = spawn(args)?;
    hurry();
    let began = Instant::now();
    let mut run = Run { args, signals, wanted: &wanted, recording, child: child.as_mut(), began, written: 0 };
    let ended = run.watch();
    let length = began.elapsed();
    // Whatever happened: what was recorded is written.
    let (counts, path) = run.finish()?;
    let Run { recording, .. } = run;
    let status = match (ended?, child) {
        (None, Some(child)) => end(child)?,
        (status, _) => status,
    };
    if recording.malformed() > 0 {
        bail!("{} records could not be read: this is a fault of cpumon", recording.malformed());
    }
    Ok(Recorded { counts, path, lost: recording.lost(), length, status })
}

fn open_output(args: &TraceRecordArgs, file: File, began: Moment) -> anyhow::Result<RecordingOutput> {
    let header = trace_header(&host_info(&SourceOptions::default())?, began);
    let Some(last) = args.last else { return Ok(RecordingOutput::file(file, &header, args.compression)?) };
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
    Ok(RecordingOutput::window(header, limits, args.compression)?)
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

struct Run<'r> {
    args: &'r TraceRecordArgs,
    signals: &'r Signals,
    /// Set when the window has to be written.
    wanted: &'r AtomicBool,
    recording: SwitchRecording,
    child: Option<&'r mut Child>,
    began: Instant,
    written: u32,
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

    /// Reads until the recording is over.
    fn watch(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        let mut line = ProgressLine::new(true);
        loop {
            self.recording.wait(self.time_left());
            let (is_over, status) = self.is_over()?;
            let is_wanted = self.wanted.swap(false, Ordering::Relaxed);
            if self.recording.pass::<anyhow::Error>(is_wanted)? {
                line.show(|| self.progress());
            }
            // A disk that is full, or too slow, must not end the recording.
            let begun = if is_wanted { self.begin_copy() } else { Ok(()) };
            match begun.and_then(|()| Ok(self.recording.copy_part()?)) {
                Ok(None) => {}
                Ok(Some((counts, path))) => {
                    line.end();
                    say(&summary(self.began.elapsed(), counts, self.recording.lost(), &path));
                }
                Err(error) => {
                    line.end();
                    log::warn!("the window was not written: {error:#}");
                }
            }
            if is_over {
                line.end();
                return Ok(status);
            }
        }
    }

    fn progress(&self) -> String {
        let (seconds, lost) = (self.began.elapsed().as_secs_f64(), self.recording.lost());
        match &self.recording.output {
            RecordingOutput::File(file) => {
                let WrittenCounts { events, bytes, .. } = file.counts();
                format!("{seconds:.1} s  {events} events  {lost} lost  {}", show_bytes(bytes))
            }
            RecordingOutput::Window(window) => {
                let (from_ns, until_ns) = window.span_ns();
                let last = until_ns.saturating_sub(from_ns) as f64 / 1e9;
                format!("{seconds:.1} s  the last {last:.1} s in memory  {lost} lost")
            }
        }
    }

    /// Begins to write the window to the next file, unless one is being written.
    fn begin_copy(&mut self) -> anyhow::Result<()> {
        if !self.recording.is_copying() {
            let path = numbered(&self.args.output, self.written);
            self.written += 1;
            self.recording.begin_copy(path.clone()).map_err(|error| cannot_create(&path, &error))?;
        }
        Ok(())
    }

    /// Ends the recording. Returns what the last file has, and its name.
    fn finish(&mut self) -> anyhow::Result<(WrittenCounts, PathBuf)> {
        self.recording.finish::<anyhow::Error>()?;
        if let RecordingOutput::File(file) = &self.recording.output {
            return Ok((file.counts(), self.args.output.clone()));
        }
        // One that was asked for a moment ago ends first.
        while self.recording.is_copying() {
            self.recording.copy_part()?;
        }
        self.begin_copy()?;
        loop {
            if let Some(done) = self.recording.copy_part()? {
                return Ok(done);
            }
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

/// Path of the next file: `spike.trace`, then `spike-2.trace`.
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

/// Creates a file that only its owner can read.
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
