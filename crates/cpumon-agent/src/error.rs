//! Errors of the agent's library: [`AgentError`], [`FlagsError`], [`DiscoverError`], [`EnrollError`] and [`FlightError`].

use std::io;

use cpumon_collect::CollectError;
use cpumon_link::LinkError;
use cpumon_link::group::GroupError;
use cpumon_link::spool::SpoolError;
use cpumon_link::tls::TlsError;
use cpumon_trace::WriteError;
use cpumon_wire::encrypted::{Exhausted, OVERHEAD_BYTES};
use cpumon_wire::v2::MIN_DATAGRAM_BYTES;

/// The agent ends after this many failed passes in a row: the error is not temporary.
pub(crate) const MAX_FAILED_PASSES: u64 = 10;

/// An agent could not be started, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    #[error(transparent)]
    Flags(#[from] FlagsError),
    /// No source of measurements could be opened.
    #[error("cannot measure this machine")]
    Measure(#[source] CollectError),
    /// The system gives no thread to resolve host names.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// A socket for datagrams cannot be opened.
    #[error("cannot send")]
    Datagrams(#[source] LinkError),
    /// The key file that the user named cannot be used.
    #[error("cannot encrypt datagrams")]
    GroupKeys(#[source] GroupError),
    /// The system gives no random number for the encryption of datagrams.
    #[error(transparent)]
    Random(TlsError),
    /// No more datagrams may be encrypted with this key.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// This machine is not enrolled, or the spool cannot be opened.
    #[error("cannot prepare the TLS connection")]
    PrepareConnection(#[source] ConnectionError),
    /// The thread of the connection cannot be started.
    #[error("cannot start the TLS connection")]
    StartConnection(#[source] ConnectionError),
    #[error("cannot record")]
    Record(#[source] SpoolError),
    /// The last seconds of context switches cannot be recorded.
    #[error(transparent)]
    Flight(#[from] FlightError),
    #[error("{MAX_FAILED_PASSES} passes failed in a row")]
    Passes(#[source] CollectError),
    /// The system gives no thread that reports to the service manager.
    #[error("cannot start the watchdog's thread")]
    Watchdog(#[source] io::Error),
    /// It finished, but not all data was sent or recorded.
    #[error(transparent)]
    DataMissing(#[from] DataMissing),
}

/// The agent finished, but not all data was sent or recorded: exit code 3.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "data is missing: {unsent} datagrams could not be sent, {unrecorded} snapshots could not be recorded, \
     {unacknowledged} were not acknowledged by a receiver, {failed} passes failed"
)]
pub struct DataMissing {
    /// Datagrams that could not be sent.
    pub unsent: u64,
    /// Snapshots that could not be recorded.
    pub unrecorded: u64,
    /// Snapshots for a TLS connection that no receiver has acknowledged.
    pub unacknowledged: u64,
    /// Collection passes that failed.
    pub failed: u64,
}

/// A resource of a TLS connection could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error(transparent)]
    Thread(#[from] io::Error),
}

/// Flags contradict each other in a way that clap cannot detect.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlagsError {
    /// A flag asks for a feature that this system does not have.
    #[error("{flag}: not available on this operating system")]
    NotHere { flag: &'static str },
    #[error("--to enrolled already includes every receiver: remove the tls:// targets")]
    EnrolledAndTls,
    #[error(
        "--spool needs a receiver that acknowledges snapshots: add --to tls://ADDR:PORT, or use --record DIR"
    )]
    SpoolWithoutTls,
    #[error(
        "--spool and --record need two different directories: the spool is emptied, the recording is not"
    )]
    SpoolIsRecording,
    #[error(
        "--group-key encrypts datagrams, and none are sent: tls:// uses keys of its own, a recording is not encrypted"
    )]
    KeyWithoutDatagrams,
    /// Encrypted datagrams would have no space for a row.
    #[error(
        "--max-datagram must be at least {} with --group-key: encryption adds {OVERHEAD_BYTES} bytes",
        MIN_DATAGRAM_BYTES + OVERHEAD_BYTES
    )]
    ShortDatagrams,
    #[error("--flight-recorder needs a directory for the traces: add --flight-dir DIR")]
    FlightWithoutDir,
    /// A rule of the flight recorder compares a value that is not measured.
    #[error(
        "--flight-when delay>… needs --probes sched, which measures how long threads wait for a CPU; p99>… needs --probes hist"
    )]
    RuleWithoutProbe,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoverError {
    /// No socket could be opened.
    #[error("cannot ask for receivers")]
    Search(#[source] LinkError),
    #[error(
        "no interface to ask on: it must be up, have an address and not be loopback; choose one with --interface NAME"
    )]
    NoInterface,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrollError {
    #[error(
        "enroll --discover without a terminal needs --key KEY, which the receiver prints when it starts: no user can confirm here that the \
         right receiver has answered"
    )]
    NoTerminal,
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    #[error("no receiver with key {0} answers; `cpumon-agent discover` lists those that do")]
    UnknownKey(String),
    /// No receiver answers; the text names the answers that came.
    #[error("{0}")]
    NoAnswer(String),
    /// Several receivers answer; the text lists them.
    #[error("several receivers answer; choose one with --key KEY\n{0}")]
    Ambiguous(String),
    /// This machine has no host id.
    #[error("cannot identify this machine")]
    Machine(#[source] CollectError),
    /// The receiver cannot be reached or refuses this machine, or the key cannot be stored.
    #[error("cannot enroll")]
    Enroll(#[source] TlsError),
}

/// A flight recorder could not be started, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlightError {
    #[error("cannot use {dir} for --flight-dir")]
    Dir {
        dir: String,
        #[source]
        error: io::Error,
    },
    #[error("cannot record context switches for --flight-recorder")]
    Record(#[from] CollectError),
    #[error(transparent)]
    Window(#[from] WriteError),
    /// The system refuses a thread or a signal handler.
    #[error("cannot start the flight recorder")]
    Start(#[source] io::Error),
}
