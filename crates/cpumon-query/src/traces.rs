//! Traces and their timelines: [`Traces`] says where the files are, [`Timelines`] reads them into memory, a few at a time.

mod answers;

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cpumon_store::trace_file;

use cpumon_trace::TraceSource;

pub use answers::{
    TraceDelays, TraceHead, TraceLedger, TraceSums, TraceThreadPage, TraceThreadRow, TraceThreads,
};
// They are what timelines answer with: a frontend needs no reader of traces.
pub use cpumon_trace::{
    Behind, Buckets, CpuWho, Delay, Delays, Overload, ReadError, ThreadRow, ThreadState, ThreadTotals,
    Timeline, TimelineLimits, TraceBehind, TraceCpuTrack, TraceInput, TraceOverview, TraceRange, TraceReason,
    TraceShare, TraceSlice, TraceThread, TraceThreadTrack, TraceTracks, TraceWait, TraceWoken, WindowSums,
};
pub use cpumon_trace_import::AnyTrace;

/// Memory of one timeline, unless set otherwise: about 20 million events.
pub const TIMELINE_BYTES: usize = 800 << 20;
/// A timeline that no one asked for this long is given up.
const IDLE: Duration = Duration::from_mins(5);
/// Who waits for memory checks this often whether there is some, and whether anyone still waits for the answer.
const CHECK: Duration = Duration::from_millis(50);
const BUFFER_BYTES: usize = 1 << 20;
/// Names take a part of a timeline's memory besides while it is read.
const NAMES_SHARE: usize = 4;

/// Opens trace files by id.
pub trait Traces: fmt::Debug + Send + Sync {
    /// Opens a trace; `None`: there is none with this id, which may be any text.
    fn open(&self, id: &str) -> io::Result<Option<TraceInput>>;
}

/// The traces of devices beside a store: an id is the number that the store gave.
#[derive(Debug)]
pub struct StoredTraces {
    /// File of the store.
    pub store: PathBuf,
}

impl Traces for StoredTraces {
    fn open(&self, id: &str) -> io::Result<Option<TraceInput>> {
        let Ok(number) = id.parse() else { return Ok(None) };
        match File::open(trace_file(&self.store, number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(|file| Some(file.into())),
        }
    }
}

/// The bytes of a trace. Once its flag is set, reading fails.
#[derive(Debug)]
struct CancellableInput {
    input: TraceInput,
    cancelled: Arc<AtomicBool>,
}

impl CancellableInput {
    fn new(input: TraceInput, cancelled: &Arc<AtomicBool>) -> Self {
        Self { input, cancelled: Arc::clone(cancelled) }
    }
}

impl Read for CancellableInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancelled.load(Ordering::Relaxed) {
            // Not `Interrupted`: readers try that again.
            return Err(io::Error::other("cancelled"));
        }
        self.input.read(buffer)
    }
}

impl Seek for CancellableInput {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.input.seek(to)
    }
}

/// Why there is no timeline.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    /// No trace has this id.
    #[error("there is no such trace")]
    Unknown,
    /// The trace's file cannot be opened.
    #[error("cannot open the trace")]
    Open(#[from] io::Error),
    /// The reading was cancelled, because no client waits for it.
    #[error("cancelled")]
    Cancelled,
    /// The trace's file cannot be read as a trace.
    #[error(transparent)]
    Read(#[from] ReadError),
}

#[derive(Debug)]
enum TimelineState {
    /// One caller reads the trace; others wait for it.
    Reading,
    Read(Arc<Timeline>),
}

#[derive(Debug)]
struct TimelineEntry {
    id: Box<str>,
    from_ns: u64,
    used: Instant,
    state: TimelineState,
}

impl TimelineEntry {
    fn is(&self, id: &str, from_ns: u64) -> bool {
        &*self.id == id && self.from_ns == from_ns
    }

    /// Whether it is being read or used for an answer: its memory cannot be freed now.
    fn is_busy(&self) -> bool {
        match &self.state {
            TimelineState::Reading => true,
            // New references are made only while the entries are locked.
            TimelineState::Read(timeline) => Arc::strong_count(timeline) > 1,
        }
    }
}

/// Timelines in memory. All timelines together, including those being read and those in use, are no larger than two may be: a caller that
/// needs another one waits.
#[derive(Debug)]
pub struct Timelines {
    traces: Arc<dyn Traces>,
    /// Most memory of one timeline, bytes.
    bytes: usize,
    /// The one that was used last is in front.
    entries: Mutex<Vec<TimelineEntry>>,
    /// A timeline was read, or is not read after all.
    changed: Condvar,
}

impl Timelines {
    /// Timelines of these traces, each with at most this much memory.
    pub fn new(traces: Arc<dyn Traces>, bytes: usize) -> Self {
        Self { traces, bytes, entries: Mutex::default(), changed: Condvar::new() }
    }

    /// Opens a trace and reads its header. Reading fails once the flag is set.
    pub fn open(&self, id: &str, cancelled: &Arc<AtomicBool>) -> Result<AnyTrace<'static>, TimelineError> {
        let file = self.traces.open(id)?.ok_or(TimelineError::Unknown)?;
        let input = CancellableInput::new(file, cancelled);
        Ok(AnyTrace::open(BufReader::with_capacity(BUFFER_BYTES, input))?)
    }

    /// The timeline of a trace from this time after its begin on. Reads the file, if it is not in memory, until the flag is set.
    pub fn get(
        &self,
        id: &str,
        from_ns: u64,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<Arc<Timeline>, TimelineError> {
        let mut opened = None;
        let mut entries = self.lock();
        let (mut trace, reading) = loop {
            if cancelled.load(Ordering::Relaxed) {
                return Err(TimelineError::Cancelled);
            }
            match (entries.iter().position(|entry| entry.is(id, from_ns)), opened.take()) {
                (Some(at), _) => {
                    if let TimelineState::Read(timeline) = &entries[at].state {
                        let timeline = Arc::clone(timeline);
                        entries[at].used = Instant::now();
                        entries[..=at].rotate_right(1);
                        return Ok(timeline);
                    }
                }
                // First of all: an id that no trace has must not cost others their timelines.
                (None, None) => {
                    drop(entries);
                    opened = Some(self.open(id, cancelled).map_err(|error| or_cancelled(error, cancelled))?);
                    entries = self.lock();
                    continue;
                }
                (None, Some(trace)) => match self.begin(&mut entries, id, from_ns) {
                    Some(reading) => break (trace, reading),
                    None => opened = Some(trace),
                },
            }
            entries = self.changed.wait_timeout(entries, CHECK).unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(entries);
        trace.tasks_mut().limit(self.bytes / NAMES_SHARE);
        let limits = TimelineLimits { bytes: self.bytes, from_ns };
        let read = Timeline::read_until(&mut trace, limits, cancelled);
        if cancelled.load(Ordering::Relaxed) {
            return Err(TimelineError::Cancelled);
        }
        Ok(reading.finish(Arc::new(read?)))
    }

    /// Gives up timelines that no one asked for in the last minutes. Returns when to do so again; `None`: there are none left.
    pub fn give_up_idle(&self, now: Instant) -> Option<Duration> {
        let mut entries = self.lock();
        let left = |entry: &TimelineEntry| {
            if entry.is_busy() { IDLE } else { IDLE.saturating_sub(now.duration_since(entry.used)) }
        };
        entries.retain(|entry| !left(entry).is_zero());
        entries.iter().map(left).min()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<TimelineEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes memory for a timeline, where need be that of those that were not used for longest. `None`: others are at work with it.
    fn begin(&self, entries: &mut Vec<TimelineEntry>, id: &str, from_ns: u64) -> Option<TimelineReading<'_>> {
        let bytes_of = |entry: &TimelineEntry| match &entry.state {
            // As it may become.
            TimelineState::Reading => self.bytes,
            TimelineState::Read(timeline) => timeline.bytes,
        };
        let busy = entries.iter().filter(|entry| entry.is_busy()).map(bytes_of);
        let busy = busy.fold(0, usize::saturating_add);
        let mut left = self.bytes.saturating_mul(2).checked_sub(busy)?.checked_sub(self.bytes)?;
        entries.retain(|entry| {
            let bytes = if entry.is_busy() { 0 } else { bytes_of(entry) };
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        });
        entries.insert(
            0,
            TimelineEntry { id: id.into(), from_ns, used: Instant::now(), state: TimelineState::Reading },
        );
        Some(TimelineReading { timelines: self, id: id.into(), from_ns })
    }
}

fn or_cancelled(error: TimelineError, cancelled: &AtomicBool) -> TimelineError {
    if cancelled.load(Ordering::Relaxed) { TimelineError::Cancelled } else { error }
}

/// A timeline is being read. Dropped without [`TimelineReading::finish`], it frees the memory that it took.
struct TimelineReading<'t> {
    timelines: &'t Timelines,
    id: Box<str>,
    from_ns: u64,
}

impl TimelineReading<'_> {
    fn finish(self, timeline: Arc<Timeline>) -> Arc<Timeline> {
        let mut entries = self.timelines.lock();
        if let Some(entry) = entries.iter_mut().find(|entry| entry.is(&self.id, self.from_ns)) {
            (entry.used, entry.state) = (Instant::now(), TimelineState::Read(Arc::clone(&timeline)));
        }
        drop(entries);
        timeline
    }
}

impl Drop for TimelineReading<'_> {
    fn drop(&mut self) {
        let is_open = |entry: &TimelineEntry| {
            entry.is(&self.id, self.from_ns) && matches!(entry.state, TimelineState::Reading)
        };
        self.timelines.lock().retain(|entry| !is_open(entry));
        self.timelines.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Directory(PathBuf);

    impl Traces for Directory {
        fn open(&self, id: &str) -> io::Result<Option<TraceInput>> {
            match File::open(self.0.join(id)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                opened => opened.map(|file| Some(file.into())),
            }
        }
    }

    fn trace(dir: &std::path::Path, name: &str, end_ns: u64) {
        let header = cpumon_trace::FileHeader { cpus: 1, ..Default::default() };
        let file = File::create(dir.join(name)).unwrap();
        let writer = cpumon_trace::TraceWriter::new(file, &header, cpumon_trace::Compression::None).unwrap();
        writer.finish(end_ns, 0).unwrap();
    }

    #[test]
    fn traces_of_a_store_are_found_by_number() {
        let dir = tempfile::tempdir().unwrap();
        let traces = StoredTraces { store: dir.path().join("store.sqlite") };
        let file = trace_file(&traces.store, 7);
        std::fs::create_dir(file.parent().unwrap()).unwrap();
        trace(file.parent().unwrap(), "7.trace", 1_000);
        std::fs::write(dir.path().join("secret"), "").unwrap();
        let timelines = Timelines::new(Arc::new(traces), TIMELINE_BYTES);
        assert_eq!(timelines.get("7", 0, &Arc::default()).unwrap().length_ns, 1_000);
        for id in ["8", "-7", "../secret", "7.trace", ""] {
            assert!(matches!(timelines.get(id, 0, &Arc::default()), Err(TimelineError::Unknown)), "{id}");
        }
    }

    /// Three traces of equal size, with memory for two.
    fn three() -> (tempfile::TempDir, Timelines) {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            trace(dir.path(), name, 1_000);
        }
        std::fs::write(dir.path().join("foreign"), "something else").unwrap();
        let of = |bytes| Timelines::new(Arc::new(Directory(dir.path().into())), bytes);
        let bytes = of(TIMELINE_BYTES).get("a", 0, &Arc::default()).unwrap().bytes;
        let timelines = of(bytes);
        (dir, timelines)
    }

    fn ids(timelines: &Timelines) -> String {
        timelines.lock().iter().map(|entry| &*entry.id).collect()
    }

    #[test]
    fn a_timeline_is_read_once_and_the_oldest_go() {
        let (_dir, timelines) = three();
        let get = |id| timelines.get(id, 0, &Arc::default());
        let first = get("a").unwrap();
        assert_eq!(first.length_ns, 1_000);
        assert!(Arc::ptr_eq(&first, &get("a").unwrap()));
        drop(first);
        get("b").unwrap();
        get("a").unwrap();
        assert!(matches!(get("nosuch"), Err(TimelineError::Unknown)));
        assert!(matches!(get("foreign"), Err(TimelineError::Read(ReadError::Foreign))));
        assert_eq!(ids(&timelines), "ab");
        get("c").unwrap();
        assert_eq!(ids(&timelines), "ca");
        get("b").unwrap();
        assert_eq!(ids(&timelines), "bc");
    }

    #[test]
    fn timelines_in_use_and_those_being_read_count() {
        let (_dir, timelines) = three();
        let used = timelines.get("a", 0, &Arc::default()).unwrap();
        let begin = |id| timelines.begin(&mut timelines.lock(), id, 0);
        let reading = begin("b").unwrap();
        assert!(begin("c").is_none());
        std::thread::scope(|scope| {
            let cancelled = Arc::new(AtomicBool::new(false));
            let waits = |id| {
                let (cancelled, timelines) = (Arc::clone(&cancelled), &timelines);
                scope.spawn(move || timelines.get(id, 0, &cancelled).map(|_| ()))
            };
            let waiting = [waits("b"), waits("c")];
            std::thread::sleep(2 * CHECK);
            assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
            cancelled.store(true, Ordering::Relaxed);
            for waiting in waiting {
                assert!(matches!(waiting.join().unwrap(), Err(TimelineError::Cancelled)));
            }
            cancelled.store(false, Ordering::Relaxed);
            let waiting = waits("c");
            drop(used);
            waiting.join().unwrap().unwrap();
            // The reader of `b` gave up, so that the next one reads.
            let waiting = waits("b");
            drop(reading);
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(ids(&timelines), "bc");
    }

    /// A trace whose reader goes away when it is opened.
    #[derive(Debug)]
    struct Aborted(Directory, Arc<AtomicBool>);

    impl Traces for Aborted {
        fn open(&self, id: &str) -> io::Result<Option<TraceInput>> {
            self.1.store(true, Ordering::Relaxed);
            self.0.open(id)
        }
    }

    #[test]
    fn a_cancelled_file_is_not_read_on() {
        let (dir, _) = three();
        let cancelled = Arc::new(AtomicBool::new(false));
        let traces = Aborted(Directory(dir.path().into()), Arc::clone(&cancelled));
        let timelines = Timelines::new(Arc::new(traces), TIMELINE_BYTES);
        assert!(matches!(timelines.get("a", 0, &cancelled), Err(TimelineError::Cancelled)));
        assert!(matches!(timelines.open("a", &cancelled), Err(TimelineError::Read(ReadError::Io(_)))));
        assert_eq!(ids(&timelines), "");
    }

    #[test]
    fn idle_timelines_are_given_up() {
        let (_dir, timelines) = three();
        assert_eq!(timelines.give_up_idle(Instant::now()), None);
        let used = timelines.get("a", 0, &Arc::default()).unwrap();
        timelines.get("b", 0, &Arc::default()).unwrap();
        assert!(timelines.give_up_idle(Instant::now()).is_some_and(|left| left <= IDLE));
        assert_eq!(ids(&timelines), "ba");
        assert_eq!(timelines.give_up_idle(Instant::now() + IDLE), Some(IDLE));
        assert_eq!(ids(&timelines), "a");
        drop(used);
        assert_eq!(timelines.give_up_idle(Instant::now() + IDLE), None);
    }
}
