//! Processes and threads over time: chosen ones as lines, one by state, its run delays.

use std::collections::HashMap;

use axum::http::StatusCode;
use cpumon_export::chart::{
    Body, Chart, Ink, Line, Stroke, delays as delay_parts, points, states as state_parts,
};

use super::Asked;
use super::fill::{Draft, line};
use super::host::largest;
use super::values::{known, rates, scale, shares};
use crate::api::{LineJson, Lines};
use crate::history::{self, Wish};
use crate::problem::Problem;
use crate::routes::thread_wish;

/// Lines of a chart at most.
pub(super) const MAX_LINES: usize = 32;

fn column<'l>(line: &'l LineJson, name: &str) -> Option<&'l [Option<i64>]> {
    line.columns.0.iter().find(|(known, _)| known.as_ref() == name).map(|(_, values)| values.as_slice())
}

/// A name of each line; where several have the same, with what tells them apart.
fn labels(lines: &[LineJson]) -> Vec<String> {
    let name = |line: &LineJson| line.name.clone().or_else(|| line.key.clone()).unwrap_or_default();
    let mut times: HashMap<String, usize> = HashMap::new();
    for line in lines {
        *times.entry(name(line)).or_default() += 1;
    }
    let number =
        |line: &LineJson| line.key.as_deref().and_then(|key| key.split('-').next()).map(str::to_owned);
    let label = |line: &LineJson| {
        let name = name(line);
        match number(line).filter(|_| times.get(&name).is_some_and(|times| *times > 1)) {
            Some(number) => format!("{name} [{number}]"),
            None => name,
        }
    };
    lines.iter().map(label).collect()
}

pub(super) fn tasks(asked: &Asked<'_>) -> Result<Chart, Problem> {
    let query = asked.query;
    let count = query.processes.len() + query.threads.len();
    if count == 0 || count > MAX_LINES {
        let detail = format!("Between 1 and {MAX_LINES} processes and threads make a chart of tasks.");
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    let mut wishes: Vec<Wish> =
        query.processes.iter().map(|text| asked.wish(text)).collect::<Result<_, _>>()?;
    for thread in &query.threads {
        wishes.push(thread_wish(thread)?);
    }
    let count = points().history;
    let range = if query.threads.is_empty() { asked.range(count) } else { asked.thread_range(count)? };
    let all = history::lines(asked.past, asked.host, range, wishes, &["run_ns".to_owned()])?;
    let (divide, unit) = scale(query.percent, asked.host.info.cpu_count);
    let (times, labels) = (&all.times, labels(&all.lines));
    let one = |(nth, (task, label)): (usize, (&LineJson, &String))| Line {
        highest: rates(Some(&task.max_run_ns_per_s), times, divide),
        ..line(label, Ink::Nth(nth), Stroke::Solid, shares(column(task, "run_ns"), times, divide))
    };
    let mut lines: Vec<Line> = all.lines.iter().zip(&labels).enumerate().map(one).collect();
    // Beside them what the whole machine did, if it was read in the same points.
    let series = asked.series()?;
    if series.times.t_ms == times.t_ms {
        lines.push(largest(&series, "all CPUs, largest interval in a point", divide));
    }
    let mut chart = asked.chart(Draft {
        title: asked.titled("chosen processes and threads"),
        unit,
        times,
        gaps: &all.gaps,
        body: Body::Lines { lines, max: None },
        unmeasured: "None of them did anything in this range",
    });
    chart.notes.push("Faint above a line: the largest single interval in each point.".to_owned());
    Ok(chart)
}

/// The one process that is asked for, with its title.
fn process(asked: &Asked<'_>) -> Result<(String, Lines), Problem> {
    let key = asked.one_process()?;
    let title = asked.process_title(key)?;
    let range = asked.range(points().process);
    Ok((title, history::process(asked.past, asked.host, range, key)?.0))
}

pub(super) fn states(asked: &Asked<'_>) -> Result<Chart, Problem> {
    let (title, all) = process(asked)?;
    let with_blocked = asked.query.with_blocked;
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
    Ok(asked.chart(Draft {
        title: asked.titled(&format!("{title}, states over time")),
        unit: "% of one CPU, summed over threads",
        times: &all.times,
        gaps: &all.gaps,
        body: Body::Lines { lines, max: None },
        unmeasured: "What it did is not known of this range",
    }))
}

pub(super) fn delays(asked: &Asked<'_>) -> Result<Chart, Problem> {
    let (title, all) = process(asked)?;
    let task = all.lines.first();
    let lines = delay_parts().iter().enumerate().filter_map(|(nth, part)| {
        let values = known(Some(column(task?, &part.column)?), &all.times, |ns, _| ns / 1e6);
        Some(line(&*part.label, Ink::Nth(nth), Stroke::Solid, values))
    });
    Ok(asked.chart(Draft {
        title: asked.titled(&format!("{title}, run delay")),
        unit: "ms, single waits for a CPU: percentiles of all in each point",
        times: &all.times,
        gaps: &all.gaps,
        body: Body::Lines { lines: lines.collect(), max: None },
        unmeasured: "Run delays are not known of this range",
    }))
}
