//! [`Feed`]: where the screens get hosts, intervals, past moments, history and reports from. A local sampler, a receiver and a recording
//! all implement it. [`find_moment`] asks it for the interval of a moment.

use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cpumon_model::{HostId, HostStatus, Interval};
use cpumon_query::history::{BucketTimes, History, HostSeries, Lines, Values};
use cpumon_query::time::PlotRange;
use cpumon_query::{Answers, DamageReport, QueryError, Seek, TaskKey, trace_file};

use crate::text::{ago, utc_seconds};

/// A failure of a feed, as text for the status line: which operation on what failed, and why. The screens continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FeedError(pub String);

/// How people write moments, as shown on screen: all are in one time zone.
#[derive(Copy, Clone, Debug)]
pub struct TimeWords {
    /// Parses a moment that a user typed (`14:05`, `yesterday 14:05`, `3m ago`) to ns since the UNIX epoch; the error is
    /// for the user. The second argument is the end of the interval on screen, for texts that name no day.
    pub parse: fn(&str, Option<i64>) -> Result<i64, String>,
    /// Writes a moment: day, clock time and zone.
    pub show: fn(i64) -> String,
    /// Writes it for a table: clock time, with its day or without.
    pub clock: fn(i64, bool) -> String,
}

/// UTC, to the second (`2026-11-21 14:05:09Z`), and nothing to type.
impl Default for TimeWords {
    fn default() -> Self {
        let parse = |_: &str, _| Err("no moment can be typed here".to_owned());
        Self { parse, show: utc_seconds, clock: |ns, _| utc_seconds(ns) }
    }
}

impl TimeWords {
    /// A range of time that a user typed: `14:00..14:30`, or its start alone (`1h`); then it ends at `until_wall_ns`.
    pub(crate) fn parse_range(
        self,
        text: &str,
        shown_wall_ns: Option<i64>,
        until_wall_ns: i64,
    ) -> Result<Range<i64>, String> {
        let (since, until) = text.split_once("..").unwrap_or((text, ""));
        let since_ns = (self.parse)(since, shown_wall_ns)?;
        let until_ns =
            if until.trim().is_empty() { until_wall_ns } else { (self.parse)(until, shown_wall_ns)? };
        if since_ns < until_ns {
            return Ok(since_ns..until_ns);
        }
        Err(format!("{} is not before {}", (self.show)(since_ns), (self.show)(until_ns)))
    }
}

#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Playback {
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

/// Commands for a recording.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Play {
    /// Play if it is stopped, else stop.
    Toggle,
    /// Double the speed.
    Faster,
    /// Halve the speed.
    Slower,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// All tasks of the selected host together.
    Host,
    Task(TaskKey),
}

/// Run time in one interval of a host, or in an even part of a longer time.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPoint {
    /// Start of the interval, device wall clock, ns since the UNIX epoch.
    pub begin_wall_ns: i64,
    /// End of the interval, ns since the UNIX epoch.
    pub end_wall_ns: i64,
    /// Measured length of the interval, ns. Rates divide by it.
    pub duration_ns: u64,
    /// Capacity of the host, ns; 0 if not known.
    pub capacity_ns: i64,
    /// Run time of the host or of the task, ns; zero where the interval has no row of the task.
    pub run_ns: i64,
}

impl HistoryPoint {
    /// The whole host, or one of its tasks, in an interval.
    pub fn of(interval: &Interval, of: Subject) -> Self {
        let host = Self::of_host(interval);
        let delta = match of {
            Subject::Host => return host,
            Subject::Task(TaskKey::Process(key)) => interval.process(key).map(|row| row.delta),
            Subject::Task(TaskKey::Thread(key)) => {
                let at = interval.threads.binary_search_by_key(&key, |row| row.key).ok();
                at.and_then(|at| interval.threads.get(at)).map(|row| row.delta)
            }
        };
        Self { run_ns: delta.map_or(0, |delta| delta.run_ns), ..host }
    }

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

/// Distance of the points that are asked for, so that an interval of a tenth of a second has one of its own.
const POINT_NS: i64 = 100_000_000;
const MAX_POINTS: i64 = 4000;

/// Points of a host's or a task's past, from the answers.
fn answered_points(
    answers: &dyn Answers,
    host: HostId,
    of: Subject,
    wall_ns: &Range<i64>,
) -> Result<Option<Vec<HistoryPoint>>, FeedError> {
    let points = (wall_ns.end.saturating_sub(wall_ns.start) / POINT_NS).clamp(1, MAX_POINTS);
    let points = usize::try_from(points).unwrap_or(1);
    let range = PlotRange { since_ns: wall_ns.start, until_ns: wall_ns.end, points };
    let found = match of {
        Subject::Host => {
            let columns = ["capacity_ns", "ledger_threads_ns", "ledger_exited_ns"].map(str::to_owned);
            answers.series(host, range, &columns).map(|series| host_points(&series))
        }
        Subject::Task(task) => {
            answers.line(host, task, range, &["run_ns".to_owned()]).map(|lines| task_points(&lines))
        }
    };
    match found {
        Ok(points) => Ok(Some(points)),
        // The store does not have it.
        Err(QueryError::UnknownHost | QueryError::NoData { .. }) => Ok(None),
        Err(error) => Err(FeedError(error.to_string())),
    }
}

fn value(values: Option<&Values>, at: usize) -> Option<i64> {
    values?.get(at).copied().flatten()
}

fn host_points(series: &HostSeries) -> Vec<HistoryPoint> {
    let sums = |name: &str| series.columns.get(name).and_then(|column| column.sum.as_ref());
    let [capacity, threads, exited] = ["capacity_ns", "ledger_threads_ns", "ledger_exited_ns"].map(sums);
    points(&series.times, &|at| {
        let run_ns = value(threads, at)?.saturating_add(value(exited, at).unwrap_or(0));
        Some((run_ns, value(capacity, at).unwrap_or(0)))
    })
}

fn task_points(lines: &Lines) -> Vec<HistoryPoint> {
    let values = lines.lines.first().and_then(|line| line.columns.get("run_ns"));
    points(&lines.times, &|at| Some((value(values, at)?, 0)))
}

/// `value`: run time and capacity of a point; `None` where nothing was measured.
fn points(times: &BucketTimes, value: &dyn Fn(usize) -> Option<(i64, i64)>) -> Vec<HistoryPoint> {
    let moments = times.begins_ns().zip(&times.covered_ns).enumerate();
    let measured = moments.filter_map(|(at, (begin_wall_ns, covered_ns))| {
        let duration_ns = u64::try_from(*covered_ns).ok().filter(|ns| *ns > 0)?;
        let (run_ns, capacity_ns) = value(at)?;
        let end_wall_ns = begin_wall_ns.saturating_add(times.width_ns);
        Some(HistoryPoint { begin_wall_ns, end_wall_ns, duration_ns, capacity_ns, run_ns })
    });
    measured.collect()
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

    /// Selects another one of its hosts. The next [`Feed::poll`] hands out its newest interval.
    fn select(&mut self, _host: HostId) {}

    /// The next interval of the selected host that was not handed out yet, in order; `None` if there is none now.
    /// The first call after start or [`Feed::select`] hands out the newest one. A feed that falls behind may skip.
    /// An error is shown until a later call succeeds.
    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError>;

    /// How long ago the selected host's newest interval arrived, as well as the feed knows; `None` if none ever did.
    /// The screens say "no data since" from this.
    fn age(&self) -> Option<Duration> {
        None
    }

    /// An interval of the selected host's past; `None` if there is no data: [`find_moment`] names the neighbours of a hole.
    /// May read a file or ask a receiver.
    fn seek(&mut self, to: Seek) -> Result<Option<Arc<Interval>>, FeedError> {
        let _ = to;
        Ok(None)
    }

    /// What of its store could not be read so far; intervals are given without it. May ask a receiver.
    fn damage(&self) -> DamageReport {
        DamageReport::default()
    }

    /// How the feed's recording is played; `None` for a feed that is live. A recording stops at [`Feed::seek`], and
    /// [`Feed::poll`] continues from there when it plays.
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
        match (self.host(), self.past()?) {
            (Some(host), Some(answers)) => answered_points(&*answers, host, of, &wall_ns),
            _ => Ok(None),
        }
    }

    /// Has the selected host traced: records it, or takes its last seconds. Returns a message for the status line. May ask a receiver.
    fn take_trace(&mut self) -> Result<String, FeedError> {
        Err(FeedError("no trace from here; `cpumon trace record --for 10s` records this machine".into()))
    }

    /// The store that has the past of its hosts; `None`: there is none on this machine.
    fn store(&self) -> Option<PathBuf> {
        None
    }

    /// Answers questions about the past: reports, traces; `None`: nothing is stored. May read a file.
    fn answers(&self) -> Result<Option<Box<dyn Answers>>, FeedError> {
        let Some(store) = self.store() else { return Ok(None) };
        match History::of_store(&store) {
            Ok(history) => Ok(Some(Box::new(history))),
            Err(error) => Err(FeedError(error.to_string())),
        }
    }

    /// The same for the plot and its marks, which are drawn without a request of the user.
    fn past(&self) -> Result<Option<Box<dyn Answers>>, FeedError> {
        self.answers()
    }

    /// The command that shows a trace of [`Feed::answers`].
    fn trace_command(&self, id: i64) -> String {
        format!("cpumon trace top {}", trace_file(&self.store().unwrap_or_default(), id).display())
    }
}

/// An interval is shown for a moment after it only while the next one is still being measured: up to this many of its lengths,
const RUNNING_INTERVALS: i64 = 3;
/// and in any case this long, because data waits to be sent and stored.
const RUNNING_NS: i64 = 3_000_000_000;

/// A moment without data, with the nearest data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct NoMoment {
    text: String,
    /// The text names the nearest data.
    has_nearest: bool,
}

impl NoMoment {
    pub(crate) fn has_nearest(&self) -> bool {
        self.has_nearest
    }
}

/// The interval that contains a moment. The newest one is given for the moments right after it too. In a hole the nearest data may be
/// years away: it must never be shown without a word.
///
/// # Errors
/// The feed fails. The inner error says which moments are nearest.
pub fn find_moment(
    feed: &mut dyn Feed,
    time: TimeWords,
    wall_ns: i64,
) -> Result<Result<Arc<Interval>, NoMoment>, FeedError> {
    if let Some(interval) = feed.seek(Seek::At(wall_ns))? {
        return Ok(Ok(interval));
    }
    let (before, after) = (feed.seek(Seek::Before(wall_ns))?, feed.seek(Seek::After(wall_ns))?);
    match (&before, &after) {
        // It was still being measured when the feed was asked first.
        (_, Some(arrived)) if arrived.begin.wall_ns < wall_ns => return Ok(Ok(Arc::clone(arrived))),
        (Some(newest), None) if is_still_measured(newest, wall_ns) => return Ok(Ok(Arc::clone(newest))),
        _ => {}
    }
    let host = feed.host();
    let is_damaged = feed.damage().holes.iter().any(|hole| {
        Some(hole.host) == host && hole.first_end_wall_ns <= wall_ns && wall_ns <= hole.last_end_wall_ns
    });
    let why = if is_damaged { ", because this part of the store is damaged" } else { "" };
    let mut text = format!("no data for {}{why}", (time.show)(wall_ns));
    let has_nearest = before.is_some() || after.is_some();
    let nearest = [
        before.map(|interval| ("before", interval.end.wall_ns, "earlier")),
        after.map(|interval| ("after", interval.begin.wall_ns, "later")),
    ];
    for (nth, (side, at_ns, word)) in nearest.into_iter().flatten().enumerate() {
        let begin = if nth == 0 { "; nearest data" } else { "," };
        let (at, far) = ((time.show)(at_ns), ago(at_ns.abs_diff(wall_ns) / 1_000_000_000));
        let _infallible = write!(text, "{begin} {side}: {at} ({far} {word})");
    }
    Ok(Err(NoMoment { text, has_nearest }))
}

/// Whether the interval that will contain the moment is still being measured, or on its way.
fn is_still_measured(newest: &Interval, wall_ns: i64) -> bool {
    let (begin_ns, end_ns) = (newest.begin.wall_ns, newest.end.wall_ns);
    let length_ns = end_ns.saturating_sub(begin_ns);
    wall_ns.saturating_sub(end_ns) <= length_ns.saturating_mul(RUNNING_INTERVALS).max(RUNNING_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{App, Options};
    use cpumon_model::Moment;

    const SECOND_NS: i64 = 1_000_000_000;

    #[test]
    fn a_series_becomes_points_and_gaps_stay_gaps() {
        let text = r#"{"since_ns":"0","until_ns":"2500000000","kept":null,"is_windows":false,"resolution":"interval",
            "width_ns":500000000,"begin_ns":"1000000000","covered_ns":[500000000,0,250000000],
            "columns":{"ledger_threads_ns":{"sum":[30,null,7]},"capacity_ns":{"sum":[1000,null,500],"max":[2,null,2]},
            "ledger_exited_ns":{"sum":[5,null,0]}},"gaps":[]}"#;
        let found = host_points(&serde_json::from_str(text).unwrap());
        let point = |begin_ms: i64, covered_ms: u64, capacity_ns, run_ns| HistoryPoint {
            begin_wall_ns: begin_ms * 1_000_000,
            end_wall_ns: (begin_ms + 500) * 1_000_000,
            duration_ns: covered_ms * 1_000_000,
            capacity_ns,
            run_ns,
        };
        assert_eq!(found, [point(1000, 500, 1000, 35), point(2000, 250, 500, 7)]);
    }

    /// Intervals that end at these seconds; `late` ones arrive after the first question.
    struct Seconds {
        ends: Vec<i64>,
        late: Vec<i64>,
    }

    fn interval(end: i64) -> Arc<Interval> {
        let at = |second: i64| Moment { wall_ns: second * SECOND_NS, ..Moment::default() };
        Arc::new(Interval { begin: at(end - 1), end: at(end), ..Interval::default() })
    }

    impl Feed for Seconds {
        fn title(&self) -> String {
            String::new()
        }
        fn hosts(&self) -> Vec<HostStatus> {
            Vec::new()
        }
        fn host(&self) -> Option<HostId> {
            None
        }
        fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
            Ok(None)
        }
        fn seek(&mut self, to: Seek) -> Result<Option<Arc<Interval>>, FeedError> {
            let ends = self.ends.iter().map(|end| end * SECOND_NS);
            let found = match to {
                Seek::At(ns) => ends.clone().find(|end| end - SECOND_NS < ns && ns <= *end),
                Seek::Before(ns) => ends.clone().rfind(|end| *end < ns),
                Seek::After(ns) => ends.clone().find(|end| *end > ns),
            };
            self.ends.append(&mut self.late);
            Ok(found.map(|end| interval(end / SECOND_NS)))
        }
    }

    fn find(ends: &[i64], late: &[i64], half_seconds: i64) -> Result<i64, String> {
        let mut feed = Seconds { ends: ends.into(), late: late.into() };
        let found = find_moment(&mut feed, TimeWords::default(), half_seconds * SECOND_NS / 2).unwrap();
        found.map(|interval| interval.end.wall_ns / SECOND_NS).map_err(|nothing| nothing.to_string())
    }

    #[test]
    fn a_moment_has_its_own_interval_or_the_one_that_is_being_measured() {
        assert_eq!(find(&[5, 6, 7], &[], 11), Ok(6));
        assert_eq!(find(&[5, 6, 7], &[], 17), Ok(7), "the next one is on its way");
        assert_eq!(find(&[5, 6, 7], &[8], 15), Ok(8), "it arrived between two questions");
    }

    /// For this machine without a store the notice was only "no data".
    #[test]
    fn a_feed_without_a_past_says_of_when_the_first_data_of_the_screens_is() {
        let mut app = App::new(&Options::default());
        app.on_interval(interval(50));
        let mut feed = Seconds { ends: Vec::new(), late: Vec::new() };
        let nothing = find_moment(&mut feed, TimeWords::default(), 20 * SECOND_NS).unwrap().unwrap_err();
        app.on_no_moment(20 * SECOND_NS, &nothing);
        let begin = "no data for 1970-01-01 00:00:20Z; the first data is of 1970-01-01 00:00:49Z";
        assert_eq!(app.notice.as_deref(), Some(begin));
    }

    #[test]
    fn a_moment_in_a_hole_names_what_is_nearest_on_both_sides() {
        let before = "nearest data before: 1970-01-01 00:00:05Z (15 s earlier)";
        let after = "after: 1970-01-01 00:00:30Z (10 s later)";
        let none = "no data for 1970-01-01 00:00:20Z";
        assert_eq!(find(&[5, 31], &[], 40), Err(format!("{none}; {before}, {after}")));
        assert_eq!(find(&[5], &[], 40), Err(format!("{none}; {before}")));
        assert_eq!(find(&[31], &[], 40), Err(format!("{none}; nearest data {after}")));
        assert_eq!(find(&[], &[], 40), Err(none.to_owned()));
    }
}
