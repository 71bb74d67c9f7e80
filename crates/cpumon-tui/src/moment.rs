//! [`find_moment`]: the interval of a moment, or the moments nearest to it that have data. Another interval than the one asked
//! for must never be shown without a word: in a hole it may be years away.

use std::fmt::Write;
use std::sync::Arc;

use cpumon_model::Interval;

use crate::text::ago;
use crate::{Feed, FeedError, Seek};

/// An interval is shown for a moment after it only while the next one is still being measured: up to so many of its lengths,
const RUNNING_INTERVALS: i64 = 3;
/// and in any case so long, because data waits to be sent and stored.
const RUNNING_NS: i64 = 3_000_000_000;

/// A moment without data, and what is nearest to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoMoment(String);

/// The interval that contains a moment. The newest one is given for the moments right after it too.
///
/// # Errors
/// The feed fails. The inner error says which moments are nearest.
pub fn find_moment(feed: &mut dyn Feed, wall_ns: i64) -> Result<Result<Arc<Interval>, NoMoment>, FeedError> {
    if let Some(interval) = feed.seek(Seek::At(wall_ns))? {
        return Ok(Ok(interval));
    }
    let (before, after) = (feed.seek(Seek::Before(wall_ns))?, feed.seek(Seek::After(wall_ns))?);
    if let (Some(newest), None) = (&before, &after)
        && is_still_measured(newest, wall_ns)
    {
        return Ok(Ok(Arc::clone(newest)));
    }
    let mut text = format!("no data for {}", feed.format_time(wall_ns));
    let nearest = [
        before.map(|interval| ("before", interval.end.wall_ns, "earlier")),
        after.map(|interval| ("after", interval.begin.wall_ns, "later")),
    ];
    for (nth, (side, at_ns, word)) in nearest.into_iter().flatten().enumerate() {
        let begin = if nth == 0 { "; nearest data" } else { "," };
        let (at, far) = (feed.format_time(at_ns), ago(at_ns.abs_diff(wall_ns) / 1_000_000_000));
        let _infallible = write!(text, "{begin} {side}: {at} ({far} {word})");
    }
    Ok(Err(NoMoment(text)))
}

/// Whether the interval that will contain the moment is still being measured, or on its way.
fn is_still_measured(newest: &Interval, wall_ns: i64) -> bool {
    let (begin_ns, end_ns) = (newest.begin.wall_ns, newest.end.wall_ns);
    let length_ns = end_ns.saturating_sub(begin_ns);
    wall_ns.saturating_sub(end_ns) <= length_ns.saturating_mul(RUNNING_INTERVALS).max(RUNNING_NS)
}
