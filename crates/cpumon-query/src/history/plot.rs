//! [`Plot`]: a range of a host as points over time, while it is read: what was measured in each point, and the holes between.
//! Series, lines and matrices are added up over one.

use cpumon_model::HostId;
use cpumon_store::{Gap, GapFinder, Query, Resolution, Segment, What};

use super::answers::BucketTimes;
use super::buckets::{Breaks, Buckets, PointShare};
use super::{History, MAX_GAPS};
use crate::QueryError;
use crate::spans::Plan;
use crate::time::{Available, PlotRange, TimeRange};

/// Why there is nothing of the time before a host was recorded.
const BEFORE_FIRST: &str = "before the first data";
/// Why there is nothing of the time behind its newest interval.
pub(crate) const AFTER_LAST: &str = "after the last data";
const NO_DATA: &str = "no data";
/// An interval is measured, sent and stored within this time.
const ON_THE_WAY_NS: i64 = 5_000_000_000;

/// Points over time of one host.
#[derive(Clone)]
pub(super) struct Plot {
    host: HostId,
    pub(super) plan: Plan,
    pub(super) buckets: Buckets,
    /// Points that the last span touches.
    pub(super) shares: Vec<PointShare>,
    pub(super) breaks: Breaks,
    gaps: GapFinder,
    short_holes: ShortHoles,
}

impl Plot {
    /// Plans the reading. `is_finest`: reads intervals where sums would do.
    pub(super) fn new(
        history: &History,
        host: HostId,
        range: PlotRange,
        is_finest: bool,
    ) -> Result<Self, QueryError> {
        let mut plan = history.plan(host, range)?;
        if is_finest && plan.resolution.is_some() {
            plan = history.over_intervals(host, plan, range)?;
        }
        Ok(Self {
            host,
            plan,
            buckets: Buckets::new(range, &plan),
            shares: Vec::new(),
            breaks: Breaks::default(),
            gaps: GapFinder::new(history.losses(host, range.time())?, MAX_GAPS),
            short_holes: ShortHoles::default(),
        })
    }

    /// The whole range that is read.
    pub(super) fn time(&self) -> TimeRange {
        TimeRange { since_ns: self.plan.since_ns, until_ns: self.plan.until_ns }
    }

    /// Reads a part of the range in order of time, and lets `add` see each span with the points it lies in.
    pub(super) fn read(
        &mut self,
        history: &History,
        query: &Query,
        part: TimeRange,
        add: &mut dyn FnMut(&Self, &Segment<'_>),
    ) -> Result<(), QueryError> {
        let (query, resolution) = (query.clone().range(part.since_ns, part.until_ns), self.plan.resolution);
        let mut segments = history.segments(&query, resolution)?;
        while let Some(span) = segments.read()? {
            self.buckets.cover(&span, &mut self.shares);
            self.breaks.see(&span);
            self.gaps.see(span.interval);
            self.short_holes.see(&span);
            add(self, &span);
        }
        Ok(())
    }

    /// Adds a later part that another reader read. Only intervals are read in parts, so `later` has no holes within sums.
    pub(super) fn append(&mut self, later: Self) {
        self.buckets.append(&later.buckets);
        self.breaks.append(later.breaks);
        self.gaps.append(later.gaps);
    }

    /// The points, and the holes: every point has data, or lies in a hole.
    pub(super) fn finish(self, history: &History) -> Result<(BucketTimes, Vec<Gap>), QueryError> {
        let mut gaps = self.gaps.finish();
        self.short_holes.add_to(&mut gaps, history, self.host, self.plan.resolution)?;
        let times = self.buckets.times();
        explain(&times, &mut gaps, history.available(self.host)?);
        Ok((times, gaps))
    }
}

/// Adds holes for points without data that none of these explains. `available`: what there is of the host.
pub(super) fn explain(times: &BucketTimes, gaps: &mut Vec<Gap>, available: Option<Available>) {
    let width_ns = times.width_ns;
    // Only these are known reasons; holes that are added must not explain the points behind them.
    let known = gaps.len();
    let measured = times.covered_ns.iter().rposition(|ns| *ns > 0).map_or(0, |last| last + 1);
    let end_ns = times.begins_ns().last().unwrap_or(times.begin_ns).saturating_add(width_ns);
    let reason = |at: usize, begin_ns: i64| match available {
        // Data seldom begin or end exactly at a point's border, so one width is allowed.
        Some(all) if begin_ns <= all.first_ns => BEFORE_FIRST,
        Some(all) if begin_ns >= all.last_ns.saturating_sub(width_ns) => AFTER_LAST,
        // The newest interval may be longer than a point, or came while this was read.
        Some(all) if measured > 0 && at >= measured && end_ns > all.last_ns.saturating_sub(ON_THE_WAY_NS) => {
            AFTER_LAST
        }
        _ => NO_DATA,
    };
    let mut is_open = false;
    for (at, (begin_ns, covered_ns)) in times.begins_ns().zip(&times.covered_ns).enumerate() {
        let end_ns = begin_ns.saturating_add(width_ns);
        let explains = |gap: &Gap| gap.begin_wall_ns < end_ns && gap.end_wall_ns > begin_ns;
        if *covered_ns > 0 || gaps[..known].iter().any(explains) {
            is_open = false;
            continue;
        }
        let reason = reason(at, begin_ns);
        match gaps.last_mut().filter(|gap| is_open && gap.reason == reason) {
            Some(gap) => gap.end_wall_ns = end_ns,
            None => gaps.push(Gap {
                begin_wall_ns: begin_ns,
                end_wall_ns: end_ns,
                reason: reason.to_owned(),
                ..Gap::default()
            }),
        }
        is_open = true;
    }
    gaps.sort_by_key(|gap| gap.begin_wall_ns);
}

/// An interval belongs to the sum in which it ends, so a sum without a hole may have one interval less: longer ones are only read in
/// vain.
const USUAL_INTERVAL_NS: i64 = 1_500_000_000;
/// Most sums whose intervals are read: with minutes, an hour.
const MOST_SUMS: usize = 60;

/// Sums that measured less than all of their time.
#[derive(Clone, Default)]
pub(super) struct ShortHoles {
    /// Ranges of sums with missing time; adjacent ranges are merged.
    incomplete: Vec<TimeRange>,
    sums: usize,
}

impl ShortHoles {
    pub(super) fn see(&mut self, span: &Segment<'_>) {
        let time = span.time();
        let measured_ns = i64::try_from(span.interval.duration_ns()).unwrap_or(i64::MAX);
        let missing_ns = time.length_ns().saturating_sub(measured_ns);
        if span.max_busy_ppm.is_none() || missing_ns < USUAL_INTERVAL_NS || self.sums == MOST_SUMS {
            return;
        }
        self.sums += 1;
        match self.incomplete.last_mut().filter(|range| range.until_ns == time.since_ns) {
            Some(range) => range.until_ns = time.until_ns,
            None => self.incomplete.push(time),
        }
    }

    /// Adds the holes in these sums to those that are known.
    pub(super) fn add_to(
        self,
        gaps: &mut Vec<Gap>,
        history: &History,
        host: HostId,
        resolution: Option<Resolution>,
    ) -> Result<(), QueryError> {
        let mut minutes = Self::default();
        if resolution == Some(Resolution::Hour) {
            for range in self.incomplete {
                let query = Query::new(host).range(range.since_ns, range.until_ns).what(What::Meta);
                let mut segments = history.segments(&query, Some(Resolution::Minute))?;
                while let Some(minute) = segments.read()? {
                    minutes.see(&minute);
                }
            }
        } else {
            minutes = self;
        }
        for range in minutes.incomplete {
            let mut finder = GapFinder::new(std::mem::take(gaps), MAX_GAPS);
            // With its neighbours: a hole may be at the edge.
            let margin_ns = Resolution::Minute.length_ns() / 6;
            let (since_ns, until_ns) =
                (range.since_ns.saturating_sub(margin_ns), range.until_ns.saturating_add(margin_ns));
            let query = Query::new(host).range(since_ns, until_ns).what(What::Meta);
            let mut segments = history.segments(&query, None)?;
            while let Some(segment) = segments.read()? {
                finder.see(segment.interval);
            }
            *gaps = finder.finish();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use cpumon_model::{
        BootId, Delta, Fields, HostInfo, HostStatus, Interval, Ledger, Moment, ProcessInfo, ProcessInterval,
        ProcessKey, Trust,
    };
    use cpumon_store::{StoreOptions, Writer};

    use super::super::{MatrixSort, Selection, SeriesOptions, ShownRows, landscape, lines, series};
    use crate::GroupBy;
    use crate::json::Nanos;
    use crate::time::PlotRange;

    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;
    /// Start of an hour.
    const BEGIN_NS: i64 = 500_000 * 3_600 * SECOND_NS;

    fn interval(second: i64) -> Interval {
        let at = |second: i64| Moment {
            mono_ns: (second * SECOND_NS).unsigned_abs(),
            boot_ns: (second * SECOND_NS).unsigned_abs(),
            wall_ns: BEGIN_NS + second * SECOND_NS,
        };
        Interval {
            host: HostId([3; 16]),
            sequence: second.unsigned_abs(),
            fields: Fields::RUN | Fields::CPUS,
            begin: at(second - 1),
            end: at(second),
            ledger: Ledger { capacity_ns: SECOND_NS, idle_ns: SECOND_NS, ..Ledger::default() },
            ..Interval::default()
        }
    }

    #[test]
    fn holes_of_some_seconds_are_found_in_sums() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.db");
        let options = StoreOptions {
            max_age: None,
            minute_max_age: None,
            compact_after: Duration::ZERO,
            compact_partial_after: Duration::ZERO,
            ..StoreOptions::default()
        };
        let mut writer = Writer::open(&path, &options).unwrap();
        let info = HostInfo { host: HostId([3; 16]), ..HostInfo::default() };
        // The second one is at the border of two minutes.
        let holes = [(130, 137), (895, 902)];
        for second in 1..=1_200 {
            if !holes.iter().any(|(begin, end)| second > *begin && second <= *end) {
                writer.put(&info, Trust::Local, None, &interval(second)).unwrap();
            }
        }
        writer.commit().unwrap();
        writer.maintain(Duration::from_secs(20)).unwrap();
        drop(writer);
        let history = History::of_store(&path).unwrap();
        let host = HostStatus { info, ..HostStatus::default() };
        for hours in [12, 24 * 30] {
            let until_ns = BEGIN_NS + hours * 3_600 * SECOND_NS;
            let range = PlotRange { since_ns: BEGIN_NS, until_ns, points: 600 };
            let plan = history.plan(host.info.host, range).unwrap();
            assert!(plan.resolution.is_some(), "sums are read");
            let seconds = |gaps: &[Gap]| -> Vec<(i64, i64)> {
                let second = |ns: i64| (ns - BEGIN_NS) / SECOND_NS;
                gaps.iter().map(|gap| (second(gap.begin_wall_ns), second(gap.end_wall_ns))).collect()
            };
            let is_known = |gap: &Gap| gap.reason != AFTER_LAST;
            let mut found = series(&history, &host, range, SeriesOptions::default()).unwrap().gaps;
            found.retain(is_known);
            assert_eq!(seconds(&found), holes, "{hours} h");
            let shown = ShownRows { sort: MatrixSort::default(), offset: 0, limit: 9, search: "" };
            let mut rows = landscape(&history, &host, range, GroupBy::Name, shown).unwrap();
            rows.gaps.retain(is_known);
            assert_eq!(seconds(&rows.gaps), holes, "{hours} h");
        }
    }

    /// The machine starts again after 200 s. One process runs in every second, the others in one or two; `kernel` has one key in both boots.
    fn started_again(second: i64) -> Interval {
        let (boot, from) = if second <= 200 { (1, 0) } else { (2, 200) };
        let (mut made, clocks) = (interval(second), interval(second - from));
        made.boot = BootId([boot; 16]);
        (made.begin.mono_ns, made.begin.boot_ns) = (clocks.begin.mono_ns, clocks.begin.boot_ns);
        (made.end.mono_ns, made.end.boot_ns) = (clocks.end.mono_ns, clocks.end.boot_ns);
        let rare = match second {
            30 => Some((2, "once")),
            70 | 250 => Some((3, "kernel")),
            190 => Some((4, "late")),
            210 => Some((5, "new")),
            _ => None,
        };
        let process = |(pid, name): (u32, &str)| ProcessInterval {
            key: ProcessKey { pid, start_ns: 9 },
            info: Arc::new(ProcessInfo { name: name.into(), ..ProcessInfo::default() }),
            delta: Delta { run_ns: 5, ..Delta::default() },
            ..ProcessInterval::default()
        };
        made.processes = [(1, "web")].into_iter().chain(rare).map(process).collect();
        made
    }

    /// `.`: no value, `0`: zero, `#`: more.
    fn shape(values: &[Option<i64>]) -> String {
        let letter = |value: &Option<i64>| value.map_or('.', |value| if value == 0 { '0' } else { '#' });
        values.iter().map(letter).collect()
    }

    /// What did nothing more when its machine started again was drawn as idle to the end of the range, as sums have no boot.
    #[test]
    fn in_sums_no_process_is_idle_across_a_boot() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.db");
        let options = StoreOptions { max_age: None, minute_max_age: None, ..StoreOptions::default() };
        let mut writer = Writer::open(&path, &options).unwrap();
        let info = HostInfo { host: HostId([3; 16]), ..HostInfo::default() };
        for second in 1..=300 {
            writer.put(&info, Trust::Local, None, &started_again(second)).unwrap();
        }
        writer.compact_host(info.host).unwrap();
        drop(writer);
        let history = History::of_store(&path).unwrap();
        let host = HostStatus { info, ..HostStatus::default() };
        let range = PlotRange { since_ns: BEGIN_NS, until_ns: BEGIN_NS + 300 * SECOND_NS, points: 5 };
        let shown = ShownRows { sort: MatrixSort::default(), offset: 0, limit: 9, search: "" };
        // The boot begins in the fourth minute. In it, `late` is of the first one, and `new` of the second.
        let expected =
            [("kernel", "0#00#"), ("late", "000#."), ("new", "...#0"), ("once", "#00.."), ("web", "#####")];
        for by in [GroupBy::Process, GroupBy::Name] {
            let found = landscape(&history, &host, range, by, shown).unwrap();
            assert_eq!(found.times.resolution, Some(Resolution::Minute));
            let mut rows: Vec<_> =
                found.rows.iter().map(|row| (row.name.as_str(), shape(&row.values))).collect();
            rows.sort_unstable();
            assert_eq!(rows, expected.map(|(name, shape)| (name, shape.to_owned())), "{by:?}");
        }
        let process = |pid| Selection::Process(ProcessKey { pid, start_ns: 9 });
        let selections = [process(2), Selection::Name("once".into()), process(3)];
        let found = lines(&history, &host, range, &selections, &[]).unwrap();
        let drawn: Vec<_> =
            found.lines.iter().map(|line| shape(line.columns.get("run_ns").unwrap())).collect();
        assert_eq!(drawn, ["#00..", "#00..", "0#00#"]);
        assert_eq!(found.lines[2].first_ns, Some(Nanos(BEGIN_NS + 60 * SECOND_NS)), "not of the second boot");
    }

    fn explained(covered_ns: &[i64], known: &[Gap], available: (i64, i64)) -> Vec<(i64, i64, String)> {
        const MS_NS: i64 = 1_000_000;
        let covered_ns = covered_ns.to_vec();
        let times = BucketTimes { resolution: None, begin_ns: 0, width_ns: MS_NS, covered_ns };
        let mut gaps = known.to_vec();
        let (first_ns, last_ns) = (available.0 * MS_NS, available.1 * MS_NS);
        explain(&times, &mut gaps, Some(Available { first_ns, last_ns }));
        let ms = |gap: Gap| (gap.begin_wall_ns / MS_NS, gap.end_wall_ns / MS_NS, gap.reason);
        gaps.into_iter().map(ms).collect()
    }

    #[test]
    fn every_point_without_data_has_a_reason() {
        let restart = Gap {
            begin_wall_ns: 3_000_000,
            end_wall_ns: 4_000_000,
            reason: "restart".into(),
            ..Gap::default()
        };
        let found = explained(&[0, 0, 5, 0, 0, 5, 0, 0], &[restart], (2, 6));
        let expected = [(0, 2, BEFORE_FIRST), (3, 4, "restart"), (4, 5, NO_DATA), (6, 8, AFTER_LAST)];
        assert_eq!(found, expected.map(|(begin, end, reason)| (begin, end, reason.to_owned())));
    }

    #[test]
    fn points_that_the_newest_interval_has_not_reached_are_not_missing() {
        assert_eq!(explained(&[5, 5, 0, 0, 0], &[], (0, 5)), [(2, 5, AFTER_LAST.to_owned())]);
        // More came later than this range ends.
        assert_eq!(explained(&[5, 5, 0, 0, 0], &[], (0, 60_000)), [(2, 5, NO_DATA.to_owned())]);
    }
}
