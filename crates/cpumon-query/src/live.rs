//! [`Live`] is the interface of a receiver to frontends: hosts, intervals, its own state, and recordings of traces. The receiver's hub
//! implements it; tests implement it with fixed data.

use std::sync::Arc;
use std::time::Duration;

use cpumon_model::{HostId, HostRef, HostStatus, Interval};
use cpumon_store::{Reader, StoreError};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::ToSchema;

use crate::QueryError;
use crate::metrics::MetricsFormat;
use crate::status::Status;

/// An interval with the serial number that the receiver gave it: pass it as `?newer_than=` to wait for the next one.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Shown {
    /// Rises with every interval of any host, from 1; begins again when the receiver starts. 0: from the store.
    pub serial: u64,
    /// Counts this host's intervals, from 1; 0 if it comes from the store.
    #[serde(default)]
    pub number: u64,
    /// The interval.
    pub interval: Arc<Interval>,
}

/// A place in a host's past. Times are ns since the UNIX epoch, on the time line of the host's intervals.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The interval that contains this moment; none in a hole.
    At(i64),
    /// The newest interval that ends before this moment.
    Before(i64),
    /// The oldest interval that ends after this moment.
    After(i64),
}

/// A receiver, as frontends see it. Calls return at once, except [`Live::seek`], which may read a file.
pub trait Live: Send + Sync {
    /// Every host that reported, by name.
    fn hosts(&self) -> Vec<HostStatus>;
    /// One host.
    fn host(&self, host: HostId) -> Option<HostStatus>;
    /// Every host with its newest interval, in no order.
    fn fleet(&self) -> Vec<(HostStatus, Option<Shown>)>;
    /// The newest interval of a host.
    fn newest(&self, host: HostId) -> Option<Shown>;
    /// The oldest interval of a host in memory with a number above `number`.
    fn newer(&self, host: HostId, number: u64) -> Option<Shown>;
    /// The intervals of a host in memory that end after `since_ns`, oldest first.
    fn recent(&self, host: HostId, since_ns: i64) -> Vec<Shown>;
    /// An interval of a host's past; serial 0 if it comes from the store. The text says why the store could not be read.
    fn seek(&self, host: HostId, to: Seek) -> Result<Option<Shown>, String>;
    /// An interval of a host as people see it: with rows of zeros of the processes that are known to be there and idle. Of a device
    /// that sends only what changed, the others have the rows of those that did something.
    fn with_idle(&self, host: HostId, shown: &Shown) -> Shown {
        let _ = host;
        shown.clone()
    }
    /// The receiver itself.
    fn status(&self) -> Status;
    /// Asks a device for a trace of the last seconds, and waits some seconds for its answer. The text says why there will be none.
    fn take_trace(&self, host: HostId) -> Result<(), String> {
        let _ = host;
        Err("this receiver takes no traces".to_owned())
    }
    /// How a trace of a host can be had now.
    fn trace_sources(&self, host: HostId) -> TraceSources {
        let _ = host;
        TraceSources { how: "This receiver takes no traces.".to_owned(), ..TraceSources::default() }
    }
    /// Records every switch of a host for some time, and waits until it records. The text says why it is not recorded.
    fn record_trace(&self, host: HostId, length: Duration) -> Result<(), String> {
        let _ = (host, length);
        Err("this receiver records no traces".to_owned())
    }
    /// Ends the recording of a host. False: none is under way.
    fn stop_recording(&self, host: HostId) -> bool {
        let _ = host;
        false
    }
    /// The text of a scrape by Prometheus, of all hosts or of the one with this label. `None`: there is no such host, or nothing is
    /// counted.
    fn metrics(&self, format: MetricsFormat, host: Option<&str>) -> Option<String> {
        let _ = (format, host);
        None
    }
    /// Rings whenever an interval arrives.
    fn bell(&self) -> &Bell;

    /// The host with this id, or the most trusted one with this name. A text that parses as an id is no name: a host
    /// could be named after another one's id.
    fn find(&self, text: &str) -> Result<HostId, QueryError> {
        let hosts = self.hosts();
        let meant = HostRef::new(text, hosts.iter().map(|host| (&host.info, host.trust)));
        let ids: Vec<HostId> =
            hosts.iter().filter(|host| meant.is(&host.info, host.trust)).map(|host| host.info.host).collect();
        match ids.as_slice() {
            [] => Err(QueryError::UnknownHost),
            [one] => Ok(*one),
            _ => Err(QueryError::AmbiguousHost { ids }),
        }
    }
}

/// How a trace of a host can be had now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TraceSources {
    /// The receiver records this host on request: `POST /api/v1/hosts/{host}/recording`.
    pub can_record: bool,
    /// A flight recorder has, or may have, the last seconds of this host: `POST /api/v1/hosts/{host}/traces` takes them.
    pub can_take: bool,
    /// Number of these seconds; null: not known.
    pub last_seconds: Option<f64>,
    /// Missing requirement, and how to meet it; empty if nothing is missing.
    pub how: String,
    /// The last recording on request.
    pub recording: Option<Recording>,
}

/// A recording on request, of the receiver's own machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recording {
    /// Number of the recording since the receiver started, from 1.
    pub number: u64,
    /// State of the recording.
    pub state: RecordingState,
    /// Time until it ends, ms.
    pub left_ms: u64,
    /// Events so far.
    pub events: u64,
    /// Events that did not fit in the buffers.
    pub lost: u64,
    /// Bytes written so far.
    pub bytes: u64,
    /// Number of the stored trace; text in JSON.
    #[serde(with = "cpumon_model::nanos::if_known")]
    #[schema(value_type = Option<String>)]
    pub trace: Option<i64>,
    /// Why there is no trace, or why it is not stored yet; empty otherwise.
    pub detail: String,
}

/// How far a recording is.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordingState {
    /// Under way.
    #[default]
    Recording,
    /// Complete, and on its way to the store.
    Storing,
    /// Stored.
    Stored,
    /// There is no trace.
    Failed,
}

/// Wakes everyone who waits for a newer interval. Ringing costs one atomic and, only if someone waits, a wake-up.
#[derive(Debug)]
pub struct Bell(watch::Sender<u64>);

impl Default for Bell {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Bell {
    /// Announces that everything up to `serial` can be read.
    pub fn ring(&self, serial: u64) {
        self.0.send_replace(serial);
    }

    /// A new listener; it counts what rang before as received.
    pub fn listen(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// The interval of a host that is asked for, with the rows of idle processes, which are zero; `None` if nothing is stored there, a hole included.
///
/// # Errors
/// The store cannot be read.
pub fn seek(reader: &Reader, host: HostId, to: Seek) -> Result<Option<Interval>, StoreError> {
    let mut found = match to {
        Seek::At(wall_ns) => reader.interval_at(host, wall_ns),
        Seek::Before(wall_ns) => reader.previous_interval(host, wall_ns),
        Seek::After(wall_ns) => reader.next_interval(host, wall_ns),
    }?;
    if let Some(interval) = &mut found {
        // Where it is not known who was idle, the rows are fewer than the interval's count of processes, which frontends show.
        reader.add_idle(interval)?;
    }
    Ok(found)
}
