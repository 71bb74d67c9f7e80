//! [`Recorders`]: the threads that record this machine's context switches, started while the receiver has the rights to.

use std::path::Path;
use std::sync::Arc;

use cpumon_agent::{Flight, FlightSettings, OnDemandRecorder, Sampler, SourceChoice};
use cpumon_link::attachments;
use cpumon_model::SourceKind;

use crate::ReceiverError;
use crate::traces::{OwnFlight, OwnTraces, TraceLimits, own_traces_dir};

/// Why a receiver that reads /proc records nothing.
const NO_BPF: &str = "Recording this machine needs BPF: run the receiver as root, or see `cpumon doctor`.";

/// What a plan says about them.
pub(crate) struct WantedRecorders<'p> {
    /// `None`: nothing is stored.
    pub(crate) store: Option<&'p Path>,
    /// Space for traces; 0: none.
    pub(crate) trace_bytes: u64,
    pub(crate) flight: Option<&'p FlightSettings>,
    pub(crate) source: SourceChoice,
}

/// What records this machine.
#[derive(Default)]
pub(crate) struct Recorders {
    /// `None`: there is no shelf for traces.
    pub(crate) own: Option<Arc<OwnTraces>>,
    /// Its rules are checked by the measuring thread.
    pub(crate) flight: Option<Flight>,
}

impl Recorders {
    /// Starts what is wanted. `keeps_files`: their directory may belong to another user.
    pub(crate) fn open(
        wanted: &WantedRecorders<'_>,
        sampler: &Sampler,
        keeps_files: bool,
    ) -> Result<Self, ReceiverError> {
        let Some(store) = wanted.store.filter(|_| wanted.trace_bytes > 0) else { return Ok(Self::default()) };
        let (dir, info) = (own_traces_dir(store), sampler.info());
        make_dir(&dir)?;
        let flight = wanted.flight.map(|flight| Flight::open(flight, info, keeps_files)).transpose()?;
        // With the source `auto`, BPF was tried: it would be refused here as well.
        let is_refused = sampler.kind() != SourceKind::Bpf && wanted.source == SourceChoice::Auto;
        let limits = TraceLimits { bytes: wanted.trace_bytes, age: None };
        let recorder = if is_refused {
            Err(NO_BPF.to_owned())
        } else {
            let started = OnDemandRecorder::start(&dir, info, limits.longest(), keeps_files);
            Ok(started.map_err(|source| ReceiverError::Thread { name: "record", source })?)
        };
        let requests = flight.as_ref().map(Flight::requests).zip(wanted.flight);
        let requests = requests.map(|(requests, wanted)| OwnFlight { requests, length: wanted.length });
        Ok(Self { own: Some(Arc::new(OwnTraces::new(info.host, dir, recorder, requests))), flight })
    }
}

/// For this user only; without what a killed receiver was writing.
fn make_dir(dir: &Path) -> Result<(), ReceiverError> {
    cpumon_files::create_dir(dir)
        .and_then(|()| attachments::remove_parts(dir))
        .map_err(|source| ReceiverError::Directory { path: dir.to_owned(), source })
}
