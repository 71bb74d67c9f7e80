//! A report for the terminal screens, with the cells that `cpumon report` prints.

use std::io;

use cpumon_query::report::Report;
use cpumon_tui::{RangeReport, ReportRow};

use super::{screen, show};
use crate::columns::Columns;

/// More columns than a terminal has: the screens choose those that fit.
const WIDE: usize = 100_000;

/// Head, columns, rows and notes of a report.
pub(crate) fn for_screen(report: &Report) -> RangeReport {
    RangeReport {
        head: lines(|out| show::head(report, WIDE, out)),
        columns: Columns::new(&report.fields(screen()), &report.rows).for_screen(),
        rows: report
            .rows
            .iter()
            .map(|row| ReportRow {
                group: row.kind.is_group().then(|| row.name.to_string()),
                peak_ns: row.peak.map(|peak| peak.end_ns),
            })
            .collect(),
        notes: lines(|out| show::notes(report, WIDE, out)),
    }
}

/// What is written, by lines; empty ones are left out.
fn lines(write: impl Fn(&mut Vec<u8>) -> io::Result<()>) -> Vec<String> {
    let mut text = Vec::new();
    // Writing into memory does not fail.
    let _infallible = write(&mut text);
    let text = String::from_utf8_lossy(&text);
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}
