//! The flight recorder: the last seconds of all context switches stay in memory, and are written to a directory when a rule is met,
//! SIGUSR1 comes or a receiver asks for it. It records in a thread of its own.

mod args;
mod ring;
mod rule;
mod window_file;

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use args::{FlightArgs, FlightSettings};
pub(crate) use args::{flight_bytes, flight_length};
use cpumon_collect::{
    AllowedPaths, RetainedCapabilities, TraceRecorder, TraceRecorderOptions, TraceSink, confine_files,
    drop_capabilities, now,
};
use cpumon_files::LockFile;
use cpumon_link::attachments::{self, PREFIX, SUFFIX, TraceRequests, Why, is_attachment, part_of};
use cpumon_model::{HostInfo, Interval, Moment, SourceKind};
use cpumon_trace::{Compression, FileHeader, WindowLimits, WriteError};
use ring::DiskRing;
pub use ring::FlightDisk;
use rule::Rules;
pub use rule::{FlightRule, ParseFlightRuleError};
pub(crate) use window_file::stamp;
pub use window_file::{FlightError, WindowFile};

use crate::platform::{hurry, on_window_signal};

/// Time after the moment that a window includes.
const AFTER: Duration = Duration::from_secs(1);
/// A window by a rule is followed by no other for this time, or for the time that a window holds if that is longer.
const PAUSE: Duration = Duration::from_mins(1);
/// Windows begin and end at most this long before or after the time that was asked for.
pub const SYNC_EVERY: Duration = Duration::from_millis(250);
/// A probe that read the clock has submitted its record after this: it runs without pause, except that a hypervisor may stop its CPU.
pub const SUBMITTED_AFTER_NS: u64 = 10_000_000;
/// Fast, and of windows that are mostly thrown away.
const ZSTD_LEVEL: i32 = 1;

/// How long to wait between two passes over the ring buffers: shorter the fuller they were.
#[derive(Debug)]
pub struct DrainPace(Duration);

impl Default for DrainPace {
    fn default() -> Self {
        Self(Self::LONGEST / 5)
    }
}

impl DrainPace {
    /// Between two passes while little happens.
    const LONGEST: Duration = Duration::from_millis(50);
    const SHORTEST: Duration = Duration::from_millis(1);
    /// How full a buffer may be before passes come more often.
    const BUSY_FILL: f64 = 0.2;

    /// The time to the next pass.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.0
    }

    /// After a pass that found the fullest buffer this full, 0 to 1.
    pub fn passed(&mut self, fill: f64) {
        let next = if fill > Self::BUSY_FILL { self.0 / 2 } else { self.0 * 5 / 4 };
        self.0 = next.clamp(Self::SHORTEST, Self::LONGEST);
    }

    /// Called while a copy is being written, which continues between the passes.
    pub fn hasten(&mut self) {
        self.0 = Self::SHORTEST;
    }
}

/// State that the threads share.
struct Shared {
    stop: AtomicBool,
    /// Why a window is to be written.
    wanted: Mutex<Option<String>>,
    signalled: Arc<AtomicBool>,
    requests: Arc<TraceRequests>,
}

impl Shared {
    fn take_reason(&self) -> Option<String> {
        let by_signal = self.signalled.swap(false, Ordering::Relaxed);
        let by_rule = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).take();
        let by_request = self.requests.take();
        by_rule
            .or_else(|| by_signal.then(|| "SIGUSR1".to_owned()))
            .or_else(|| by_request.then(|| "request".to_owned()))
    }
}

/// A flight recorder under way. Dropping it ends it.
pub struct Flight {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    rules: Rules,
    pause: Duration,
    /// Two recorders would delete each other's files.
    _lock: LockFile,
}

impl Flight {
    /// Begins to record. Needs the rights of the BPF source, which its thread then gives up. `keeps_files`: the directory may belong to another
    /// user.
    ///
    /// # Errors
    /// The directory cannot be made, or context switches cannot be recorded here.
    pub fn open(settings: &FlightSettings, info: &HostInfo, keeps_files: bool) -> Result<Self, FlightError> {
        let made = cpumon_files::create_dir(&settings.dir);
        made.map_err(|error| FlightError::Dir { dir: settings.dir.display().to_string(), error })?;
        let lock = attachments::lock(&settings.dir).map_err(|error| FlightError::Dir {
            dir: settings.dir.display().to_string(),
            error: io::Error::other(error),
        })?;
        if let Err(error) = attachments::remove_parts(&settings.dir) {
            log::warn!("cannot clean up {}: {error}", settings.dir.display());
        }
        let pause = PAUSE.max(settings.window());
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            wanted: Mutex::default(),
            signalled: Arc::default(),
            requests: Arc::new(TraceRequests::new(pause)),
        });
        on_window_signal(&shared.signalled).map_err(FlightError::Start)?;
        let (opened, result) = channel();
        let thread = std::thread::Builder::new()
            .name("flight".to_owned())
            .spawn({
                let (shared, settings, info) = (Arc::clone(&shared), settings.clone(), info.clone());
                move || {
                    // The programs are loaded.
                    let keep = RetainedCapabilities { names: false, files: keeps_files, probes: false };
                    let confine = || confine_recorder("flight recorder", &settings.dir, keep);
                    record(&shared, &settings, &info, &confine, &opened);
                }
            })
            .map_err(FlightError::Start)?;
        let started = result.recv().map_err(|_| FlightError::Start(io::Error::other("its thread ended")))?;
        log::debug!("flight recorder: {}", started?);
        Ok(Self { shared, thread: Some(thread), rules: Rules::new(&settings.rules), pause, _lock: lock })
    }

    /// Through which a receiver asks for windows, and learns of new ones.
    #[must_use]
    pub fn requests(&self) -> Arc<TraceRequests> {
        Arc::clone(&self.shared.requests)
    }

    /// Writes a window if a rule is met.
    pub fn check(&mut self, interval: &Interval) {
        if let Some(reason) = self.rules.check(interval, self.pause) {
            *self.shared.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread loses only its windows.
            let _ = thread.join();
        }
    }
}

/// Recorder and window of the thread.
struct Recording<'s> {
    recorder: TraceRecorder,
    window: Rc<RefCell<WindowFile>>,
    settings: &'s FlightSettings,
    requests: Arc<TraceRequests>,
    lost: u64,
    /// Where all is kept, if not in memory.
    ring: Option<DiskRing>,
    /// The copy that is being written: its name when it is complete, and why.
    copied: Option<(PathBuf, Why)>,
    /// Waits for the disk, which must not delay the next pass.
    completion: Option<JoinHandle<()>>,
}

/// The thread. `opened`: whether it records, and in which sandbox.
fn record(
    shared: &Shared,
    settings: &FlightSettings,
    info: &HostInfo,
    confine: &dyn Fn() -> String,
    opened: &Sender<Result<String, FlightError>>,
) {
    hurry();
    let mut recording = match Recording::open(settings, info, &shared.requests) {
        Ok(recording) => recording,
        Err(error) => {
            let _ = opened.send(Err(error));
            return;
        }
    };
    let _ = opened.send(Ok(confine()));
    let mut pace = DrainPace::default();
    let mut synced = Instant::now();
    // Why, and from when on.
    let mut wanted: Option<(Why, Instant)> = None;
    while !shared.stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(pace.wait());
        if let Some(reason) = shared.take_reason()
            && wanted.is_none()
        {
            wanted = Some((Why { wall_ns: now().wall_ns, reason }, Instant::now() + AFTER));
        }
        let is_free = recording.copied.is_none();
        let due = wanted.take_if(|(_, at)| is_free && *at <= Instant::now());
        if let Err(error) = recording.pass(&mut pace, &mut synced, due.is_some()) {
            log::warn!("the flight recorder ends: {error}");
            return;
        }
        if let Some((why, _)) = due {
            recording.begin(why);
        }
        recording.go_on();
    }
}

impl<'s> Recording<'s> {
    fn open(
        settings: &'s FlightSettings,
        info: &HostInfo,
        requests: &Arc<TraceRequests>,
    ) -> Result<Self, FlightError> {
        let began = now();
        let disk = settings.disk;
        let ring = disk.map(|disk| DiskRing::open(&settings.dir, disk, settings.length, began.mono_ns));
        let ring = ring.transpose()?;
        // Events in segments leave memory.
        let length_ns = u64::try_from(settings.length.as_nanos()).unwrap_or(u64::MAX);
        let limits =
            WindowLimits { length_ns, bytes: usize::try_from(settings.memory).unwrap_or(usize::MAX) };
        let window = WindowFile::new(trace_header(info, began), limits, Compression::Zstd(ZSTD_LEVEL))?;
        let window = Rc::new(RefCell::new(window));
        let sink: Rc<RefCell<dyn TraceSink>> = Rc::<RefCell<WindowFile>>::clone(&window);
        let recorder = TraceRecorder::open(TraceRecorderOptions::default(), sink)?;
        let requests = Arc::clone(requests);
        Ok(Self { recorder, window, settings, requests, lost: 0, ring, copied: None, completion: None })
    }

    /// Empties the ring buffers, and closes a period if it is time, or `is_due`.
    fn pass(&mut self, pace: &mut DrainPace, synced: &mut Instant, is_due: bool) -> Result<(), FlightError> {
        let before_ns = now().mono_ns.saturating_sub(SUBMITTED_AFTER_NS);
        pace.passed(self.recorder.drain()?);
        if is_due || synced.elapsed() >= SYNC_EVERY {
            *synced = Instant::now();
            self.window.borrow_mut().sync(before_ns, self.recorder.lost())?;
        }
        let is_more =
            self.ring.as_mut().is_some_and(|ring| ring.write(self.window.borrow_mut().window_mut()));
        if is_more || self.window.borrow().is_copying() {
            pace.hasten();
        }
        Ok(())
    }

    fn begin(&mut self, why: Why) {
        let path = self.settings.dir.join(format!("{PREFIX}{}{SUFFIX}", stamp(now().wall_ns)));
        log::info!("flight recorder: {}; writing {}", why.reason, path.display());
        if let Some(ring) = &mut self.ring {
            let saved = make_space(&self.settings.dir, self.settings.files)
                .map_err(|error| WriteError { operation: "delete the oldest window", error })
                .and_then(|()| ring.save(self.window.borrow_mut().window_mut(), path, why, &self.requests));
            if let Err(error) = saved {
                log::warn!("flight recorder: the window was not written: {error}");
            }
            return;
        }
        let made = make_space(&self.settings.dir, self.settings.files)
            .and_then(|()| self.window.borrow_mut().begin_copy(part_of(&path)));
        match made {
            Ok(()) => self.copied = Some((path, why)),
            Err(error) => log::warn!("flight recorder: the window was not written: {error}"),
        }
    }

    fn go_on(&mut self) {
        let done = self.window.borrow_mut().copy_part();
        match done {
            Ok(None) => {}
            Ok(Some((counts, _))) => {
                let Some((path, why)) = self.copied.take() else { return };
                let lost = self.recorder.lost();
                let (shown, events, kb) = (path.display(), counts.events, counts.bytes / 1_000);
                let lost_since = lost - std::mem::replace(&mut self.lost, lost);
                log::info!(
                    "flight recorder: {shown} has {events} events in {kb} kB; {lost_since} lost since the last window"
                );
                self.complete(path, why);
            }
            Err(error) => {
                self.copied = None;
                log::warn!("flight recorder: the window was not written: {error}");
            }
        }
    }

    /// Gives a copy its name once the disk has it, and notifies the thread that sends it.
    fn complete(&mut self, path: PathBuf, why: Why) {
        let requests = Arc::clone(&self.requests);
        let work = move || match attachments::complete(&path, &why) {
            Ok(()) => requests.notify_new(),
            Err(error) => log::warn!("flight recorder: {} is not complete: {error}", path.display()),
        };
        // The one before ended long ago: windows are seconds apart.
        match std::thread::Builder::new().name("flight-sync".to_owned()).spawn(work) {
            Ok(thread) => self.completion = Some(thread),
            Err(error) => log::warn!("flight recorder: the window was not written: {error}"),
        }
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if let Some(thread) = self.completion.take() {
            // A panic of the thread loses only its window.
            let _ = thread.join();
        }
    }
}

/// Deletes the oldest windows, so that one more fits.
fn make_space(dir: &Path, files: u32) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(is_attachment) {
            names.push(name);
        }
    }
    names.sort_unstable();
    let most = usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(1);
    let surplus = names.len().saturating_sub(most);
    names.into_iter().take(surplus).try_for_each(|name| attachments::remove(&dir.join(name)))
}

/// Drops the privileges that a recording thread does not need; it may write to one directory. `recorder`: its name.
/// Returns its restrictions in words.
pub(crate) fn confine_recorder(recorder: &str, dir: &Path, keep: RetainedCapabilities) -> String {
    if let Err(error) = drop_capabilities(SourceKind::Unknown, keep) {
        log::warn!("the {recorder} cannot give up capabilities: {error}");
    }
    let allowed = AllowedPaths { write: vec![dir.to_owned()], ..AllowedPaths::default() };
    confine_files(&allowed).unwrap_or_else(|error| {
        log::warn!("cannot restrict the files of the {recorder}: {error}");
        "no Landlock".to_owned()
    })
}

/// The header of a trace of this machine that begins at `began`.
pub(crate) fn trace_header(info: &HostInfo, began: Moment) -> FileHeader {
    FileHeader {
        boot: info.boot,
        began,
        cpus: u16::try_from(info.cpu_count).unwrap_or(u16::MAX),
        host: info.hostname.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_time_and_only_windows_are_deleted() {
        assert_eq!(stamp(1_397_122_696_966_668_000), "20140410T093816.966Z");
        let dir = tempfile::tempdir().unwrap();
        for name in ["flight-2.trace", "flight-10.trace", "flight-1.trace", "mine.trace", "flight-0.txt"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        make_space(dir.path(), 3).unwrap();
        let mut left: Vec<_> =
            dir.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["flight-0.txt", "flight-10.trace", "flight-2.trace", "mine.trace"]);
    }

    #[test]
    fn passes_come_more_often_while_buffers_fill() {
        let mut pace = DrainPace::default();
        for _ in 0..20 {
            pace.passed(0.0);
        }
        assert_eq!(pace.wait(), Duration::from_millis(50));
        for _ in 0..20 {
            pace.passed(0.5);
        }
        assert_eq!(pace.wait(), Duration::from_millis(1));
    }
}
