//! [`Feed`]: where the screens get hosts, intervals, past moments and history from. A local sampler, a receiver and a recording
//! all implement it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cpumon_model::{HostId, HostStatus, Interval};
use cpumon_query::report::ReportQuery;
use cpumon_query::{Seek, TaskKey};

use crate::report::RangeReport;

/// A failure of a feed, as text for the status line: which operation on what failed, and why. The screens continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FeedError(pub String);

/// How a recording is played.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Playback {
    /// Whether it is playing.
    pub is_playing: bool,
    /// Whether the last interval of the recording was given.
    pub is_at_end: bool,
    /// 1 is the speed at which it was recorded, 2 twice that.
    pub speed: f64,
}

impl Playback {
    /// Obeys, within these speeds. True if playback was started or stopped.
    pub fn obey(&mut self, command: Play, speeds: &Range<f64>) -> bool {
        let speed = match command {
            Play::Toggle => {
                self.is_playing = !self.is_playing;
                return true;
            }
            Play::Faster => self.speed * 2.0,
            Play::Slower => self.speed / 2.0,
        };
        if speeds.contains(&speed) {
            self.speed = speed;
        }
        false
    }
}

/// What to do with a recording.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Play {
    /// Play if it is stopped, else stop.
    Toggle,
    /// Double the speed.
    Faster,
    /// Halve the speed.
    Slower,
}

/// What a line of the plot is of.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// All tasks of the selected host together.
    Host,
    /// One of its tasks.
    Task(TaskKey),
}

/// Run time in one interval of a host, or in an even part of a longer time.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPoint {
    /// Start of the interval, device wall clock, ns since the UNIX epoch.
    pub begin_wall_ns: i64,
    /// End of the interval, likewise.
    pub end_wall_ns: i64,
    /// Measured length of the interval, ns. Rates divide by it.
    pub duration_ns: u64,
    /// Capacity of the host, ns; 0 if not known.
    pub capacity_ns: i64,
    /// Run time of the host or of the task, ns; zero where the interval has no row of the task.
    pub run_ns: i64,
}

impl HistoryPoint {
    /// The whole host in an interval.
    #[must_use]
    pub fn of_host(interval: &Interval) -> Self {
        Self {
            begin_wall_ns: interval.begin.wall_ns,
            end_wall_ns: interval.end.wall_ns,
            duration_ns: interval.duration_ns(),
            capacity_ns: interval.ledger.capacity_ns,
            run_ns: interval.ledger.threads_ns.saturating_add(interval.ledger.exited_ns),
        }
    }
}

/// A context-switch trace of the selected host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTrace {
    /// The moment that caused it, ns since the UNIX epoch.
    pub wall_ns: i64,
    /// Why it was written.
    pub reason: String,
    /// The command that shows it.
    pub command: String,
}

/// Where the screens get their data. One host is selected at a time.
///
/// Methods without a note return at once, from what the feed has in memory; the screens call them often (about ten
/// times a second) and from one thread.
pub trait Feed {
    /// Where the data comes from, one line: `local`, `receiver http://127.0.0.1:8080`, `store /var/lib/cpumon/cpumon.db`.
    fn title(&self) -> String;

    /// Every host that can be selected, by name, as last known.
    fn hosts(&self) -> Vec<HostStatus>;

    /// The selected host; `None` until one is known.
    fn host(&self) -> Option<HostId>;

    /// Selects another host. The next [`Feed::poll`] hands out its newest interval.
    fn select(&mut self, host: HostId) -> Result<(), FeedError>;

    /// The next interval of the selected host that was not handed out yet, in order; `None` if there is none now.
    /// The first call after start or [`Feed::select`] hands out the newest one. A feed that falls behind may skip.
    /// An error is shown until a later call succeeds.
    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError>;

    /// How long ago the selected host's newest interval arrived, as well as the feed knows; `None` if none ever did.
    /// The screens say "no data since" from this.
    fn age(&self) -> Option<Duration>;

    /// An interval of the selected host's past; `None` if there is no data: [`find_moment`](crate::find_moment) names the neighbours of a hole.
    /// May read a file or ask a receiver.
    fn seek(&mut self, to: Seek) -> Result<Option<Arc<Interval>>, FeedError> {
        let _ = to;
        Ok(None)
    }

    /// How the feed's recording is played; `None` for a feed that is live. A recording stops at [`Feed::seek`], and
    /// [`Feed::poll`] goes on from there when it plays.
    fn playback(&self) -> Option<Playback> {
        None
    }

    /// Plays or stops a recording, or changes its speed.
    fn play(&mut self, command: Play) {
        let _ = command;
    }

    /// Run time of the selected host or of one of its tasks in `wall_ns`, ascending; points are intervals or even parts of the time.
    /// `None` if there is no data (the screens then use the intervals that they received themselves).
    /// May read a file or ask a receiver.
    fn history(&mut self, of: Subject, wall_ns: Range<i64>) -> Result<Option<Vec<HistoryPoint>>, FeedError> {
        let _ = (of, wall_ns);
        Ok(None)
    }

    /// The stored traces of the selected host whose moment is in `wall_ns`, ascending. May read a file or ask a receiver.
    fn traces(&mut self, wall_ns: Range<i64>) -> Result<Vec<StoredTrace>, FeedError> {
        let _ = wall_ns;
        Ok(Vec::new())
    }

    /// Has the selected host traced: records it, or takes its last seconds. Gives what happens now. May ask a receiver.
    fn take_trace(&mut self) -> Result<String, FeedError> {
        Err(FeedError("no trace from here; `cpumon trace record --for 10s` records this machine".into()))
    }

    /// Who used the CPU of the selected host in a range of time. May read a file or ask a receiver.
    fn report(&mut self, query: &ReportQuery) -> Result<RangeReport, FeedError> {
        let _ = query;
        Err(FeedError("this source has no stored data to add up; `cpumon serve` stores it".into()))
    }

    /// A range of time that a user typed: `14:00..14:30`, or its start alone (`1h`); then it ends at `until_wall_ns`.
    /// `shown_wall_ns` as in [`Feed::parse_time`].
    fn parse_range(
        &self,
        text: &str,
        shown_wall_ns: Option<i64>,
        until_wall_ns: i64,
    ) -> Result<Range<i64>, FeedError> {
        let (since, until) = text.split_once("..").unwrap_or((text, ""));
        let since_ns = self.parse_time(since, shown_wall_ns)?;
        let until_ns =
            if until.trim().is_empty() { until_wall_ns } else { self.parse_time(until, shown_wall_ns)? };
        if since_ns < until_ns {
            return Ok(since_ns..until_ns);
        }
        let show = self.clock();
        Err(FeedError(format!("{} is not before {}", show(since_ns), show(until_ns))))
    }

    /// What a user typed to go to a moment (`14:05`, `yesterday 14:05`, `3m ago`) as ns since the UNIX epoch.
    /// `shown_wall_ns`: the end of the interval on screen, for texts that name no day.
    fn parse_time(&self, text: &str, shown_wall_ns: Option<i64>) -> Result<i64, FeedError>;

    /// Writes moments for people: day, clock time and zone, all in one time zone. The default is UTC, to the second:
    /// `2026-11-21 14:05:09Z`.
    fn clock(&self) -> fn(i64) -> String {
        crate::text::utc_seconds
    }
}
