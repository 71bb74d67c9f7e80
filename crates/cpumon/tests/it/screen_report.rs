//! The cells of a report on the terminal's screens, and those that `cpumon report` prints.

use std::path::Path;

use cpumon_tui::RangeReport;

use crate::support::{cpumon, output, text};

fn words(cells: impl Iterator<Item = String>) -> Vec<String> {
    cells.flat_map(|cell| cell.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The words of the titles and cells of a screen.
pub fn cells(report: &RangeReport) -> Vec<String> {
    let titles = report.columns.iter().map(|column| column.title.clone());
    let rows = (0..report.rows.len())
        .flat_map(|at| report.columns.iter().map(move |column| column.cells[at].clone()));
    words(titles.chain(rows))
}

/// What `cpumon report` prints on a terminal that has space for all columns, and the words of its table.
pub fn printed(store: &Path, args: &[&str]) -> (String, Vec<String>) {
    let mut command = cpumon();
    command.args(["report", "--store", store.to_str().unwrap(), "--limit", "100"]).args(args);
    command.env("COLUMNS", "100000").env("NO_COLOR", "1");
    let printed = output(command);
    assert_eq!(printed.status.code(), Some(0), "{printed:?}");
    let printed = text(&printed.stdout);
    let table = printed
        .lines()
        .skip_while(|line| !line.is_empty())
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(str::to_owned);
    let table = words(table);
    (printed, table)
}
