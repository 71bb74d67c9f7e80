//! Traces that users ask for. [`Requests`] are for the last seconds of devices; the session of the device carries request and answer.
//! [`OwnTraces`] are of the receiver's own machine, by the flight recorder and by recordings on request: its recorders write to a directory
//! below the trace store, whose thread takes complete files from there ([`Intake`]).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cpumon_agent::{OnDemandRecorder, RecordingPhase};
use cpumon_link::attachments::{self, Attachments, TraceRequests};
use cpumon_model::limits::Bucket;
use cpumon_model::{HostId, with_causes};
use cpumon_query::{Recording, RecordingState, TraceSources};
use cpumon_store::traces_dir;
use cpumon_wire::connection::TraceAnswer;

use super::job::RECORDINGS;
use super::storage::{Storage, Unstored};
use crate::{lock, mono_ns};

/// How long a user waits for the answer of the device.
const ANSWER_LIMIT: Duration = Duration::from_secs(4);

#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    #[error("the device is not connected over TLS")]
    NotConnected,
    #[error("the device's agent is too old for requests: update it")]
    TooOld,
    #[error("the device did not answer")]
    Silent,
    #[error("the device runs no flight recorder (--flight-recorder)")]
    NoRecorder,
    #[error("this receiver runs no flight recorder (cpumon serve --flight-recorder 30s)")]
    NotHere,
    #[error("the device wrote a trace on request less than a minute ago: ask again later")]
    TooSoon,
}

impl AskError {
    /// What the user can do about it, as a sentence.
    pub(crate) fn how(self) -> &'static str {
        match self {
            Self::NotConnected => "The last seconds of a device can be taken while it is connected over TLS.",
            Self::TooOld => "Update the agent of this device: it is too old to be asked for a trace.",
            Self::Silent => "The device did not answer.",
            Self::NoRecorder => "Start the agent of this device with --flight-recorder 30s --flight-dir DIR.",
            Self::NotHere => "Start the receiver with --flight-recorder 30s.",
            Self::TooSoon => "A device writes one trace a minute on request.",
        }
    }
}

#[derive(Debug, Default)]
struct Device {
    /// Number of its connections, which may overlap for a moment.
    connections: usize,
    knows_requests: bool,
    /// Whether it runs a flight recorder, as far as it has shown.
    has_recorder: Option<bool>,
    /// Token of the request that is still to be sent.
    wanted: Option<u64>,
    answer: Option<(u64, TraceAnswer)>,
}

/// Devices that are connected, and what they are asked.
#[derive(Debug, Default)]
pub struct Requests {
    devices: Mutex<(u64, HashMap<HostId, Device>)>,
    answered: Condvar,
}

impl Requests {
    pub(crate) fn connected(&self, host: HostId, knows_requests: bool) {
        let mut devices = lock(&self.devices);
        let device = devices.1.entry(host).or_default();
        device.connections += 1;
        device.knows_requests = knows_requests;
    }

    pub(crate) fn disconnected(&self, host: HostId) {
        let mut devices = lock(&self.devices);
        if let Some(device) = devices.1.get_mut(&host) {
            device.connections -= 1;
            if device.connections == 0 {
                devices.1.remove(&host);
            }
        }
    }

    /// What the session of a device is to send: the token of a request.
    pub(crate) fn take(&self, host: HostId) -> Option<u64> {
        lock(&self.devices).1.get_mut(&host)?.wanted.take()
    }

    pub(crate) fn answered(&self, host: HostId, token: u64, answer: TraceAnswer) {
        let mut devices = lock(&self.devices);
        // Devices may answer what they were never asked.
        if token >= devices.0 {
            return;
        }
        if let Some(device) = devices.1.get_mut(&host) {
            device.answer = Some((token, answer));
            device.has_recorder = Some(answer != TraceAnswer::NoRecorder);
        }
        drop(devices);
        self.answered.notify_all();
    }

    /// Whether a request may bring a trace; else the reason why not.
    pub(crate) fn may_ask(&self, host: HostId) -> Result<(), AskError> {
        match lock(&self.devices).1.get(&host) {
            None => Err(AskError::NotConnected),
            Some(device) if !device.knows_requests => Err(AskError::TooOld),
            Some(device) if device.has_recorder == Some(false) => Err(AskError::NoRecorder),
            Some(_) => Ok(()),
        }
    }

    /// Asks a device for a trace, and waits some seconds for the answer.
    ///
    /// # Errors
    /// It will not write one.
    pub fn ask(&self, host: HostId) -> Result<(), AskError> {
        let end = Instant::now() + ANSWER_LIMIT;
        let mut devices = lock(&self.devices);
        let token = devices.0;
        devices.0 += 1;
        let device = devices.1.get_mut(&host).ok_or(AskError::NotConnected)?;
        if !device.knows_requests {
            return Err(AskError::TooOld);
        }
        // Of two that ask before it is sent, one request answers both.
        let token = *device.wanted.get_or_insert(token);
        loop {
            let device = devices.1.get(&host).ok_or(AskError::NotConnected)?;
            // The answer to a later request may have come before this thread ran again.
            if let Some((_, answer)) = device.answer.filter(|answer| answer.0 >= token) {
                return match answer {
                    TraceAnswer::Writing => Ok(()),
                    TraceAnswer::NoRecorder => Err(AskError::NoRecorder),
                    _ => Err(AskError::TooSoon),
                };
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(AskError::Silent);
            }
            devices = self.answered.wait_timeout(devices, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The stored reason of a recording on request.
const REASON: &str = "recorded by a user";
/// Between two tries to store a file that could not be stored.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Where the recorders of this machine write: below the traces of `store`.
pub fn own_traces_dir(store: &Path) -> PathBuf {
    traces_dir(store).join("own")
}

#[derive(Debug, Default)]
enum RecordingOutcome {
    #[default]
    None,
    /// Its file waits; for what, if it was tried.
    Storing(PathBuf, String),
    Stored(i64),
    Failed(String),
}

/// The recorders of this machine, as frontends and the trace store's thread see them.
#[derive(Debug)]
pub(crate) struct OwnTraces {
    pub(crate) host: HostId,
    dir: PathBuf,
    /// Records on request; the error says why it cannot.
    recorder: Result<OnDemandRecorder, String>,
    /// Requests to the flight recorder, and the time that it keeps.
    flight: Option<(Arc<TraceRequests>, Duration)>,
    outcome: Mutex<RecordingOutcome>,
    /// Each recording makes others go once the trace store is full.
    rate: Mutex<Bucket>,
}

impl OwnTraces {
    pub(crate) fn new(
        host: HostId,
        dir: PathBuf,
        recorder: Result<OnDemandRecorder, String>,
        flight: Option<(Arc<TraceRequests>, Duration)>,
    ) -> Self {
        let (outcome, rate) = (Mutex::default(), Mutex::new(Bucket::new(RECORDINGS)));
        Self { host, dir, recorder, flight, outcome, rate }
    }

    /// Begins a recording, and waits until it records.
    pub(crate) fn record(&self, length: Duration) -> Result<(), String> {
        let recorder = self.recorder.as_ref().map_err(Clone::clone)?;
        if let RecordingOutcome::Storing(..) = &*lock(&self.outcome) {
            return Err("the last recording is not stored yet".to_owned());
        }
        let mut rate = lock(&self.rate);
        rate.take(mono_ns()).map_err(|_| "too many recordings within an hour: ask again later".to_owned())?;
        drop(rate);
        recorder.record(length, REASON).map_err(|error| with_causes(&error))?;
        *lock(&self.outcome) = RecordingOutcome::None;
        Ok(())
    }

    pub(crate) fn stop(&self) -> bool {
        self.recorder.as_ref().is_ok_and(OnDemandRecorder::stop)
    }

    pub(crate) fn take(&self) -> Result<(), AskError> {
        let (requests, _) = self.flight.as_ref().ok_or(AskError::NotHere)?;
        match requests.ask() {
            TraceAnswer::Writing => Ok(()),
            _ => Err(AskError::TooSoon),
        }
    }

    pub(crate) fn sources(&self) -> TraceSources {
        TraceSources {
            can_record: self.recorder.is_ok(),
            can_take: self.flight.is_some(),
            last_seconds: self.flight.as_ref().map(|(_, length)| length.as_secs_f64()),
            how: self.recorder.as_ref().err().cloned().unwrap_or_default(),
            recording: self.recording(),
        }
    }

    fn recording(&self) -> Option<Recording> {
        // First: while this is held, a complete file does not become a stored one.
        let outcome = lock(&self.outcome);
        let progress = self.recorder.as_ref().ok()?.progress();
        let (state, trace, detail) = match (progress.phase, &*outcome) {
            (RecordingPhase::None, _) => return None,
            (RecordingPhase::Recording, _) => (RecordingState::Recording, None, String::new()),
            (RecordingPhase::Failed(why), _) => (RecordingState::Failed, None, why),
            (_, RecordingOutcome::Failed(why)) => (RecordingState::Failed, None, why.clone()),
            (_, RecordingOutcome::Stored(id)) => (RecordingState::Stored, Some(*id), String::new()),
            (_, RecordingOutcome::Storing(_, why)) => (RecordingState::Storing, None, why.clone()),
            (_, RecordingOutcome::None) => (RecordingState::Storing, None, String::new()),
        };
        let left_ms = u64::try_from(progress.left.as_millis()).unwrap_or(u64::MAX);
        let (number, events, lost, bytes) = (progress.number, progress.events, progress.lost, progress.bytes);
        Some(Recording { number, state, left_ms, events, lost, bytes, trace, detail })
    }
}

/// Brings complete files to the trace store; runs on its thread.
pub(super) struct Intake {
    own: Arc<OwnTraces>,
    /// When to check the directory next by itself; what a former start left is there at once.
    next: Option<Instant>,
}

impl Intake {
    pub(super) fn new(own: Arc<OwnTraces>) -> Self {
        Self { own, next: Some(Instant::now()) }
    }

    pub(super) fn work(&mut self, storage: &mut Storage) {
        let recorded = self.own.recorder.as_ref().ok().and_then(OnDemandRecorder::take_complete);
        let is_recorded = recorded.is_some();
        if let Some((path, _)) = recorded {
            *lock(&self.own.outcome) = RecordingOutcome::Storing(path, String::new());
        }
        let is_new = self.own.flight.as_ref().is_some_and(|(requests, _)| requests.take_new());
        if is_recorded || is_new || self.next.is_some_and(|at| at <= Instant::now()) {
            self.next = self.store_all(storage).then(|| Instant::now() + RETRY_AFTER);
        }
    }

    /// Stores all complete files; true: some must be tried again.
    fn store_all(&self, storage: &mut Storage) -> bool {
        let mut files = Attachments::new(self.own.dir.clone());
        let mut is_left = false;
        while let Some(path) = files.next() {
            let taken = storage.take_in_own(self.own.host, &path, Attachments::why(&path));
            let outcome = match taken {
                Ok(id) => RecordingOutcome::Stored(id),
                Err(Unstored::Refused(why)) => RecordingOutcome::Failed(why),
                Err(Unstored::Later(why)) => RecordingOutcome::Storing(path.clone(), why),
            };
            if let RecordingOutcome::Storing(..) = outcome {
                is_left = true;
                files.refuse(path.clone());
            } else if let Err(error) = attachments::remove(&path) {
                log::warn!("cannot delete {}: {error}", path.display());
                files.refuse(path.clone());
            }
            let mut shown = lock(&self.own.outcome);
            if matches!(&*shown, RecordingOutcome::Storing(own, _) if *own == path) {
                *shown = outcome;
            } else if let RecordingOutcome::Failed(why) = outcome {
                log::warn!("a trace of this machine is not stored: {why}");
            }
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reaches_the_device_and_its_answer_the_user() {
        let (requests, host) = (Arc::new(Requests::default()), HostId([1; 16]));
        assert_eq!(requests.ask(host), Err(AskError::NotConnected));
        requests.connected(host, false);
        assert_eq!(requests.ask(host), Err(AskError::TooOld));
        requests.connected(host, true);
        requests.disconnected(host);
        for (answer, result) in [
            (TraceAnswer::Writing, Ok(())),
            (TraceAnswer::TooSoon, Err(AskError::TooSoon)),
            (TraceAnswer::NoRecorder, Err(AskError::NoRecorder)),
        ] {
            let asking = std::thread::spawn({
                let requests = Arc::clone(&requests);
                move || requests.ask(host)
            });
            let token = loop {
                if let Some(token) = requests.take(host) {
                    break token;
                }
                std::thread::yield_now();
            };
            requests.answered(host, token + 100, TraceAnswer::Writing);
            requests.answered(host, token, answer);
            assert_eq!(asking.join().unwrap(), result);
            assert_eq!(requests.may_ask(host).is_err(), answer == TraceAnswer::NoRecorder);
        }
        requests.disconnected(host);
        assert_eq!(requests.ask(host), Err(AskError::NotConnected));
        assert_eq!(requests.may_ask(host), Err(AskError::NotConnected));
    }

    /// The token of the first was overwritten: it was answered that the device is silent.
    #[test]
    fn two_that_ask_at_once_both_have_an_answer() {
        let (requests, host) = (Requests::default(), HostId([1; 16]));
        requests.connected(host, true);
        std::thread::scope(|scope| {
            let asking = [scope.spawn(|| requests.ask(host)), scope.spawn(|| requests.ask(host))];
            while lock(&requests.devices).0 < 2 {
                std::thread::yield_now();
            }
            let token = requests.take(host).unwrap();
            requests.answered(host, token, TraceAnswer::Writing);
            assert_eq!(asking.map(|one| one.join().unwrap()), [Ok(()), Ok(())]);
        });
    }
}
