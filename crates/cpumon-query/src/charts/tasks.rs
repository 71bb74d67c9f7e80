//! Processes and threads over time: chosen ones as lines, one by state, its run delays; the busiest ones as a heatmap.

use cpumon_model::with_separators;

use super::chart::{
    Body, Chart, Draft, HeatmapRow, Hole, Ink, Line, Stroke, absences, distinct, heatmap, known, line, rates,
    scale, shares,
};
use super::host::{PEAK, peak, plural};
use super::parts::chart_parts;
use super::query::{Cells, ChartQuery, ChartRequest, MAX_ROWS, rows_of};
use crate::history::{
    Lines, Matrix, MatrixRow, MatrixSort, Selection, ShownRows, TaskLine, parse_thread_selection,
};
use crate::{GroupBy, QueryError, history};

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
    distinct(lines.iter().map(name).collect(), |at| Some(lines[at].key?.number().to_string()))
}

/// Says why lines end, if one does where others go on.
fn absence(lines: &Lines) -> Option<String> {
    let is_absent = |line: &TaskLine| {
        let values = line.max_run_ns_per_s.iter().zip(&lines.times.covered_ns);
        values.into_iter().any(|(value, covered_ns)| value.is_none() && *covered_ns > 0)
    };
    lines
        .lines
        .iter()
        .any(is_absent)
        .then(|| "Blank: not running yet, ended, or not seen since a gap.".to_owned())
}

/// Instead of a chart of tasks without a value.
const NOTHING_DONE: &str = "None of them did anything in this range";

pub(super) fn tasks(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let query = &request.query;
    let count = query.processes.len() + query.threads.len();
    if count == 0 || count > MAX_LINES {
        return Err(QueryError::TaskCount { most: MAX_LINES });
    }
    let mut selections: Vec<Selection> =
        query.processes.iter().map(|text| request.selection(text)).collect::<Result<_, _>>()?;
    for thread in &query.threads {
        selections.push(parse_thread_selection(thread)?);
    }
    let count = chart_parts().points.history;
    let range = if query.threads.is_empty() { request.plot(count) } else { request.thread_plot(count)? };
    let all = history::lines(request.history, request.host, range, &selections, &["run_ns".to_owned()])?;
    let (divide, unit) = scale(query.percent, request.host.info.cpu_count);
    let (times, labels) = (&all.times, labels(&all.lines));
    let one = |(nth, (task, label)): (usize, (&TaskLine, &String))| Line {
        key: task.key.map(|key| key.to_string()),
        highest: rates(Some(&task.max_run_ns_per_s), times, divide),
        ..line(label, Ink::Nth(nth), Stroke::Solid, shares(column(task, "run_ns"), times, divide))
    };
    let mut lines: Vec<Line> = all.lines.iter().zip(&labels).enumerate().map(one).collect();
    // Beside them what the whole machine did, if it was read in the same points.
    let series = request.series()?;
    if series.times.begins_ns().eq(times.begins_ns()) {
        lines.push(Line { label: format!("all CPUs, {PEAK}"), ..peak(series, divide) });
    }
    let mut chart = request.chart(Draft {
        title: request.titled("chosen processes and threads"),
        unit,
        times,
        gaps: &all.gaps,
        body: Body::Lines { lines, max: None },
        unmeasured: NOTHING_DONE,
    });
    // The line of all CPUs has values where none of the tasks has.
    if chart.empty.is_none() && all.lines.iter().all(|task| task.first_ns.is_none()) {
        chart.empty = Some(NOTHING_DONE.to_owned());
    }
    chart.notes.extend(absence(&all));
    chart.notes.push("Faint above a line: the largest single interval in each point.".to_owned());
    Ok(chart)
}

/// The one process that is asked for, with its title; read once for all charts of a request.
fn process<'r>(request: &'r ChartRequest<'_>) -> Result<&'r (String, Lines), QueryError> {
    if let Some(known) = request.process.get() {
        return Ok(known);
    }
    let key = request.one_process()?;
    let title = request.process_title(key)?;
    let range = request.plot(chart_parts().points.process);
    let (lines, _) = history::process(request.history, request.host, range, key)?;
    Ok(request.process.get_or_init(|| (title, lines)))
}

/// Times at which the task was not alive.
fn absences_of(all: &Lines) -> Vec<Hole> {
    let values = all.lines.first().and_then(|task| column(task, "run_ns"));
    absences(&known(values, &all.times, |ns, _| ns), &all.times)
}

pub(super) fn states(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let (title, all) = process(request)?;
    let with_blocked = request.query.with_blocked;
    let mut lines: Vec<Line> = Vec::new();
    if let Some(task) = all.lines.first() {
        for part in chart_parts().states.iter().filter(|part| with_blocked || part.column != "blocked_ns") {
            if let Some(values) = column(task, &part.column) {
                let values = shares(Some(values), &all.times, 1.0);
                lines.push(line(&*part.label, Ink::Named(&part.color), Stroke::Area, values));
            }
        }
        let values = rates(Some(&task.max_run_ns_per_s), &all.times, 1.0);
        lines.push(line(PEAK, Ink::Named("dim"), Stroke::Dashed, values));
    }
    let mut chart = request.chart(Draft {
        title: request.titled(&format!("{title}, states over time")),
        unit: "% of one CPU, summed over threads",
        times: &all.times,
        gaps: &all.gaps,
        body: Body::Lines { lines, max: None },
        unmeasured: "What it did is not known of this range",
    });
    chart.notes.extend(absence(all));
    chart.absences = absences_of(all);
    Ok(chart)
}

pub(super) fn delays(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let (title, all) = process(request)?;
    let task = all.lines.first();
    let lines = chart_parts().delays.iter().enumerate().filter_map(|(nth, part)| {
        let values = known(Some(column(task?, &part.column)?), &all.times, |ns, _| ns / 1e6);
        let is_measured = values.iter().any(Option::is_some);
        is_measured.then(|| line(&*part.label, Ink::Nth(nth), Stroke::Solid, values))
    });
    let mut chart = request.chart(Draft {
        title: request.titled(&format!("{title}, run delay")),
        unit: "ms, single waits for a CPU: percentiles of all in each point",
        times: &all.times,
        gaps: &all.gaps,
        body: Body::Lines { lines: lines.collect(), max: None },
        unmeasured: "Run delays are not known of this range",
    });
    chart.absences = absences_of(all);
    Ok(chart)
}

/// Rows of a landscape unless the query has a number.
const LANDSCAPE_ROWS: usize = 60;

/// The first rows, in the order that goes with the cells.
fn shown(cells: Cells, limit: usize, search: &str) -> ShownRows<'_> {
    let sort = match cells {
        Cells::Mean => MatrixSort::Run,
        Cells::Highest => MatrixSort::Highest,
    };
    ShownRows { sort, offset: 0, limit, search }
}

fn rows(matrix: &Matrix, divide: f64, name: impl Fn(&MatrixRow) -> String) -> Vec<HeatmapRow> {
    let covered_ns = matrix.times.covered_ns.iter().sum::<i64>() as f64;
    let row = |row: &MatrixRow| {
        let highest = rates(Some(&row.max), &matrix.times, divide);
        HeatmapRow {
            name: name(row),
            key: Some(row.key.map_or_else(|| row.name.clone(), |key| key.to_string())),
            life: row.key.map(|_| row.life),
            run_ns: Some(row.total_ns),
            run_queue_per_cpu: None,
            mean: (covered_ns > 0.0).then(|| row.total_ns as f64 * 100.0 / covered_ns / divide),
            max: highest.iter().flatten().copied().reduce(f64::max),
            values: shares(Some(&row.values), &matrix.times, divide),
            highest,
        }
    };
    matrix.rows.iter().map(row).collect()
}

fn notes(cells: Cells, matrix: &Matrix, rows: &str) -> Vec<String> {
    let total = matrix.total;
    let count = matrix.rows.len();
    let mut notes = Vec::new();
    if cells == Cells::Highest {
        notes.push("Colours: the highest single interval in each cell.".to_owned());
    }
    let text = match cells {
        Cells::Mean => format!("The busiest {count} of {total} {rows}."),
        Cells::Highest => format!("The {count} of {total} {rows} that went highest."),
    };
    notes.extend((total > count).then(|| with_separators(&text)));
    notes
}

/// `49,000 others`
fn name_of_others(count: usize) -> String {
    with_separators(&format!("{count} {}", if count == 1 { "other" } else { "others" }))
}

/// `web [20]`.
fn numbered(row: &MatrixRow) -> String {
    let number = row.key.map(|key| key.number().to_string()).unwrap_or_default();
    format!("{} [{number}]", row.name)
}

/// Grouping of the landscape's rows; an error for threads and hosts.
pub(super) fn rows_by(query: &ChartQuery) -> Result<GroupBy, QueryError> {
    let by = query.by();
    by.group().ok_or(QueryError::NoGroups { view: query.view.name().into(), by: by.name().into() })
}

pub(super) fn landscape(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let limit = rows_of(&request.query, LANDSCAPE_ROWS)?;
    let by = rows_by(&request.query)?;
    let what_rows = plural(by.into());
    let (cells, search) = (request.query.cells, request.query.filter.text.as_deref().unwrap_or_default());
    let (range, first) = (request.plot(chart_parts().points.matrix), shown(cells, limit, search));
    let matrix = history::landscape(request.history, request.host, range, by, first)?;
    let (divide, unit) = scale(request.query.percent, request.host.info.cpu_count);
    let mut rows = rows(&matrix, divide, |row| match by {
        GroupBy::Process => numbered(row),
        _ => row.name.clone(),
    });
    let others = matrix.total.saturating_sub(matrix.rows.len());
    let such = if search.is_empty() { "" } else { "such " };
    // Highest intervals of several tasks cannot be added up, so they have no row of others. Nor is it what was searched for.
    if others > 0 && cells == Cells::Mean && search.is_empty() {
        let values = shares(Some(&matrix.other), &matrix.times, divide);
        let (name, run_ns) = (name_of_others(others), Some(matrix.other.iter().flatten().sum()));
        rows.push(HeatmapRow { name, run_ns, values, ..HeatmapRow::default() });
    }
    let mut chart = request.chart(Draft {
        title: request.titled(&format!("{what_rows} over time")),
        unit,
        times: &matrix.times,
        gaps: &matrix.gaps,
        body: heatmap(rows, cells),
        unmeasured: &format!("No {such}process used a CPU in this range"),
    });
    if by != GroupBy::Process && matrix.times.resolution.is_some() && chart.empty.is_none() {
        chart.notes.push("Read from sums: a program that was not running is drawn as 0.".to_owned());
    }
    if (cells == Cells::Highest || !search.is_empty()) && chart.empty.is_none() {
        chart.notes.extend(notes(cells, &matrix, what_rows));
    }
    Ok(chart)
}

pub(super) fn threads(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let limit = rows_of(&request.query, MAX_ROWS)?;
    let key = request.one_process()?;
    let title = request.process_title(key)?;
    let range = request.thread_plot(chart_parts().points.matrix)?;
    let cells = request.query.cells;
    let matrix = history::threads(request.history, request.host, range, key, shown(cells, limit, ""))?;
    let mut chart = request.chart(Draft {
        title: request.titled(&format!("{title}, threads over time")),
        unit: "%CPU: 100 = one CPU",
        times: &matrix.times,
        gaps: &matrix.gaps,
        body: heatmap(rows(&matrix, 1.0, numbered), cells),
        unmeasured: "No thread of it ran in this range",
    });
    if chart.empty.is_none() {
        chart.notes.extend(notes(cells, &matrix, "threads"));
    }
    Ok(chart)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_row_of_all_others_counts_them() {
        assert_eq!([1, 2, 49_000].map(name_of_others), ["1 other", "2 others", "49,000 others"]);
    }
}
