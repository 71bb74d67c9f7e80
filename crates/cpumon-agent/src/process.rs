//! The agent as a process: signals, messages on stderr, exit codes. Used by the slim binary and by the desk.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cpumon_collect::RetainedCapabilities;
use cpumon_model::SourceKind;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::Chain;

/// Stack of the thread that waits for signals.
const SIGNAL_STACK_BYTES: usize = 64 << 10;

/// Finished, but not all that was asked for got out: exit code 3.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "data is missing: {unsent} datagrams could not be sent, {unlogged} snapshots could not be logged, \
     {unacknowledged} were not acknowledged by a receiver, {failed} passes failed"
)]
pub struct DataMissing {
    /// Datagrams that could not be sent.
    pub unsent: u64,
    /// Snapshots that could not be logged.
    pub unlogged: u64,
    /// Snapshots that went into the secure stream and are on no receiver's disk as far as is known.
    pub unacknowledged: u64,
    /// Collection passes that failed.
    pub failed: u64,
}

/// SIGINT and SIGTERM as flags.
#[derive(Clone, Debug)]
pub struct Signals {
    stop: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
}

impl Signals {
    const INTERRUPTED: i32 = 130;

    /// From now on the first SIGINT or SIGTERM asks to stop and wakes the calling thread; a second one ends the process at
    /// once.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn install() -> io::Result<Self> {
        let (stop, interrupted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, Self::INTERRUPTED, Arc::clone(&stop))?;
            flag::register(signal, Arc::clone(&stop))?;
        }
        flag::register(SIGINT, Arc::clone(&interrupted))?;
        wake_on(&[SIGINT, SIGTERM])?;
        Ok(Self { stop, interrupted })
    }

    /// Set once the process is to end.
    #[must_use]
    pub fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// 0 ok, 1 failed, 3 finished but data is missing, 130 interrupted. An error is said on stderr with its causes.
    #[must_use]
    pub fn exit_code(&self, program: &str, result: &anyhow::Result<()>) -> ExitCode {
        let code = match result {
            Err(error) => {
                // Nobody may be reading any more; the code tells it all the same.
                let _ = writeln!(io::stderr(), "{program}: {}", Chain(error));
                if error.is::<DataMissing>() { 3 } else { 1 }
            }
            Ok(()) if self.interrupted.load(Ordering::Relaxed) => 130,
            Ok(()) => 0,
        };
        ExitCode::from(code)
    }
}

/// From now on each of these signals unparks the calling thread; flags that the signal is to set are registered before.
///
/// A thread sleeps until there is one, so that a [`Sampler`](crate::Sampler) need not wake up to look at its flag. A handler
/// itself can only set flags: a sleep that is just about to begin would miss it.
///
/// # Errors
/// The system refuses a handler or a thread.
pub fn wake_on(signals: &[i32]) -> io::Result<()> {
    let mut caught = signal_hook::iterator::Signals::new(signals)?;
    let sleeper = std::thread::current();
    let wake = move || {
        // It began with the rights of the thread that started it, and needs none of them beyond what all may keep.
        if let Err(error) =
            cpumon_collect::drop_capabilities(SourceKind::Unknown, RetainedCapabilities::NAMES)
        {
            log::debug!("the thread that waits for signals keeps its capabilities: {error}");
        }
        caught.forever().for_each(|_| sleeper.unpark());
    };
    std::thread::Builder::new().name("signals".to_owned()).stack_size(SIGNAL_STACK_BYTES).spawn(wake)?;
    Ok(())
}

/// Sends messages of this level and above to stderr, each with the program's name. Does nothing if messages go somewhere
/// already.
pub fn log_to_stderr(program: &'static str, level: log::LevelFilter) {
    let format = move |to: &mut env_logger::fmt::Formatter, record: &log::Record<'_>| match record.level() {
        log::Level::Error | log::Level::Warn => {
            let level = if record.level() == log::Level::Warn { "warning" } else { "error" };
            writeln!(to, "{program}: {level}: {}", record.args())
        }
        _ => writeln!(to, "{program}: {}", record.args()),
    };
    // Fails only if messages go somewhere already.
    let _ = env_logger::Builder::new().filter_level(level).format(format).try_init();
}
