//! Measures the receiver's own machine, without bytes in between: [`run`] is the measuring thread, from a [`Sampler`] to the [`Sink`], and
//! [`open_recorders`] starts the threads that record context switches, while the receiver still has the rights to.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cpumon_agent::{Flight, FlightSettings, OnDemandRecorder, Sampler, SourceChoice};
use cpumon_link::attachments;
use cpumon_model::{HostStatus, LossCounts, SourceKind, Trust};
use cpumon_store::traces_dir;

use crate::process::HeapWatch;
use crate::storing::Sink;
use crate::traces::{OwnTraces, TraceLimits, own_traces_dir};
use crate::{ReceiverError, wall_ns};

const NO_BPF: &str = "Recording this machine needs BPF: run the receiver as root, or see `cpumon doctor`.";

/// Measures until `stop` is set. A pass that fails is logged, once for each reason in a row, and tried again.
pub fn run(mut sampler: Sampler, sink: &Sink, mut flight: Option<Flight>, stop: &AtomicBool) {
    let mut status = HostStatus {
        info: sampler.info().clone(),
        trust: Trust::Local,
        source: sampler.kind(),
        ..HostStatus::default()
    };
    let (mut last_error, mut heap) = (String::new(), HeapWatch::new(Instant::now()));
    while !stop.load(Ordering::Relaxed) {
        match sampler.step(stop) {
            Ok(None) => break,
            Ok(Some(step)) => {
                last_error.clear();
                status.last = step.snapshot.end;
                status.received_wall_ns = wall_ns();
                status.thread_count = step.snapshot.thread_count;
                status.process_count = step.snapshot.process_count;
                status.loss = LossCounts { snapshots: status.loss.snapshots + 1, ..status.loss };
                // The first snapshot has nothing to be compared with, so it ends no interval.
                if !step.is_first {
                    sink.put(&status, step.interval.clone());
                    if let Some(flight) = &mut flight {
                        flight.check(step.interval);
                    }
                }
                heap.note(size_of_val(&*step.interval.threads) + sink.hub.bytes());
            }
            Err(error) => {
                let text = error.to_string();
                if text != last_error {
                    log::warn!("cannot measure this machine: {text}");
                    last_error = text;
                }
                // The schedule waits before each pass; this keeps a broken one from spinning all the same.
                std::thread::park_timeout(Duration::from_millis(50));
            }
        }
    }
}

/// Starts the flight recorder, if it is wanted, and the one that records on request. `source`: as the user chose it; `keeps_files`:
/// their directory, beside the store, may belong to another user. The measuring thread checks the rules of the flight recorder.
pub(crate) fn open_recorders(
    store: &Path,
    trace_bytes: u64,
    flight: Option<&FlightSettings>,
    source: SourceChoice,
    sampler: &Sampler,
    keeps_files: bool,
) -> Result<(Arc<OwnTraces>, Option<Flight>), ReceiverError> {
    let (dir, info) = (own_traces_dir(store), sampler.info());
    // For this user only; without what a killed receiver was writing.
    cpumon_files::create_own_dir(&traces_dir(store))
        .and_then(|()| cpumon_files::create_own_dir(&dir))
        .map_err(|source| ReceiverError::Directory { path: dir.clone(), source })?;
    if let Err(error) = attachments::remove_parts(&dir) {
        log::warn!("cannot clean up {}: {error}", dir.display());
    }
    let opened = flight.map(|flight| Flight::open(flight, info, keeps_files)).transpose()?;
    // With the source `auto`, BPF was tried: it would be refused here as well.
    let is_refused = sampler.kind() != SourceKind::Bpf && source == SourceChoice::Auto;
    let limits = TraceLimits { bytes: trace_bytes, age: None };
    let recorder = if is_refused {
        Err(NO_BPF.to_owned())
    } else {
        let started = OnDemandRecorder::start(&dir, info, limits.longest(), keeps_files);
        Ok(started.map_err(|source| ReceiverError::Thread { name: "record", source })?)
    };
    let requests = opened.as_ref().map(Flight::requests).zip(flight.map(|flight| flight.length));
    Ok((Arc::new(OwnTraces::new(info.host, dir, recorder, requests)), opened))
}
