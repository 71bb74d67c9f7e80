//! A host over time ([`HostSeries`]): CPU modes, ledger lines, run queue and counts, with the highest and
//! lowest single interval in each point, and holes with their reasons.

use cpumon_model::{Column, ColumnId, HostStatus, Interval, Tables};
use cpumon_store::{Query, Segment, What};

use super::History;
use super::answers::{HostSeries, Kept, SeriesColumn, shown_columns, summable};
use super::buckets::{PointShare, Points, number, view_of};
use super::plot::Plot;
use crate::QueryError;
use crate::json::{Named, Nanos};
use crate::time::PlotRange;

const SECOND_NS: f64 = 1e9;

/// Sum, lowest and highest value of one column.
struct ColumnLine {
    sum: Points,
    min: Points,
    max: Points,
}

impl ColumnLine {
    fn new(count: usize) -> Self {
        Self { sum: Points::new(count), min: Points::new(count), max: Points::new(count) }
    }

    fn add(&mut self, shares: &[PointShare], value: f64, length_ns: f64) {
        for PointShare { at, part } in shares {
            self.sum.add(*at, value * part);
            if length_ns > 0.0 {
                // A rate is not split by time: the interval ran at it in each of its points.
                let rate = value * SECOND_NS / length_ns;
                self.min.lower(*at, rate);
                self.max.raise(*at, rate);
            }
        }
    }

    fn raise(&mut self, shares: &[PointShare], value: f64) {
        for PointShare { at, .. } in shares {
            self.max.raise(*at, value);
        }
    }

    /// `None`: there is no data.
    fn finish(&self, with_extremes: bool) -> Option<SeriesColumn> {
        let known = |points: &Points| (!points.is_empty()).then(|| points.finish());
        let extreme = |points: &Points| if with_extremes { known(points) } else { None };
        let column = SeriesColumn { sum: known(&self.sum), min: extreme(&self.min), max: extreme(&self.max) };
        (column != SeriesColumn::default()).then_some(column)
    }
}

/// Time that was neither idle nor stolen; `None` if the CPUs are not known.
fn busy_ns(interval: &Interval) -> Option<f64> {
    let ledger = &interval.ledger;
    // A stolen CPU ran another guest of the hypervisor: this host was not busy with it.
    let idle_ns = ledger.idle_ns.saturating_add(ledger.steal_ns);
    (ledger.capacity_ns > 0).then(|| ledger.capacity_ns.saturating_sub(idle_ns) as f64)
}

/// Counts given as the highest value of each point.
const COUNTS: [ColumnId; 2] = [ColumnId::ThreadCount, ColumnId::ProcessCount];

/// Sums of a series while its spans are read.
struct Building {
    columns: Vec<(&'static Column, ColumnLine)>,
    counts: Vec<(&'static Column, ColumnLine)>,
    busy: ColumnLine,
    /// Tasks running or ready on all CPUs, integrated over time, and the longest queue of one CPU.
    run_queue: [ColumnLine; 2],
    with_extremes: bool,
}

impl Building {
    fn new(count: usize, wanted: &[String]) -> Self {
        let is_wanted = |column: &Column| wanted.is_empty() || wanted.iter().any(|name| name == column.name);
        let columns = shown_columns(Tables::HOST_INTERVAL)
            .filter(|column| summable(column) && is_wanted(column))
            .map(|column| (column, ColumnLine::new(count)));
        let counts = shown_columns(Tables::HOST_INTERVAL)
            .filter(|column| COUNTS.contains(&column.id))
            .map(|column| (column, ColumnLine::new(count)));
        Self {
            columns: columns.collect(),
            counts: counts.collect(),
            busy: ColumnLine::new(count),
            run_queue: [ColumnLine::new(count), ColumnLine::new(count)],
            with_extremes: !wanted.is_empty(),
        }
    }

    fn add(&mut self, span: &Segment<'_>, shares: &[PointShare]) {
        let (view, length_ns) = (view_of(span), span.interval.duration_ns() as f64);
        for (column, line) in &mut self.columns {
            if let Some(value) = number(&view.host(column.id)) {
                line.add(shares, value, length_ns);
            }
        }
        if span.max_busy_ppm.is_none() {
            for (column, line) in &mut self.counts {
                if let Some(value) = number(&view.host(column.id)) {
                    line.raise(shares, value);
                }
            }
        }
        if let Some(busy_ns) = busy_ns(span.interval) {
            self.busy.add(shares, busy_ns, length_ns);
        }
        if let Some(queue) = span.run_queue {
            let [tasks, longest] = &mut self.run_queue;
            for PointShare { at, part } in shares {
                tasks.sum.add(*at, queue.run_queue_ns as f64 * part);
            }
            tasks.raise(shares, queue.max_run_queue_ns_per_s as f64);
            longest.raise(shares, queue.run_queue_max as f64);
        }
        let capacity_ns = span.interval.ledger.capacity_ns;
        if let Some(ppm) = span.max_busy_ppm.filter(|_| length_ns > 0.0 && capacity_ns > 0) {
            // Sums hold the highest single interval as a share of the capacity.
            let capacity = capacity_ns as f64 * SECOND_NS / length_ns;
            self.busy.raise(shares, ppm as f64 / 1e6 * capacity);
        }
    }

    fn finish(self) -> Named<SeriesColumn> {
        let with_extremes = self.with_extremes;
        let lines = self.columns.iter().map(|(column, line)| (column.name, line.finish(with_extremes)));
        let [tasks, longest] = &self.run_queue;
        let of_host = [("busy_ns", &self.busy), ("run_queue_ns", tasks), ("run_queue_max", longest)];
        let counts = self.counts.iter().map(|(column, line)| (column.name, line));
        let others = of_host.into_iter().chain(counts).map(|(name, line)| (name, line.finish(true)));
        lines.chain(others).filter_map(|(name, column)| Some((name, column?))).collect()
    }
}

/// Options of a series: its columns and its resolution.
#[derive(Copy, Clone, Debug, Default)]
pub struct SeriesOptions<'a> {
    /// Names of columns; none: all, with extremes of the busy time and the run queue only.
    pub columns: &'a [String],
    /// Reads single intervals even where sums would suffice.
    pub is_finest: bool,
}

/// Reads the columns of a host over time.
pub fn series(
    history: &History,
    host: &HostStatus,
    range: PlotRange,
    options: SeriesOptions<'_>,
) -> Result<HostSeries, QueryError> {
    let id = host.info.host;
    let mut plot = Plot::new(history, id, range, options.is_finest)?;
    let mut building = Building::new(plot.buckets.count(), options.columns);
    let query = Query::new(id).what(What::Meta);
    plot.read(history, &query, plot.time(), &mut |plot, span| building.add(span, &plot.shares))?;
    let (times, gaps) = plot.finish(history)?;
    let kept = |available| Kept { available, interval_ns: host.info.interval_ns };
    Ok(HostSeries {
        since_ns: Nanos(range.since_ns),
        until_ns: Nanos(range.until_ns),
        kept: history.available(id)?.map(kept),
        is_windows: host.info.is_windows(),
        times,
        columns: building.finish(),
        gaps,
    })
}

#[cfg(test)]
mod tests {
    use cpumon_model::{CpuInterval, CpuTimes, Fields, HostId, HostInfo, Ledger, Moment, Trust};
    use cpumon_store::{StoreOptions, Writer};

    use super::*;
    use crate::history::cpus;
    use crate::time::TimeRange;

    const LENGTH_NS: i64 = 1_000_000_000;
    const BEGIN_NS: i64 = 1_767_225_600 * LENGTH_NS;

    /// One CPU, busy for half of each second.
    fn second(nth: i64) -> Interval {
        let at = |nth: i64| {
            let ns = (nth * LENGTH_NS).unsigned_abs();
            Moment { mono_ns: ns, boot_ns: ns, wall_ns: BEGIN_NS + nth * LENGTH_NS }
        };
        let half = LENGTH_NS / 2;
        let ledger = Ledger { capacity_ns: LENGTH_NS, idle_ns: half, ..Ledger::default() };
        let times =
            CpuTimes { user_ns: half.unsigned_abs(), idle_ns: half.unsigned_abs(), ..CpuTimes::default() };
        Interval {
            host: HostId([7; 16]),
            sequence: nth.unsigned_abs(),
            fields: Fields::RUN | Fields::CPUS,
            begin: at(nth - 1),
            end: at(nth),
            ledger,
            cpus: vec![CpuInterval { cpu: 0, times, ..CpuInterval::default() }],
            ..Interval::default()
        }
    }

    #[test]
    fn the_interval_that_the_end_of_a_range_lies_in_counts_with_its_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.db");
        let mut writer =
            Writer::open(&path, &StoreOptions { max_age: None, ..StoreOptions::default() }).unwrap();
        let info = HostInfo { host: HostId([7; 16]), cpu_count: 1, ..HostInfo::default() };
        for nth in 1..=20 {
            writer.put(&info, Trust::Local, None, &second(nth)).unwrap();
        }
        writer.commit().unwrap();
        drop(writer);
        let history = History::of_store(&path).unwrap();
        let host = HostStatus { info, ..HostStatus::default() };
        // From 4.25 s to 9.75 s in points of a quarter of a second, past the end of the stored data, and all data.
        for (since, until, covered) in [(4_250, 9_750, 5_500), (18_500, 30_000, 1_500), (0, 20_000, 20_000)] {
            let at = |ms: i64| BEGIN_NS + ms * 1_000_000;
            let points = usize::try_from((until - since) / 250).unwrap();
            let range = PlotRange { since_ns: at(since), until_ns: at(until), points };
            let found = series(&history, &host, range, SeriesOptions::default()).unwrap();
            assert_eq!(found.times.covered_ns.iter().sum::<i64>(), covered * 1_000_000, "{since}");
            let empty = found.times.covered_ns.iter().filter(|ns| **ns == 0).count();
            let stored = usize::try_from(covered / 250).unwrap();
            assert_eq!(empty, found.times.covered_ns.len() - stored, "{since}: {:?}", found.times);
            let busy = found.columns.get("busy_ns").unwrap();
            let busy: i64 = busy.sum.iter().flatten().flatten().sum();
            assert_eq!(busy, covered * 500_000, "{since}");
            let sums = cpus(&history, &host, TimeRange { since_ns: at(since), until_ns: at(until) }).unwrap();
            assert_eq!(sums.each[&0].times.user_ns, (covered * 500_000).unsigned_abs(), "{since}");
        }
    }
}
