//! What a report adds up: [`GroupSums`] of a group, [`RangeTally`] of a range of one host. All sums are exact. Of peaks, and of the first
//! and the last time a group was there, it notes in which sum they are, where it is not an interval that was read.

use std::ops::AddAssign;

use cpumon_model::{Delta, Fields, Waits};
use cpumon_store::{ActiveTimes, PER_SECOND, Resolution, Segment, What, add_known, rate};

use super::answer::Peak;
use crate::history::BucketTimes;
use crate::history::buckets::{Buckets, PointShare};
use crate::tally::{
    self, GroupId, GroupOf, Grouping, Now, RowPart, SpanProcessRow, SpanThreadRow, Sums, Tally,
};
use crate::time::TimeRange;

pub(super) type ReportGroup = tally::Group<GroupSums>;

#[derive(Clone, Debug)]
pub(super) struct RangeTally {
    pub(super) tally: Tally<GroupSums>,
    /// Measured time, ns.
    pub(super) covered_ns: u64,
    /// Run time of all threads by the ledger; where there is none, of all rows.
    pub(super) used_ns: i64,
    /// Counters that every interval has.
    pub(super) fields: Fields,
    /// Whether some control group of the host had a CPU limit.
    pub(super) has_limits: bool,
    /// Points over time; `None`: none are wanted.
    pub(super) buckets: Option<Buckets>,
    /// Run time of all threads in each point.
    pub(super) used_points: Vec<f64>,
    shares: Vec<PointShare>,
}

impl RangeTally {
    pub(super) fn new(buckets: Option<Buckets>) -> Self {
        let sums = GroupSums::new(buckets.as_ref());
        Self::of(buckets, Tally::new(sums))
    }

    /// Without points, peaks and times: for each sum they take memory that a comparison has no use for.
    pub(super) fn timeless() -> Self {
        Self::of(None, Tally::new(GroupSums { is_timeless: true, ..GroupSums::new(None) }))
    }

    /// Of these groups only: rows of others count as run time of all threads.
    pub(super) fn of_groups<'g>(buckets: Buckets, groups: impl Iterator<Item = &'g ReportGroup>) -> Self {
        let sums = GroupSums::new(Some(&buckets));
        Self::of(Some(buckets), Tally::of_groups(sums, groups.map(ReportGroup::of)))
    }

    fn of(buckets: Option<Buckets>, tally: Tally<GroupSums>) -> Self {
        Self {
            tally,
            covered_ns: 0,
            used_ns: 0,
            fields: Fields::all(),
            has_limits: false,
            used_points: vec![0.0; buckets.as_ref().map_or(0, Buckets::count)],
            buckets,
            shares: Vec::new(),
        }
    }

    pub(super) fn emptied(&self) -> Self {
        Self::of(self.buckets.clone().map(Buckets::emptied), self.tally.emptied())
    }

    pub(super) fn groups(&self) -> &[ReportGroup] {
        &self.tally.groups
    }

    pub(super) fn find(&self, id: &GroupId) -> Option<&ReportGroup> {
        self.tally.find(id).map(|at| &self.tally.groups[at])
    }

    /// Adds a span; `resolution` is the resolution of its sums.
    pub(super) fn add(
        &mut self,
        span: &Segment<'_>,
        resolution: Resolution,
        grouping: &Grouping,
        host: &str,
    ) {
        let interval = span.interval;
        self.covered_ns = self.covered_ns.saturating_add(interval.duration_ns());
        let is_of_threads = grouping.what() == What::Threads;
        self.fields &=
            if is_of_threads { interval.fields.of_threads(interval.source) } else { interval.fields };
        self.has_limits |= interval.has_limits();
        if let Some(buckets) = &mut self.buckets {
            buckets.cover(span, &mut self.shares);
        }
        let at = MarkedSpan::new(span, resolution, &self.shares);
        let mut rows_ns = 0_i64;
        if is_of_threads {
            rows_ns = interval.processes.iter().map(|row| row.delta.run_ns).fold(0, i64::saturating_add);
            let tally = &mut self.tally;
            each_thread(span, grouping, &mut |of, thread| tally.add_row(of, &at, &thread.part));
        } else {
            for process in SpanProcessRow::of(span) {
                rows_ns = rows_ns.saturating_add(process.row.delta.run_ns);
                self.tally.add_process(process, grouping, host, &at);
            }
        }
        self.tally.close(&at);
        let ledger = &interval.ledger;
        // v1 devices have no ledger.
        let is_known = ledger.capacity_ns > 0;
        let used_ns = if is_known { ledger.threads_ns.saturating_add(ledger.exited_ns) } else { rows_ns };
        self.used_ns = self.used_ns.saturating_add(used_ns);
        for PointShare { at, part } in &self.shares {
            if let Some(point) = self.used_points.get_mut(*at) {
                *point += used_ns as f64 * part;
            }
        }
    }

    /// Takes what was added up of a later part of the range.
    pub(super) fn append(&mut self, later: Self) {
        self.covered_ns = self.covered_ns.saturating_add(later.covered_ns);
        self.used_ns = self.used_ns.saturating_add(later.used_ns);
        self.fields &= later.fields;
        self.has_limits |= later.has_limits;
        if let (Some(buckets), Some(later)) = (&mut self.buckets, &later.buckets) {
            buckets.append(later);
        }
        for (point, ns) in self.used_points.iter_mut().zip(later.used_points) {
            *point += ns;
        }
        self.tally.append(later.tally);
    }

    /// Points of the sparklines.
    pub(super) fn times(&self) -> BucketTimes {
        self.buckets.as_ref().map_or_else(BucketTimes::default, Buckets::times)
    }

    /// Run time that no group has: of rows that are in none, and what the ledger has and no row.
    pub(super) fn unattributed_ns(&self) -> i64 {
        let run_ns = self.groups().iter().map(|group| group.sums.delta.run_ns);
        self.used_ns.saturating_sub(run_ns.fold(0, i64::saturating_add))
    }
}

/// The threads of a span, each with its group: what a filter does not let through is among all others.
pub(super) fn each_thread(
    span: &Segment<'_>,
    grouping: &Grouping,
    visit: &mut dyn FnMut(GroupOf<'_>, &SpanThreadRow<'_>),
) {
    let filter = grouping.filter();
    let rows: Vec<_> = filter.is_some().then(|| SpanProcessRow::of(span)).into_iter().flatten().collect();
    for thread in SpanThreadRow::of(span) {
        let is_counted = filter.is_none_or(|filter| {
            let process = thread.process_at(span).and_then(|at| rows.get(at)).copied();
            filter.lets_thread(thread.row, process)
        });
        let name = thread.row.comm.to_str_lossy();
        visit(if is_counted { thread.group(&name) } else { GroupOf::OTHERS }, &thread);
    }
}

/// A span with the points that it lies in, and what bounds a peak in it.
pub(super) struct MarkedSpan<'s> {
    shares: &'s [PointShare],
    mark: SpanMark,
    measured_in_ns: u64,
    busy_ns_per_s: i64,
}

impl<'s> MarkedSpan<'s> {
    fn new(span: &Segment<'_>, resolution: Resolution, shares: &'s [PointShare]) -> Self {
        let interval = span.interval;
        // No group ran more than all CPUs in the busiest interval. That share is rounded down, so one millionth is added.
        let capacity = rate(interval.ledger.capacity_ns, interval.duration_ns().cast_signed(), PER_SECOND);
        let bound = |ppm: i64| i128::from(capacity) * (i128::from(ppm) + 1) / 1_000_000;
        let busy = span.max_busy_ppm.filter(|_| capacity > 0).map(bound);
        Self {
            shares,
            mark: SpanMark { range: span.time(), resolution: span.max_busy_ppm.map(|_| resolution) },
            measured_in_ns: interval.measured_in_ns(),
            busy_ns_per_s: busy.map_or(i64::MAX, |ns| i64::try_from(ns).unwrap_or(i64::MAX)),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct GroupSums {
    pub(super) delta: Delta,
    pub(super) blocked_ns: Option<i64>,
    pub(super) waits: Waits,
    pub(super) times: GroupTimes,
    is_timeless: bool,
    /// Run time in each point.
    pub(super) points: Vec<f64>,
}

impl GroupSums {
    fn new(buckets: Option<&Buckets>) -> Self {
        Self {
            delta: Delta::default(),
            blocked_ns: None,
            waits: Waits::default(),
            times: GroupTimes::default(),
            is_timeless: false,
            points: vec![0.0; buckets.map_or(0, Buckets::count)],
        }
    }
}

impl Sums for GroupSums {
    type Span<'s> = MarkedSpan<'s>;

    fn add(&mut self, span: &MarkedSpan<'_>, part: &RowPart<'_>) {
        self.delta += part.delta;
        add_known(&mut self.blocked_ns, part.blocked_ns);
        self.waits += part.waits;
        for PointShare { at, part: share } in span.shares {
            if let Some(point) = self.points.get_mut(*at) {
                *point += part.delta.run_ns as f64 * share;
            }
        }
    }

    fn close(&mut self, span: &MarkedSpan<'_>, now: &Now) {
        if !self.is_timeless {
            self.times.close(span, now);
        }
    }
}

impl AddAssign for GroupSums {
    fn add_assign(&mut self, later: Self) {
        self.delta += &later.delta;
        add_known(&mut self.blocked_ns, later.blocked_ns);
        self.waits += &later.waits;
        self.times.append(later.times);
        for (point, ns) in self.points.iter_mut().zip(later.points) {
            *point += ns;
        }
    }
}

/// A span of time, and the resolution of its data.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct SpanMark {
    pub(super) range: TimeRange,
    /// Resolution of the sum; `None` for an interval.
    pub(super) resolution: Option<Resolution>,
}

/// A sum in which the peak of a group may be.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) mark: SpanMark,
    /// Upper bound of the peak, ns per second.
    pub(super) upper: i64,
    /// Lower bound of the peak, ns per second.
    pub(super) lower: i64,
}

/// When a group was there and ran most, as far as known.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupTimes {
    pub(super) first: Option<SpanMark>,
    pub(super) last: Option<SpanMark>,
    /// Highest peak of the intervals that were read.
    pub(super) peak: Option<Peak>,
    pub(super) candidates: Vec<Candidate>,
}

impl GroupTimes {
    pub(super) fn see(&mut self, mark: SpanMark) {
        let is_earlier = |first: &SpanMark| mark.range.since_ns < first.range.since_ns;
        if self.first.as_ref().is_none_or(is_earlier) {
            self.first = Some(mark);
        }
        let is_later = |last: &SpanMark| mark.range.until_ns > last.range.until_ns;
        if self.last.as_ref().is_none_or(is_later) {
            self.last = Some(mark);
        }
    }

    /// Takes a span in which the group had rows.
    fn close(&mut self, span: &MarkedSpan<'_>, now: &Now) {
        let times = now.times();
        let active = times.map(|ActiveTimes { first_ns, last_ns, .. }| SpanMark {
            range: TimeRange { since_ns: first_ns, until_ns: last_ns },
            resolution: None,
        });
        self.see(active.unwrap_or(span.mark));
        let mean = rate(now.run_ns, span.measured_in_ns.cast_signed(), PER_SECOND);
        let known = self.peak.map_or(i64::MIN, |peak| peak.ns_per_s);
        if span.mark.resolution.is_none() {
            if mean > known {
                let end_ns = span.mark.range.until_ns;
                self.peak = Some(Peak { ns_per_s: mean, end_ns, is_exact: true });
            }
            return;
        }
        if let Some(ActiveTimes { max_end_ns, .. }) = times.filter(|_| now.rows == 1) {
            let peak = Peak { ns_per_s: now.highest, end_ns: max_end_ns, is_exact: true };
            self.peak = highest(self.peak, Some(peak));
            return;
        }
        let lower = now.highest.max(mean);
        let upper = now.sum.min(span.busy_ns_per_s).max(lower);
        if upper > known {
            self.candidates.push(Candidate { mark: span.mark, upper, lower });
        }
    }

    pub(super) fn append(&mut self, more: Self) {
        for mark in more.first.into_iter().chain(more.last) {
            self.see(mark);
        }
        self.peak = highest(self.peak, more.peak);
        self.candidates.extend(more.candidates);
    }
}

/// The higher of two peaks, the earlier of equal ones.
pub(super) fn highest(one: Option<Peak>, other: Option<Peak>) -> Option<Peak> {
    match (one, other) {
        (Some(one), Some(other)) if other.ns_per_s > one.ns_per_s => Some(other),
        (None, other) => other,
        (one, _) => one,
    }
}
