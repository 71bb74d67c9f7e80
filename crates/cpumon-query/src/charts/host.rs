//! Charts of one host over time: its CPU modes, the groups that used its CPUs, its run queue, and each CPU by mode.

use cpumon_model::{CpuTimes, Terms, with_separators};

use super::chart::{
    Bar, BarPart, Body, Chart, Draft, Ink, Line, Stroke, first_names, known, line, rates, scale, shares,
};
use super::parts::{ChartPart, chart_parts};
use super::query::{ChartRequest, check_cpu_range, check_finest};
use crate::history::{BucketTimes, CpuSum, HostSeries, SeriesOptions};
use crate::report::{HostPart, Report, ReportBy, ReportQuery, ReportRow, RowKind};
use crate::{QueryError, history, report};

/// Which list of a column: sums, or highest values.
#[derive(Copy, Clone)]
pub(super) enum Of {
    Sum,
    Max,
}

pub(super) fn column<'s>(series: &'s HostSeries, name: &str, of: Of) -> Option<&'s [Option<i64>]> {
    let column = series.columns.get(name)?;
    let values = match of {
        Of::Sum => &column.sum,
        Of::Max => &column.max,
    };
    values.as_deref()
}

impl ChartRequest<'_> {
    /// The host over time, read once for all charts of a request.
    pub(super) fn series(&self) -> Result<&HostSeries, QueryError> {
        if let Some(known) = self.series.get() {
            return Ok(known);
        }
        let is_finest = self.query.is_finest;
        check_finest(&self.query, self.range)?;
        let options = SeriesOptions { columns: &[], is_finest };
        let read =
            history::series(self.history, self.host, self.plot(chart_parts().points.history), options)?;
        Ok(self.series.get_or_init(|| read))
    }
}

/// The CPU modes; where there are only sums, the ledger's lines. The first and the system's are always there.
fn parts(series: &HostSeries) -> impl Iterator<Item = &'static ChartPart> {
    let known = chart_parts();
    let has_modes = column(series, "user_ns", Of::Sum).is_some();
    let all = if has_modes { &known.modes } else { &known.ledger };
    let ran = |part: &ChartPart| {
        column(series, &part.column, Of::Sum).into_iter().flatten().flatten().any(|ns| *ns > 0)
    };
    let ran: Vec<bool> = all.iter().map(ran).collect();
    let shown = move |at: usize, part: &ChartPart| at == 0 || part.label == "system" || ran[at];
    all.iter()
        .enumerate()
        .filter(move |(at, part)| part.label != "idle" && shown(*at, part))
        .map(|(_, part)| part)
}

/// What the line of the highest single interval in each point is called.
pub(super) const PEAK: &str = "peak interval";

/// The largest busy share of a single interval in each point.
pub(super) fn peak(series: &HostSeries, divide: f64) -> Line {
    let values = rates(column(series, "busy_ns", Of::Max), &series.times, divide);
    line(PEAK, Ink::Named("dim"), Stroke::Dashed, values)
}

pub(super) fn cpu(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let series = request.series()?;
    let cpus = request.host.info.cpu_count;
    let terms = Terms::of_host(&request.host.info);
    let (divide, unit) = scale(request.query.percent, cpus);
    let stacked = parts(series).map(|part| {
        let values = shares(column(series, &part.column, Of::Sum), &series.times, divide);
        let key = Some(part.column.clone());
        Line { key, ..line(part.label_in(&terms), Ink::Named(&part.color), Stroke::Area, values) }
    });
    let mut lines: Vec<Line> = stacked.collect();
    lines.push(peak(series, divide));
    let max = (cpus > 0).then(|| f64::from(cpus) * 100.0 / divide);
    Ok(request.chart(Draft {
        title: request.titled("CPU use"),
        unit,
        times: &series.times,
        gaps: &series.gaps,
        body: Body::Lines { lines, max },
        unmeasured: "CPU use is not known of this range",
    }))
}

/// What rows of a grouping are called.
pub(super) fn plural(by: ReportBy) -> &'static str {
    match by {
        ReportBy::Program | ReportBy::Name => "programs",
        ReportBy::Process => "processes",
        ReportBy::Thread => "threads",
        ReportBy::User => "users",
        ReportBy::Service => "services",
        ReportBy::Container => "containers",
        ReportBy::Cgroup => "cgroups",
        ReportBy::Host => "hosts",
    }
}

/// Unique label of an area: the name, of a task with its pid or tid.
fn label(row: &ReportRow, by: ReportBy) -> String {
    let name = if row.name.trim().is_empty() { "(no name)" } else { row.name.trim() };
    let number = match by {
        ReportBy::Process => row.pid,
        ReportBy::Thread => row.tid,
        _ => None,
    };
    match (row.kind, number) {
        (RowKind::Short, _) => format!("{name} (short-lived)"),
        (_, Some(number)) => format!("{name} {number}"),
        _ => name.to_owned(),
    }
}

/// The rows with an area of their own.
fn groups(report: &Report) -> impl Iterator<Item = &ReportRow> {
    report.rows.iter().filter(|row| row.kind.is_group())
}

/// The groups from the bottom up, then what no group with an area has.
fn stack(report: &Report, part: &HostPart, divide: f64) -> Vec<Line> {
    let area = |label: String, ink, values: &[Option<i64>]| {
        line(label, ink, Stroke::Area, shares(Some(values), &part.times, divide))
    };
    let rows: Vec<&ReportRow> = groups(report).collect();
    let others = part.used.iter().enumerate().map(|(at, used)| {
        let of = |row: &&ReportRow| row.points.get(at).copied().flatten().unwrap_or(0);
        used.map(|used| used.saturating_sub(rows.iter().map(of).sum()).max(0))
    });
    let others: Vec<Option<i64>> = others.collect();
    let groups = rows.iter().enumerate().map(|(nth, row)| Line {
        key: Some(row.id()),
        ..area(label(row, report.query.by), Ink::Nth(nth), &row.points)
    });
    groups.chain([area("others".to_owned(), Ink::Named("iowait"), &others)]).collect()
}

/// The highest of a finer line in each point of a coarser one.
fn highest_in(coarse: &BucketTimes, fine: &BucketTimes, values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut highest: Vec<Option<f64>> = vec![None; coarse.covered_ns.len()];
    for (begin_ns, value) in fine.begins_ns().zip(values) {
        let middle_ns = begin_ns.saturating_add(fine.width_ns / 2);
        let at = middle_ns.saturating_sub(coarse.begin_ns).div_euclid(coarse.width_ns.max(1));
        let point = usize::try_from(at).ok().and_then(|at| highest.get_mut(at));
        if let (Some(point), Some(value)) = (point, value) {
            *point = Some(point.map_or(*value, |highest| highest.max(*value)));
        }
    }
    highest
}

fn notes(report: &Report) -> Vec<String> {
    let (shown, rows) = (groups(report).count(), plural(report.query.by));
    let mut notes = Vec::new();
    if report.total > shown {
        let total = report.total;
        notes.push(with_separators(&format!("The {shown} of {total} {rows} that used the most CPU time.")));
    }
    let filter = &report.query.filter;
    if let Some((by, name)) = &filter.within {
        notes.push(format!("Only processes of {} {name}: all else is in others.", by.name()));
    }
    if let Some(text) = &filter.text {
        notes.push(format!("Only rows that match {text}: all else is in others."));
    }
    notes
}

/// Who used a host's CPUs over time: the groups of a report as areas, as the page's *History* stacks them.
pub(super) fn who(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let series = request.series()?;
    let by = request.query.by();
    let question = ReportQuery {
        since_ns: Some(request.range.since_ns),
        until_ns: Some(request.range.until_ns),
        by,
        limit: chart_parts().areas,
        filter: request.query.filter.clone(),
        points: Some(request.query.points.unwrap_or(chart_parts().points.who)),
        ..ReportQuery::default()
    };
    let made = match report::report(request.history, std::slice::from_ref(request.host), &question) {
        Ok(made) => Some(made),
        // A picture without data says so.
        Err(QueryError::NoData { .. }) => None,
        Err(error) => return Err(error),
    };
    let cpus = request.host.info.cpu_count;
    let (divide, unit) = scale(request.query.percent, cpus);
    let part = made.as_ref().and_then(|report| Some((report, report.hosts.first()?)));
    let mut lines = part.map_or_else(Vec::new, |(report, part)| stack(report, part, divide));
    let times = part.map_or(&series.times, |(_, part)| &part.times);
    let peak = peak(series, divide);
    lines.push(Line { values: highest_in(times, &series.times, &peak.values), ..peak });
    let mut chart = request.chart(Draft {
        title: request.titled(&format!("CPU use by {}", by.name())),
        unit,
        times,
        gaps: &series.gaps,
        body: Body::Lines { lines, max: (cpus > 0).then(|| f64::from(cpus) * 100.0 / divide) },
        unmeasured: "Who used the CPU is not known of this range",
    });
    if let (Some((report, _)), None) = (part, &chart.empty) {
        chart.notes.extend(notes(report));
    }
    Ok(chart)
}

pub(super) fn run_queue(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let series = request.series()?;
    let times = &series.times;
    let of = |name: &str, of, make: &dyn Fn(f64, f64) -> f64| known(column(series, name, of), times, make);
    let mean = of("run_queue_ns", Of::Sum, &|ns, covered| ns / covered);
    let highest = of("run_queue_ns", Of::Max, &|ns, _| ns / 1e9);
    let longest = of("run_queue_max", Of::Max, &|count, _| count);
    let lines = vec![
        line("mean of all CPUs", Ink::Nth(0), Stroke::Area, mean),
        line("highest in an interval", Ink::Nth(1), Stroke::Solid, highest),
        line("longest of one CPU", Ink::Named("dim"), Stroke::Dashed, longest),
    ];
    Ok(request.chart(Draft {
        title: request.titled("run queue"),
        unit: "tasks running or ready",
        times,
        gaps: &series.gaps,
        body: Body::Lines { lines, max: None },
        unmeasured: "The run queue is not known of this range",
    }))
}

/// Most CPUs that a note names.
const MAX_NAMED: usize = 8;
/// Most bars whose names begin with `CPU`; with more, a name is the number alone.
const MAX_CALLED: usize = 64;
/// Unknown time below this percentage is not worth a note.
const LEAST_UNKNOWN: f64 = 0.05;

/// Modes in the order of the stack, and their places in [`CpuTimes::MODES`].
fn columns() -> impl Iterator<Item = (&'static ChartPart, usize)> {
    let place = |name: &str| CpuTimes::MODES.iter().position(|mode| Some(*mode) == name.strip_suffix("_ns"));
    chart_parts().modes.iter().filter_map(move |part| Some((part, place(&part.column)?)))
}

fn share(times: &CpuTimes, mode: usize) -> f64 {
    times.to_array()[mode] as f64 * 100.0 / times.total_ns() as f64
}

/// `2.5 s`, `5 min 20 s`, `3 h 20 min`.
fn length(ns: i64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        ..120 => format!("{:.3} s", ns as f64 / 1e9),
        120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Note on CPUs that were offline for a part of the time; `None` if all were online.
fn partly_online<'a>(each: impl Iterator<Item = (&'a u32, &'a CpuSum)> + Clone) -> Option<String> {
    // A CPU with fewer intervals than another one was offline in some.
    let most = each.clone().map(|(_, sum)| sum.intervals).max()?;
    let partly: Vec<String> =
        each.filter(|(_, sum)| sum.intervals < most).map(|(cpu, _)| cpu.to_string()).collect();
    let named = first_names(&partly, MAX_NAMED, "more");
    (!partly.is_empty()).then(|| format!("Online in a part of this time only: CPU {named}."))
}

pub(super) fn cpus(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    check_cpu_range(request.range)?;
    let read = history::cpus(request.history, request.host, request.range)?;
    let terms = Terms::of_host(&request.host.info);
    let ran = |mode: usize| read.each.values().any(|sum| sum.times.to_array()[mode] > 0);
    let is_shown =
        |(part, mode): &(&ChartPart, usize)| part.label == "user" || part.label == "system" || ran(*mode);
    let shown: Vec<_> = columns().filter(is_shown).collect();
    let called = if read.each.len() <= MAX_CALLED { "CPU " } else { "" };
    let bar = |(cpu, sum): (&u32, &CpuSum)| Bar {
        name: format!("{called}{cpu}"),
        shares: if sum.times.total_ns() > 0 {
            shown.iter().map(|(_, mode)| share(&sum.times, *mode)).collect()
        } else {
            Vec::new()
        },
    };
    let part = |label: &str, color: &'static str| BarPart { label: label.to_owned(), ink: Ink::Named(color) };
    let body = Body::Bars {
        bars: read.each.iter().map(bar).collect(),
        parts: shown.iter().map(|(mode, _)| part(mode.label_in(&terms), &mode.color)).collect(),
        rest: part("idle", "idle"),
    };
    let mut chart = request.chart(Draft {
        title: request.titled("each CPU by mode"),
        unit: "% of each CPU's time",
        times: &read.times,
        gaps: &read.gaps,
        body,
        unmeasured: "What each CPU did is not known of this range",
    });
    if read.has_only_sums {
        chart.empty = Some("Only sums are stored of this range, and they do not hold single CPUs".to_owned());
    }
    if chart.empty.is_some() {
        return Ok(chart);
    }
    let measured = length(read.times.covered_ns.iter().sum());
    chart.notes.push(match read.intervals {
        1 => format!("One interval of {measured}."),
        count => format!("Mean of {count} intervals: {measured} measured."),
    });
    chart.notes.extend(partly_online(read.each.iter()));
    let total_ns: u64 = read.each.values().map(|sum| sum.times.total_ns()).fold(0, u64::saturating_add);
    let unknown = read.unknown_ns.unwrap_or(0) as f64 * 100.0 / total_ns as f64;
    if unknown >= LEAST_UNKNOWN {
        chart.notes.push(format!(
            "{unknown:.1} % of this time is not attributed to a thread by any context switch."
        ));
    }
    Ok(chart)
}
