//! [`Recorders`]: the threads that record this machine's context switches, started while the receiver has the rights to.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use cpumon_agent::{Flight, OnDemandRecorder, Sampler, SourceChoice};
use cpumon_link::attachments;
use cpumon_model::SourceKind;

use crate::traces::{OwnFlight, OwnTraces, TraceLimits, own_traces_dir};
use crate::{Plan, ReceiverError};

/// Why a receiver that reads /proc records nothing.
const NO_BPF: &str = "Recording this machine needs BPF: run the receiver as root, or see `cpumon doctor`.";

/// What records this machine.
#[derive(Default)]
pub(crate) struct Recorders {
    /// `None`: there is no shelf for traces.
    pub(crate) own: Option<Arc<OwnTraces>>,
    /// Its rules are checked by the measuring thread.
    pub(crate) flight: Option<Flight>,
}

impl Recorders {
    /// Starts them as the plan says. `keeps_files`: their directory may belong to another user.
    pub(crate) fn open(plan: &Plan, sampler: &Sampler, keeps_files: bool) -> Result<Self, ReceiverError> {
        let Some((store, _)) = plan.store.as_ref().filter(|_| plan.trace_bytes > 0) else {
            return Ok(Self::default());
        };
        let (dir, info) = (own_traces_dir(store), sampler.info());
        make_dir(&dir)?;
        let flight =
            plan.flight.as_ref().map(|wanted| Flight::open(wanted, info, keeps_files)).transpose()?;
        // With the source `auto`, BPF was tried: it would be refused here as well.
        let is_refused = sampler.kind() != SourceKind::Bpf
            && plan.measure.as_ref().is_some_and(|measure| measure.source.choice == SourceChoice::Auto);
        let limits = TraceLimits { bytes: plan.trace_bytes, age: None };
        let recorder = if is_refused {
            Err(NO_BPF.to_owned())
        } else {
            let started = OnDemandRecorder::start(&dir, info, limits.longest(), keeps_files);
            Ok(started.map_err(|source| ReceiverError::Thread { name: "record", source })?)
        };
        let requests = flight.as_ref().map(Flight::requests).zip(plan.flight.as_ref());
        let requests = requests.map(|(requests, wanted)| OwnFlight { requests, length: wanted.length });
        Ok(Self { own: Some(Arc::new(OwnTraces::new(info.host, dir, recorder, requests))), flight })
    }
}

/// For this user only; without what a killed receiver was writing.
fn make_dir(dir: &Path) -> Result<(), ReceiverError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.and_then(|()| attachments::remove_parts(dir))
        .map_err(|source| ReceiverError::Directory { path: dir.to_owned(), source })
}
