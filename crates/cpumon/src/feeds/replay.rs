//! [`ReplayFeed`]: replays a recording, also while it is written, at the pace of its intervals, faster or slower, from any moment.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_link::spool::SpoolError;
use cpumon_model::{HostId, HostStatus, Interval};
use cpumon_query::Seek;
use cpumon_tui::{Feed, FeedError, HistoryPoint, Play, Playback, Subject};

use super::past::point_of;
use crate::recording::{Position, Recording};

/// A gap is replayed in this time, whatever its length.
const GAP: Duration = Duration::from_millis(500);
/// Intervals longer than this count as gaps.
const LONGEST: Duration = Duration::from_secs(10);
/// Time between two checks for new data at the end of the recording.
const CHECK_EVERY: Duration = Duration::from_secs(1);
const SPEEDS: Range<f64> = 0.05..2_000.0;

/// The recording, and the current position in it.
#[derive(Debug)]
pub struct ReplayFeed {
    recording: Recording,
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
        let playback = Playback { is_playing: true, is_at_end: false, speed: 1.0 };
        let recording = Recording::open(dir)?;
        Ok(Self { recording, at: None, due: now, next_check: now, is_paced, playback })
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
        format!("recording {}", self.recording.dir().display())
    }

    fn hosts(&self) -> Vec<HostStatus> {
        self.recording.hosts.values().cloned().collect()
    }

    fn host(&self) -> Option<HostId> {
        self.recording.selected
    }

    fn select(&mut self, host: HostId) -> Result<(), FeedError> {
        if !self.recording.hosts.contains_key(&host) {
            return Err(FeedError(format!("the recording has no host {host}")));
        }
        (self.recording.selected, self.at, self.playback.is_at_end) = (Some(host), None, false);
        Ok(())
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

    fn age(&self) -> Option<Duration> {
        None
    }

    fn seek(&mut self, to: Seek) -> Result<Option<Arc<Interval>>, FeedError> {
        let Some(position) = self.recording.position_of(to) else { return Ok(None) };
        // Playing on would move the screen away from the moment that the user went to.
        (self.at, self.playback.is_playing, self.playback.is_at_end) = (Some(position), false, false);
        Ok(self.recording.interval(position))
    }

    fn history(&mut self, of: Subject, wall_ns: Range<i64>) -> Result<Option<Vec<HistoryPoint>>, FeedError> {
        let found = self.recording.within(&wall_ns);
        Ok(found.map(|intervals| intervals.iter().map(|interval| point_of(interval, of)).collect()))
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
