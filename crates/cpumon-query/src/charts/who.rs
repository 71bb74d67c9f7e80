//! Who used a host's CPUs over time: the groups of a report as areas, as the page's *History* stacks them.

use cpumon_model::with_separators;

use super::chart::{Body, Chart, Draft, Ink, Line, Stroke, line, scale, shares};
use super::host::peak;
use super::parts::chart_parts;
use super::query::ChartRequest;
use crate::history::BucketTimes;
use crate::report::{HostPart, Report, ReportBy, ReportQuery, ReportRow, RowKind};
use crate::{QueryError, report};

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
