//! Rows by time: the landscape of a host, the threads of a process.

use cpumon_model::with_separators;

use super::chart::{Body, Chart, HeatmapRow};
use super::fill::Draft;
use super::parts::points;
use super::query::{Cells, ChartQuery};
use super::request::{ChartRequest, MAX_ROWS, rows_of};
use super::values::{rates, scale, shares};
use crate::QueryError;
use crate::group::GroupBy;
use crate::history::{self, Matrix, MatrixRow, MatrixSort, ShownRows};

/// Rows of a landscape unless the query has a number.
const LANDSCAPE_ROWS: usize = 60;

/// The first rows, in the order that goes with the cells.
fn shown(cells: Cells, limit: usize) -> ShownRows {
    let sort = match cells {
        Cells::Mean => MatrixSort::Run,
        Cells::Highest => MatrixSort::Highest,
    };
    ShownRows { sort, offset: 0, limit }
}

fn rows(matrix: &Matrix, cells: Cells, divide: f64, name: impl Fn(&MatrixRow) -> String) -> Vec<HeatmapRow> {
    let values = |row: &MatrixRow| match cells {
        Cells::Mean => shares(Some(&row.values), &matrix.times, divide),
        Cells::Highest => rates(Some(&row.max), &matrix.times, divide),
    };
    matrix.rows.iter().map(|row| HeatmapRow { name: name(row), values: values(row) }).collect()
}

/// What the picture does not show by itself.
fn notes(cells: Cells, matrix: &Matrix, rows: &str) -> Vec<String> {
    let total = matrix.total;
    let count = matrix.rows.len();
    let mut notes = Vec::new();
    if cells == Cells::Highest {
        notes.push("Colours: the highest single interval in each cell.".to_owned());
    }
    match cells {
        _ if total <= count => {}
        Cells::Mean => notes.push(with_separators(&format!("The busiest {count} of {total} {rows}."))),
        Cells::Highest => {
            notes.push(with_separators(&format!("The {count} of {total} {rows} that went highest.")));
        }
    }
    notes
}

/// `49,000 others`
fn name_of_others(count: usize) -> String {
    with_separators(&format!("{count} {}", if count == 1 { "other" } else { "others" }))
}

/// The strongest colour, in percent: of the highest cell, and of 1 % at least, so that next to nothing is not drawn in it.
fn strongest(rows: &[HeatmapRow]) -> f64 {
    rows.iter().flat_map(|row| &row.values).flatten().fold(1.0, |most: f64, value| most.max(*value))
}

/// `web [20]`.
fn numbered(row: &MatrixRow) -> String {
    let number = row.key.map(|key| key.number().to_string()).unwrap_or_default();
    format!("{} [{number}]", row.name)
}

/// What a row of the landscape is.
pub(super) fn rows_by(query: &ChartQuery) -> Result<GroupBy, QueryError> {
    let by = query.by();
    by.group().ok_or(QueryError::NoGroups { view: query.view.name().into(), by: by.name().into() })
}

pub(super) fn landscape(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let limit = rows_of(request.query, LANDSCAPE_ROWS)?;
    let by = rows_by(request.query)?;
    let what_rows = match by {
        GroupBy::Name | GroupBy::Program => "programs",
        GroupBy::Process => "processes",
        GroupBy::User => "users",
        GroupBy::Service => "services",
        GroupBy::Container => "containers",
        GroupBy::Cgroup => "cgroups",
    };
    let cells = request.query.cells;
    let range = request.plot(points().matrix);
    let matrix = history::landscape(request.history, request.host, range, by, shown(cells, limit))?;
    let (divide, unit) = scale(request.query.percent, request.host.info.cpu_count);
    let mut rows = rows(&matrix, cells, divide, |row| match by {
        GroupBy::Process => numbered(row),
        _ => row.name.clone(),
    });
    let others = matrix.total.saturating_sub(matrix.rows.len());
    // Highest intervals of several tasks cannot be added up, so they have no row of others.
    if others > 0 && cells == Cells::Mean {
        let values = shares(Some(&matrix.other), &matrix.times, divide);
        rows.push(HeatmapRow { name: name_of_others(others), values });
    }
    let max = strongest(&rows);
    let mut chart = request.chart(Draft {
        title: request.titled(&format!("{what_rows} over time")),
        unit,
        times: &matrix.times,
        gaps: &matrix.gaps,
        body: Body::Heatmap { rows, max },
        unmeasured: "No process used a CPU in this range",
    });
    if by != GroupBy::Process && matrix.times.resolution.is_some() && chart.empty.is_none() {
        chart.notes.push("Read from sums: a program that was not running is drawn as 0.".to_owned());
    }
    if cells == Cells::Highest && chart.empty.is_none() {
        chart.notes.extend(notes(cells, &matrix, what_rows));
    }
    Ok(chart)
}

pub(super) fn threads(request: &ChartRequest<'_>) -> Result<Chart, QueryError> {
    let limit = rows_of(request.query, MAX_ROWS)?;
    let key = request.one_process()?;
    let title = request.process_title(key)?;
    let range = request.thread_plot(points().matrix)?;
    let cells = request.query.cells;
    let matrix = history::threads(request.history, request.host, range, key, shown(cells, limit))?;
    let rows = rows(&matrix, cells, 1.0, numbered);
    let max = strongest(&rows);
    let mut chart = request.chart(Draft {
        title: request.titled(&format!("{title}, threads over time")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_all_others_counts_them() {
        assert_eq!([1, 2, 49_000].map(name_of_others), ["1 other", "2 others", "49,000 others"]);
    }
}
