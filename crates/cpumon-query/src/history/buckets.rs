//! Evenly spaced points over a range ([`Buckets`]). Intervals are split between points by time; a point without data has no value.
//! [`Presence`] notes the points in which a task, or any process of a name, was alive: without it a task that had not begun yet, or had
//! ended, would be drawn as idle.

use std::collections::HashMap;

use cpumon_model::{BootId, Flags, IntervalView, Life, Moment};
use cpumon_store::{Resolution, Segment};

use super::answers::BucketTimes;
use crate::keys::TaskKey;
use crate::spans::Plan;
use crate::time::{PlotRange, TimeRange};

/// Evenly spaced points over a range.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    begin_ns: i64,
    width_ns: i64,
    count: usize,
    resolution: Option<Resolution>,
    covered_ns: Vec<f64>,
}

/// A point that a span lies in, and the part of the span that lies in it.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) struct PointShare {
    pub(crate) at: usize,
    /// Share of the span, 0 to 1; the parts of a span inside the range add up to at most 1.
    pub(crate) part: f64,
}

/// A value a point; not a number where nothing is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points(Vec<f64>);

impl Points {
    pub(crate) fn new(count: usize) -> Self {
        Self(vec![f64::NAN; count])
    }

    pub(crate) fn add(&mut self, at: usize, value: f64) {
        if let Some(point) = self.0.get_mut(at) {
            *point = if point.is_nan() { value } else { *point + value };
        }
    }

    pub(crate) fn raise(&mut self, at: usize, value: f64) {
        if let Some(point) = self.0.get_mut(at) {
            // `f64::max` ignores NaN, so the first value takes the place of "no data".
            *point = point.max(value);
        }
    }

    pub(crate) fn lower(&mut self, at: usize, value: f64) {
        if let Some(point) = self.0.get_mut(at) {
            // Likewise: `f64::min` ignores NaN.
            *point = point.min(value);
        }
    }

    /// Visits the points that have a value.
    pub(crate) fn each(&self, mut visit: impl FnMut(usize, f64)) {
        let known = self.0.iter().enumerate().filter(|(_, value)| !value.is_nan());
        known.for_each(|(at, value)| visit(at, *value));
    }

    /// Takes the zeros of points that `is_there` refuses away.
    pub(crate) fn blank(&mut self, is_there: impl Fn(usize) -> bool) {
        for (at, point) in self.0.iter_mut().enumerate() {
            if *point == 0.0 && !is_there(at) {
                *point = f64::NAN;
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|point| point.is_nan())
    }

    /// Points rounded to whole numbers; `None` where nothing is known.
    pub(crate) fn finish(&self) -> Vec<Option<i64>> {
        self.0.iter().map(|point| whole(*point)).collect()
    }
}

/// Rounds to a whole number; `None` for NaN.
pub(crate) fn whole(value: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "a float beyond i64 sticks at its end")]
    (!value.is_nan()).then(|| value.round() as i64)
}

impl Buckets {
    pub(crate) fn new(range: PlotRange, plan: &Plan) -> Self {
        let length_ns = plan.resolution.map_or(1, Resolution::length_ns);
        // Sums begin at multiples of their length, so the first point does as well.
        let begin_ns = range.since_ns.div_euclid(length_ns).saturating_mul(length_ns);
        let whole_ns = range.until_ns.saturating_sub(begin_ns);
        let count = (whole_ns.saturating_add(plan.width_ns - 1) / plan.width_ns).max(1);
        // One more than asked for, because the start was moved back.
        let count = usize::try_from(count).unwrap_or(1).min(range.points.saturating_add(1));
        let covered_ns = vec![0.0; count];
        Self { begin_ns, width_ns: plan.width_ns, count, resolution: plan.resolution, covered_ns }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The same points, without measured time.
    pub(crate) fn emptied(mut self) -> Self {
        self.covered_ns.fill(0.0);
        self
    }

    fn place(&self, wall_ns: i64) -> i64 {
        wall_ns.saturating_sub(self.begin_ns).div_euclid(self.width_ns)
    }

    /// The points that a span lies in, each with the share of the span that it gets, in `into`: what spans several points is split by
    /// time.
    pub(crate) fn place_of(&self, span: &Segment<'_>, into: &mut Vec<PointShare>) {
        into.clear();
        let TimeRange { since_ns: begin_ns, until_ns: end_ns } = span.time();
        // The end is exclusive: an interval that ends at a border lies before it.
        let (first, last) = (self.place(begin_ns), self.place(end_ns.saturating_sub(1)));
        let length_ns = end_ns.saturating_sub(begin_ns);
        // A sum is never split. Nor is an interval over which the wall clock was set back: it has no length
        // to split by.
        if self.resolution.is_some() || length_ns <= 0 || first == last {
            if let Some(at) = usize::try_from(last).ok().filter(|at| *at < self.count) {
                into.push(PointShare { at, part: 1.0 });
            }
            return;
        }
        let top = i64::try_from(self.count).unwrap_or(i64::MAX) - 1;
        for at in first.max(0)..=last.min(top) {
            let from_ns = self.begin_ns.saturating_add(at.saturating_mul(self.width_ns));
            let to_ns = from_ns.saturating_add(self.width_ns).min(end_ns);
            let part = to_ns.saturating_sub(from_ns.max(begin_ns)) as f64 / length_ns as f64;
            if let Ok(at) = usize::try_from(at) {
                into.push(PointShare { at, part });
            }
        }
    }

    /// Notes that a span was measured, and gives the points it lies in with their shares, in `into`.
    pub(crate) fn cover(&mut self, span: &Segment<'_>, into: &mut Vec<PointShare>) {
        self.place_of(span, into);
        let length_ns = span.interval.duration_ns() as f64;
        for share in into {
            self.covered_ns[share.at] += length_ns * share.part;
        }
    }

    /// Takes what another part of the same range covered.
    pub(crate) fn append(&mut self, later: &Self) {
        for (sum, ns) in self.covered_ns.iter_mut().zip(&later.covered_ns) {
            *sum += ns;
        }
    }

    /// Start and measured time of each point.
    pub(crate) fn times(&self) -> BucketTimes {
        BucketTimes {
            resolution: self.resolution,
            begin_ns: self.begin_ns,
            width_ns: self.width_ns,
            covered_ns: self.covered_ns.iter().map(|ns| whole(*ns).unwrap_or(0)).collect(),
        }
    }

    pub(crate) fn points_of(&self, range: TimeRange) -> std::ops::Range<usize> {
        if range.until_ns <= range.since_ns {
            return 0..0;
        }
        let place = |ns: i64| usize::try_from(self.place(ns)).unwrap_or(0).min(self.count);
        let last = self.place(range.until_ns.saturating_sub(1));
        place(range.since_ns)..usize::try_from(last.saturating_add(1)).unwrap_or(0).min(self.count)
    }

    /// Values of points that were measured, those of one point made one by `join`: zero if the task was alive and idle, `None` if it
    /// was not alive.
    pub(crate) fn where_there(
        &self,
        values: impl IntoIterator<Item = (usize, f64)>,
        is_there: impl Fn(usize) -> bool,
        join: fn(f64, f64) -> f64,
    ) -> Vec<Option<i64>> {
        let covered = self.covered_ns.iter().enumerate();
        let mut all: Vec<Option<f64>> =
            covered.map(|(at, ns)| (*ns > 0.0 && is_there(at)).then_some(0.0)).collect();
        for (at, value) in values {
            if let Some(point) = all.get_mut(at) {
                *point = Some(join(point.unwrap_or(0.0), value));
            }
        }
        all.into_iter().map(|point| point.and_then(whole)).collect()
    }
}

/// The value of a cell as a float; `None`: no data.
pub(crate) fn number(value: &cpumon_model::Value<'_>) -> Option<f64> {
    match value {
        cpumon_model::Value::Int(number) => Some(*number as f64),
        cpumon_model::Value::Real(number) => Some(*number),
        _ => None,
    }
}

/// A view of a span, without the name of its host.
pub(crate) fn view_of<'a>(span: &Segment<'a>) -> IntervalView<'a> {
    IntervalView::new("", span.interval)
}

/// Where tasks may have ended without a row that says so, while intervals or sums are read in order: at holes, restarts and boots.
#[derive(Clone, Debug, Default)]
pub(super) struct Breaks {
    all: Vec<Break>,
    first: Option<Neighbour>,
    last: Option<Neighbour>,
    /// The first that names a boot, behind the last of the sums at the beginning that name none.
    first_named: Option<[Neighbour; 2]>,
}

#[derive(Copy, Clone, Debug)]
struct Break {
    /// When data ended before it, ns since the epoch.
    end_ns: i64,
    /// End of the first interval or sum behind it.
    next_ns: i64,
    /// The boot that began there; `None`: it is the same as before.
    boot: Option<BootId>,
}

/// An interval or sum beside another one.
#[derive(Copy, Clone, Debug)]
struct Neighbour {
    boot: BootId,
    is_sum: bool,
    is_restart: bool,
    begin: Moment,
    end: Moment,
}

impl Neighbour {
    /// A sum in which no process did anything names no boot.
    fn is_unnamed(&self) -> bool {
        self.is_sum && self.boot == BootId::default()
    }

    /// It with the boot of the one before, where it names none.
    fn following(self, before: Option<Self>) -> Self {
        let before = before.filter(|_| self.is_unnamed());
        Self { boot: before.map_or(self.boot, |before| before.boot), ..self }
    }

    /// The break between this one and the next.
    fn break_before(&self, next: &Self) -> Option<Break> {
        let length_ns = next.end.mono_ns.saturating_sub(next.begin.mono_ns);
        let is_hole = if self.is_sum {
            // An interval is whole in the sum in which it ends, however long it is.
            let length_ns = i64::try_from(length_ns).unwrap_or(i64::MAX);
            next.begin.wall_ns.saturating_sub(length_ns) > self.end.wall_ns
        } else {
            // Less than half an interval is no missing one.
            next.begin.mono_ns > self.end.mono_ns.saturating_add(length_ns / 2)
        };
        let boot = (!self.is_unnamed() && next.boot != self.boot).then_some(next.boot);
        let end_ns = self.end.wall_ns;
        // What is in no sum yet can be of the time of the last one.
        let one = Break { end_ns, next_ns: next.end.wall_ns.max(end_ns), boot };
        (boot.is_some() || next.is_restart || is_hole).then_some(one)
    }
}

impl Breaks {
    /// Takes the next interval or sum. The boot of a sum is the newest of those it has rows of.
    pub(super) fn see(&mut self, span: &Segment<'_>) {
        let interval = span.interval;
        let next = Neighbour {
            boot: interval.boot,
            is_sum: span.max_busy_ppm.is_some(),
            is_restart: interval.flags.contains(Flags::RESTART),
            begin: interval.begin,
            end: interval.end,
        };
        let next = next.following(self.last);
        self.first.get_or_insert(next);
        if let Some(last) = self.last.replace(next) {
            self.all.extend(last.break_before(&next));
            if last.is_unnamed() && !next.is_unnamed() {
                self.first_named = Some([last, next]);
            }
        }
    }

    /// Takes what a later part of the range has. Sums at its beginning that name no boot are of the one before.
    pub(super) fn append(&mut self, later: Self) {
        let (Some(first), before) = (later.first, self.last) else { return };
        let between = before.and_then(|before| before.break_before(&first.following(Some(before))));
        self.all.extend(between);
        self.all.extend(later.all);
        if let Some([unnamed, named]) = later.first_named
            && let Some(one) = unnamed.following(before).break_before(&named)
        {
            // Without the boot before it, the later part has a hole or a restart there at most.
            let at = self.all.partition_point(|earlier| earlier.end_ns < one.end_ns);
            match self.all.get_mut(at) {
                Some(same) if same.end_ns == one.end_ns => *same = one,
                _ => self.all.insert(at, one),
            }
        }
        self.last = later.last.map(|last| last.following(before));
    }

    /// Until when a task was there that was seen last at this time and has no end, ns since the epoch.
    fn end_after(&self, seen_ns: i64) -> i64 {
        let at = self.all.partition_point(|one| one.end_ns < seen_ns);
        self.all.get(at).map_or(i64::MAX, |one| one.end_ns)
    }

    /// The longest time in which a task can have been there that was seen in sums of this range. `boots`: of its first and of its last row.
    fn around(&self, seen: TimeRange, boots: [BootId; 2]) -> TimeRange {
        let [first, last] = boots;
        // The sum in which a boot begins has rows of the one before, too.
        let begins = |one: &&Break| one.end_ns <= seen.since_ns && one.boot.is_none_or(|boot| boot == first);
        let ends = |one: &&Break| match one.boot {
            Some(boot) => boot != last && one.next_ns >= seen.until_ns,
            None => one.end_ns >= seen.until_ns,
        };
        let begin = self.all.iter().rev().find(begins);
        let end = self.all.iter().find(ends);
        TimeRange {
            since_ns: begin.map_or(i64::MIN, |one| one.end_ns),
            until_ns: end.map_or(i64::MAX, |one| one.end_ns.max(seen.until_ns)),
        }
    }
}

/// When a row was there, while its intervals are read in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Presence {
    /// One bit for each point at which the row was there.
    bits: Vec<u64>,
    /// From its start to when it was seen last: each task that was seen and has not ended.
    open: HashMap<TaskKey, TimeRange>,
    /// Tasks that ended here and may have been seen by the part of the range before.
    ended: Vec<TaskKey>,
    /// Boots of its first and of its last row; `None`: no row names one.
    boots: Option<[BootId; 2]>,
}

impl Presence {
    /// Takes a task's row of an interval. A sum has neither begin nor end of a task, so its row is only noted.
    pub(super) fn see(&mut self, buckets: &Buckets, task: TaskKey, span: &Segment<'_>, life: Life) {
        let time = span.time();
        // A v1 device has no start times; it sends a row, if only of zeros, for as long as the task is there.
        if task.start_ns() == 0 || span.max_busy_ppm.is_some() {
            self.mark(buckets, time);
            return;
        }
        let before = self.open.get(&task);
        let since_ns = before.map_or_else(|| began_ns(task, span, life), |before| before.since_ns);
        if life.has_ended() {
            self.open.remove(&task);
            self.mark(buckets, TimeRange { since_ns, ..time });
            if life == Life::Ended {
                self.ended.push(task);
            }
        } else {
            self.open.insert(task, TimeRange { since_ns, ..time });
        }
    }

    /// Takes the boot of a row; all zero: it is not known, or that of short-lived processes in a sum.
    pub(super) fn see_boot(&mut self, boot: BootId) {
        if boot != BootId::default() {
            let [first, _] = self.boots.unwrap_or([boot; 2]);
            self.boots = Some([first, boot]);
        }
    }

    /// The boot of its first row.
    pub(super) fn first_boot(&self) -> Option<BootId> {
        self.boots.map(|[first, _]| first)
    }

    /// Whether its rows are of several boots: then they are of several tasks, even those of one key.
    pub(super) fn has_boots(&self) -> bool {
        self.boots.is_some_and(|[first, last]| first != last)
    }

    /// The longest time in which it can have been there, of rows in sums of this range: between two breaks.
    pub(super) fn longest(&self, seen: TimeRange, breaks: &Breaks) -> TimeRange {
        self.boots.map_or(TimeRange::ALL, |boots| breaks.around(seen, boots))
    }

    /// Notes that a task was there in a range.
    pub(super) fn mark(&mut self, buckets: &Buckets, range: TimeRange) {
        for at in buckets.points_of(range) {
            let word = at / 64;
            if self.bits.len() <= word {
                self.bits.resize(word + 1, 0);
            }
            self.bits[word] |= 1 << (at % 64);
        }
    }

    /// Takes what a later part of the range saw.
    pub(super) fn append(&mut self, later: Self) {
        for task in &later.ended {
            // The later part marked it from its start on.
            self.open.remove(task);
        }
        for (task, range) in later.open {
            self.open.entry(task).or_insert(range).until_ns = range.until_ns;
        }
        self.ended.extend(later.ended);
        self.boots = match (self.boots, later.boots) {
            (Some([first, _]), Some([_, last])) => Some([first, last]),
            (one, other) => one.or(other),
        };
        self.bits.resize(self.bits.len().max(later.bits.len()), 0);
        for (word, bits) in self.bits.iter_mut().zip(later.bits) {
            *word |= bits;
        }
    }

    /// Whether no row was ever seen.
    pub(super) fn is_unknown(&self) -> bool {
        self.bits.is_empty() && self.open.is_empty()
    }

    /// At the end of the range: what has not ended is still there, unless a break came since.
    pub(super) fn close(&mut self, buckets: &Buckets, breaks: &Breaks) {
        for (_, range) in std::mem::take(&mut self.open) {
            self.mark(buckets, TimeRange { until_ns: breaks.end_after(range.until_ns), ..range });
        }
    }

    /// Whether it was there at some time of a point.
    pub(super) fn is_there(&self, at: usize) -> bool {
        self.bits.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }
}

/// When a task began, by its key and the two clocks of an interval; the start of time where the latter are not known.
fn began_ns(task: TaskKey, span: &Segment<'_>, life: Life) -> i64 {
    let (begin, end) = (span.interval.begin, span.interval.end);
    if life.is_born() {
        return begin.wall_ns;
    }
    let age_ns = end.boot_ns.checked_sub(task.start_ns()).and_then(|ns| i64::try_from(ns).ok());
    age_ns.map_or(i64::MIN, |age_ns| end.wall_ns.saturating_sub(age_ns))
}

#[cfg(test)]
mod tests;
