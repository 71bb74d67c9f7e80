//! SIGINT, SIGTERM and SIGHUP as flags that the threads of a command check.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Outcome;

/// The signals that ask a command to stop.
pub const ASKS_TO_STOP: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

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
