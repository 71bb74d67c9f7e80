//! [`FlightError`]: why a flight recorder cannot be started.

use std::io;

use cpumon_collect::CollectError;
use cpumon_trace::WriteError;

/// The flight recorder cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlightError {
    /// The directory cannot be made.
    #[error("cannot use {dir} for --flight-dir")]
    Dir {
        /// Its name.
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
