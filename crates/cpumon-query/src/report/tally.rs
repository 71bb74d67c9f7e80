//! [`Tally`]: the groups of a range of one host while they are added up. All sums are exact. Of peaks, and of the first and the
//! last time a group was there, it notes in which sum they are, where it is not an interval that was read.

use cpumon_model::{BootId, Delta, Fields, ProcessKey, Waits};
use cpumon_store::{ActiveTimes, Resolution, Segment, What};

use super::answer::Peak;
use super::group::{GroupId, GroupOf, Grouping, Kind, ProcessRow, ThreadRow};
use super::places::{Found, Places};
use crate::history::BucketTimes;
use crate::history::buckets::{Buckets, Share};
use crate::keys::TaskKey;
use crate::time::TimeRange;

/// Groups being added up.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    /// Closed: rows of other groups count as run time of all threads only.
    places: Places,
    pub(super) groups: Vec<Group>,
    /// Measured time.
    pub(super) covered_ns: u64,
    /// Run time of all threads by the ledger; where there is none, of all rows.
    pub(super) used_ns: i64,
    /// Counters that every interval has.
    pub(super) fields: Fields,
    /// Points over time; `None`: none are wanted.
    pub(super) buckets: Option<Buckets>,
    /// Run time of all threads a point.
    pub(super) used_points: Vec<f64>,
    /// Groups that were met when there were too many already, an upper bound: they are in that of all others.
    pub(super) folded: u64,
    /// When groups were there and ran most is not noted: for each sum it takes memory that a comparison has no use for.
    is_timeless: bool,
    shares: Vec<Share>,
    touched: Vec<usize>,
}

impl Tally {
    pub(super) fn new(buckets: Option<Buckets>) -> Self {
        Self {
            places: Places::default(),
            groups: Vec::new(),
            covered_ns: 0,
            used_ns: 0,
            fields: Fields::all(),
            used_points: vec![0.0; buckets.as_ref().map_or(0, Buckets::count)],
            buckets,
            folded: 0,
            is_timeless: false,
            shares: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// Without points, peaks and times.
    pub(super) fn timeless() -> Self {
        Self { is_timeless: true, ..Self::new(None) }
    }

    /// Of these groups only.
    pub(super) fn of_groups<'g>(buckets: Buckets, groups: impl Iterator<Item = &'g Group>) -> Self {
        let mut tally = Self::new(Some(buckets));
        for group in groups {
            tally.place(group.of());
        }
        tally.places.is_closed = true;
        tally
    }

    /// The same one before anything was added.
    pub(super) fn emptied(&self) -> Self {
        let buckets = self.buckets.clone().map(Buckets::emptied);
        match buckets {
            Some(buckets) if self.places.is_closed => Self::of_groups(buckets, self.groups.iter()),
            buckets => Self::new(buckets),
        }
    }

    /// The group with this id.
    pub(super) fn find(&self, id: &GroupId) -> Option<usize> {
        self.places.find(id)
    }

    /// The group of a row. Where there are too many, a report has the row among all others, and a search has it nowhere: there it
    /// can be in several groups and would count twice.
    pub(super) fn place(&mut self, of: GroupOf<'_>) -> Option<usize> {
        let (of, found) = match self.places.place(&of) {
            Some(found) => (of, found),
            None if self.places.is_closed || of.kind.is_of_search() => return None,
            None => {
                self.folded += 1;
                (GroupOf::OTHERS, self.places.place(&GroupOf::OTHERS)?)
            }
        };
        match found {
            Found::Known(at) => {
                // A process that calls exec gets another name; the newest one names it.
                if of.task.is_some() && *self.groups[at].name != *of.name {
                    self.groups[at].name = of.name.into();
                }
                Some(at)
            }
            Found::New(at) => {
                let points = self.buckets.as_ref().map_or(0, Buckets::count);
                self.groups.push(Group::new(of, points));
                Some(at)
            }
        }
    }

    /// Adds a span; `resolution`: of sums.
    pub(super) fn add(
        &mut self,
        span: &Segment<'_>,
        resolution: Resolution,
        grouping: &Grouping,
        host: &str,
    ) {
        let interval = span.interval;
        self.covered_ns = self.covered_ns.saturating_add(interval.duration_ns());
        self.fields &= interval.fields;
        if let Some(buckets) = &mut self.buckets {
            buckets.cover(span, &mut self.shares);
        }
        let mut rows_ns = 0_i64;
        if grouping.what() == What::Threads {
            rows_ns = interval.processes.iter().map(|row| row.delta.run_ns).fold(0, i64::saturating_add);
            self.add_threads(span, grouping);
        } else {
            for process in ProcessRow::of(span) {
                rows_ns = rows_ns.saturating_add(process.row.delta.run_ns);
                self.add_process(process, grouping, host);
            }
        }
        let ledger = &interval.ledger;
        // v1 devices have no ledger.
        let is_known = ledger.capacity_ns > 0;
        let used_ns = if is_known { ledger.threads_ns.saturating_add(ledger.exited_ns) } else { rows_ns };
        self.used_ns = self.used_ns.saturating_add(used_ns);
        for Share { at, part } in &self.shares {
            if let Some(point) = self.used_points.get_mut(*at) {
                *point += used_ns as f64 * part;
            }
        }
        self.close(span, span.max_busy_ppm.map(|_| resolution));
    }

    fn add_threads(&mut self, span: &Segment<'_>, grouping: &Grouping) {
        let filter = grouping.filter();
        let rows: Vec<_> = filter.is_some().then(|| ProcessRow::of(span)).into_iter().flatten().collect();
        for thread in ThreadRow::of(span) {
            let process = thread.process_at.and_then(|at| rows.get(at)).copied();
            let is_counted = filter.is_none_or(|filter| filter.lets_thread(thread.row, process));
            self.add_thread(thread, is_counted);
        }
    }

    fn add_thread(&mut self, thread: ThreadRow<'_>, is_counted: bool) {
        let ThreadRow { row, blocked_ns, most_ns_per_s, times, .. } = thread;
        let name = row.comm.to_str_lossy();
        let of = if is_counted { thread.group(&name) } else { GroupOf::OTHERS };
        let part = Part { delta: &row.delta, blocked_ns, waits: &row.sched.waits, most_ns_per_s, times };
        self.add_row(of, part);
    }

    fn add_process(&mut self, process: ProcessRow<'_>, grouping: &Grouping, host: &str) {
        let row = process.row;
        let part = Part {
            delta: &row.delta,
            blocked_ns: process.blocked_ns,
            waits: &row.sched.waits,
            most_ns_per_s: process.most_ns_per_s,
            times: process.times,
        };
        if !grouping.is_by_info() {
            grouping.each(process, host, &mut |of| self.add_row(of, part));
            return;
        }
        let has_user = process.has_user();
        let groups = self.places.of_info(&row.info, has_user).unwrap_or_else(|| {
            let mut groups = Vec::new();
            grouping.each(process, host, &mut |of| groups.extend(self.place(of)));
            self.places.note(&row.info, has_user, groups.into_iter())
        });
        for at in groups {
            if let Some(group) = self.places.noted(at) {
                self.add_to(group, part);
            }
        }
    }

    fn add_row(&mut self, of: GroupOf<'_>, part: Part<'_>) {
        // What is in no group is found at the end, as the difference from the ledger.
        if let Some(at) = self.place(of) {
            self.add_to(at, part);
        }
    }

    fn add_to(&mut self, at: usize, part: Part<'_>) {
        if self.groups[at].add(part, &self.shares) {
            self.touched.push(at);
        }
    }

    fn close(&mut self, span: &Segment<'_>, resolution: Option<Resolution>) {
        let interval = span.interval;
        let range = TimeRange { since_ns: interval.begin.wall_ns, until_ns: interval.end.wall_ns };
        let (mark, length_ns) = (Mark { range, resolution }, interval.duration_ns());
        let measured_in_ns = interval.measured_in_ns();
        // No group ran more than all CPUs in the busiest interval. That share is rounded down, so one millionth is added.
        let capacity = rate(interval.ledger.capacity_ns, length_ns);
        let bound = |ppm: i64| i128::from(capacity) * (i128::from(ppm) + 1) / 1_000_000;
        let busy = span.max_busy_ppm.filter(|_| capacity > 0).map(bound);
        let busy_ns_per_s = busy.map_or(i64::MAX, |ns| i64::try_from(ns).unwrap_or(i64::MAX));
        for at in self.touched.drain(..) {
            let group = &mut self.groups[at];
            if self.is_timeless {
                group.now = Now::default();
            } else {
                group.close(mark, measured_in_ns, busy_ns_per_s);
            }
        }
    }

    /// Takes what was added up of a later part of the range.
    pub(super) fn append(&mut self, later: Self) {
        self.covered_ns = self.covered_ns.saturating_add(later.covered_ns);
        self.used_ns = self.used_ns.saturating_add(later.used_ns);
        self.fields &= later.fields;
        self.folded = self.folded.saturating_add(later.folded);
        if let (Some(buckets), Some(later)) = (&mut self.buckets, &later.buckets) {
            buckets.append(later);
        }
        for (point, ns) in self.used_points.iter_mut().zip(later.used_points) {
            *point += ns;
        }
        for more in later.groups {
            let Some(at) = self.place(more.of()) else { continue };
            self.groups[at].append(more);
        }
    }

    /// Points of the small lines.
    pub(super) fn times(&self) -> BucketTimes {
        self.buckets.as_ref().map_or_else(BucketTimes::default, Buckets::times)
    }

    /// Run time that no group has: of rows that are in none, and what the ledger has and no row.
    pub(super) fn unattributed_ns(&self) -> i64 {
        let groups_ns = self.groups.iter().map(|group| group.delta.run_ns).fold(0, i64::saturating_add);
        self.used_ns.saturating_sub(groups_ns)
    }
}

/// What a group did in the span at hand.
#[derive(Copy, Clone, Debug, Default)]
struct Now {
    is_there: bool,
    run_ns: i64,
    /// Sum and highest of the largest run times of its processes, ns per second.
    sum: i64,
    highest: i64,
    /// Rows of a sum, and when they were active; of the latter the rows whose times are not recorded.
    rows: usize,
    timeless: usize,
    times: Option<ActiveTimes>,
}

/// A group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) kind: Kind,
    pub(super) name: Box<str>,
    pub(super) task: Option<(BootId, TaskKey)>,
    pub(super) process: Option<ProcessKey>,
    pub(super) delta: Delta,
    pub(super) blocked_ns: Option<i64>,
    pub(super) waits: Waits,
    pub(super) times: Times,
    /// Run time a point.
    pub(super) points: Vec<f64>,
    now: Now,
}

/// What a row adds to its groups.
#[derive(Copy, Clone)]
pub(super) struct Part<'a> {
    pub(super) delta: &'a Delta,
    pub(super) blocked_ns: Option<i64>,
    pub(super) waits: &'a Waits,
    pub(super) most_ns_per_s: Option<i64>,
    pub(super) times: Option<ActiveTimes>,
}

/// `part` in `length_ns`, a second.
pub(super) fn rate(part: i64, length_ns: u64) -> i64 {
    if length_ns == 0 {
        return 0;
    }
    // 128 bits: `part` can be years of ns times a billion.
    i64::try_from(i128::from(part) * 1_000_000_000 / i128::from(length_ns)).unwrap_or(i64::MAX)
}

/// Unknown + 5 = 5, and a sum of nothing stays unknown.
fn add_known(sum: &mut Option<i64>, more: Option<i64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}

/// Times of two rows of one sum.
fn together(one: Option<ActiveTimes>, other: ActiveTimes) -> ActiveTimes {
    one.map_or(other, |one| ActiveTimes {
        first_ns: one.first_ns.min(other.first_ns),
        last_ns: one.last_ns.max(other.last_ns),
        ..one
    })
}

impl Group {
    pub(super) fn new(of: GroupOf<'_>, points: usize) -> Self {
        Self {
            kind: of.kind,
            name: of.name.into(),
            task: of.task,
            process: of.process,
            delta: Delta::default(),
            blocked_ns: None,
            waits: Waits::default(),
            times: Times::default(),
            points: vec![0.0; points],
            now: Now::default(),
        }
    }

    /// How it is found in another part of the range.
    pub(super) fn id(&self) -> GroupId {
        match self.task {
            Some((boot, task)) => GroupId::Task(boot, task),
            None => GroupId::Named(self.kind, self.name.clone()),
        }
    }

    pub(super) fn of(&self) -> GroupOf<'_> {
        GroupOf { kind: self.kind, name: &self.name, task: self.task, process: self.process }
    }

    /// Adds a row of the span at hand; whether it is the first one.
    pub(super) fn add(&mut self, part: Part<'_>, shares: &[Share]) -> bool {
        self.delta += part.delta;
        add_known(&mut self.blocked_ns, part.blocked_ns);
        self.waits += part.waits;
        for Share { at, part: share } in shares {
            if let Some(point) = self.points.get_mut(*at) {
                *point += part.delta.run_ns as f64 * share;
            }
        }
        let now = &mut self.now;
        now.run_ns = now.run_ns.saturating_add(part.delta.run_ns);
        if let Some(most) = part.most_ns_per_s {
            now.sum = now.sum.saturating_add(most);
            now.highest = now.highest.max(most);
            now.rows += 1;
            match part.times {
                Some(times) => now.times = Some(together(now.times, times)),
                None => now.timeless += 1,
            }
        }
        !std::mem::replace(&mut now.is_there, true)
    }

    /// Takes what was added up of it in a later part of the range.
    pub(super) fn append(&mut self, more: Self) {
        self.delta += &more.delta;
        add_known(&mut self.blocked_ns, more.blocked_ns);
        self.waits += &more.waits;
        self.times.append(more.times);
        for (point, ns) in self.points.iter_mut().zip(more.points) {
            *point += ns;
        }
    }

    /// Ends a span: what the group did in it is known now.
    pub(super) fn close(&mut self, mark: Mark, measured_in_ns: u64, busy_ns_per_s: i64) {
        let now = std::mem::take(&mut self.now);
        let times = now.times.filter(|_| now.timeless == 0);
        match times {
            Some(ActiveTimes { first_ns, last_ns, .. }) => {
                let range = TimeRange { since_ns: first_ns, until_ns: last_ns };
                self.times.see(Mark { range, resolution: None });
            }
            None => self.times.see(mark),
        }
        let mean = rate(now.run_ns, measured_in_ns);
        let highest = self.times.peak.map_or(i64::MIN, |peak| peak.ns_per_s);
        if mark.resolution.is_none() {
            if mean > highest {
                self.times.peak = Some(Peak { ns_per_s: mean, end_ns: mark.range.until_ns, is_exact: true });
            }
            return;
        }
        if let Some(ActiveTimes { max_end_ns, .. }) = times.filter(|_| now.rows == 1) {
            let peak = Peak { ns_per_s: now.highest, end_ns: max_end_ns, is_exact: true };
            self.times.peak = self::highest(self.times.peak, Some(peak));
            return;
        }
        let lower = now.highest.max(mean);
        let upper = now.sum.min(busy_ns_per_s).max(lower);
        if upper > highest {
            self.times.candidates.push(Candidate { mark, upper, lower });
        }
    }
}

/// A span of time, and what was read of it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) range: TimeRange,
    /// `None`: an interval.
    pub(super) resolution: Option<Resolution>,
}

/// A sum in which the peak of a group may be.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) mark: Mark,
    /// Not more than this, ns per second.
    pub(super) upper: i64,
    /// Not less.
    pub(super) lower: i64,
}

/// What is known of when a group was there and ran most.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    pub(super) first: Option<Mark>,
    pub(super) last: Option<Mark>,
    /// The highest of the intervals that were read.
    pub(super) peak: Option<Peak>,
    pub(super) candidates: Vec<Candidate>,
}

impl Times {
    pub(super) fn see(&mut self, mark: Mark) {
        let is_earlier = |first: &Mark| mark.range.since_ns < first.range.since_ns;
        if self.first.as_ref().is_none_or(is_earlier) {
            self.first = Some(mark);
        }
        let is_later = |last: &Mark| mark.range.until_ns > last.range.until_ns;
        if self.last.as_ref().is_none_or(is_later) {
            self.last = Some(mark);
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
