//! Rows by time: the landscape of a host, the threads of a process.

use axum::http::StatusCode;
use cpumon_export::chart::{self, Body, Chart, ChartQuery, Row, points};

use super::Asked;
use super::fill::Draft;
use super::values::{scale, shares};
use crate::api::{Matrix, MatrixRow};
use crate::history::{self, By};
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

fn rows(matrix: &Matrix, divide: f64, name: impl Fn(&MatrixRow) -> String) -> Vec<Row> {
    let row =
        |row: &MatrixRow| Row { name: name(row), values: shares(Some(&row.values), &matrix.times, divide) };
    matrix.rows.iter().map(row).collect()
}

/// The strongest colour; at least `least`.
fn strongest(rows: &[Row], least: f64) -> f64 {
    rows.iter().flat_map(|row| &row.values).flatten().fold(least, |most: f64, value| most.max(*value))
}

fn number(key: Option<&str>) -> &str {
    key.and_then(|key| key.split('-').next()).unwrap_or_default()
}

pub(super) fn landscape(asked: &Asked<'_>) -> Result<Chart, Problem> {
    let limit = rows_of(asked.query, LANDSCAPE_ROWS)?;
    let (by, what) = match asked.query.by {
        chart::By::Name => (By::Name, "programs over time"),
        chart::By::Process => (By::Process, "processes over time"),
    };
    let matrix = history::landscape(asked.past, asked.host, asked.range(points().matrix), by, (0, limit))?;
    let (divide, unit) = scale(asked.query.percent, asked.host.info.cpu_count);
    let mut rows = rows(&matrix, divide, |row| match by {
        By::Name => row.name.clone(),
        By::Process => format!("{} [{}]", row.name, number(row.key.as_deref())),
    });
    let others = matrix.total.saturating_sub(matrix.rows.len());
    if others > 0 {
        let values = shares(Some(&matrix.other), &matrix.times, divide);
        rows.push(Row { name: format!("{others} others"), values });
    }
    let max = strongest(&rows, 1.0);
    Ok(asked.chart(Draft {
        title: asked.titled(what),
        unit,
        times: &matrix.times,
        gaps: &matrix.gaps,
        body: Body::Heat { rows, max },
        unmeasured: "No process used a CPU in this range",
    }))
}

pub(super) fn threads(asked: &Asked<'_>) -> Result<Chart, Problem> {
    let limit = rows_of(asked.query, MAX_ROWS)?;
    let key = asked.one_process()?;
    let title = asked.process_title(key)?;
    let range = asked.thread_range(points().matrix)?;
    let matrix = history::threads(asked.past, asked.host, range, key, ((0, limit), None))?;
    let rows = rows(&matrix, 1.0, |row| format!("{} [{}]", row.name, number(row.key.as_deref())));
    let max = strongest(&rows, 100.0);
    let shown = rows.len();
    let mut chart = asked.chart(Draft {
        title: asked.titled(&format!("{title}, threads over time")),
        unit: "%CPU: 100 = one CPU",
        times: &matrix.times,
        gaps: &matrix.gaps,
        body: Body::Heat { rows, max },
        unmeasured: "No thread of it ran in this range",
    });
    if matrix.total > shown {
        chart.notes.push(format!("The busiest {shown} of {} threads.", matrix.total));
    }
    Ok(chart)
}
