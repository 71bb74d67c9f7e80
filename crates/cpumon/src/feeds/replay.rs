//! [`ReplayFeed`]: plays a recording. In: its directory, also while it is written. Out: its intervals at the pace at
//! which they were made, faster or slower; any moment of it. Why segment by segment: a log can be larger than memory.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_link::spool::{SpoolError, SpoolReader};
use cpumon_model::{HostId, HostStatus, Interval};
use cpumon_tui::{Feed, FeedError, HistoryPoint, Play, Playback, Seek, Task};
use cpumon_wire::spool::SegmentHeader;

use super::hub::history_point;
use crate::recording::{self, Told};

/// Decoded segments kept.
const MAX_LOADED: usize = 8;
/// Their rows in all (about 120 bytes each); the segment at hand is kept whatever it has.
const MAX_LOADED_ROWS: usize = 1_000_000;
/// Segments read for one history, at most.
const MAX_HISTORY_SEGMENTS: usize = 32;
/// A hole is played in this time, whatever its length.
const HOLE: Duration = Duration::from_millis(500);
/// Intervals longer than this count as holes.
const LONGEST: Duration = Duration::from_secs(10);
/// At the end of a log something new is looked for this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const SPEEDS: Range<f64> = 0.05..2_000.0;

/// A decoded segment.
#[derive(Debug)]
struct Loaded {
    segment: usize,
    intervals: Vec<Arc<Interval>>,
    rows: usize,
}

/// A place: a segment, and an interval of it.
type At = (usize, usize);

/// See the module.
#[derive(Debug)]
pub struct ReplayFeed {
    reader: SpoolReader,
    /// Headers of the segments; `None` where one cannot be read.
    index: Vec<Option<SegmentHeader>>,
    loaded: VecDeque<Arc<Loaded>>,
    hosts: BTreeMap<HostId, HostStatus>,
    selected: Option<HostId>,
    /// The interval handed out last.
    at: Option<At>,
    due: Instant,
    next_look: Instant,
    is_paced: bool,
    playback: Playback,
}

impl ReplayFeed {
    /// Opens a log at its begin. `is_paced`: plays it in its own time, else as fast as it is asked.
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
            next_look: now,
            is_paced,
            playback: Playback { is_playing: true, is_at_end: false, speed: 1.0 },
        };
        feed.list();
        // The last segment of a host says what it was called in the end.
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

    /// The intervals that end in a segment. What cannot be read has none; holes show as holes.
    fn load(&mut self, segment: usize) -> Arc<Loaded> {
        if let Some(loaded) = self.loaded.iter().find(|loaded| loaded.segment == segment) {
            return Arc::clone(loaded);
        }
        let mut loaded = Loaded { segment, intervals: Vec::new(), rows: 0 };
        let wanted = self.index.get(segment).copied().flatten();
        let mut is_wanted = false;
        // Its first interval begins in the segment before.
        let range = segment.saturating_sub(1)..segment + 1;
        let read = recording::read(&self.reader, range, &mut |told| {
            match told {
                Told::Segment(header) => is_wanted = Some(*header) == wanted,
                Told::Interval(status, interval) if is_wanted => {
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
        while self.loaded.len() > MAX_LOADED || (self.loaded.len() > 1 && rows(self) > MAX_LOADED_ROWS) {
            self.loaded.pop_front();
        }
        loaded
    }

    fn is_of_host(&self, segment: usize) -> bool {
        self.index.get(segment).is_some_and(|header| header.map(|header| header.origin.host) == self.selected)
    }

    fn interval(&mut self, (segment, at): At) -> Option<Arc<Interval>> {
        self.load(segment).intervals.get(at).cloned()
    }

    /// The first place at or behind `place` that fits, segment by segment.
    fn find_forward(&mut self, (segment, mut from): At, fits: impl Fn(&Interval) -> bool) -> Option<At> {
        for segment in segment..self.index.len() {
            if self.is_of_host(segment) {
                let loaded = self.load(segment);
                let rest = loaded.intervals.iter().enumerate().skip(from);
                if let Some((at, _)) = rest.into_iter().find(|(_, interval)| fits(interval)) {
                    return Some((segment, at));
                }
            }
            from = 0;
        }
        None
    }

    /// The last place in some segments that fits.
    fn find_back(&mut self, segments: Range<usize>, fits: impl Fn(&Interval) -> bool) -> Option<At> {
        let end = segments.end.min(self.index.len());
        for segment in (segments.start..end).rev() {
            if self.is_of_host(segment) {
                let loaded = self.load(segment);
                if let Some(at) = loaded.intervals.iter().rposition(|interval| fits(interval)) {
                    return Some((segment, at));
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

    fn place_of(&mut self, to: Seek) -> Option<At> {
        match to {
            Seek::Before(wall_ns) => {
                let segment = self.segment_at(wall_ns);
                self.find_back(0..segment + 1, |interval| interval.end.wall_ns < wall_ns)
            }
            Seek::After(wall_ns) => {
                let segment = self.segment_at(wall_ns);
                self.find_forward((segment, 0), |interval| interval.end.wall_ns > wall_ns)
            }
            Seek::At(wall_ns) => {
                // What contains the moment may end in the segment behind.
                let segment = self.segment_at(wall_ns);
                let holds =
                    |interval: &Interval| interval.begin.wall_ns < wall_ns && wall_ns <= interval.end.wall_ns;
                self.find_back(segment..segment + 2, holds)
                    .or_else(|| self.find_back(0..segment + 1, |interval| interval.end.wall_ns <= wall_ns))
            }
        }
    }

    /// Looks for what was written meanwhile.
    fn look(&mut self) {
        if Instant::now() < self.next_look {
            return;
        }
        self.next_look = Instant::now() + LOOK_EVERY;
        let Ok(reader) = SpoolReader::open(self.reader.dir()) else { return };
        let first =
            |index: &[Option<SegmentHeader>]| index.first().copied().flatten().map(|header| header.first);
        let (last, first_before) = (self.index.len().saturating_sub(1), first(&self.index));
        self.reader = reader;
        self.list();
        if first(&self.index) == first_before {
            self.loaded.retain(|loaded| loaded.segment < last);
        } else {
            // The oldest went: places are others now. The end is where it goes on.
            self.loaded.clear();
            self.at = self.find_back(0..self.index.len(), |_| true);
        }
    }

    /// How long the step to an interval takes.
    fn wait_for(&self, next: &Interval) -> Duration {
        let length = Duration::from_nanos(next.duration_ns());
        let length = if length.is_zero() || length > LONGEST { HOLE } else { length };
        length.div_f64(self.playback.speed)
    }
}

impl Feed for ReplayFeed {
    fn title(&self) -> String {
        format!("log {}", self.reader.dir().display())
    }

    fn hosts(&self) -> Vec<HostStatus> {
        self.hosts.values().cloned().collect()
    }

    fn host(&self) -> Option<HostId> {
        self.selected
    }

    fn select(&mut self, host: HostId) -> Result<(), FeedError> {
        if !self.hosts.contains_key(&host) {
            return Err(FeedError(format!("the log has no host {host}")));
        }
        (self.selected, self.at, self.playback.is_at_end) = (Some(host), None, false);
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
        let now = Instant::now();
        if !self.playback.is_playing {
            return Ok(None);
        }
        let from = self.at.map_or((0, 0), |(segment, at)| (segment, at + 1));
        let Some(next) = self.find_forward(from, |_| true) else {
            self.playback.is_at_end = true;
            self.look();
            return Ok(None);
        };
        let interval = self.interval(next);
        if let Some(interval) = interval.as_deref().filter(|_| self.is_paced && self.at.is_some()) {
            if self.playback.is_at_end {
                // It came while the end was looked at: it is due.
                self.due = now;
            }
            let due = self.due + self.wait_for(interval);
            if now < due && !self.playback.is_at_end {
                return Ok(None);
            }
            // Short waits add up exactly; after a long stop nothing is made up for.
            self.due = due.max(now.checked_sub(LOOK_EVERY).unwrap_or(now)).min(now);
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
        let Some(place) = self.place_of(to) else { return Ok(None) };
        (self.at, self.playback.is_playing, self.playback.is_at_end) = (Some(place), false, false);
        Ok(self.interval(place))
    }

    fn history(&mut self, task: Task, wall_ns: Range<i64>) -> Result<Option<Vec<HistoryPoint>>, FeedError> {
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
                points.extend(within.map(|interval| history_point(interval, task)));
            }
        }
        Ok(Some(points))
    }

    fn playback(&self) -> Option<Playback> {
        Some(self.playback)
    }

    fn play(&mut self, command: Play) {
        let speed = match command {
            Play::Toggle => {
                self.playback.is_playing = !self.playback.is_playing;
                self.due = Instant::now();
                return;
            }
            Play::Faster => self.playback.speed * 2.0,
            Play::Slower => self.playback.speed / 2.0,
        };
        if SPEEDS.contains(&speed) {
            self.playback.speed = speed;
        }
    }

    fn parse_time(&self, text: &str, shown_wall_ns: Option<i64>) -> Result<i64, FeedError> {
        super::parse_time(text, shown_wall_ns)
    }

    fn format_time(&self, wall_ns: i64) -> String {
        crate::when::show(wall_ns)
    }
}
