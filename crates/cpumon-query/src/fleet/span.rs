//! [`FleetSpan`]: all hosts over a range of time: mean, peak, run queue, and CPU use over time.

use cpumon_model::HostStatus;
use cpumon_store::{Query, Resolution, Segment, What};

use super::host::{busy_of_ledger, busy_ratio};
use super::known_first;
use crate::fields::has_words;
use crate::history::buckets::{Buckets, PointShare, Points};
use crate::history::{BucketTimes, History};
use crate::spans::Plan;
use crate::time::{Page, PlotRange};
use crate::{QueryError, words};

const SECOND_NS: i64 = 1_000_000_000;
const MINUTE_NS: i64 = 60 * SECOND_NS;
const HOUR_NS: i64 = 60 * MINUTE_NS;
/// Intervals or sums read at most, about: more hosts or a longer range are read from coarser sums. On one core a million take 9 s.
const MAX_READ: i64 = 200_000;

words! {
    /// Order of the hosts over a range, the most first.
    #[derive(Default)]
    SpanOrder, "order",
    #[default]
    Mean = "mean": "Mean CPU use",
    Peak = "peak": "Highest CPU use of a single interval",
    RunQueue = "run_queue": "Mean run queue for each CPU",
    Name = "name": "Name, from A to Z",
}

/// A query for hosts over a range.
#[derive(Clone, Debug)]
pub struct SpanQuery {
    /// The range, and the number of points in it.
    pub range: PlotRange,
    /// Only hosts whose name or id contains each of these words.
    pub search: String,
    /// Order of the hosts.
    pub sort: SpanOrder,
    /// Reverses the order; hosts without data stay last.
    pub is_reverse: bool,
    /// The part of the list that is shown.
    pub page: Page,
}

/// A host over the range.
#[derive(Clone, Debug)]
pub struct SpanHost {
    /// The host with its status.
    pub status: HostStatus,
    /// Measured time, ns; 0 if there is no data.
    pub covered_ns: i64,
    /// Share of all CPUs that was busy in the range.
    pub busy_ratio: Option<f64>,
    /// Highest busy share of a single interval.
    pub peak_ratio: Option<f64>,
    /// Start of the point with that interval, ns since the UNIX epoch.
    pub peak_ns: Option<i64>,
    /// Tasks running or ready for each CPU, on average.
    pub run_queue_per_cpu: Option<f64>,
    /// Busy share of all CPUs in each point.
    pub points: Vec<Option<f64>>,
    /// Highest busy share of a single interval in each point.
    pub peaks: Vec<Option<f64>>,
}

/// All hosts over a range.
#[derive(Clone, Debug)]
pub struct FleetSpan {
    /// The points; `covered_ns` is that of the host with most data in each.
    pub times: BucketTimes,
    /// Number of hosts that match.
    pub total: usize,
    /// Hosts of the requested page.
    pub hosts: Vec<SpanHost>,
}

/// Points that all hosts share. They are whole minutes or hours apart wherever sums are read, so that no sum is split.
fn grid(range: PlotRange, hosts: usize) -> PlotRange {
    let PlotRange { since_ns, until_ns, points } = range;
    let length_ns = until_ns.saturating_sub(since_ns).max(1);
    let hosts = i64::try_from(hosts).unwrap_or(i64::MAX).max(1);
    let reads = |step_ns: i64| (length_ns / step_ns).saturating_mul(hosts);
    let finest_ns = [SECOND_NS, MINUTE_NS].into_iter().find(|step_ns| reads(*step_ns) <= MAX_READ);
    let finest_ns = finest_ns.unwrap_or(HOUR_NS);
    let wanted_ns = (length_ns / i64::try_from(points).unwrap_or(i64::MAX).max(1)).max(finest_ns);
    let unit_ns = [HOUR_NS, MINUTE_NS].into_iter().find(|unit_ns| wanted_ns >= *unit_ns).unwrap_or(SECOND_NS);
    let width_ns = wanted_ns.saturating_add(unit_ns - 1) / unit_ns * unit_ns;
    let begin_ns = since_ns.div_euclid(unit_ns).saturating_mul(unit_ns);
    let count = until_ns.saturating_sub(begin_ns).saturating_add(width_ns - 1) / width_ns;
    let end_ns = begin_ns.saturating_add(width_ns.saturating_mul(count.max(1)));
    PlotRange { since_ns: begin_ns, until_ns: end_ns, points: usize::try_from(count.max(1)).unwrap_or(1) }
}

/// Sums of one host while its spans are read.
struct Building {
    buckets: Buckets,
    busy: Points,
    capacity: Points,
    peak: Points,
    run_queue_ns: f64,
    /// Capacity of what the run queue is known of.
    queue_capacity_ns: f64,
    shares: Vec<PointShare>,
}

impl Building {
    fn new(buckets: Buckets) -> Self {
        let count = buckets.count();
        let points = || Points::new(count);
        Self {
            buckets,
            busy: points(),
            capacity: points(),
            peak: points(),
            run_queue_ns: 0.0,
            queue_capacity_ns: 0.0,
            shares: Vec::new(),
        }
    }

    fn add(&mut self, span: &Segment<'_>) {
        self.buckets.cover(span, &mut self.shares);
        let capacity_ns = span.interval.ledger.capacity_ns as f64;
        let Some(busy) = busy_of(span) else { return };
        let highest = highest_of(span.max_busy_ppm, busy);
        for PointShare { at, part } in &self.shares {
            self.busy.add(*at, busy * capacity_ns * part);
            self.capacity.add(*at, capacity_ns * part);
            self.peak.raise(*at, highest);
        }
        if let Some(queue) = span.run_queue {
            let share: f64 = self.shares.iter().map(|share| share.part).sum();
            self.run_queue_ns += queue.run_queue_ns as f64 * share;
            self.queue_capacity_ns += capacity_ns * share;
        }
    }

    fn finish(&self, status: HostStatus) -> SpanHost {
        let times = self.buckets.times();
        let values = |points: &Points| {
            let mut values = vec![None; times.covered_ns.len()];
            points.each(|at, value| values[at] = Some(value));
            values
        };
        let (busy, capacity, peaks) = (values(&self.busy), values(&self.capacity), values(&self.peak));
        let sum = |values: &[Option<f64>]| values.iter().flatten().sum::<f64>();
        let ratio = |of: f64, by: f64| (by > 0.0).then(|| of / by);
        let share = |(of, by): (&Option<f64>, &Option<f64>)| of.zip(*by).and_then(|(of, by)| ratio(of, by));
        let most = peaks.iter().zip(times.begins_ns()).filter_map(|(peak, ns)| Some(((*peak)?, ns)));
        let most = most.max_by(|(a, _), (b, _)| a.total_cmp(b));
        SpanHost {
            status,
            covered_ns: times.covered_ns.iter().sum(),
            busy_ratio: ratio(sum(&busy), sum(&capacity)),
            peak_ratio: most.map(|(peak, _)| peak),
            peak_ns: most.map(|(_, ns)| ns),
            run_queue_per_cpu: ratio(self.run_queue_ns, self.queue_capacity_ns),
            points: busy.iter().zip(&capacity).map(share).collect(),
            peaks,
        }
    }
}

/// Busy share of the capacity; sums have no CPUs, and are there only of intervals that had.
fn busy_of(span: &Segment<'_>) -> Option<f64> {
    if span.max_busy_ppm.is_none() {
        busy_ratio(span.interval)
    } else {
        busy_of_ledger(&span.interval.ledger)
    }
}

/// The highest share of a single interval; for sums, the highest share of tasks and interrupts. The kernel counts run time in steps of a
/// tick, so the run time of one interval may exceed the time of its CPUs. Time that no task has is in the mean only.
fn highest_of(max_busy_ppm: Option<i64>, mean: f64) -> f64 {
    max_busy_ppm.map_or(mean, |ppm| (ppm as f64 / 1e6).min(1.0).max(mean))
}

/// What was read of a host, and from what.
struct Read {
    host: SpanHost,
    times: BucketTimes,
    resolution: Option<Resolution>,
}

fn read(history: &History, status: &HostStatus, grid: PlotRange) -> Result<Read, QueryError> {
    let plan = history.plan(status.info.host, grid)?;
    let width_ns = grid.time().length_ns() / i64::try_from(grid.points).unwrap_or(1).max(1);
    // Hours are split between points of minutes where only they are left, so the points take any span.
    let points = Plan { resolution: None, width_ns, ..plan };
    let mut building = Building::new(Buckets::new(grid, &points));
    let query = Query::new(status.info.host).what(What::Meta).range(plan.since_ns, plan.until_ns);
    let mut segments = history.segments(&query, plan.resolution)?;
    while let Some(segment) = segments.read()? {
        building.add(&segment);
    }
    let times = building.buckets.times();
    Ok(Read { host: building.finish(status.clone()), times, resolution: plan.resolution })
}

/// The hosts to read: all stored hosts that match the search, whether they report now or not.
fn wanted(history: &History, search: &str) -> Result<Vec<HostStatus>, QueryError> {
    let matches =
        |host: &HostStatus| has_words(search, &[&*host.info.hostname, &*host.info.host.to_string()]);
    Ok(history.all()?.into_iter().filter(matches).collect())
}

fn sort(hosts: &mut [SpanHost], query: &SpanQuery) {
    let value = |host: &SpanHost| match query.sort {
        SpanOrder::Mean => host.busy_ratio,
        SpanOrder::Peak => host.peak_ratio,
        SpanOrder::RunQueue => host.run_queue_per_cpu,
        SpanOrder::Name => None,
    };
    let is_name_reverse = query.is_reverse && query.sort == SpanOrder::Name;
    hosts.sort_by(|a, b| {
        let names = [a, b].map(|host| (host.status.info.hostname.to_lowercase(), host.status.info.host));
        let by_name = if is_name_reverse { names[1].cmp(&names[0]) } else { names[0].cmp(&names[1]) };
        known_first(value(a), value(b), query.is_reverse, |a, b| b.total_cmp(a)).then(by_name)
    });
}

/// Reads all hosts over a range: about `MAX_READ` intervals or sums. More hosts or a longer range are read from coarser sums, at the
/// coarsest hours.
pub fn span(history: &History, query: &SpanQuery) -> Result<FleetSpan, QueryError> {
    let hosts = wanted(history, &query.search)?;
    let grid = grid(query.range, hosts.len());
    let mut times: Option<BucketTimes> = None;
    let mut rows = Vec::with_capacity(hosts.len());
    for Read { host, times: of_host, resolution } in
        history.of_each(&hosts, |history, host| read(history, host, grid))?
    {
        let all = times.get_or_insert_with(|| BucketTimes { resolution, ..of_host.clone() });
        let length_ns = |of: Option<Resolution>| of.map_or(0, Resolution::length_ns);
        if length_ns(resolution) > length_ns(all.resolution) {
            all.resolution = resolution;
        }
        for (all, one) in all.covered_ns.iter_mut().zip(&of_host.covered_ns) {
            *all = (*all).max(*one);
        }
        rows.push(host);
    }
    sort(&mut rows, query);
    let total = rows.len();
    Ok(FleetSpan { times: times.unwrap_or_default(), total, hosts: query.page.of(rows).collect() })
}

#[cfg(test)]
mod tests {
    use cpumon_model::{Fields, HostId, HostInfo, Interval, Ledger, Moment, Trust};
    use cpumon_store::{StoreOptions, Writer};

    use super::*;

    /// Two hours of intervals of 10 s: CPUs are idle half the time and tasks take a tenth; in one interval tasks take 1.2 times the
    /// capacity.
    fn store(path: &std::path::Path) {
        const CAPACITY_NS: i64 = 20 * SECOND_NS;
        let options = StoreOptions { max_age: None, ..StoreOptions::default() };
        let mut writer = Writer::open(path, &options).unwrap();
        let host = HostInfo { host: HostId([5; 16]), hostname: "h".into(), ..HostInfo::default() };
        for nth in 1..=720_i64 {
            let moment = |nth: i64| Moment {
                mono_ns: (nth * 10 * SECOND_NS).unsigned_abs(),
                boot_ns: (nth * 10 * SECOND_NS).unsigned_abs(),
                wall_ns: HOUR_NS * 480_000 + nth * 10 * SECOND_NS,
            };
            let (threads_ns, idle_ns) = match nth {
                100 => (CAPACITY_NS / 5 * 6, 0),
                _ => (CAPACITY_NS / 10, CAPACITY_NS / 2),
            };
            let interval = Interval {
                host: host.host,
                sequence: nth.unsigned_abs(),
                fields: Fields::RUN,
                begin: moment(nth - 1),
                end: moment(nth),
                cpus: vec![cpumon_model::CpuInterval::default(); 2],
                ledger: Ledger { capacity_ns: CAPACITY_NS, threads_ns, idle_ns, ..Ledger::default() },
                ..Interval::default()
            };
            writer.put(&host, Trust::Local, None, &interval).unwrap();
        }
        writer.commit().unwrap();
        writer.compact_host(host.host).unwrap();
    }

    #[test]
    fn a_peak_of_sums_is_no_more_than_all_cpus_and_no_less_than_the_mean() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.db");
        store(&path);
        let history = History::of_store(&path).unwrap();
        let since_ns = HOUR_NS * 480_000;
        let query = SpanQuery {
            range: PlotRange { since_ns, until_ns: since_ns + 2 * HOUR_NS, points: 2 },
            search: String::new(),
            sort: SpanOrder::Peak,
            is_reverse: false,
            page: Page { offset: 0, limit: 10 },
        };
        let found = span(&history, &query).unwrap();
        assert_eq!(found.times.resolution, Some(Resolution::Hour), "read from sums");
        let host = &found.hosts[0];
        assert_eq!((host.peak_ratio, host.peak_ns), (Some(1.0), Some(since_ns)));
        let mean = host.points[1].unwrap();
        assert!(
            (mean - 0.5).abs() < 1e-9 && host.peaks[1] == Some(mean),
            "{:?} {:?}",
            host.points,
            host.peaks
        );
    }

    #[test]
    fn points_are_whole_minutes_or_hours_and_what_is_read_is_bounded() {
        let range = |length_ns: i64, points| PlotRange { since_ns: 7, until_ns: 7 + length_ns, points };
        let width = |grid: PlotRange| grid.time().length_ns() / i64::try_from(grid.points).unwrap();
        // Ten minutes of a few hosts: the seconds themselves.
        assert_eq!(width(grid(range(600 * SECOND_NS, 200), 4)), 3 * SECOND_NS);
        // Of a thousand, minutes; and over a week, hours.
        let minutes = grid(range(HOUR_NS, 200), 1000);
        assert_eq!((width(minutes), minutes.since_ns % MINUTE_NS, minutes.points), (MINUTE_NS, 0, 61));
        for (length_ns, hosts) in [(168 * HOUR_NS, 1000), (24 * HOUR_NS, 4096), (87_600 * HOUR_NS, 1)] {
            let grid = grid(range(length_ns, 400), hosts);
            assert_eq!(width(grid) % HOUR_NS, 0, "{length_ns}, {hosts}");
            assert!(grid.points <= 401 && grid.until_ns >= 7 + length_ns);
        }
        assert_eq!(grid(range(i64::MAX - 7, 1), 1).points, 1);
    }
}
