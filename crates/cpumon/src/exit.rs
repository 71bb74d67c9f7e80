//! How a command ends: its exit code, its error message on standard error, and the signals that ask it to stop.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use cpumon_agent::Chain;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, iterator, low_level};

/// The end of a command that did not fail.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Finished, but some of the requested data is missing. The command has reported which.
    DataMissing,
    /// A search without a match, as grep reports it. The command has printed it.
    NothingFound,
    /// The user stopped the command before it was done.
    Interrupted,
    /// The command that it ran ended with this exit code.
    Code(u8),
}

/// A usage error that clap cannot detect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}

/// The exit code of a result. Prints the error on standard error.
pub fn finish(result: &anyhow::Result<Outcome>) -> ExitCode {
    let code = code_of(result, has_lost_reader);
    if let (Err(error), true) = (result, code != 0) {
        let hint = if code == 2 { "\nTry --help." } else { "" };
        say(&format!("{}{hint}", Chain(error.as_ref())));
    }
    ExitCode::from(code)
}

/// Prints a message on standard error. It may be closed: the exit code still reports the error.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "cpumon: {text}");
}

fn code_of(result: &anyhow::Result<Outcome>, has_lost_reader: impl FnOnce() -> bool) -> u8 {
    match result {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::DataMissing) => 3,
        Ok(Outcome::Interrupted) => 130,
        Ok(Outcome::Code(code)) => *code,
        Err(error) if is_broken_pipe(error) && has_lost_reader() => 0,
        Err(error) if error.is::<Usage>() => 2,
        Ok(Outcome::NothingFound) | Err(_) => 1,
    }
}

/// The reader of the output closed it (`cpumon export … | head`), which is not a failure. A connection breaks in the same words, so the
/// output itself is asked.
fn has_lost_reader() -> bool {
    is_hung_up(&io::stdout())
}

/// Whether the other end is gone (poll(2): `POLLERR` on the writing end of a pipe without a reader, `POLLHUP` of a closed terminal).
pub(crate) fn is_hung_up(end: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(end, PollFlags::empty())];
    poll(&mut polled, Some(&Timespec::default())).is_ok()
        && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

pub(crate) const ASKS_TO_STOP: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// A file that is not finished yet, which a signal that asks to stop removes. It then says that the file was not written, and ends
/// the process at once: a query that has no row yet would not notice a flag.
#[derive(Debug)]
pub(crate) struct Unfinished {
    /// Path of the unfinished file while there is one. The signal's handler holds it until the process has ended.
    temporary: Arc<Mutex<Option<PathBuf>>>,
}

impl Unfinished {
    /// Waits for signals from now on. `path`: the name that the file will have.
    pub(crate) fn watch(path: &Path) -> anyhow::Result<Self> {
        let temporary: Arc<Mutex<Option<PathBuf>>> = Arc::default();
        let (seen, path) = (Arc::clone(&temporary), path.to_owned());
        let signals = iterator::Signals::new(ASKS_TO_STOP).context("cannot handle signals")?;
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || wait_and_remove(signals, &seen, &path))
            .context("cannot start the signal thread")?;
        Ok(Self { temporary })
    }

    /// The file's name, for the code that creates the file and sets it. Once a signal came, this does not return.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.temporary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Unfinished {
    /// A signal that took the file away has the last word.
    fn drop(&mut self) {
        let _waits = self.lock();
    }
}

fn wait_and_remove(mut signals: iterator::Signals, temporary: &Mutex<Option<PathBuf>>, path: &Path) {
    let Some(signal) = signals.forever().next() else { return };
    let temporary = temporary.lock().unwrap_or_else(PoisonError::into_inner);
    // It is gone if the file was finished just now.
    if temporary.as_ref().is_some_and(|temporary| std::fs::remove_file(temporary).is_ok()) {
        say(&format!("stopped; {} was not written", path.display()));
    }
    low_level::exit(128 + signal);
}

#[derive(Clone, Debug)]
pub(crate) struct Signals {
    stop: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
}

impl Signals {
    /// From now on the first SIGINT, SIGTERM or SIGHUP requests a stop; a second one ends the process at once.
    pub(crate) fn install() -> anyhow::Result<Self> {
        let signals = Self { stop: Arc::default(), interrupted: Arc::default() };
        signals.register().context("cannot handle signals")?;
        Ok(signals)
    }

    fn register(&self) -> io::Result<()> {
        for signal in ASKS_TO_STOP {
            // Handlers run in this order: the flag is not set yet when the first signal checks it.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&self.stop))?;
            flag::register(signal, Arc::clone(&self.stop))?;
        }
        // Only Ctrl-C counts as an interruption; a service manager and a closed terminal end it normally.
        flag::register(SIGINT, Arc::clone(&self.interrupted))?;
        Ok(())
    }

    /// Set when the command must stop.
    pub(crate) fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// The outcome of a command that runs until it is stopped: *interrupted* by Ctrl-C, *done* by a service manager.
    pub(crate) fn outcome(&self) -> Outcome {
        if self.interrupted.load(Ordering::Relaxed) { Outcome::Interrupted } else { Outcome::Done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_code() {
        let io = |kind| Err::<Outcome, _>(io::Error::from(kind));
        let code = |result: &_| code_of(result, || true);
        assert_eq!(code(&Ok(Outcome::Done)), 0);
        assert_eq!(code(&Ok(Outcome::NothingFound)), 1);
        assert_eq!(code(&Ok(Outcome::DataMissing)), 3);
        assert_eq!(code(&Ok(Outcome::Interrupted)), 130);
        assert_eq!(code(&Err(Usage("no".into()).into())), 2);
        assert_eq!(code(&io(io::ErrorKind::NotFound).context("opening x")), 1);
        let broken = io(io::ErrorKind::BrokenPipe).context("writing rows");
        assert_eq!(code(&broken), 0);
        assert_eq!(code_of(&broken, || false), 1, "a connection broke, not the output");
    }
}
