//! Reads what a tally adds up: parts of a range from sums and intervals, several at the same time. [`Zoom`] then finds in which interval
//! the peak of a group was, and when it was there first and last: the sum of the hour that may hold it is read again by minutes, and that
//! minute by intervals. What cannot be higher than a peak that is known is not read.

use std::collections::HashMap;

use cpumon_model::HostStatus;
use cpumon_store::{ProcessFilter, Query, Resolution, What};

use super::answer::Peak;
use super::sums::{Candidate, GroupTimes, RangeTally, ReportGroup, SpanMark, highest};
use crate::QueryError;
use crate::history::History;
use crate::history::buckets::Buckets;
use crate::spans::{Cut, Plan, Span, cut, cut_threads};
use crate::tally::{GroupId, Grouping};
use crate::time::{PlotRange, TimeRange};

/// Longest time of threads that is read interval by interval: a day, and an hour at each end of a range read from sums.
const THREAD_INTERVALS_NS: i64 = 26 * 3_600_000_000_000;
/// Approximate number of points of a sparkline.
const POINTS: usize = 24;
#[derive(Copy, Clone, Debug)]
pub(super) struct RangeReading<'a> {
    pub(super) host: &'a HostStatus,
    pub(super) grouping: &'a Grouping,
    pub(super) filter: &'a ProcessFilter,
    /// Whether the scheduler's events are read too.
    pub(super) with_events: bool,
}

/// Adds one part of a range to a tally; a long one is read in parts at the same time.
pub(super) fn read(
    history: &History,
    reading: RangeReading<'_>,
    span: Span,
    tally: &mut RangeTally,
) -> Result<(), QueryError> {
    let RangeReading { host, grouping, filter, with_events } = reading;
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
        let mut segments = history.segments(&query, span.resolution)?;
        while let Some(segment) = segments.read()? {
            tally.add(&segment, of_sums, grouping, name);
        }
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
    pub(super) tally: RangeTally,
}

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
    let mut tally = RangeTally::new(Some(points(&cut, POINTS)));
    let reading = RangeReading { host, grouping, filter: &ProcessFilter::All, with_events: true };
    for span in &cut.spans {
        read(history, reading, *span, &mut tally)?;
    }
    Ok(Whole { cut, tally })
}

pub(super) fn of_threads(history: &History, host: &HostStatus, asked: TimeRange) -> Result<Cut, QueryError> {
    let without = history.ask(|reader| reader.hours_without_threads(host.info.host, asked))?;
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

/// The points over time: sums are not split, so each point spans whole sums.
pub(super) fn points(cut: &Cut, points: usize) -> Buckets {
    let TimeRange { since_ns, until_ns } = cut.range;
    let resolution = cut.coarsest();
    let unit_ns = resolution.map_or(1, Resolution::length_ns);
    let wanted_ns = cut.range.length_ns() / i64::try_from(points).unwrap_or(i64::MAX).max(1);
    let width_ns = (wanted_ns.saturating_add(unit_ns - 1) / unit_ns).max(1).saturating_mul(unit_ns);
    Buckets::new(PlotRange { since_ns, until_ns, points }, &Plan { since_ns, until_ns, resolution, width_ns })
}

/// Minutes and hours that are read again at most for one report. Beyond it peaks are marked as not exact.
const MAX_READS: usize = 200;

/// When a group was there and when it ran most.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Zoomed {
    pub(super) first_ns: Option<i64>,
    pub(super) last_ns: Option<i64>,
    pub(super) peak: Option<Peak>,
}

/// The processes of these groups; all processes, unless each group is one or a thread of one.
pub(super) fn filter_of(groups: &[&ReportGroup]) -> ProcessFilter {
    let processes: Option<Vec<_>> = groups.iter().map(|group| group.process).collect();
    processes.map_or(ProcessFilter::All, |keys| ProcessFilter::AnyOf(keys.into()))
}

/// The finer data of one host, each part read once for all groups that are shown.
pub(super) struct Zoom<'a> {
    history: &'a History,
    host: &'a HostStatus,
    grouping: &'a Grouping,
    shown: Vec<GroupId>,
    /// Processes of the groups that are shown.
    filter: ProcessFilter,
    parts: HashMap<TimeRange, HashMap<GroupId, GroupTimes>>,
    reads: usize,
}

impl<'a> Zoom<'a> {
    pub(super) fn new(
        history: &'a History,
        host: &'a HostStatus,
        grouping: &'a Grouping,
        shown: &[&ReportGroup],
    ) -> Self {
        Self {
            history,
            host,
            grouping,
            shown: shown.iter().map(|group| group.id()).collect(),
            filter: filter_of(shown),
            parts: HashMap::new(),
            reads: 0,
        }
    }

    /// First time, last time and peak of a group, from `times` and, where needed, from finer data.
    pub(super) fn of(&mut self, id: &GroupId, times: &GroupTimes) -> Result<Zoomed, QueryError> {
        let ends = self.ends(id, times)?;
        Ok(Zoomed { peak: self.peak(id, times)?, ..ends })
    }

    /// First and last time of a group, without its peak.
    pub(super) fn ends(&mut self, id: &GroupId, times: &GroupTimes) -> Result<Zoomed, QueryError> {
        Ok(Zoomed {
            first_ns: self.end_of(id, times.first, End::First)?,
            last_ns: self.end_of(id, times.last, End::Last)?,
            peak: None,
        })
    }

    /// Finer data of one group within a sum; `None` if none is stored, or if the limit of reads is used up.
    fn finer(&mut self, id: &GroupId, mark: SpanMark) -> Result<Option<GroupTimes>, QueryError> {
        let Some(resolution) = mark.resolution else { return Ok(None) };
        if !self.parts.contains_key(&mark.range) {
            if self.reads >= MAX_READS {
                return Ok(None);
            }
            self.reads += 1;
            // Threads have no sums of minutes.
            let has_minutes = resolution == Resolution::Hour && self.grouping.what() != What::Threads;
            let finer = has_minutes.then_some(Resolution::Minute);
            let span = Span { range: mark.range, resolution: finer };
            let mut tally = RangeTally::new(None);
            let (host, grouping, filter) = (self.host, self.grouping, &self.filter);
            let reading = RangeReading { host, grouping, filter, with_events: false };
            read(self.history, reading, span, &mut tally)?;
            let of_shown = |id: &GroupId| Some((id.clone(), tally.find(id)?.sums.times.clone()));
            self.parts.insert(mark.range, self.shown.iter().filter_map(of_shown).collect());
        }
        Ok(self.parts.get(&mark.range).and_then(|part| part.get(id)).cloned())
    }

    fn end_of(&mut self, id: &GroupId, mark: Option<SpanMark>, end: End) -> Result<Option<i64>, QueryError> {
        let Some(mut mark) = mark else { return Ok(None) };
        while let Some(finer) = self.finer(id, mark)? {
            let next = if end == End::First { finer.first } else { finer.last };
            let Some(next) = next.filter(|next| *next != mark) else { break };
            mark = next;
        }
        Ok(Some(if end == End::First { mark.range.since_ns } else { mark.range.until_ns }))
    }

    fn peak(&mut self, id: &GroupId, times: &GroupTimes) -> Result<Option<Peak>, QueryError> {
        let (mut peak, mut open) = (times.peak, times.candidates.clone());
        // Highest upper bound of the sums without finer data.
        let mut unread = i64::MIN;
        loop {
            let known = peak.map_or(i64::MIN, |peak| peak.ns_per_s);
            let at = (0..open.len()).max_by_key(|at| open[*at].upper).filter(|at| open[*at].upper > known);
            let Some(at) = at else { break };
            let Candidate { mark, upper, lower } = open.swap_remove(at);
            if let Some(finer) = self.finer(id, mark)? {
                peak = highest(peak, finer.peak);
                open.extend(finer.candidates);
            } else {
                // Of a single process the sum has the value, but not when within it.
                unread = unread.max(upper);
                peak = highest(
                    peak,
                    Some(Peak { ns_per_s: lower, end_ns: mark.range.until_ns, is_exact: true }),
                );
            }
        }
        Ok(peak.map(|peak| Peak { is_exact: peak.ns_per_s >= unread, ..peak }))
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum End {
    First,
    Last,
}
