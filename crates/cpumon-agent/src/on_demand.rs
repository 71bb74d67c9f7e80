//! [`OnDemandRecorder`]: records every context switch of this machine for some seconds when a user asks for it. Nothing is loaded until then.
//! Its thread keeps the rights of the BPF source, takes no input but a length, and may write to one directory only.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cpumon_collect::{CollectError, RetainedCapabilities, TraceRecorderOptions, now};
use cpumon_link::attachments::{self, Why, part_of};
use cpumon_model::{HostInfo, with_causes};
use cpumon_trace::{Compression, WriteError};

use crate::platform::hurry;
use crate::recording::{RecordingOutput, SwitchRecording, attachment_in, confine_recorder, trace_header};

pub const LONGEST_RECORDING: Duration = Duration::from_mins(1);
const SHORTEST: Duration = Duration::from_secs(1);
const ZSTD_LEVEL: i32 = 3;
/// How long loading the programs may take on a busy machine before a user is not kept waiting for the answer any longer.
const OPEN_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    #[error("a recording is under way; it ends in {} s", left.as_secs() + 1)]
    Busy { left: Duration },
    #[error("a recording takes 1 to {} s", LONGEST_RECORDING.as_secs())]
    Length,
    #[error("cannot record context switches")]
    Collect(#[from] CollectError),
    #[error("cannot write the trace")]
    Write(#[from] WriteError),
    /// The file or the thread cannot be made.
    #[error("cannot write the trace")]
    File(#[from] io::Error),
    #[error("the recorder does not answer")]
    Silent,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RecordingPhase {
    /// Nothing was recorded since the start.
    #[default]
    None,
    Recording,
    /// Complete: [`OnDemandRecorder::take_complete`] returns the file.
    Complete,
    /// The recording ended early, for this reason.
    Failed(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingProgress {
    /// Counts recordings, from 1.
    pub number: u64,
    pub phase: RecordingPhase,
    pub left: Duration,
    pub events: u64,
    /// Events that did not fit in the buffers.
    pub lost: u64,
    pub bytes: u64,
}

#[derive(Default)]
struct RecorderState {
    progress: RecordingProgress,
    end: Option<Instant>,
    complete: Option<(PathBuf, Why)>,
}

struct SharedRecorder {
    dir: PathBuf,
    info: HostInfo,
    /// A recording ends when its file exceeds this.
    max_bytes: u64,
    state: Mutex<RecorderState>,
    /// Ends the recording that is under way.
    stop: AtomicBool,
}

struct RecordingJob {
    length: Duration,
    reason: String,
    opened: Sender<Result<(), RecordError>>,
}

/// See the module. Dropping it ends a recording that is under way, which is complete then.
pub struct OnDemandRecorder {
    shared: Arc<SharedRecorder>,
    jobs: Mutex<Option<Sender<RecordingJob>>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for OnDemandRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnDemandRecorder").field("dir", &self.shared.dir).finish_non_exhaustive()
    }
}

impl OnDemandRecorder {
    /// Starts the thread, which waits. Call it while the rights are there. `keeps_files`: the directory may belong to another user.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(dir: &Path, info: &HostInfo, max_bytes: u64, keeps_files: bool) -> io::Result<Self> {
        let shared = Arc::new(SharedRecorder {
            dir: dir.to_owned(),
            info: info.clone(),
            max_bytes,
            state: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let (sender, jobs) = channel();
        let (ready, is_ready) = channel();
        let thread = std::thread::Builder::new().name("record".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                // While the priority may be raised, and before there is a filter of system calls.
                hurry();
                // Not as an argument of the log line, which is not evaluated at other levels.
                // The thread loads and attaches programs whenever a user asks, so it keeps the rights to.
                let keep = RetainedCapabilities { names: false, files: keeps_files, probes: true };
                let domain = confine_recorder("recorder", &shared.dir, keep);
                log::debug!("recordings on request: {domain}");
                let _ = ready.send(());
                work(&shared, &jobs);
            }
        })?;
        // The caller gives up its own rights next; a filter for all threads must not hit this one half way.
        let _ = is_ready.recv();
        Ok(Self { shared, jobs: Mutex::new(Some(sender)), thread: Some(thread) })
    }

    /// Begins a recording, and waits until it records.
    ///
    /// # Errors
    /// One is under way, the length is out of range, or the system refuses it.
    pub fn record(&self, length: Duration, reason: &str) -> Result<(), RecordError> {
        if !(SHORTEST..=LONGEST_RECORDING).contains(&length) {
            return Err(RecordError::Length);
        }
        let (opened, result) = channel();
        {
            let mut state = self.shared.lock();
            if state.progress.phase == RecordingPhase::Recording {
                return Err(RecordError::Busy { left: state.left() });
            }
            self.shared.stop.store(false, Ordering::Relaxed);
            state.progress = RecordingProgress {
                number: state.progress.number + 1,
                phase: RecordingPhase::Recording,
                left: length,
                ..RecordingProgress::default()
            };
            state.end = None;
        }
        let job = RecordingJob { length, reason: reason.to_owned(), opened };
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        drop(jobs);
        if !sent {
            return Err(RecordError::Silent);
        }
        result.recv_timeout(OPEN_LIMIT).unwrap_or(Err(RecordError::Silent))
    }

    /// Ends the recording under way, which is complete then. False: there is none.
    pub fn stop(&self) -> bool {
        let is_recording = self.shared.lock().progress.phase == RecordingPhase::Recording;
        if is_recording {
            self.shared.stop.store(true, Ordering::Relaxed);
            if let Some(thread) = &self.thread {
                thread.thread().unpark();
            }
        }
        is_recording
    }

    pub fn progress(&self) -> RecordingProgress {
        let state = self.shared.lock();
        RecordingProgress { left: state.left(), ..state.progress.clone() }
    }

    /// The file of a complete recording and its reason, once.
    pub fn take_complete(&self) -> Option<(PathBuf, Why)> {
        self.shared.lock().complete.take()
    }
}

impl Drop for OnDemandRecorder {
    fn drop(&mut self) {
        self.stop();
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread loses only its recording.
            let _ = thread.join();
        }
    }
}

impl RecorderState {
    fn left(&self) -> Duration {
        match (&self.progress.phase, self.end) {
            (RecordingPhase::Recording, Some(end)) => end.saturating_duration_since(Instant::now()),
            (RecordingPhase::Recording, None) => self.progress.left,
            _ => Duration::ZERO,
        }
    }
}

impl SharedRecorder {
    fn lock(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, recording: &SwitchRecording) {
        let (counts, mut state) = (recording.counts(), self.lock());
        (state.progress.events, state.progress.bytes) = (counts.events, counts.bytes);
        state.progress.lost = recording.lost();
    }
}

fn work(shared: &SharedRecorder, jobs: &Receiver<RecordingJob>) {
    while let Ok(job) = jobs.recv() {
        let path = attachment_in(&shared.dir);
        let recorded = open(shared, &part_of(&path)).map_err(|error| {
            let text = with_causes(&error);
            let _ = job.opened.send(Err(error));
            text
        });
        let recorded = recorded.and_then(|recording| {
            let why = Why { wall_ns: now().wall_ns, reason: job.reason };
            shared.lock().end = Some(Instant::now() + job.length);
            let _ = job.opened.send(Ok(()));
            let recorded = record(recording, shared).and_then(|()| Ok(attachments::complete(&path, &why)?));
            recorded.map(|()| why).map_err(|error: RecordError| with_causes(&error))
        });
        let mut state = shared.lock();
        match recorded {
            Ok(why) => {
                state.progress.phase = RecordingPhase::Complete;
                state.complete = Some((path, why));
            }
            Err(text) => {
                log::warn!("a recording failed: {text}");
                state.progress.phase = RecordingPhase::Failed(text);
                // Without its end the file is useless beside the message.
                let _ = std::fs::remove_file(part_of(&path));
            }
        }
    }
}

fn open(shared: &SharedRecorder, part: &Path) -> Result<SwitchRecording, RecordError> {
    SwitchRecording::open(TraceRecorderOptions::default(), |began| {
        let (file, header) = (cpumon_files::create_new(part)?, trace_header(&shared.info, began));
        Ok(RecordingOutput::file(file, &header, Compression::Zstd(ZSTD_LEVEL))?)
    })
}

/// Reads until the time is over, a user stops it or the file is too long, and writes the end.
fn record(mut recording: SwitchRecording, shared: &SharedRecorder) -> Result<(), RecordError> {
    loop {
        let left = shared.lock().left();
        recording.wait(left);
        if recording.pass::<RecordError>(false)? {
            shared.report(&recording);
        }
        let is_long = recording.counts().bytes >= shared.max_bytes;
        if left.is_zero() || is_long || shared.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    recording.finish::<RecordError>()?;
    shared.report(&recording);
    Ok(())
}
