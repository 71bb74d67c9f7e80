//! Prints a report, or what a search found, as a table for people.

use std::borrow::Cow;
use std::io::{self, Write};

use cpumon_model::{Throttle, WaitReason, escape, with_separators};
use cpumon_query::json::Nanos;
use cpumon_query::report::{Found, HostPart, Report, ReportBy, ReportRow, ReportSort, RowKind};

use super::columns::{Column, Columns};
use crate::spark::spark;
use crate::table::{name_text, paragraph};
use crate::when;

/// Hosts of which a line is shown each.
const SHOWN_HOSTS: usize = 4;
const DAY_NS: i64 = 86_400_000_000_000;

/// What a terminal can show.
#[derive(Copy, Clone, Debug)]
pub(super) struct Terminal {
    pub(super) columns: usize,
    pub(super) is_ascii: bool,
}

impl Terminal {
    /// The locale says whether a terminal shows more than ASCII.
    pub(super) fn of_terminal(columns: usize) -> Self {
        Self { columns, is_ascii: !cpumon_tui::is_utf8_locale() }
    }
}

fn known(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(
        || "-".to_owned(),
        |value| {
            let text = format!("{value:.digits$}");
            // A change of -0.04 is shown as 0.0.
            if text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.') {
                text.trim_start_matches('-').to_owned()
            } else {
                text
            }
        },
    )
}

fn seconds(ns: i64) -> String {
    known(Some(ns as f64 / 1e9), 3)
}

/// Moments of one report: with the day only where it is longer than one.
#[derive(Copy, Clone)]
struct Clock {
    with_day: bool,
}

impl Clock {
    fn show(self, ns: Option<i64>) -> String {
        ns.map_or_else(|| "-".to_owned(), |ns| when::show_clock(ns, self.with_day))
    }
}

/// A small line of the points of a row, as high as its highest point.
fn line(row: &ReportRow, times: Option<&HostPart>, terminal: Terminal) -> String {
    let Some(part) = times else { return String::new() };
    let rates: Vec<Option<f64>> = row
        .points
        .iter()
        .zip(&part.times.covered_ns)
        .map(|(ns, covered_ns)| ns.filter(|_| *covered_ns > 0).map(|ns| ns as f64 / *covered_ns as f64))
        .collect();
    spark(&rates, terminal.is_ascii)
}

fn title(by: ReportBy) -> &'static str {
    match by {
        ReportBy::Program => "PROGRAM",
        ReportBy::Name => "NAME",
        ReportBy::Process => "PROCESS",
        ReportBy::Thread => "THREAD",
        ReportBy::User => "USER",
        ReportBy::Service => "SERVICE",
        ReportBy::Container => "CONTAINER",
        ReportBy::Cgroup => "CGROUP",
        ReportBy::Host => "HOST",
    }
}

fn name(row: &ReportRow) -> String {
    match row.kind {
        RowKind::Short => format!("{} (short-lived)", name_text(&row.name)),
        RowKind::Rest => with_separators(&row.name),
        RowKind::Group | RowKind::Unattributed => name_text(&row.name),
    }
}

fn number(row: &ReportRow) -> String {
    match (row.tid, row.pid) {
        (Some(tid), Some(pid)) => format!("{pid}/{tid}"),
        (_, Some(pid)) => pid.to_string(),
        _ => String::new(),
    }
}

/// Writes a report: what was measured, the rows, and what their columns mean.
pub(super) fn report(report: &Report, terminal: &Terminal, out: &mut dyn Write) -> io::Result<()> {
    head(report, *terminal, out)?;
    columns(report, *terminal).write(terminal.columns, out)?;
    notes(report, terminal.columns, out)
}

/// All columns of a report that have data.
pub(super) fn columns(report: &Report, terminal: Terminal) -> Columns {
    let rows = &report.rows;
    let column =
        |title, rank, cell: &dyn Fn(&ReportRow) -> String| Column::new(title, rank, rows.iter().map(cell));
    let mut names = Vec::new();
    if report.hosts.len() > 1 && report.query.by != ReportBy::Host {
        names.push(column("HOST", 0, &|row| row.host.as_deref().map_or_else(String::new, name_text)));
    }
    names.push(column(title(report.query.by), 0, &name));
    Columns::new(names, numbers(report, terminal))
}

/// The columns of numbers, in the order in which they are shown.
fn numbers(report: &Report, terminal: Terminal) -> Vec<Column> {
    let (rows, sort) = (&report.rows, report.query.sort);
    let clock = Clock { with_day: report.range.length_ns() > DAY_NS };
    let column =
        |title, rank, cell: &dyn Fn(&ReportRow) -> String| Column::new(title, rank, rows.iter().map(cell));
    // What rows are sorted by is always shown.
    let rank = |of: ReportSort, usual: u8| if sort == of { 0 } else { usual };
    let part = |row: &ReportRow| report.hosts.iter().find(|part| Some(&*part.name) == row.host.as_deref());
    let time = |ns: Option<i64>| ns.map_or_else(|| "-".to_owned(), seconds);
    let mut all = Vec::new();
    if matches!(report.query.by, ReportBy::Process | ReportBy::Thread) {
        let title = if report.query.by == ReportBy::Thread { "PID/TID" } else { "PID" };
        all.push(column(title, 0, &number));
    }
    all.push(column("CPU s", 0, &|row| time(row.run_ns)));
    all.push(column("%CPU", 1, &|row| known(row.cpu_pct, 1)));
    if report.before.is_some() {
        all.push(column("BEFORE", 2, &|row| known(row.before.and_then(|before| before.cpu_pct), 1)));
        all.push(column("CHANGE", 0, &|row| signed(row.change_cpu_pct)));
    }
    all.push(column("SHARE %", 3, &|row| known(row.share_pct, 1)));
    all.push(column("PEAK %", rank(ReportSort::Peak, 4), &|row| {
        row.peak.map_or_else(
            || "-".into(),
            |peak| {
                let value = known(Some(peak.ns_per_s as f64 / 1e7), 1);
                if peak.is_exact { value } else { format!(">={value}") }
            },
        )
    }));
    all.push(column("AT", 6, &|row| clock.show(row.peak.map(|peak| peak.end_ns))));
    all.push(column("DELAY s", rank(ReportSort::Ready, 7), &|row| time(row.run_delay_ns)));
    all.push(column("READY", rank(ReportSort::Ready, 11), &|row| known(row.ready_mean, 3)));
    all.push(column("BLOCKED", rank(ReportSort::Blocked, 12), &|row| known(row.blocked_mean, 3)));
    if sort == ReportSort::Switches {
        all.push(column("SWITCHES", 0, &|row| {
            let both = row.voluntary_switches.zip(row.involuntary_switches);
            both.map_or_else(|| "-".into(), |(one, other)| one.saturating_add(other).to_string())
        }));
    }
    let wait = |words: fn(WaitReason) -> Cow<'static, str>| {
        rows.iter().map(move |row| {
            row.waits.iter().next().map_or_else(String::new, |(reason, _)| words(reason).into_owned())
        })
    };
    all.push(Column::new("WAIT", 8, wait(WaitReason::words_and_name)).or_short(wait(WaitReason::words)));
    let limits = |row: &ReportRow| row.limits;
    all.push(column("LIMIT", 2, &|row| known(limits(row).and_then(|limits| limits.limit.cpus()), 2)));
    let is_limited = |row: &ReportRow| limits(row).filter(|limits| limits.limit.is_limited());
    let throttle = |row: &ReportRow| is_limited(row).and_then(|limits| limits.throttle);
    all.push(column("THROTTLED s", 2, &|row| {
        known(throttle(row).map(|one| one.throttled_ns as f64 / 1e9), 3)
    }));
    all.push(column("OF PERIODS %", 3, &|row| known(throttle(row).and_then(Throttle::percent), 0)));
    let pressure = |row: &ReportRow| limits(row).and_then(|limits| limits.pressure);
    all.push(column("PRESSURE s", 9, &|row| known(pressure(row).map(|one| one.some_ns as f64 / 1e9), 3)));
    all.push(column("FIRST", rank(ReportSort::First, 9), &|row| clock.show(row.first_ns.map(|ns| ns.0))));
    all.push(column("LAST", rank(ReportSort::Last, 10), &|row| clock.show(row.last_ns.map(|ns| ns.0))));
    all.push(column("OVER TIME", 5, &|row| line(row, part(row), terminal)));
    all
}

fn signed(change: Option<f64>) -> String {
    let text = known(change, 1);
    if change.is_some_and(|change| change > 0.0) && text != "0.0" { format!("+{text}") } else { text }
}

pub(super) fn head(report: &Report, terminal: Terminal, out: &mut dyn Write) -> io::Result<()> {
    for part in report.hosts.iter().take(SHOWN_HOSTS) {
        let text = format!(
            "{}: {} to {}, {} s measured, {} s of CPU time",
            name_text(&part.name),
            when::show(part.range.since_ns),
            when::show(part.range.until_ns),
            known(Some(part.covered_ns as f64 / 1e9), 1),
            seconds(part.used_ns)
        );
        paragraph(&text, terminal.columns, out)?;
    }
    let more = report.hosts.len().saturating_sub(SHOWN_HOSTS);
    if more > 0 {
        let all = seconds(report.used_ns);
        paragraph(
            &format!("and {more} more hosts; {all} s of CPU time on all hosts"),
            terminal.columns,
            out,
        )?;
    }
    if let Some(before) = report.before {
        let text =
            format!("compared with {} to {}", when::show(before.since_ns), when::show(before.until_ns));
        paragraph(&text, terminal.columns, out)?;
    }
    writeln!(out)
}

pub(super) fn notes(report: &Report, columns: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut notes: Vec<Cow<'_, str>> = Vec::new();
    let has_groups = report.rows.iter().any(|row| row.kind.is_group());
    if let Some(text) = report.query.filter.text.as_deref().filter(|_| !has_groups) {
        notes.push(format!("Nothing in this range matches {}.", escape(text)).into());
    }
    if report.rows.iter().any(|row| row.before.is_some_and(|before| before.duration_ns.is_none())) {
        notes.push("No data for the range to compare with.".into());
    }
    if report.query.sort == ReportSort::Ready || report.query.sort == ReportSort::Blocked {
        notes.push("READY, BLOCKED: threads ready or blocked on average.".into());
    }
    if report.rows.iter().any(|row| row.peak.is_some_and(|peak| !peak.is_exact)) {
        notes.push("PEAK %: >= marks a lower bound, where only sums of many processes are left.".into());
    }
    if report.rows.iter().any(|row| row.kind == RowKind::Unattributed) {
        notes.push("(not attributed): CPU time in the ledger that belongs to no row.".into());
    }
    if notes.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    notes.iter().try_for_each(|note| paragraph(note, columns, out))
}

/// Writes what was found.
pub(super) fn found(found: &[Found], text: &str, terminal: &Terminal, out: &mut dyn Write) -> io::Result<()> {
    if found.is_empty() {
        return writeln!(out, "nothing in the store matches {}", escape(text));
    }
    let column =
        |title, rank, cell: &dyn Fn(&Found) -> String| Column::new(title, rank, found.iter().map(cell));
    let time = |ns: Option<Nanos>| ns.map_or_else(|| "-".to_owned(), |ns| when::show_clock(ns.0, true));
    let names =
        vec![column("NAME", 0, &|one| name_text(&one.name)), column("HOST", 0, &|one| name_text(&one.host))];
    let numbers = vec![
        column("KIND", 4, &|one| one.kind.name().to_owned()),
        column("FIRST", 2, &|one| time(one.first_ns)),
        column("LAST", 1, &|one| time(one.last_ns)),
        column("RUNS", 3, &|one| one.processes.to_string()),
        column("CPU s", 0, &|one| seconds(one.run_ns)),
        column("SHARE %", 5, &|one| known(one.share_pct, 2)),
    ];
    Columns::new(names, numbers).write(terminal.columns, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_name_says_so() {
        assert_eq!(["", "  ", "\u{3000}"].map(name_text), ["(no name)"; 3]);
        assert_eq!(name_text(" a\u{1b}"), " a\\x1b");
    }
}
