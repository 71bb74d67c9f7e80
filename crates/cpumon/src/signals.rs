//! SIGINT, SIGTERM and SIGHUP as flags that the threads of a command check.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, iterator, low_level};

use crate::exit::Outcome;

/// The signals that ask a command to stop.
pub const ASKS_TO_STOP: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// A file that is not finished yet, which a signal that asks to stop removes. It then says that the file was not written, and ends
/// the process at once: a query that has no row yet would not notice a flag.
#[derive(Debug)]
pub struct Unfinished {
    /// Its name while there is one. Held by the signal until the process has ended.
    temporary: Arc<Mutex<Option<PathBuf>>>,
}

impl Unfinished {
    /// Waits for signals from now on. `path`: the name that the file will have.
    pub fn watch(path: &Path) -> anyhow::Result<Self> {
        let temporary: Arc<Mutex<Option<PathBuf>>> = Arc::default();
        let (seen, path) = (Arc::clone(&temporary), path.to_owned());
        let signals = iterator::Signals::new(ASKS_TO_STOP).context("cannot handle signals")?;
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || wait_and_remove(signals, &seen, &path))
            .context("cannot start the signal thread")?;
        Ok(Self { temporary })
    }

    /// The file's name, for who creates the file and sets it. Once a signal came, this does not return.
    pub fn lock(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.temporary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait_and_remove(mut signals: iterator::Signals, temporary: &Mutex<Option<PathBuf>>, path: &Path) {
    let Some(signal) = signals.forever().next() else { return };
    let temporary = temporary.lock().unwrap_or_else(PoisonError::into_inner);
    // It is gone if the file was finished just now.
    if temporary.as_ref().is_some_and(|temporary| std::fs::remove_file(temporary).is_ok()) {
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
