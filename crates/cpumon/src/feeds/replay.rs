//! [`ReplayFeed`]: replays a recording, also while it is written, at the pace of its intervals, faster or slower, from any moment. It
//! decodes segment by segment, because a recording can be larger than memory.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_link::spool::{SpoolError, SpoolReader};
use cpumon_model::{HostId, HostStatus, Interval};
use cpumon_query::Seek;
use cpumon_tui::{Feed, FeedError, HistoryPoint, Play, Playback, Subject};
use cpumon_wire::spool::SegmentHeader;

use super::points::point_of;
use crate::recording::{self, RecordingEvent};

/// Most decoded segments in memory.
const MAX_LOADED: usize = 8;
/// Most rows of them (about 120 bytes each); the current segment stays in memory whatever its size.
const MAX_LOADED_ROWS: usize = 1_000_000;
/// Most segments that are read for one history.
const MAX_HISTORY_SEGMENTS: usize = 32;
/// A gap is replayed in this time, whatever its length.
const GAP: Duration = Duration::from_millis(500);
/// Intervals longer than this count as gaps.
const LONGEST: Duration = Duration::from_secs(10);
/// Time between two checks for new data at the end of the recording.
const CHECK_EVERY: Duration = Duration::from_secs(1);
const SPEEDS: Range<f64> = 0.05..2_000.0;

#[derive(Debug)]
struct Loaded {
    segment: usize,
    intervals: Vec<Arc<Interval>>,
    rows: usize,
}

/// The position of an interval.
#[derive(Copy, Clone, Debug, Default)]
struct Position {
    segment: usize,
    /// Index of the interval in its segment.
    interval: usize,
}

/// The recording, the decoded segments, and the current position.
#[derive(Debug)]
pub struct ReplayFeed {
    reader: SpoolReader,
    /// Headers of the segments; `None` where one cannot be read.
    index: Vec<Option<SegmentHeader>>,
    loaded: VecDeque<Arc<Loaded>>,
    hosts: BTreeMap<HostId, HostStatus>,
    selected: Option<HostId>,
    /// The last interval that was returned.
    at: Option<Position>,
    due: Instant,
    next_check: Instant,
    is_paced: bool,
    playback: Playback,
}

impl ReplayFeed {
    /// Opens a recording at its start. `is_paced`: replays it at its own pace, else as fast as it is polled.
    pub fn open(dir: &Path, is_paced: bool) -> Result<Self, SpoolError> {
        let now = Instant::now();
        let mut feed = Self {
            reader: SpoolReader::open(dir)?,
            index: Vec::new(),
            loaded: VecDeque::new(),
            hosts: BTreeMap::new(),
            selected: None,
            at: None,
            due: now,
            next_check: now,
            is_paced,
            playback: Playback { is_playing: true, is_at_end: false, speed: 1.0 },
        };
        feed.list();
        // The last segment of a host has its latest name.
        let last: BTreeMap<HostId, usize> = feed
            .index
            .iter()
            .enumerate()
            .filter_map(|(at, header)| Some(((*header)?.origin.host, at)))
            .collect();
        for segment in last.into_values() {
            feed.load(segment);
        }
        feed.selected = feed.index.iter().flatten().next().map(|header| header.origin.host);
        Ok(feed)
    }

    fn list(&mut self) {
        self.index = (0..self.reader.segment_count()).map(|at| self.reader.header(at)).collect();
    }

    /// The intervals that end in a segment; none if it cannot be read.
    fn load(&mut self, segment: usize) -> Arc<Loaded> {
        if let Some(loaded) = self.loaded.iter().find(|loaded| loaded.segment == segment) {
            return Arc::clone(loaded);
        }
        let mut loaded = Loaded { segment, intervals: Vec::new(), rows: 0 };
        let wanted = self.index.get(segment).copied().flatten();
        let mut is_wanted = false;
        // The first interval of a segment begins in the segment before.
        let range = segment.saturating_sub(1)..segment + 1;
        let read = recording::read(&self.reader, range, &mut |event| {
            match event {
                RecordingEvent::Segment(header) => is_wanted = Some(*header) == wanted,
                RecordingEvent::Interval(status, interval) if is_wanted => {
                    loaded.rows += interval.threads.len() + interval.processes.len();
                    loaded.intervals.push(Arc::new(interval.clone()));
                    self.hosts.insert(interval.host, status.clone());
                }
                _ => {}
            }
            Ok(())
        });
        if let Err(error) = read {
            log::warn!("{error:#}");
        }
        let loaded = Arc::new(loaded);
        self.loaded.push_back(Arc::clone(&loaded));
        let rows = |feed: &Self| feed.loaded.iter().map(|loaded| loaded.rows).sum::<usize>();
        // The oldest is dropped first, so the segment just read is never the one that goes.
        while self.loaded.len() > MAX_LOADED || (self.loaded.len() > 1 && rows(self) > MAX_LOADED_ROWS) {
            self.loaded.pop_front();
        }
        loaded
    }

    fn is_of_host(&self, segment: usize) -> bool {
        self.index.get(segment).is_some_and(|header| header.map(|header| header.origin.host) == self.selected)
    }

    fn interval(&mut self, at: Position) -> Option<Arc<Interval>> {
        self.load(at.segment).intervals.get(at.interval).cloned()
    }

    /// The first interval at or after `from` that fits.
    fn find_forward(&mut self, from: Position, fits: impl Fn(&Interval) -> bool) -> Option<Position> {
        let mut skipped = from.interval;
        for segment in from.segment..self.index.len() {
            if self.is_of_host(segment) {
                let loaded = self.load(segment);
                let rest = loaded.intervals.iter().enumerate().skip(skipped);
                if let Some((interval, _)) = rest.into_iter().find(|(_, interval)| fits(interval)) {
                    return Some(Position { segment, interval });
                }
            }
            // `from.interval` counts in the first segment only.
            skipped = 0;
        }
        None
    }

    /// The last interval in some segments that fits.
    fn find_back(&mut self, segments: Range<usize>, fits: impl Fn(&Interval) -> bool) -> Option<Position> {
        let end = segments.end.min(self.index.len());
        for segment in (segments.start..end).rev() {
            if self.is_of_host(segment) {
                let loaded = self.load(segment);
                if let Some(interval) = loaded.intervals.iter().rposition(|interval| fits(interval)) {
                    return Some(Position { segment, interval });
                }
            }
        }
        None
    }

    /// The last segment that begins at or before a moment.
    fn segment_at(&self, wall_ns: i64) -> usize {
        let begins = |at: &usize| {
            self.is_of_host(*at)
                && self
                    .index
                    .get(*at)
                    .copied()
                    .flatten()
                    .is_some_and(|header| header.begin_wall_ns <= wall_ns)
        };
        (0..self.index.len()).rev().find(begins).unwrap_or(0)
    }

    fn position_of(&mut self, to: Seek) -> Option<Position> {
        match to {
            Seek::Before(wall_ns) => {
                let segment = self.segment_at(wall_ns);
                self.find_back(0..segment + 1, |interval| interval.end.wall_ns < wall_ns)
            }
            Seek::After(wall_ns) => {
                let segment = self.segment_at(wall_ns);
                self.find_forward(Position { segment, interval: 0 }, |interval| {
                    interval.end.wall_ns > wall_ns
                })
            }
            Seek::At(wall_ns) => {
                // The interval that contains the moment may end in the next segment.
                let segment = self.segment_at(wall_ns);
                let contains =
                    |interval: &Interval| interval.begin.wall_ns < wall_ns && wall_ns <= interval.end.wall_ns;
                self.find_back(segment..segment + 2, contains)
            }
        }
    }

    /// Reads the list of segments again, to find new data.
    fn check_for_new_data(&mut self) {
        if Instant::now() < self.next_check {
            return;
        }
        self.next_check = Instant::now() + CHECK_EVERY;
        // The directory may be unreadable for a moment; the next check tries again.
        let Ok(reader) = SpoolReader::open(self.reader.dir()) else { return };
        let first =
            |index: &[Option<SegmentHeader>]| index.first().copied().flatten().map(|header| header.first);
        let (last, first_before) = (self.index.len().saturating_sub(1), first(&self.index));
        self.reader = reader;
        self.list();
        if first(&self.index) == first_before {
            // The last segment may have grown, so it is decoded again; the others are complete.
            self.loaded.retain(|loaded| loaded.segment < last);
        } else {
            // The oldest segment was deleted, so positions have changed. Continue at the end.
            self.loaded.clear();
            self.at = self.find_back(0..self.index.len(), |_| true);
        }
    }

    /// Time between the current interval and the next.
    fn wait_for(&self, next: &Interval) -> Duration {
        let length = Duration::from_nanos(next.duration_ns());
        // An interval without a length, or with a very long one, is replayed as a gap.
        let length = if length.is_zero() || length > LONGEST { GAP } else { length };
        length.div_f64(self.playback.speed)
    }
}

impl Feed for ReplayFeed {
    fn title(&self) -> String {
        format!("recording {}", self.reader.dir().display())
    }

    fn hosts(&self) -> Vec<HostStatus> {
        self.hosts.values().cloned().collect()
    }

    fn host(&self) -> Option<HostId> {
        self.selected
    }

    fn select(&mut self, host: HostId) -> Result<(), FeedError> {
        if !self.hosts.contains_key(&host) {
            return Err(FeedError(format!("the recording has no host {host}")));
        }
        (self.selected, self.at, self.playback.is_at_end) = (Some(host), None, false);
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
        let now = Instant::now();
        if !self.playback.is_playing {
            return Ok(None);
        }
        let from = self.at.map_or_else(Position::default, |at| Position { interval: at.interval + 1, ..at });
        let Some(next) = self.find_forward(from, |_| true) else {
            self.playback.is_at_end = true;
            self.check_for_new_data();
            return Ok(None);
        };
        let interval = self.interval(next);
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

    fn age(&self) -> Option<Duration> {
        None
    }

    fn seek(&mut self, to: Seek) -> Result<Option<Arc<Interval>>, FeedError> {
        let Some(position) = self.position_of(to) else { return Ok(None) };
        // Playing on would move the screen away from the moment that the user went to.
        (self.at, self.playback.is_playing, self.playback.is_at_end) = (Some(position), false, false);
        Ok(self.interval(position))
    }

    fn history(&mut self, of: Subject, wall_ns: Range<i64>) -> Result<Option<Vec<HistoryPoint>>, FeedError> {
        // The interval that contains the end of the range may end in the next segment.
        let (first, last) = (self.segment_at(wall_ns.start), self.segment_at(wall_ns.end) + 1);
        if last - first > MAX_HISTORY_SEGMENTS {
            return Ok(None);
        }
        let mut points = Vec::new();
        for segment in first..=last {
            if self.is_of_host(segment) {
                let loaded = self.load(segment);
                let within =
                    loaded.intervals.iter().filter(|interval| wall_ns.contains(&interval.end.wall_ns));
                points.extend(within.map(|interval| point_of(interval, of)));
            }
        }
        Ok(Some(points))
    }

    fn playback(&self) -> Option<Playback> {
        Some(self.playback)
    }

    fn play(&mut self, command: Play) {
        if self.playback.obey(command, &SPEEDS) {
            self.due = Instant::now();
        }
    }

    fn parse_time(&self, text: &str, shown_wall_ns: Option<i64>) -> Result<i64, FeedError> {
        super::parse_time(text, shown_wall_ns)
    }

    fn clock(&self) -> fn(i64) -> String {
        crate::when::show
    }
}
