//! [`Comparison`]: two ranges side by side, one row a group of processes, the largest change first. The page, its file and the command line
//! all show these rows.

use cpumon_model::{Delta, Fields, HostStatus};
use cpumon_store::{Query, Resolution, Segment, What};

use super::query::{GroupBy, OTHERS};
use super::sums::{RangeTally, ReportGroup};
use crate::QueryError;
use crate::fields::Field;
use crate::history::History;
use crate::spans::{Span, cut};
use crate::tally::{GroupKind, Grouping};
use crate::time::TimeRange;

/// The two ranges of a comparison.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CompareRanges {
    /// The range to compare with.
    pub before: TimeRange,
    /// The range whose change is shown.
    pub after: TimeRange,
}

/// One of the two ranges of a comparison.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// The range to compare with.
    Before,
    /// The range whose change is shown.
    After,
}

/// Sums of one of the two ranges.
#[derive(Debug)]
struct Summed {
    tally: RangeTally,
    /// Coarsest resolution that is read; `None` if only intervals are.
    resolution: Option<Resolution>,
}

/// Sums of two ranges, to be compared.
#[derive(Debug)]
pub struct Comparison {
    grouping: Grouping,
    sides: [Summed; 2],
    /// Groups in order, by their place in each side.
    rows: Vec<[Option<usize>; 2]>,
}

/// A row: what a group did before and after.
#[derive(Copy, Clone, Debug)]
pub struct Change<'c> {
    sides: &'c [Summed; 2],
    row: [Option<usize>; 2],
}

impl Comparison {
    /// A comparison without data.
    pub fn new(by: GroupBy) -> Self {
        let side = || Summed { tally: RangeTally::timeless(), resolution: None };
        Self { grouping: Grouping::By(by.into()), sides: [side(), side()], rows: Vec::new() }
    }

    /// Sets the coarsest resolution that a side is read from; `None`: intervals.
    pub fn read_from(&mut self, side: Side, resolution: Option<Resolution>) {
        self.sides[side as usize].resolution = resolution;
    }

    /// Adds an interval, or a sum of some, to one side.
    pub fn add(&mut self, side: Side, span: &Segment<'_>) {
        let Summed { tally, resolution } = &mut self.sides[side as usize];
        tally.add(span, resolution.unwrap_or(Resolution::Minute), &self.grouping, "");
    }

    /// Groups that were met when there were too many already; an upper bound.
    pub fn folded(&self) -> u64 {
        self.sides.iter().map(|side| side.tally.tally.folded).fold(0, u64::saturating_add)
    }

    /// Ends the adding up: rows, the largest change first. Where one range holds no data, the largest share of the other.
    pub fn sort(&mut self) {
        let [before, after] = [0, 1].map(|side: usize| &self.sides[side].tally.tally);
        let of_before =
            before.groups.iter().enumerate().map(|(at, group)| [Some(at), after.find(&group.id())]);
        let of_after =
            after.groups.iter().enumerate().map(|(at, group)| [before.find(&group.id()), Some(at)]);
        self.rows = of_before.chain(of_after.filter(|[before, _]| before.is_none())).collect();
        let sides = &self.sides;
        let change = |row: &[Option<usize>; 2]| Change { sides, row: *row };
        self.rows.sort_by(|a, b| {
            let (a, b) = (change(a), change(b));
            b.weight().total_cmp(&a.weight()).then_with(|| a.id().cmp(&b.id()))
        });
    }

    /// The rows in the order of [`Comparison::sort`].
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        self.rows.iter().map(|row| Change { sides: &self.sides, row: *row })
    }

    /// Measured time of a side, ns; 0: it holds no data.
    pub fn measured_ns(&self, side: Side) -> u64 {
        self.sides[side as usize].tally.covered_ns
    }
}

/// Compares two ranges, each read as a report reads it; rows are sorted, the largest change first.
pub fn compare(
    history: &History,
    host: &HostStatus,
    ranges: CompareRanges,
    by: GroupBy,
) -> Result<Comparison, QueryError> {
    let mut comparison = Comparison::new(by);
    for (side, range) in [(Side::Before, ranges.before), (Side::After, ranges.after)] {
        let cut = cut(range, history.finest(host.info.host, range)?);
        comparison.read_from(side, cut.coarsest());
        for Span { range, resolution } in cut.spans {
            let query =
                Query::new(host.info.host).range(range.since_ns, range.until_ns).what(What::Processes);
            let mut segments = history.segments(&query, resolution)?;
            while let Some(segment) = segments.read()? {
                comparison.add(side, &segment);
            }
        }
    }
    comparison.sort();
    Ok(comparison)
}

impl Change<'_> {
    fn group(&self, side: Side) -> Option<&ReportGroup> {
        Some(&self.sides[side as usize].tally.groups()[self.row[side as usize]?])
    }

    /// The group in the second range, else in the first: it has the newest name.
    fn newest(&self) -> Option<&ReportGroup> {
        self.group(Side::After).or_else(|| self.group(Side::Before))
    }

    fn name(&self) -> &str {
        self.newest().map_or("", |group| if group.kind == GroupKind::Others { OTHERS } else { &group.name })
    }

    /// Order among rows of equal change.
    fn id(&self) -> (&str, Option<cpumon_model::ProcessKey>, Option<GroupKind>) {
        let group = self.newest();
        (self.name(), group.and_then(|group| group.process), group.map(|group| group.kind))
    }

    /// Zero for a group that is absent from this side.
    fn delta(&self, side: Side) -> Delta {
        self.group(side).map(|group| group.sums.delta).unwrap_or_default()
    }

    fn ns(&self, side: Side, needs: Fields, part: fn(&Delta) -> i64) -> Option<i64> {
        let tally = &self.sides[side as usize].tally;
        (tally.covered_ns > 0 && tally.fields.contains(needs)).then(|| part(&self.delta(side)))
    }

    /// Percent of one CPU; `None` where the range holds no data.
    fn pct(&self, side: Side) -> Option<f64> {
        let run_ns = self.ns(side, Fields::RUN, |delta| delta.run_ns)?;
        Some(run_ns as f64 * 100.0 / self.length_ns(side) as f64)
    }

    fn change(&self) -> Option<f64> {
        Some(self.pct(Side::After)? - self.pct(Side::Before)?)
    }

    fn weight(&self) -> f64 {
        let known = self.change().or_else(|| self.pct(Side::After)).or_else(|| self.pct(Side::Before));
        known.unwrap_or(0.0).abs()
    }

    fn length_ns(&self, side: Side) -> u64 {
        self.sides[side as usize].tally.covered_ns
    }

    /// `interval`, `minute`, `hour`; of sides that differ the coarser one.
    fn resolution(&self) -> &'static str {
        let coarsest = self.sides.iter().filter_map(|side| side.resolution).max_by_key(|one| one.length_ns());
        coarsest.map_or("interval", Resolution::name)
    }

    /// Columns of a row of the comparison.
    pub fn fields() -> [Field<'static, Self>; 17] {
        use Side::{After, Before};
        type Part = fn(&Delta) -> i64;
        let ns =
            |name, side, needs, part: Part| Field::int(name, move |row: &Self| row.ns(side, needs, part));
        let process = |row: &Self| row.newest().and_then(|group| group.process);
        [
            Field::text("name", |row: &Self| Some(row.name().into())),
            Field::int("pid", move |row: &Self| process(row).map(|key| i64::from(key.pid))),
            Field::count("start_ns", move |row: &Self| process(row).map(|key| key.start_ns)),
            Field::real("before_cpu_pct", |row: &Self| row.pct(Before)),
            Field::real("after_cpu_pct", |row: &Self| row.pct(After)),
            Field::real("change_cpu_pct", |row: &Self| row.change()),
            ns("before_run_ns", Before, Fields::RUN, |delta| delta.run_ns),
            ns("after_run_ns", After, Fields::RUN, |delta| delta.run_ns),
            ns("before_user_ns", Before, Fields::USER, |delta| delta.user_ns),
            ns("after_user_ns", After, Fields::USER, |delta| delta.user_ns),
            ns("before_system_ns", Before, Fields::SYSTEM, |delta| delta.system_ns),
            ns("after_system_ns", After, Fields::SYSTEM, |delta| delta.system_ns),
            ns("before_run_delay_ns", Before, Fields::RUN_DELAY, |delta| delta.run_delay_ns),
            ns("after_run_delay_ns", After, Fields::RUN_DELAY, |delta| delta.run_delay_ns),
            Field::count("before_duration_ns", |row: &Self| row.length_ns(Before)),
            Field::count("after_duration_ns", |row: &Self| row.length_ns(After)),
            Field::text("grain", |row: &Self| Some(row.resolution().into())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::{Interval, ProcessInterval, ProcessKey};

    use super::*;

    #[test]
    fn a_comparison_holds_nothing_for_each_span_that_it_adds() {
        let row =
            |pid| ProcessInterval { key: ProcessKey { pid, start_ns: 1 }, ..ProcessInterval::default() };
        let interval = Interval { processes: vec![row(1), row(2)], ..Interval::default() };
        let mut comparison = Comparison::new(GroupBy::Name);
        for _ in 0..3 {
            comparison.add(Side::After, &Segment { max_busy_ppm: Some(5), ..Segment::of(&interval) });
        }
        comparison.sort();
        assert_eq!(comparison.rows().len(), 1);
        let times = &comparison.sides[Side::After as usize].tally.groups()[0].sums.times;
        assert!(times.candidates.is_empty() && times.first.is_none(), "{times:?}");
    }
}
