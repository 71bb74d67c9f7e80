//! [`ReceiverError`]: why a receiver cannot start, or what went wrong when it ended.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use cpumon_agent::{CollectError, FlightError};
use cpumon_link::LinkError;
use cpumon_link::group::GroupError;
use cpumon_store::StoreError;

use crate::enrolment::EnrolmentError;

/// What a thread or a frontend ends with: their errors are of many types.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiverError {
    #[error("cannot measure this machine")]
    Measure(#[source] CollectError),
    /// The last seconds of this machine's context switches cannot be recorded.
    #[error(transparent)]
    Flight(#[from] FlightError),
    /// A UDP address cannot be listened on, or a group cannot be joined.
    #[error("cannot receive datagrams")]
    Datagrams(#[source] LinkError),
    /// The key file that the user named cannot be used.
    #[error("cannot decrypt datagrams")]
    GroupKeys(#[source] GroupError),
    #[error("cannot accept TLS connections on {address}; choose another address with --tls")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot answer devices that search for a receiver (UDP port 5353)")]
    Discovery(#[source] LinkError),
    /// The identity or what belongs to it cannot be used.
    #[error(transparent)]
    Enrolment(#[from] EnrolmentError),
    #[error("cannot create {}; choose other places with --store FILE and --state DIR", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot open the store; choose another file with --store")]
    Store(#[from] StoreError),
    #[error("the last intervals could not be stored: {0}")]
    NotStored(String),
    #[error("cannot start the {name} thread")]
    Thread { name: &'static str, source: io::Error },
    #[error("the {name} thread failed")]
    ThreadFailed { name: &'static str, source: AnyError },
    /// A thread ended by a panic, whose text is on standard error.
    #[error("the {name} thread panicked")]
    ThreadPanicked { name: &'static str },
}
