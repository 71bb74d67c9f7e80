//! The report of a range, over the whole screen: measured time, rows, meaning of the columns. Commands print the same sentences.

use std::borrow::Cow;

use cpumon_model::escape;
use cpumon_query::fields::{Screen, decimal, name_text, seconds};
use cpumon_query::report::{Report, ReportSort, RowKind};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Clear;

use crate::app::{App, ReportScreen};
use crate::table::Columns;
use crate::text::{clip, safe};
use crate::theme::Theme;

/// Lines of measured time.
const MAX_HEAD: usize = 3;
/// Most hosts with a line each.
const SHOWN_HOSTS: usize = 4;

/// Measured time and range, a sentence per host. `show` writes moments.
pub fn report_head(report: &Report, show: fn(i64) -> String) -> Vec<String> {
    let hosts = report.hosts.iter().take(SHOWN_HOSTS).map(|part| {
        format!(
            "{}: {} to {}, {} s measured, {} s of CPU time",
            name_text(&part.name),
            show(part.range.since_ns),
            show(part.range.until_ns),
            decimal(part.covered_ns as f64 / 1e9, 1),
            seconds(part.used_ns)
        )
    });
    let mut head: Vec<String> = hosts.collect();
    let more = report.hosts.len().saturating_sub(SHOWN_HOSTS);
    if more > 0 {
        head.push(format!("and {more} more hosts; {} s of CPU time on all hosts", seconds(report.used_ns)));
    }
    head.extend(
        report.before.map(|span| format!("compared with {} to {}", show(span.since_ns), show(span.until_ns))),
    );
    head
}

/// Notes on the meaning of columns, and on missing data.
pub fn report_notes(report: &Report) -> Vec<Cow<'_, str>> {
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
    notes
}

pub(crate) fn draw(app: &mut App, frame: &mut Frame<'_>) {
    let Some(mut screen) = app.report.take() else { return };
    let full = frame.area();
    let area = Rect { height: full.height.saturating_sub(1), ..full };
    frame.render_widget(Clear, area);
    let report = &screen.report;
    let mut lines = vec![(format!(" REPORT by {} ", report.query.by.name()), app.theme.not_live())];
    let (columns, mark) = (usize::from(area.width), app.theme.cut());
    let head = report_head(report, app.time.show).into_iter().take(MAX_HEAD);
    lines.extend(head.map(|line| (safe(&line), Style::new())));
    let most_notes = usize::from(area.height).saturating_sub(lines.len() + 6);
    let notes: Vec<String> = report_notes(report).iter().take(most_notes).map(|note| safe(note)).collect();
    let rows = usize::from(area.height).saturating_sub(lines.len() + 1 + notes.len());
    let fields = report.fields(Screen { clock: app.time.clock, is_ascii: app.theme.ascii });
    let mut table = Columns::new(&fields, &report.rows).lines(columns, mark).into_iter();
    drop(fields);
    screen.resize(rows);
    lines.extend(table.next().map(|titles| (titles, Theme::columns())));
    screen.first_line = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let in_view = table.enumerate().skip(screen.top).take(rows);
    lines.extend(in_view.map(|(at, line)| (line, row_style(app, &screen, at))));
    let first_note = area.bottom().saturating_sub(u16::try_from(notes.len()).unwrap_or(0));
    let notes = (first_note..area.bottom()).zip(notes.into_iter().map(|note| (note, Theme::dim())));
    let buffer = frame.buffer_mut();
    for (y, (line, style)) in (area.top()..area.bottom()).zip(lines).chain(notes) {
        // The title is a mark, other styles fill their lines.
        if y > area.y {
            buffer.set_style(Rect { y, height: 1, ..area }, style);
        }
        buffer.set_stringn(area.x, y, clip(&line, columns, mark), columns, style);
    }
    app.report = Some(screen);
}

fn row_style(app: &App, screen: &ReportScreen, at: usize) -> Style {
    let is_group = screen.report.rows.get(at).is_some_and(|row| row.kind.is_group());
    match (at == screen.at, is_group) {
        (true, _) => app.theme.selected(),
        (false, true) => Style::new(),
        (false, false) => Theme::dim(),
    }
}
