//! The report of a range, over the whole screen: what was measured, the rows, what their columns mean.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Clear;

use crate::app::{App, ReportScreen};
use crate::fit::{WantedColumn, fit_columns};
use crate::report::{RangeReport, ReportColumn};
use crate::text::{clip, safe, width};
use crate::theme::Theme;

/// Space between two columns.
const GAP: usize = 2;
/// Lines of what was measured.
const MAX_HEAD: usize = 3;

/// Draws the report above the status line.
pub(crate) fn draw(app: &mut App, frame: &mut Frame<'_>) {
    let Some(mut screen) = app.report.take() else { return };
    let full = frame.area();
    let area = Rect { height: full.height.saturating_sub(1), ..full };
    frame.render_widget(Clear, area);
    let by = screen.query.by.name();
    let mut lines = vec![Line::styled(format!(" REPORT by {by} "), app.theme.not_live())];
    let columns = usize::from(area.width);
    let head = screen.report.head.iter().take(MAX_HEAD);
    lines.extend(head.map(|line| Line::raw(clip(&safe(line), columns, app.theme.cut()))));
    let notes = notes(&screen.report, usize::from(area.height).saturating_sub(lines.len() + 6));
    let rows = usize::from(area.height).saturating_sub(lines.len() + 1 + notes.len());
    screen.resize(rows);
    let table = Table::new(&screen.report, columns, app.theme);
    lines.push(Line::styled(table.titles(), Theme::columns()));
    screen.first_line = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    for at in (screen.top..screen.report.rows.len()).take(rows) {
        lines.push(Line::styled(table.row(at), row_style(app, &screen, at)));
    }
    let buffer = frame.buffer_mut();
    for (y, line) in (area.top()..area.bottom()).zip(&lines) {
        buffer.set_line(area.x, y, line, area.width);
    }
    let first = area.bottom().saturating_sub(u16::try_from(notes.len()).unwrap_or(0));
    for (y, note) in (first..area.bottom()).zip(&notes) {
        buffer.set_stringn(area.x, y, clip(note, columns, app.theme.cut()), columns, Theme::dim());
    }
    app.report = Some(screen);
}

fn notes(report: &RangeReport, most: usize) -> Vec<String> {
    report.notes.iter().take(most).map(|note| safe(note)).collect()
}

fn row_style(app: &App, screen: &ReportScreen, at: usize) -> Style {
    let is_group = screen.report.rows.get(at).is_some_and(|row| row.group.is_some());
    match (at == screen.at, is_group) {
        (true, _) => app.theme.selected(),
        (false, true) => Style::new(),
        (false, false) => Theme::dim(),
    }
}

/// A column that fits.
struct ShownColumn<'r> {
    column: &'r ReportColumn,
    /// Its own, or the shorter ones.
    cells: &'r [String],
    width: usize,
}

/// The columns that fit.
struct Table<'r> {
    columns: Vec<ShownColumn<'r>>,
    theme: Theme,
    total: usize,
}

impl<'r> Table<'r> {
    /// The less important columns are left out first; names are cut where there is no space for them.
    fn new(report: &'r RangeReport, total: usize, theme: Theme) -> Self {
        let wide = |title: &str, cells: &[String]| {
            cells.iter().map(|cell| width(&safe(cell))).chain([width(title)]).max().unwrap_or(0)
        };
        let wanted: Vec<WantedColumn> = report
            .columns
            .iter()
            .map(|column| {
                let whole = wide(&column.title, &column.cells);
                let has_short = !column.short_cells.is_empty();
                let short_width = if has_short { wide(&column.title, &column.short_cells) } else { whole };
                WantedColumn { width: whole, rank: column.rank, is_name: column.is_name, short_width }
            })
            .collect();
        let widths = fit_columns(&wanted, total);
        let columns = report.columns.iter().zip(&wanted).zip(widths);
        let columns = columns.filter_map(|((column, wanted), width)| {
            let width = width?;
            let is_short = !wanted.is_name && width < wanted.width;
            Some(ShownColumn {
                column,
                cells: if is_short { &column.short_cells } else { &column.cells },
                width,
            })
        });
        Self { columns: columns.collect(), theme, total }
    }

    fn titles(&self) -> String {
        self.line(&|shown| shown.column.title.clone())
    }

    fn row(&self, at: usize) -> String {
        self.line(&|shown| shown.cells.get(at).map_or_else(String::new, |cell| safe(cell)))
    }

    fn line(&self, text: &dyn Fn(&ShownColumn<'_>) -> String) -> String {
        let cells = self.columns.iter().map(|shown| {
            let text = clip(&text(shown), shown.width, self.theme.cut());
            let pad = " ".repeat(shown.width.saturating_sub(width(&text)));
            if shown.column.is_name { format!("{text}{pad}") } else { format!("{pad}{text}") }
        });
        let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
        let pad = self.total.saturating_sub(width(&line));
        format!("{line}{}", " ".repeat(pad))
    }
}
