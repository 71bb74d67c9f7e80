//! Processes and threads over time: chosen ones as lines, one by state, its run delays.

use std::collections::HashMap;

use super::chart::{Body, Chart, Ink, Line, Stroke};
use super::fill::{Draft, line};
use super::host::largest;
use super::parts::{delays as delay_parts, points, states as state_parts};
use super::request::ChartRequest;
use super::values::{known, rates, scale, shares};
use crate::QueryError;
use crate::TaskKey;
use crate::history::{self, Lines, Selection, TaskLine, parse_thread_selection};

/// Lines of a chart at most.
pub(super) const MAX_LINES: usize = 32;

fn column<'l>(line: &'l TaskLine, name: &str) -> Option<&'l [Option<i64>]> {
    line.columns.get(name).map(Vec::as_slice)
}

/// A name of each line; where several have the same, with the number that distinguishes them.
fn labels(lines: &[TaskLine]) -> Vec<String> {
    let name = |line: &TaskLine| {
        let key = || line.key.map(|key| key.to_string());
        line.name.clone().or_else(key).unwrap_or_default()
    };
    let mut times: HashMap<String, usize> = HashMap::new();
    for line in lines {
        *times.entry(name(line)).or_default() += 1;
    }
    let number = |line: &TaskLine| line.key.map(TaskKey::number);
    let label = |line: &TaskLine| {
        let name = name(line);
        match number(line).filter(|_| times.get(&name).is_some_and(|times| *times > 1)) {
            Some(number) => format!("{name} [{number}]"),
            None => name,
        }
    };
    lines.iter().map(label).collect()
}

/// Says why lines end, if one does where others go on.
fn absence(lines: &Lines) -> Option<String> {
    let is_absent = |line: &TaskLine| {
        let values = line.max_run_ns_per_s.iter().zip(&lines.times.covered_ns);
        values.into_iter().any(|(value, covered_ns)| value.is_none() && *covered_ns > 0)
    };
    lines.lines.iter().any(is_absent).then(|| "Blank: not running yet, or ended.".to_owned())
}

pub(super) fn tasks(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let query = request.query;
    let count = query.processes.len() + query.threads.len();
    if count == 0 || count > MAX_LINES {
        return Err(QueryError::TaskCount { most: MAX_LINES });
    }
    let mut selections: Vec<Selection> =
        query.processes.iter().map(|text| request.selection(text)).collect::<Result<_, _>>()?;
    for thread in &query.threads {
        selections.push(parse_thread_selection(thread)?);
    }
    let count = points().history;
    let range = if query.threads.is_empty() { request.plot(count) } else { request.thread_plot(count)? };
    let all = history::lines(request.history, request.host, range, selections, &["run_ns".to_owned()])?;
    let (divide, unit) = scale(query.percent, request.host.info.cpu_count);
    let (times, labels) = (&all.times, labels(&all.lines));
    let one = |(nth, (task, label)): (usize, (&TaskLine, &String))| Line {
        highest: rates(Some(&task.max_run_ns_per_s), times, divide),
        ..line(label, Ink::Nth(nth), Stroke::Solid, shares(column(task, "run_ns"), times, divide))
    };
    let mut lines: Vec<Line> = all.lines.iter().zip(&labels).enumerate().map(one).collect();
    // Beside them what the whole machine did, if it was read in the same points.
    let series = request.series()?;
    if series.times.begins_ns().eq(times.begins_ns()) {
        lines.push(largest(&series, "all CPUs, largest interval in a point", divide));
    }
    let mut chart = request.chart(Draft {
        title: request.titled("chosen processes and threads"),
        unit,
        times,
        gaps: &all.gaps,
        body: Body::Lines { lines, max: None },
        unmeasured: "None of them did anything in this range",
    });
    chart.notes.extend(absence(&all));
    chart.notes.push("Faint above a line: the largest single interval in each point.".to_owned());
    Ok(chart)
}

/// The one process that is asked for, with its title.
fn process(request: &ChartRequest<'_>) -> Result<(String, Lines), QueryError> {
    let key = request.one_process()?;
    let title = request.process_title(key)?;
    let range = request.plot(points().process);
    Ok((title, history::process(request.history, request.host, range, key)?.0))
}

pub(super) fn states(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let (title, all) = process(request)?;
    let with_blocked = request.query.with_blocked;
    let mut lines: Vec<Line> = Vec::new();
    if let Some(task) = all.lines.first() {
        for part in state_parts().iter().filter(|part| with_blocked || part.column != "blocked_ns") {
            if let Some(values) = column(task, &part.column) {
                let values = shares(Some(values), &all.times, 1.0);
                lines.push(line(&*part.label, Ink::Named(&part.color), Stroke::Area, values));
            }
        }
        let values = rates(Some(&task.max_run_ns_per_s), &all.times, 1.0);
        lines.push(line("largest run in a point", Ink::Named("dim"), Stroke::Dashed, values));
    }
    let mut chart = request.chart(Draft {
        title: request.titled(&format!("{title}, states over time")),
        unit: "% of one CPU, summed over threads",
        times: &all.times,
        gaps: &all.gaps,
        body: Body::Lines { lines, max: None },
        unmeasured: "What it did is not known of this range",
    });
    chart.notes.extend(absence(&all));
    Ok(chart)
}

pub(super) fn delays(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let (title, all) = process(request)?;
    let task = all.lines.first();
    let lines = delay_parts().iter().enumerate().filter_map(|(nth, part)| {
        let values = known(Some(column(task?, &part.column)?), &all.times, |ns, _| ns / 1e6);
        Some(line(&*part.label, Ink::Nth(nth), Stroke::Solid, values))
    });
    Ok(request.chart(Draft {
        title: request.titled(&format!("{title}, run delay")),
        unit: "ms, single waits for a CPU: percentiles of all in each point",
        times: &all.times,
        gaps: &all.gaps,
        body: Body::Lines { lines: lines.collect(), max: None },
        unmeasured: "Run delays are not known of this range",
    }))
}
