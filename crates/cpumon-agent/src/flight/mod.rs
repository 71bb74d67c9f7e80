//! The flight recorder keeps the last seconds of all context switches in memory, and writes them to a directory when a rule is met, SIGUSR1
//! arrives or a receiver asks. It records in a thread of its own. [`FlightArgs`] are its options on the command line.

mod ring;
mod rule;
mod window_files;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Args;
use cpumon_collect::{RetainedCapabilities, TraceRecorderOptions, now, parse_interval};
use cpumon_files::LockFile;
use cpumon_link::attachments::{self, TraceRequests, Why, part_of};
use cpumon_model::{HostInfo, Interval, Probes, with_causes};
use cpumon_trace::{Compression, WindowLimits, WriteError};
pub use ring::FlightDisk;
use ring::{DiskRing, DiskWork};
use rule::Rules;
pub use rule::{FlightRule, ParseFlightRuleError};
use window_files::windows_in;

use crate::error::{FlagsError, FlightError};
use crate::platform::{HAS_BPF, hurry, on_window_signal};
use crate::recording::{RecordingOutput, SwitchRecording, attachment_in, confine_recorder, trace_header};

/// Time after the moment that a window includes.
const AFTER: Duration = Duration::from_secs(1);
/// A window by a rule is followed by no other for this time, or for the time that a window holds if that is longer.
const PAUSE: Duration = Duration::from_mins(1);
/// Fast, and of windows that are mostly thrown away.
const ZSTD_LEVEL: i32 = 1;

/// Length and memory of the flight recorder, and its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlightSettings {
    pub length: Duration,
    /// Memory for it, bytes.
    pub memory: u64,
    /// Directory of the windows.
    pub dir: PathBuf,
    /// Windows in it; the oldest are deleted.
    pub files: u32,
    pub rules: Vec<FlightRule>,
    /// Limits on disk, to keep the time there; memory then has only the unwritten part.
    pub disk: Option<FlightDisk>,
}

impl FlightSettings {
    /// The time that a window has.
    fn window(&self) -> Duration {
        self.disk.map_or(self.length, |disk| disk.window)
    }
}

/// Flags for the memory of the flight recorder and its rules.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Flight recorder")]
pub struct FlightArgs {
    /// Keep the context switches of the last TIME in memory (needs permission to use BPF); SIGUSR1, a rule or a request writes them as a
    /// trace, together with the second after it. `cpumon trace report FILE` reads it
    #[arg(long, hide = !HAS_BPF, value_name = "TIME", env = "CPUMON_FLIGHT_RECORDER", value_parser = flight_length)]
    pub flight_recorder: Option<Duration>,

    /// Memory for the context switches, 1MB or more; what does not fit is dropped, the oldest first
    #[arg(long, hide = !HAS_BPF, value_name = "SIZE", env = "CPUMON_FLIGHT_MEMORY", default_value = "64MB", value_parser = flight_bytes, requires = "flight_recorder")]
    pub flight_memory: u64,

    /// Write a trace when this is true, once a minute at most; may be repeated. `cpu>90%/5s`: all CPUs together, for 5 s.
    /// `process>90%/5s`: any single process, in % of one CPU. `program:NAME>150%/10s`: all processes with this executable or short name together; `container:NAME>…` and `service:NAME>…`: those of a container or service, named as in `cpumon report`. `delay>20ms`: a single run delay (needs --probes sched). `p99>5ms/10s`: the 99th percentile of all run delays (needs --probes hist).
    /// `unattributed>2%/5s`: the ledger does not balance
    #[arg(
        long,
        hide = !HAS_BPF,
        value_name = "RULE",
        env = "CPUMON_FLIGHT_WHEN",
        value_delimiter = ',',
        requires = "flight_recorder"
    )]
    pub flight_when: Vec<FlightRule>,
}

impl FlightArgs {
    /// Checks that the values of the rules are measured.
    ///
    /// # Errors
    /// A rule needs another probe than these.
    pub fn check(&self, probes: Probes) -> Result<(), FlagsError> {
        let needed = self.flight_when.iter().map(FlightRule::needs).fold(Probes::empty(), Probes::union);
        if probes.contains(needed) { Ok(()) } else { Err(FlagsError::RuleWithoutProbe) }
    }

    /// The requested settings, in memory, with windows in `dir`; `None`: no flight recorder.
    pub fn settings(&self, dir: PathBuf, files: u32) -> Option<FlightSettings> {
        let (length, memory, rules) = (self.flight_recorder?, self.flight_memory, self.flight_when.clone());
        Some(FlightSettings { length, memory, dir, files, rules, disk: None })
    }
}

/// Longer than any window that memory holds, and short enough to be counted in ns.
pub(crate) fn flight_length(text: &str) -> Result<Duration, String> {
    let length = parse_interval(text).map_err(|error| error.to_string())?;
    if length < Duration::from_secs(1) { Err("the shortest time is 1s".to_owned()) } else { Ok(length) }
}

pub(crate) fn flight_bytes(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 1_000_000;
    let bytes = crate::size(text)?;
    if bytes < LEAST { Err("the smallest size is 1MB".to_owned()) } else { Ok(bytes) }
}

struct SharedFlight {
    stop: AtomicBool,
    /// Reason of the window that a rule requests; `None`: no request.
    wanted: Mutex<Option<String>>,
    signalled: Arc<AtomicBool>,
    requests: Arc<TraceRequests>,
}

impl SharedFlight {
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
    shared: Arc<SharedFlight>,
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
        let shared = Arc::new(SharedFlight {
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
    pub fn requests(&self) -> Arc<TraceRequests> {
        Arc::clone(&self.shared.requests)
    }

    /// Requests a window if a rule is met.
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

/// What the thread does beside reading.
struct FlightWindows<'s> {
    settings: &'s FlightSettings,
    requests: Arc<TraceRequests>,
    /// As of the last window.
    lost: u64,
    /// Segments on disk; `None`: all events are in memory.
    ring: Option<DiskRing>,
    /// The copy that is being written: its name when it is complete, and why.
    copied: Option<(PathBuf, Why)>,
    work: DiskWork,
}

/// The thread. `opened`: whether it records, and in which sandbox.
fn record(
    shared: &SharedFlight,
    settings: &FlightSettings,
    info: &HostInfo,
    confine: &dyn Fn() -> String,
    opened: &Sender<Result<String, FlightError>>,
) {
    hurry();
    let (mut recording, mut windows) = match FlightWindows::open(settings, info, &shared.requests) {
        Ok(open) => open,
        Err(error) => {
            let _ = opened.send(Err(error));
            return;
        }
    };
    let _ = opened.send(Ok(confine()));
    // Why, and from when on.
    let mut wanted: Option<(Why, Instant)> = None;
    while !shared.stop.load(Ordering::Relaxed) {
        recording.wait(Duration::MAX);
        if let Some(reason) = shared.take_reason()
            && wanted.is_none()
        {
            wanted = Some((Why { wall_ns: now().wall_ns, reason }, Instant::now() + AFTER));
        }
        let is_free = windows.copied.is_none();
        let due = wanted.take_if(|(_, at)| is_free && *at <= Instant::now());
        if let Err(error) = recording.pass::<FlightError>(due.is_some()) {
            log::warn!("the flight recorder ends: {}", with_causes(&error));
            return;
        }
        windows.pass(&mut recording, due.map(|(why, _)| why));
    }
}

impl<'s> FlightWindows<'s> {
    fn open(
        settings: &'s FlightSettings,
        info: &HostInfo,
        requests: &Arc<TraceRequests>,
    ) -> Result<(SwitchRecording, Self), FlightError> {
        let mut ring = None;
        let recording = SwitchRecording::open(TraceRecorderOptions::default(), |began| {
            let (dir, disk) = (&settings.dir, settings.disk);
            let open = disk.map(|disk| DiskRing::open(dir, disk, settings.length, began.mono_ns));
            ring = open.transpose()?;
            // Events written to segments leave memory.
            let length_ns = u64::try_from(settings.length.as_nanos()).unwrap_or(u64::MAX);
            let bytes = usize::try_from(settings.memory).unwrap_or(usize::MAX);
            let (limits, packed) = (WindowLimits { length_ns, bytes }, Compression::Zstd(ZSTD_LEVEL));
            Ok::<_, FlightError>(RecordingOutput::window(trace_header(info, began), limits, packed)?)
        })?;
        let requests = Arc::clone(requests);
        Ok((recording, Self { settings, requests, lost: 0, ring, copied: None, work: DiskWork::default() }))
    }

    /// After the ring buffers were read. `due`: why a window is to be written now.
    fn pass(&mut self, recording: &mut SwitchRecording, due: Option<Why>) {
        if let (Some(ring), Some(window)) = (&mut self.ring, recording.window())
            && ring.write(window)
        {
            recording.hasten();
        }
        if let Some(why) = due
            && let Err(error) = self.begin(recording, why)
        {
            log::warn!("flight recorder: the window was not written: {}", with_causes(&error));
        }
        match recording.copy_part() {
            Ok(None) => {}
            Ok(Some((counts, _))) => {
                let Some((path, why)) = self.copied.take() else { return };
                let lost = recording.lost();
                let (shown, events, kb) = (path.display(), counts.events, counts.bytes / 1_000);
                let lost_since = lost - std::mem::replace(&mut self.lost, lost);
                log::info!(
                    "flight recorder: {shown} has {events} events in {kb} kB; {lost_since} lost since the last window"
                );
                let requests = Arc::clone(&self.requests);
                self.work.spawn(move || match attachments::complete(&path, &why) {
                    Ok(()) => requests.notify_new(),
                    Err(error) => {
                        log::warn!("flight recorder: {} is not complete: {error}", path.display());
                    }
                });
            }
            Err(error) => {
                self.copied = None;
                log::warn!("flight recorder: the window was not written: {}", with_causes(&error));
            }
        }
    }

    fn begin(&mut self, recording: &mut SwitchRecording, why: Why) -> io::Result<()> {
        let path = attachment_in(&self.settings.dir);
        log::info!("flight recorder: {}; writing {}", why.reason, path.display());
        let made = make_space(&self.settings.dir, self.settings.files);
        if let (Some(ring), Some(window)) = (&mut self.ring, recording.window()) {
            let made = made.map_err(|error| WriteError { operation: "delete the oldest window", error });
            let saved = made.and_then(|()| ring.save(window, path, why, &self.requests));
            return saved.map_err(io::Error::other);
        }
        made.and_then(|()| recording.begin_copy(part_of(&path)))?;
        self.copied = Some((path, why));
        Ok(())
    }
}

/// Deletes the oldest windows, so that one more fits.
fn make_space(dir: &Path, files: u32) -> io::Result<()> {
    let windows = windows_in(dir)?;
    if let Some(warning) = windows.warning(dir) {
        log::warn!("flight recorder: {warning}");
    }
    let windows = windows.files;
    let most = usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(1);
    let surplus = windows.len().saturating_sub(most);
    windows.into_iter().take(surplus).try_for_each(|(path, _)| attachments::remove(&path))
}
