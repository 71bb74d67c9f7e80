//! A host over time: CPU modes, run queue.

use cpumon_model::Terms;

use super::chart::{Body, Chart, Ink, Line, Stroke};
use super::fill::{Draft, line};
use super::parts::{Part, ledger, modes, points};
use super::request::{ChartRequest, check_finest};
use super::values::{known, rates, scale, shares};
use crate::QueryError;
use crate::history::{self, HostSeries, SeriesOptions};

/// Which of a column's lists.
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
    pub(super) fn series(&self) -> Result<HostSeries, QueryError> {
        let is_finest = self.query.is_finest;
        check_finest(self.query, self.range)?;
        let options = SeriesOptions { columns: &[], is_finest };
        history::series(self.history, self.host, self.plot(points().history), options)
    }
}

/// The CPU modes; where there are only sums, the ledger's lines. The first and the system's are always there.
fn parts(series: &HostSeries) -> impl Iterator<Item = &'static Part> {
    let all = if column(series, "user_ns", Of::Sum).is_some() { modes() } else { ledger() };
    let ran =
        |part: &Part| column(series, &part.column, Of::Sum).into_iter().flatten().flatten().any(|ns| *ns > 0);
    let ran: Vec<bool> = all.iter().map(ran).collect();
    let shown = move |at: usize, part: &Part| at == 0 || part.label == "system" || ran[at];
    all.iter()
        .enumerate()
        .filter(move |(at, part)| part.label != "idle" && shown(*at, part))
        .map(|(_, part)| part)
}

/// The largest busy share of a single interval in each point.
pub(super) fn largest(series: &HostSeries, label: &str, divide: f64) -> Line {
    let values = rates(column(series, "busy_ns", Of::Max), &series.times, divide);
    line(label, Ink::Named("dim"), Stroke::Dashed, values)
}

pub(super) fn cpu(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let series = request.series()?;
    let cpus = request.host.info.cpu_count;
    let terms = Terms::of_host(&request.host.info);
    let (divide, unit) = scale(request.query.percent, cpus);
    let stacked = parts(&series).map(|part| {
        let values = shares(column(&series, &part.column, Of::Sum), &series.times, divide);
        line(part.label_in(&terms), Ink::Named(&part.color), Stroke::Area, values)
    });
    let mut lines: Vec<Line> = stacked.collect();
    lines.push(largest(&series, "largest interval in a point", divide));
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

pub(super) fn run_queue(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let series = request.series()?;
    let times = &series.times;
    let of = |name: &str, of, make: &dyn Fn(f64, f64) -> f64| known(column(&series, name, of), times, make);
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
