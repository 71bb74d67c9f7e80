//! Traces and their timelines: [`Traces`] says where the files are, [`Timelines`] reads them into memory, a few at a time.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cpumon_store::trace_file;

// They are what timelines answer with: a frontend needs no reader of traces.
pub use cpumon_trace::{
    AnyTrace, Behind, Buckets, CpuTrack, CpuWho, Delays, Overload, ReadError, Slice, StatePart, ThreadNames,
    ThreadRow, ThreadState, ThreadTotals, ThreadTrack, Timeline, TimelineLimits, TraceInput, TraceRange,
    Wait, WindowSums, Woken,
};

/// Memory of one timeline, unless set otherwise: about 20 million events.
pub const TIMELINE_BYTES: usize = 800 << 20;
/// A timeline that no one asked for this long is given up at the next question.
const IDLE: Duration = Duration::from_mins(5);
const BUFFER_BYTES: usize = 1 << 20;

/// Files of traces by id.
pub trait Traces: fmt::Debug + Send + Sync {
    /// Opens a trace; `None`: there is none with this id, which may be any text.
    fn open(&self, id: &str) -> io::Result<Option<TraceInput>>;
}

/// The traces of devices beside a store: an id is the number that the store gave.
#[derive(Debug)]
pub struct StoredTraces {
    /// The store's file.
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

/// Why there is no timeline.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    /// No trace has this id.
    #[error("there is no such trace")]
    Unknown,
    /// Its file cannot be opened.
    #[error("cannot open the trace: {0}")]
    Open(#[from] io::Error),
    /// Its file cannot be read as a trace.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A timeline that is made by the first who asks for it.
#[derive(Debug, Default)]
struct Place(Mutex<Option<Arc<Timeline>>>);

#[derive(Debug)]
struct Entry {
    id: Box<str>,
    from_ns: u64,
    used: Instant,
    place: Arc<Place>,
}

/// Timelines in memory. All of them together are no larger than two may be.
#[derive(Debug)]
pub struct Timelines {
    traces: Arc<dyn Traces>,
    /// Of each.
    bytes: usize,
    entries: Mutex<Vec<Entry>>,
}

impl Timelines {
    /// Of these traces, with so much memory for each.
    #[must_use]
    pub fn new(traces: Arc<dyn Traces>, bytes: usize) -> Self {
        Self { traces, bytes, entries: Mutex::default() }
    }

    /// Opens a trace and reads its header.
    pub fn open(&self, id: &str) -> Result<AnyTrace<BufReader<TraceInput>>, TimelineError> {
        let file = self.traces.open(id)?.ok_or(TimelineError::Unknown)?;
        Ok(AnyTrace::open(BufReader::with_capacity(BUFFER_BYTES, file))?)
    }

    /// The timeline of a trace from this time after its begin on. Reads the file, if it is not in memory.
    pub fn get(&self, id: &str, from_ns: u64) -> Result<Arc<Timeline>, TimelineError> {
        let place = self.place(id, from_ns);
        // Others who ask for this trace wait for the first one.
        let mut slot = place.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(timeline) = &*slot {
            return Ok(Arc::clone(timeline));
        }
        let read = || {
            Timeline::read(&mut self.open(id)?, TimelineLimits { bytes: self.bytes, from_ns })
                .map_err(TimelineError::from)
        };
        match read() {
            Ok(timeline) => Ok(Arc::clone(slot.insert(Arc::new(timeline)))),
            Err(error) => {
                drop(slot);
                self.remove(&place);
                Err(error)
            }
        }
    }

    fn remove(&self, place: &Arc<Place>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| !Arc::ptr_eq(&entry.place, place));
    }

    fn place(&self, id: &str, from_ns: u64) -> Arc<Place> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        entries.retain(|entry| now.duration_since(entry.used) < IDLE || Arc::strong_count(&entry.place) > 1);
        let known = entries.iter().position(|entry| &*entry.id == id && entry.from_ns == from_ns);
        let entry = match known {
            Some(at) => entries.remove(at),
            None => Entry { id: id.into(), from_ns, used: now, place: Arc::default() },
        };
        let place = Arc::clone(&entry.place);
        entries.insert(0, Entry { used: now, ..entry });
        // The newest stay; one that is being made counts as it may become.
        let mut left = self.bytes.saturating_mul(2);
        entries.retain(|entry| {
            let made = entry.place.0.try_lock().ok().map(|slot| slot.as_ref().map_or(0, |made| made.bytes()));
            let is_new = Arc::ptr_eq(&entry.place, &place);
            let bytes = if is_new { made.unwrap_or(0).max(self.bytes) } else { made.unwrap_or(self.bytes) };
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits || is_new
        });
        place
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
        assert_eq!(timelines.get("7", 0).unwrap().length_ns(), 1_000);
        for id in ["8", "-7", "../secret", "7.trace", ""] {
            assert!(matches!(timelines.get(id, 0), Err(TimelineError::Unknown)), "{id}");
        }
    }

    #[test]
    fn a_timeline_is_read_once_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            trace(dir.path(), name, 1_000);
        }
        std::fs::write(dir.path().join("foreign"), "something else").unwrap();
        let timelines = Timelines::new(Arc::new(Directory(dir.path().into())), 1);
        let first = timelines.get("a", 0).unwrap();
        assert_eq!(first.length_ns(), 1_000);
        assert!(Arc::ptr_eq(&first, &timelines.get("a", 0).unwrap()));
        timelines.get("a", 500).unwrap();
        timelines.get("b", 0).unwrap();
        timelines.get("c", 0).unwrap();
        assert_eq!(timelines.entries.lock().unwrap().len(), 1, "bytes are for two of the smallest");
        assert!(!Arc::ptr_eq(&first, &timelines.get("a", 0).unwrap()), "it was read again");
        assert!(matches!(timelines.get("nosuch", 0), Err(TimelineError::Unknown)));
        assert!(matches!(timelines.get("foreign", 0), Err(TimelineError::Read(ReadError::Foreign))));
    }
}
