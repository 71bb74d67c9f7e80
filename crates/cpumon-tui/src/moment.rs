//! [`find_moment`]: the interval of a moment, or the moments nearest to it that have data. Another interval than the one asked
//! for must never be shown without a word: in a hole it may be years away.

use std::fmt::Write;
use std::sync::Arc;

use cpumon_model::Interval;
use cpumon_query::Seek;

use crate::text::ago;
use crate::{Feed, FeedError};

/// An interval is shown for a moment after it only while the next one is still being measured: up to so many of its lengths,
const RUNNING_INTERVALS: i64 = 3;
/// and in any case so long, because data waits to be sent and stored.
const RUNNING_NS: i64 = 3_000_000_000;

/// A moment without data, and what is nearest to it.
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

/// The interval that contains a moment. The newest one is given for the moments right after it too.
///
/// # Errors
/// The feed fails. The inner error says which moments are nearest.
pub fn find_moment(feed: &mut dyn Feed, wall_ns: i64) -> Result<Result<Arc<Interval>, NoMoment>, FeedError> {
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
    let mut text = format!("no data for {}", (feed.clock())(wall_ns));
    let has_nearest = before.is_some() || after.is_some();
    let nearest = [
        before.map(|interval| ("before", interval.end.wall_ns, "earlier")),
        after.map(|interval| ("after", interval.begin.wall_ns, "later")),
    ];
    for (nth, (side, at_ns, word)) in nearest.into_iter().flatten().enumerate() {
        let begin = if nth == 0 { "; nearest data" } else { "," };
        let (at, far) = ((feed.clock())(at_ns), ago(at_ns.abs_diff(wall_ns) / 1_000_000_000));
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
    use cpumon_model::{HostId, HostStatus, Moment};
    use std::time::Duration;

    const SECOND_NS: i64 = 1_000_000_000;

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
        fn select(&mut self, _host: HostId) -> Result<(), FeedError> {
            Ok(())
        }
        fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
            Ok(None)
        }
        fn age(&self) -> Option<Duration> {
            None
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
        fn parse_time(&self, _text: &str, _shown_wall_ns: Option<i64>) -> Result<i64, FeedError> {
            Ok(0)
        }
    }

    fn find(ends: &[i64], late: &[i64], half_seconds: i64) -> Result<i64, String> {
        let mut feed = Seconds { ends: ends.into(), late: late.into() };
        let found = find_moment(&mut feed, half_seconds * SECOND_NS / 2).unwrap();
        found.map(|interval| interval.end.wall_ns / SECOND_NS).map_err(|nothing| nothing.to_string())
    }

    #[test]
    fn a_moment_has_its_own_interval_or_the_one_that_is_being_measured() {
        assert_eq!(find(&[5, 6, 7], &[], 11), Ok(6));
        assert_eq!(find(&[5, 6, 7], &[], 17), Ok(7), "the next one is on its way");
        assert_eq!(find(&[5, 6, 7], &[8], 15), Ok(8), "it arrived between two questions");
    }

    /// Of this machine without a store the notice was no more than "no data".
    #[test]
    fn a_feed_without_a_past_says_of_when_the_first_data_of_the_screens_is() {
        let mut app = App::new(&Options::default());
        app.on_interval(interval(50));
        let mut feed = Seconds { ends: Vec::new(), late: Vec::new() };
        let nothing = find_moment(&mut feed, 20 * SECOND_NS).unwrap().unwrap_err();
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
