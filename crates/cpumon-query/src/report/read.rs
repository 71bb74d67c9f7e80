//! Reads what a tally adds up: parts of a range from sums and intervals, several at the same time.

use cpumon_model::HostStatus;
use cpumon_store::{Plan, ProcessFilter, Query, Resolution, What};

use super::group::Grouping;
use super::tally::Tally;
use crate::QueryError;
use crate::history::History;
use crate::history::buckets::Buckets;
use crate::spans::{Cut, Span, cut, cut_threads};
use crate::time::{PlotRange, TimeRange};

/// Threads are read interval by interval over at most a day, and two hours at the ends of what is read from sums.
const THREAD_INTERVALS_NS: i64 = 26 * 3_600_000_000_000;
/// Points of a small line, about.
const POINTS: usize = 24;
/// What is read of a range.
#[derive(Copy, Clone, Debug)]
pub(super) struct Reading<'a> {
    pub(super) host: &'a HostStatus,
    pub(super) grouping: &'a Grouping,
    /// Rows of other processes are not needed.
    pub(super) filter: &'a ProcessFilter,
    /// The scheduler's events too.
    pub(super) with_events: bool,
}

/// Adds one part of a range to a tally; a long one is read in parts at the same time.
pub(super) fn read(
    history: &History,
    reading: Reading<'_>,
    span: Span,
    tally: &mut Tally,
) -> Result<(), QueryError> {
    let Reading { host, grouping, filter, with_events } = reading;
    let name = &*host.info.hostname;
    let query = Query::new(host.info.host).what(grouping.what()).filter(filter.clone()).without_resting();
    let query = if with_events { query } else { query.without_sched() }.with_sum_details();
    let empty = tally.emptied();
    // A sum is read whole, in the part in which it begins.
    let unit_ns = span.resolution.map_or(1, Resolution::length_ns);
    let whole =
        |ns: i64| if ns == span.range.until_ns { ns } else { ns.div_euclid(unit_ns).saturating_mul(unit_ns) };
    let made = history.in_parts(span.range, history.parts(span.range), |history, part| {
        let mut tally = empty.clone();
        let (since_ns, until_ns) = (whole(part.since_ns), whole(part.until_ns));
        if since_ns >= until_ns {
            return Ok(tally);
        }
        let query = query.clone().range(since_ns, until_ns);
        let of_sums = span.resolution.unwrap_or(Resolution::Minute);
        history.for_each(&query, span.resolution, &mut |segment| {
            tally.add(segment, of_sums, grouping, name);
        })?;
        Ok(tally)
    })?;
    for later in made {
        tally.append(later);
    }
    Ok(())
}

/// A range of one host added up, and the range that was read.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) cut: Cut,
    pub(super) tally: Tally,
}

/// Adds up a range of one host.
pub(super) fn of_range(
    history: &History,
    host: &HostStatus,
    asked: TimeRange,
    grouping: &Grouping,
) -> Result<Whole, QueryError> {
    let cut = match grouping.what() {
        What::Threads => of_threads(history, host, asked)?,
        _ => cut(asked, history.finest(host.info.host, asked)?),
    };
    let mut tally = Tally::new(Some(points(&cut, POINTS)));
    let reading = Reading { host, grouping, filter: &ProcessFilter::All, with_events: true };
    for span in &cut.spans {
        read(history, reading, *span, &mut tally)?;
    }
    Ok(Whole { cut, tally })
}

/// How a range of threads is read.
pub(super) fn of_threads(history: &History, host: &HostStatus, asked: TimeRange) -> Result<Cut, QueryError> {
    let without = history.hours_without_threads(host.info.host, asked)?;
    let cut = cut_threads(asked, history.finest(host.info.host, asked)?, &without);
    check_length(history, host, &cut)?;
    Ok(cut)
}

/// An error if more than a day of threads would be read interval by interval: of hours that an older version compacted.
fn check_length(history: &History, host: &HostStatus, cut: &Cut) -> Result<(), QueryError> {
    let Some(known) = history.available(host.info.host)? else { return Ok(()) };
    let known = TimeRange { since_ns: known.first_ns, until_ns: known.last_ns };
    if cut.intervals_ns(known) > THREAD_INTERVALS_NS { Err(QueryError::ThreadRangeTooLong) } else { Ok(()) }
}

/// The points over time: sums are not split, so a point is as long as some of them.
pub(super) fn points(cut: &Cut, points: usize) -> Buckets {
    let TimeRange { since_ns, until_ns } = cut.range;
    let resolution = cut.coarsest();
    let unit_ns = resolution.map_or(1, Resolution::length_ns);
    let wanted_ns = cut.range.length_ns() / i64::try_from(points).unwrap_or(i64::MAX).max(1);
    let width_ns = (wanted_ns.saturating_add(unit_ns - 1) / unit_ns).max(1).saturating_mul(unit_ns);
    Buckets::new(PlotRange { since_ns, until_ns, points }, &Plan { since_ns, until_ns, resolution, width_ns })
}
