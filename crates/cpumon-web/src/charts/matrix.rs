//! Rows by time: the landscape of a host, the threads of a process.

use axum::http::StatusCode;
use cpumon_export::chart::{self, Body, Cells, Chart, ChartQuery, HeatmapRow, points};

use super::Asked;
use super::fill::Draft;
use super::values::{rates, scale, shares};
use crate::api::{Matrix, MatrixRow};
use crate::history::{self, By, Shown, Sort};
use crate::problem::Problem;

/// Rows of a picture at most: more are too low to be seen.
const MAX_ROWS: usize = 200;
const LANDSCAPE_ROWS: usize = 60;

pub(super) fn rows_of(query: &ChartQuery, usual: usize) -> Result<usize, Problem> {
    match query.rows.unwrap_or(usual) {
        rows if (1..=MAX_ROWS).contains(&rows) => Ok(rows),
        rows => {
            let detail = format!("rows={rows} is not between 1 and {MAX_ROWS}.");
            Err(Problem::new(StatusCode::BAD_REQUEST, detail))
        }
    }
}

/// The first rows, in the order that goes with what cells tell.
fn shown(cells: Cells, limit: usize) -> Shown {
    let sort = match cells {
        Cells::Mean => Sort::Run,
        Cells::Highest => Sort::Highest,
    };
    Shown { sort, offset: 0, limit }
}

fn rows(
    matrix: &Matrix,
    (cells, divide): (Cells, f64),
    name: impl Fn(&MatrixRow) -> String,
) -> Vec<HeatmapRow> {
    let values = |row: &MatrixRow| match cells {
        Cells::Mean => shares(Some(&row.values), &matrix.times, divide),
        Cells::Highest => rates(Some(&row.max), &matrix.times, divide),
    };
    matrix.rows.iter().map(|row| HeatmapRow { name: name(row), values: values(row) }).collect()
}

/// What the picture does not tell by itself.
fn notes(cells: Cells, matrix: &Matrix, rows: &str) -> Vec<String> {
    let total = matrix.total;
    let count = matrix.rows.len();
    let mut notes = Vec::new();
    if cells == Cells::Highest {
        notes.push("Colours: the highest single interval in each cell.".to_owned());
    }
    match cells {
        _ if total <= count => {}
        Cells::Mean => notes.push(format!("The busiest {count} of {total} {rows}.")),
        Cells::Highest => notes.push(format!("The {count} of {total} {rows} that went highest.")),
    }
    notes
}

/// The strongest colour, in percent: of the highest cell, and of 1 % at least, so that next to nothing looks like it.
fn strongest(rows: &[HeatmapRow]) -> f64 {
    rows.iter().flat_map(|row| &row.values).flatten().fold(1.0, |most: f64, value| most.max(*value))
}

fn number(key: Option<&str>) -> &str {
    key.and_then(|key| key.split('-').next()).unwrap_or_default()
}

pub(super) fn landscape(asked: &Asked<'_>) -> Result<Chart, Problem> {
    let limit = rows_of(asked.query, LANDSCAPE_ROWS)?;
    let (by, what_rows) = match asked.query.by {
        chart::By::Name => (By::Name, "programs"),
        chart::By::Process => (By::Process, "processes"),
    };
    let cells = asked.query.cells;
    let range = asked.range(points().matrix);
    let matrix = history::landscape(asked.past, asked.host, range, by, shown(cells, limit))?;
    let (divide, unit) = scale(asked.query.percent, asked.host.info.cpu_count);
    let mut rows = rows(&matrix, (cells, divide), |row| match by {
        By::Name => row.name.clone(),
        By::Process => format!("{} [{}]", row.name, number(row.key.as_deref())),
    });
    let others = matrix.total.saturating_sub(matrix.rows.len());
    if others > 0 && cells == Cells::Mean {
        let values = shares(Some(&matrix.other), &matrix.times, divide);
        rows.push(HeatmapRow { name: format!("{others} others"), values });
    }
    let max = strongest(&rows);
    let mut chart = asked.chart(Draft {
        title: asked.titled(&format!("{what_rows} over time")),
        unit,
        times: &matrix.times,
        gaps: &matrix.gaps,
        body: Body::Heatmap { rows, max },
        unmeasured: "No process used a CPU in this range",
    });
    if cells == Cells::Highest && chart.empty.is_none() {
        chart.notes.extend(notes(cells, &matrix, what_rows));
    }
    Ok(chart)
}

pub(super) fn threads(asked: &Asked<'_>) -> Result<Chart, Problem> {
    let limit = rows_of(asked.query, MAX_ROWS)?;
    let key = asked.one_process()?;
    let title = asked.process_title(key)?;
    let range = asked.thread_range(points().matrix)?;
    let cells = asked.query.cells;
    let matrix = history::threads(asked.past, asked.host, range, key, (shown(cells, limit), None))?;
    let rows = rows(&matrix, (cells, 1.0), |row| format!("{} [{}]", row.name, number(row.key.as_deref())));
    let max = strongest(&rows);
    let mut chart = asked.chart(Draft {
        title: asked.titled(&format!("{title}, threads over time")),
        unit: "%CPU: 100 = one CPU",
        times: &matrix.times,
        gaps: &matrix.gaps,
        body: Body::Heatmap { rows, max },
        unmeasured: "No thread of it ran in this range",
    });
    if chart.empty.is_none() {
        chart.notes.extend(notes(cells, &matrix, "threads"));
    }
    Ok(chart)
}
