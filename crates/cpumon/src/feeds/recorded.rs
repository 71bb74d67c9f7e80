//! Feeds of recorded data. [`StoreFeed`] shows a store, any host at any moment, the newest interval first, and new intervals as they are
//! written; [`ReplayFeed`] replays a recording or a context-switch trace.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_link::spool::SpoolError;
use cpumon_model::{HostId, HostInfo, HostStatus, Interval, Rows, Snapshot, Trust};
use cpumon_query::{Seek, seek};
use cpumon_store::{DamageReport, HostRecord, Reader, StoreError};
use cpumon_trace::{Ending, ReadError, TraceRange, TraceSource, snapshots};
use cpumon_tui::{Feed, FeedError, HistoryPoint, Play, Playback, Subject};

use crate::recording::{Recording, RecordingPosition};

/// Time between two checks for new intervals of a store, and for new data at the end of a recording.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The store, the selected host, and the end of the newest interval that was shown.
#[derive(Debug)]
pub struct StoreFeed {
    reader: Reader,
    hosts: Vec<HostStatus>,
    selected: Option<HostId>,
    newest_end_ns: Option<i64>,
    next_check: Instant,
    note: String,
}

fn failed(error: &StoreError) -> FeedError {
    FeedError(error.with_causes())
}

impl StoreFeed {
    /// Opens a store and selects `host`, or else this machine, or else the host that reported last. `note` is shown behind the
    /// store's name.
    pub fn open(path: &Path, host: Option<&str>, note: &str) -> Result<Self, StoreError> {
        let reader = Reader::open(path)?;
        let records = reader.hosts()?;
        let preferred = |record: &&HostRecord| (record.trust == Trust::Local, record.last_wall_ns);
        let selected = match host {
            Some(wanted) => Some(reader.find_host(wanted)?.info.host),
            None => records.iter().max_by_key(preferred).map(|record| record.info.host),
        };
        let hosts = records.into_iter().map(HostRecord::status).collect();
        Ok(Self {
            reader,
            hosts,
            selected,
            newest_end_ns: None,
            next_check: Instant::now(),
            note: note.to_owned(),
        })
    }
}

impl Feed for StoreFeed {
    fn title(&self) -> String {
        format!("store {}{}", self.reader.path().display(), self.note)
    }

    fn hosts(&self) -> Vec<HostStatus> {
        self.hosts.clone()
    }

    fn host(&self) -> Option<HostId> {
        self.selected
    }

    fn select(&mut self, host: HostId) {
        (self.selected, self.newest_end_ns, self.next_check) = (Some(host), None, Instant::now());
    }

    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
        let Some(host) = self.selected.filter(|_| Instant::now() >= self.next_check) else { return Ok(None) };
        // First the newest interval of the store, then each one behind it.
        let found = match self.newest_end_ns {
            None => seek(&self.reader, host, Seek::Before(i64::MAX)),
            Some(end_ns) => seek(&self.reader, host, Seek::After(end_ns)),
        };
        let found = found.map_err(|error| failed(&error))?;
        match &found {
            Some(interval) => self.newest_end_ns = Some(interval.end.wall_ns),
            // Only an empty answer delays the next query, so intervals that piled up are read without a
            // pause.
            None => self.next_check = Instant::now() + CHECK_EVERY,
        }
        Ok(found.map(Arc::new))
    }

    fn age(&self) -> Option<Duration> {
        self.newest_end_ns.map(super::age_of)
    }

    fn seek(&mut self, to: Seek) -> Result<Option<Arc<Interval>>, FeedError> {
        let Some(host) = self.selected else { return Ok(None) };
        let found = seek(&self.reader, host, to).map_err(|error| failed(&error))?;
        Ok(found.map(Arc::new))
    }

    fn store(&self) -> Option<PathBuf> {
        Some(self.reader.path().to_owned())
    }

    fn damage(&self) -> DamageReport {
        self.reader.damage()
    }
}

/// A gap is replayed in this time, whatever its length.
const GAP: Duration = Duration::from_millis(500);
/// Intervals of a recording that are longer than this count as gaps.
const LONGEST: Duration = Duration::from_secs(10);
const SPEEDS: Range<f64> = 0.05..2_000.0;
const TRACE_SPEEDS: Range<f64> = 0.01..2_000.0;
/// Rows of all intervals together, about 300 bytes each.
const MAX_ROWS: usize = 1_000_000;
/// Memory of an interval without its lists, in rows, and how many of its CPUs take that of one row.
const ROWS_OF_INTERVAL: usize = 5;
const CPUS_OF_ROW: usize = 2;

#[derive(Debug, thiserror::Error)]
pub enum TraceFeedError {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its intervals do not fit into memory.
    #[error(
        "its intervals take the memory of more than {MAX_ROWS} rows; choose a longer --interval, or a part with --from and --to"
    )]
    TooMany,
    /// This part of the trace has no events; its end may say why.
    #[error("there are no events in this part of the trace")]
    Empty(Box<Ending>),
}

/// The recording, also while it is written, and the current position in it. Intervals of a trace have any length. They are replayed at
/// their own pace, faster or slower, from any moment.
#[derive(Debug)]
pub struct ReplayFeed {
    title: String,
    recording: Recording,
    /// Position of the interval that was returned last.
    at: Option<RecordingPosition>,
    due: Instant,
    next_check: Instant,
    is_paced: bool,
    longest: Duration,
    speeds: Range<f64>,
    playback: Playback,
}

impl ReplayFeed {
    /// Opens a recording at its start. `is_paced`: replays it at its own pace, else as fast as it is polled.
    pub fn open(dir: &Path, is_paced: bool) -> Result<Self, SpoolError> {
        let recording = Recording::open(dir)?;
        Ok(Self { is_paced, ..Self::new(format!("recording {}", dir.display()), recording) })
    }

    /// Reads a trace twice; `again` is the same one. `title`: where it is from. Its end reports missing parts.
    pub fn of_trace(
        title: String,
        trace: &mut impl TraceSource,
        again: &mut impl TraceSource,
        range: TraceRange,
        every: Duration,
    ) -> Result<(Self, Ending), TraceFeedError> {
        let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
        let (mut before, mut rows) = (None::<Snapshot>, 0_usize);
        let mut intervals = Vec::new();
        let ending = snapshots(trace, again, range, every_ns, &mut |snapshot| {
            if let Some(before) = &before {
                let mut interval = Interval::default();
                interval.fill_rows(before, &snapshot, Rows::Moved);
                rows += interval.threads.len() + interval.processes.len();
                rows += ROWS_OF_INTERVAL + interval.cpus.len() / CPUS_OF_ROW;
                intervals.push(Arc::new(interval));
            }
            before = Some(snapshot);
            rows <= MAX_ROWS
        })?;
        if rows > MAX_ROWS {
            return Err(TraceFeedError::TooMany);
        }
        let Some(last) = intervals.last() else { return Err(TraceFeedError::Empty(Box::new(ending))) };
        let header = trace.header();
        let info = HostInfo {
            host: last.host,
            boot: last.boot,
            hostname: header.host.clone(),
            source_reason: "context-switch trace".into(),
            cpu_count: u32::try_from(last.cpus.len()).unwrap_or(0),
            interval_ns: every_ns,
            ..HostInfo::default()
        };
        let status = HostStatus {
            info,
            trust: Trust::Local,
            source: last.source,
            last: last.end,
            received_wall_ns: last.end.wall_ns,
            thread_count: last.thread_count,
            process_count: last.process_count,
            ..HostStatus::default()
        };
        let recording = Recording::of_intervals(status, intervals);
        Ok((Self { longest: Duration::MAX, speeds: TRACE_SPEEDS, ..Self::new(title, recording) }, ending))
    }

    fn new(title: String, recording: Recording) -> Self {
        let now = Instant::now();
        Self {
            title,
            recording,
            at: None,
            due: now,
            next_check: now,
            is_paced: true,
            longest: LONGEST,
            speeds: SPEEDS,
            playback: Playback { is_playing: true, is_at_end: false, speed: 1.0 },
        }
    }

    /// Time between the current interval and the next.
    fn wait_for(&self, next: &Interval) -> Duration {
        let length = Duration::from_nanos(next.duration_ns());
        // An interval without a length, or with a very long one, is replayed as a gap.
        let length = if length.is_zero() || length > self.longest { GAP } else { length };
        length.div_f64(self.playback.speed)
    }
}

impl Feed for ReplayFeed {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn hosts(&self) -> Vec<HostStatus> {
        self.recording.hosts.values().cloned().collect()
    }

    fn host(&self) -> Option<HostId> {
        self.recording.selected
    }

    fn select(&mut self, host: HostId) {
        (self.recording.selected, self.at, self.playback.is_at_end) = (Some(host), None, false);
    }

    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
        let now = Instant::now();
        if !self.playback.is_playing {
            return Ok(None);
        }
        let Some(next) = self.recording.next(self.at) else {
            self.playback.is_at_end = true;
            if now >= self.next_check {
                self.next_check = now + CHECK_EVERY;
                self.at = self.recording.refresh(self.at);
            }
            return Ok(None);
        };
        let interval = self.recording.interval(next);
        if let Some(interval) = interval.as_deref().filter(|_| self.is_paced && self.at.is_some()) {
            if self.playback.is_at_end {
                // It was written while the screen waited at the end: it is due.
                self.due = now;
            }
            let due = self.due + self.wait_for(interval);
            if now < due && !self.playback.is_at_end {
                return Ok(None);
            }
            // Short waits add up exactly; time lost in a long stop is not caught up.
            self.due = due.max(now.checked_sub(CHECK_EVERY).unwrap_or(now)).min(now);
        } else {
            self.due = now;
        }
        (self.at, self.playback.is_at_end) = (Some(next), false);
        Ok(interval)
    }

    fn seek(&mut self, to: Seek) -> Result<Option<Arc<Interval>>, FeedError> {
        let Some(position) = self.recording.position_of(to) else { return Ok(None) };
        // Playing on would move the screen away from the moment that the user went to.
        (self.at, self.playback.is_playing, self.playback.is_at_end) = (Some(position), false, false);
        Ok(self.recording.interval(position))
    }

    fn history(&mut self, of: Subject, wall_ns: Range<i64>) -> Result<Option<Vec<HistoryPoint>>, FeedError> {
        let found = self.recording.within(&wall_ns);
        Ok(found.map(|intervals| intervals.iter().map(|interval| HistoryPoint::of(interval, of)).collect()))
    }

    fn playback(&self) -> Option<Playback> {
        Some(self.playback)
    }

    fn play(&mut self, command: Play) {
        if self.playback.obey(command, &self.speeds) {
            self.due = Instant::now();
        }
    }
}
