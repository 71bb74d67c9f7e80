//! [`OwnTraces`]: traces of the receiver's own machine: the flight recorder, recordings on request, and what becomes of them. The
//! recorders write to a directory below the shelf, whose thread takes complete files from there.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cpumon_agent::{OnDemandRecorder, RecordingPhase};
use cpumon_link::attachments::{self, Attachments, TraceRequests};
use cpumon_model::limits::Bucket;
use cpumon_model::{HostId, with_causes};
use cpumon_query::recording::{Recording, RecordingState, TraceSources};
use cpumon_store::traces_dir;
use cpumon_wire::connection::TraceAnswer;

use super::job::RECORDINGS;
use super::requests::AskError;
use super::storage::{Storage, Unstored};
use crate::clock::mono_ns;

/// What is stored as the reason of a recording on request.
const REASON: &str = "recorded by a user";
/// Between two tries to store a file that could not be stored.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Where the recorders of this machine write, below the shelf of a store.
#[must_use]
pub fn own_traces_dir(store: &Path) -> PathBuf {
    traces_dir(store).join("own")
}

/// The flight recorder, as far as requests are concerned.
#[derive(Debug)]
pub(crate) struct OwnFlight {
    pub(crate) requests: Arc<TraceRequests>,
    pub(crate) length: Duration,
}

/// What became of a recording.
#[derive(Debug, Default)]
enum Outcome {
    #[default]
    None,
    /// Its file waits; for what, if it was tried.
    Storing(PathBuf, String),
    Stored(i64),
    Failed(String),
}

/// The recorders of this machine, as frontends and the shelf's thread see them.
#[derive(Debug)]
pub(crate) struct OwnTraces {
    host: HostId,
    dir: PathBuf,
    /// Or why nothing is recorded on request.
    recorder: Result<OnDemandRecorder, String>,
    flight: Option<OwnFlight>,
    outcome: Mutex<Outcome>,
    /// Each recording makes others go once the shelf is full.
    rate: Mutex<Bucket>,
}

impl OwnTraces {
    pub(crate) fn new(
        host: HostId,
        dir: PathBuf,
        recorder: Result<OnDemandRecorder, String>,
        flight: Option<OwnFlight>,
    ) -> Self {
        Self {
            host,
            dir,
            recorder,
            flight,
            outcome: Mutex::default(),
            rate: Mutex::new(Bucket::new(RECORDINGS)),
        }
    }

    pub(crate) fn host(&self) -> HostId {
        self.host
    }

    fn lock(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a recording, and waits until it records.
    pub(crate) fn record(&self, length: Duration) -> Result<(), String> {
        let recorder = self.recorder.as_ref().map_err(Clone::clone)?;
        if let Outcome::Storing(..) = &*self.lock() {
            return Err("the last recording is not stored yet".to_owned());
        }
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.take(mono_ns()).map_err(|_| "too many recordings within an hour: ask again later".to_owned())?;
        drop(rate);
        recorder.record(length, REASON).map_err(|error| with_causes(&error))?;
        *self.lock() = Outcome::None;
        Ok(())
    }

    /// Ends the recording under way.
    pub(crate) fn stop(&self) -> bool {
        self.recorder.as_ref().is_ok_and(OnDemandRecorder::stop)
    }

    /// Asks the flight recorder for the last seconds.
    pub(crate) fn take(&self) -> Result<(), AskError> {
        let flight = self.flight.as_ref().ok_or(AskError::NotHere)?;
        match flight.requests.ask() {
            TraceAnswer::Writing => Ok(()),
            _ => Err(AskError::TooSoon),
        }
    }

    pub(crate) fn sources(&self) -> TraceSources {
        TraceSources {
            can_record: self.recorder.is_ok(),
            can_take: self.flight.is_some(),
            last_seconds: self.flight.as_ref().map(|flight| flight.length.as_secs_f64()),
            how: self.recorder.as_ref().err().cloned().unwrap_or_default(),
            recording: self.recording(),
        }
    }

    fn recording(&self) -> Option<Recording> {
        // First: while this is held, a complete file does not become a stored one.
        let outcome = self.lock();
        let progress = self.recorder.as_ref().ok()?.progress();
        let (state, trace, detail) = match (progress.phase, &*outcome) {
            (RecordingPhase::None, _) => return None,
            (RecordingPhase::Recording, _) => (RecordingState::Recording, None, String::new()),
            (RecordingPhase::Failed(why), _) => (RecordingState::Failed, None, why),
            (_, Outcome::Failed(why)) => (RecordingState::Failed, None, why.clone()),
            (_, Outcome::Stored(id)) => (RecordingState::Stored, Some(*id), String::new()),
            (_, Outcome::Storing(_, why)) => (RecordingState::Storing, None, why.clone()),
            (_, Outcome::None) => (RecordingState::Storing, None, String::new()),
        };
        let left_ms = u64::try_from(progress.left.as_millis()).unwrap_or(u64::MAX);
        let (number, events, lost, bytes) = (progress.number, progress.events, progress.lost, progress.bytes);
        Some(Recording { number, state, left_ms, events, lost, bytes, trace, detail })
    }
}

/// Brings complete files to the shelf; runs on its thread.
pub(super) struct Intake {
    own: Arc<OwnTraces>,
    /// When to check the directory next by itself; what a former start left is there at once.
    next: Option<Instant>,
}

impl Intake {
    pub(super) fn new(own: Arc<OwnTraces>) -> Self {
        Self { own, next: Some(Instant::now()) }
    }

    /// Stores what has become complete.
    pub(super) fn work(&mut self, storage: &mut Storage) {
        let recorded = self.own.recorder.as_ref().ok().and_then(OnDemandRecorder::take_complete);
        let is_recorded = recorded.is_some();
        if let Some((path, _)) = recorded {
            *self.own.lock() = Outcome::Storing(path, String::new());
        }
        let is_new = self.own.flight.as_ref().is_some_and(|flight| flight.requests.take_new());
        if is_recorded || is_new || self.next.is_some_and(|at| at <= Instant::now()) {
            self.next = self.store_all(storage).then(|| Instant::now() + RETRY_AFTER);
        }
    }

    /// True: some of it must be tried again.
    fn store_all(&self, storage: &mut Storage) -> bool {
        let mut files = Attachments::new(self.own.dir.clone());
        let mut is_left = false;
        while let Some(path) = files.next() {
            let taken = storage.take_in_own(self.own.host, &path, Attachments::why(&path));
            let outcome = match taken {
                Ok(id) => Outcome::Stored(id),
                Err(Unstored::Refused(why)) => Outcome::Failed(why),
                Err(Unstored::Later(why)) => Outcome::Storing(path.clone(), why),
            };
            if let Outcome::Storing(..) = outcome {
                is_left = true;
                files.refuse(path.clone());
            } else if let Err(error) = attachments::remove(&path) {
                log::warn!("cannot delete {}: {error}", path.display());
                files.refuse(path.clone());
            }
            let mut shown = self.own.lock();
            if matches!(&*shown, Outcome::Storing(own, _) if *own == path) {
                *shown = outcome;
            } else if let Outcome::Failed(why) = outcome {
                log::warn!("a trace of this machine is not stored: {why}");
            }
        }
        is_left
    }
}
