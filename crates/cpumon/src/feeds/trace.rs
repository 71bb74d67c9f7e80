//! [`TraceFeed`]: plays a context-switch trace as if it were live, in intervals of any length, from any moment.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_model::{HostId, HostInfo, HostStatus, Interval, Rows, Snapshot, Trust};
use cpumon_query::Seek;
use cpumon_trace::{Ending, ReadError, TraceRange, TraceSource, snapshots};
use cpumon_tui::{Feed, FeedError, HistoryPoint, Play, Playback, Subject};

use super::past::point_of;

/// Rows of all intervals together, about 300 bytes each.
const MAX_ROWS: usize = 1_000_000;
const SPEEDS: Range<f64> = 0.01..2_000.0;

/// Why a trace cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum TraceFeedError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its intervals do not fit.
    #[error("more than {MAX_ROWS} rows; choose a longer --interval, or a part with --from and --to")]
    TooMany,
    /// It has no time.
    #[error("there are no events in this part of the trace")]
    Empty,
}

/// The intervals of a trace, and the current position.
#[derive(Debug)]
pub struct TraceFeed {
    title: String,
    status: HostStatus,
    intervals: Vec<Arc<Interval>>,
    /// The last interval that was returned.
    at: Option<usize>,
    due: Instant,
    playback: Playback,
}

impl TraceFeed {
    /// Reads a trace twice; `again` is the same one. `title`: where it is from. Its end says what it lacks.
    pub fn open(
        title: String,
        mut trace: impl TraceSource,
        mut again: impl TraceSource,
        range: TraceRange,
        every: Duration,
    ) -> Result<(Self, Ending), TraceFeedError> {
        let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
        let (mut before, mut rows) = (None::<Snapshot>, 0_usize);
        let mut intervals = Vec::new();
        let ending = snapshots(&mut trace, &mut again, range, every_ns, &mut |snapshot| {
            if let Some(before) = &before {
                let mut interval = Interval::default();
                interval.fill_rows(before, &snapshot, Rows::Moved);
                rows = rows.saturating_add(interval.threads.len() + interval.processes.len());
                intervals.push(Arc::new(interval));
            }
            before = Some(snapshot);
            rows <= MAX_ROWS
        })?;
        if rows > MAX_ROWS {
            return Err(TraceFeedError::TooMany);
        }
        let last = intervals.last().ok_or(TraceFeedError::Empty)?;
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
        let playback = Playback { is_playing: true, is_at_end: false, speed: 1.0 };
        Ok((Self { title, status, intervals, at: None, due: Instant::now(), playback }, ending))
    }

    fn position_of(&self, to: Seek) -> Option<usize> {
        let ended_before = |ns: i64| self.intervals.partition_point(|interval| interval.end.wall_ns < ns);
        match to {
            Seek::At(ns) => {
                let at = ended_before(ns);
                self.intervals.get(at).filter(|interval| interval.begin.wall_ns < ns).map(|_| at)
            }
            Seek::Before(ns) => ended_before(ns).checked_sub(1),
            Seek::After(ns) => {
                let at = self.intervals.partition_point(|interval| interval.end.wall_ns <= ns);
                (at < self.intervals.len()).then_some(at)
            }
        }
    }
}

impl Feed for TraceFeed {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn hosts(&self) -> Vec<HostStatus> {
        vec![self.status.clone()]
    }

    fn host(&self) -> Option<HostId> {
        Some(self.status.info.host)
    }

    fn select(&mut self, host: HostId) -> Result<(), FeedError> {
        if host != self.status.info.host {
            return Err(FeedError(format!("the trace has no host {host}")));
        }
        (self.at, self.playback.is_at_end) = (None, false);
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
        if !self.playback.is_playing {
            return Ok(None);
        }
        let next = self.at.map_or(0, |at| at + 1);
        let Some(interval) = self.intervals.get(next) else {
            self.playback.is_at_end = true;
            return Ok(None);
        };
        let now = Instant::now();
        if self.at.is_some() {
            let due = self.due + Duration::from_nanos(interval.duration_ns()).div_f64(self.playback.speed);
            if now < due {
                return Ok(None);
            }
            // What a slow terminal did not show in time is not caught up.
            self.due = if now.duration_since(due) > Duration::from_secs(1) { now } else { due };
        } else {
            self.due = now;
        }
        (self.at, self.playback.is_at_end) = (Some(next), false);
        Ok(Some(Arc::clone(interval)))
    }

    fn age(&self) -> Option<Duration> {
        None
    }

    fn seek(&mut self, to: Seek) -> Result<Option<Arc<Interval>>, FeedError> {
        let Some(at) = self.position_of(to) else { return Ok(None) };
        // Playing on would move the screen away from the moment that the user went to.
        (self.at, self.playback.is_playing, self.playback.is_at_end) = (Some(at), false, false);
        Ok(self.intervals.get(at).cloned())
    }

    fn history(&mut self, of: Subject, wall_ns: Range<i64>) -> Result<Option<Vec<HistoryPoint>>, FeedError> {
        let within = self.intervals.iter().filter(|interval| wall_ns.contains(&interval.end.wall_ns));
        Ok(Some(within.map(|interval| point_of(interval, of)).collect()))
    }

    fn playback(&self) -> Option<Playback> {
        Some(self.playback)
    }

    fn play(&mut self, command: Play) {
        if self.playback.obey(command, &SPEEDS) {
            self.due = Instant::now();
        }
    }
}
