//! SIGINT, SIGTERM and SIGHUP as flags that the threads of a command check.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, iterator, low_level};

use crate::exit::Outcome;

/// The signals that ask a command to stop.
pub const ASKS_TO_STOP: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// From now on a signal that asks to stop removes the unfinished `temporary`, says that `path` was not written, and ends the
/// process at once: a query that has no row yet would not notice a flag.
pub fn remove_when_stopped(temporary: Option<&Path>, path: &Path) -> anyhow::Result<()> {
    let Some(temporary) = temporary.map(Path::to_owned) else { return Ok(()) };
    let path = path.to_owned();
    let signals = iterator::Signals::new(ASKS_TO_STOP).context("cannot handle signals")?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || wait_and_remove(signals, &temporary, &path))
        .context("cannot start the signal thread")?;
    Ok(())
}

fn wait_and_remove(mut signals: iterator::Signals, temporary: &PathBuf, path: &Path) {
    let Some(signal) = signals.forever().next() else { return };
    // It is gone if the file was finished just now.
    if std::fs::remove_file(temporary).is_ok() {
        let _ = writeln!(io::stderr(), "cpumon: stopped; {} was not written", path.display());
    }
    low_level::exit(128 + signal);
}

/// The flags that the signals set.
#[derive(Clone, Debug)]
pub struct Signals {
    stop: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
}

impl Signals {
    /// From now on the first SIGINT, SIGTERM or SIGHUP requests a stop; a second one ends the process at once.
    pub fn install() -> anyhow::Result<Self> {
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
    #[must_use]
    pub fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// The outcome of a command that runs until it is stopped: *interrupted* by Ctrl-C, *done* by a service manager.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        if self.interrupted.load(Ordering::Relaxed) { Outcome::Interrupted } else { Outcome::Done }
    }
}
