//! The cells of a report on the terminal's screens, and those that `cpumon report` prints.

use std::path::Path;

use cpumon::when::show_clock;
use cpumon_query::fields::Screen;
use cpumon_query::report::{Report, ReportQuery};
use cpumon_tui::{Columns, Feed, is_utf8_locale};

use crate::support::{cpumon, output, text};

fn words(cells: impl Iterator<Item = String>) -> Vec<String> {
    cells.flat_map(|cell| cell.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The answer of a feed about its host.
pub fn answered(feed: &dyn Feed, query: &ReportQuery) -> Result<Report, cpumon_query::QueryError> {
    feed.answers().unwrap().unwrap().report(&[feed.host().unwrap().to_string()], query)
}

/// The words of the titles and cells of a screen.
pub fn cells(report: &Report) -> Vec<String> {
    let screen = Screen { clock: show_clock, is_ascii: !is_utf8_locale() };
    words(Columns::new(&report.fields(screen), &report.rows).lines(usize::MAX, '…').into_iter())
}

/// The output of `cpumon report` on a terminal that has space for all columns, and the words of its table.
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
