//! The report of a range, over the whole screen: what was measured, the rows, what their columns mean; and [`fit_columns`], which columns
//! of a table fit a terminal and how wide they are.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Clear;

use crate::app::{App, ReportScreen};
use crate::feed::{RangeReport, ReportColumn};
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
    let most_notes = usize::from(area.height).saturating_sub(lines.len() + 6);
    let notes: Vec<String> = screen.report.notes.iter().take(most_notes).map(|note| safe(note)).collect();
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

/// Names are not cut below this.
const SHORTEST_NAME: usize = 10;
/// Names get this part of a line before columns that may be left out.
const NAMES_PART: usize = 3;

/// A column that wants its place in a line.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct WantedColumn {
    /// Of its widest cell.
    pub width: usize,
    /// 0: always shown; a higher one is left out earlier.
    pub rank: u8,
    /// May be cut, down to ten columns of the terminal.
    pub is_name: bool,
    /// Its width with shorter cells, which it gets where a line has no space for all columns; `width` if it has none.
    pub short_width: usize,
}

impl WantedColumn {
    fn shortened(self) -> Self {
        Self { width: self.width.min(self.short_width), ..self }
    }
}

/// Widths of the columns that fit into lines of `total`; `None` for those that are left out. Names get up to a third of the line,
/// then other columns in the order of their rank, then names what is left. What is always shown can be wider than the line. A column
/// that is no name and is narrower than its `width` has its shorter cells.
#[must_use]
pub fn fit_columns(columns: &[WantedColumn], total: usize) -> Vec<Option<usize>> {
    let widths = fit(columns, total);
    let used = widths.iter().flatten().map(|width| width + GAP).sum::<usize>();
    let is_whole = columns.iter().zip(&widths).all(|(column, width)| *width == Some(column.width));
    if is_whole && used <= total.saturating_add(GAP) {
        return widths;
    }
    let shortened: Vec<WantedColumn> = columns.iter().map(|column| column.shortened()).collect();
    fit(&shortened, total)
}

fn fit(columns: &[WantedColumn], total: usize) -> Vec<Option<usize>> {
    // The last column has no gap behind it.
    let total = total.saturating_add(GAP);
    let least =
        |column: &WantedColumn| if column.is_name { column.width.min(SHORTEST_NAME) } else { column.width };
    let mut widths: Vec<Option<usize>> =
        columns.iter().map(|column| (column.rank == 0).then(|| least(column))).collect();
    let used = |widths: &[Option<usize>]| widths.iter().flatten().map(|width| width + GAP).sum::<usize>();
    let names = || columns.iter().enumerate().filter(|(_, column)| column.is_name && column.rank == 0);
    let used_by_names: usize = names().map(|(_, column)| least(column) + GAP).sum();
    let of_names = (total / NAMES_PART).saturating_sub(used_by_names);
    let spare = total.saturating_sub(used(&widths));
    widen(columns, &mut widths, of_names.min(spare));

    let mut by_rank: Vec<usize> = (0..columns.len()).filter(|at| widths[*at].is_none()).collect();
    by_rank.sort_by_key(|at| columns[*at].rank);
    for at in by_rank {
        let width = least(&columns[at]);
        if used(&widths) + width + GAP <= total {
            widths[at] = Some(width);
        }
    }
    let spare = total.saturating_sub(used(&widths));
    widen(columns, &mut widths, spare);
    widths
}

/// Gives names that are cut this many columns of the terminal, each as many: a short one leaves the rest to the others.
fn widen(columns: &[WantedColumn], widths: &mut [Option<usize>], mut spare: usize) {
    let lacks = |width: Option<usize>, column: &WantedColumn| {
        width.filter(|_| column.is_name).map_or(0, |width| column.width - width)
    };
    loop {
        let cut: Vec<usize> = (0..columns.len()).filter(|at| lacks(widths[*at], &columns[*at]) > 0).collect();
        let Some(each) = spare.checked_div(cut.len()) else { return };
        for at in &cut[..spare.min(cut.len())] {
            let more = lacks(widths[*at], &columns[*at]).min(each.max(1));
            widths[*at] = widths[*at].map(|width| width + more);
            spare -= more;
        }
        if spare == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn name(width: usize) -> WantedColumn {
        WantedColumn { width, rank: 0, is_name: true, short_width: width }
    }

    const fn number(width: usize, rank: u8) -> WantedColumn {
        WantedColumn { width, rank, is_name: false, short_width: width }
    }

    #[test]
    fn a_name_has_a_third_before_columns_that_can_be_left_out() {
        let columns = [name(60), number(8, 0), number(8, 1), number(30, 2), number(6, 3)];
        assert_eq!(fit_columns(&columns, 120), [Some(60), Some(8), Some(8), Some(30), Some(6)]);
        assert_eq!(fit_columns(&columns, 100), [Some(40), Some(8), Some(8), Some(30), Some(6)]);
        assert_eq!(fit_columns(&columns, 80), [Some(28), Some(8), Some(8), Some(30), None]);
        assert_eq!(fit_columns(&columns, 40), [Some(12), Some(8), Some(8), None, Some(6)]);
        assert_eq!(fit_columns(&columns, 10), [Some(10), Some(8), None, None, None]);
    }

    #[test]
    fn two_names_share_and_a_short_one_leaves_the_rest_to_the_other() {
        assert_eq!(fit_columns(&[name(90), name(90), number(8, 0)], 60), [Some(24), Some(24), Some(8)]);
        assert_eq!(fit_columns(&[name(5), name(90), number(8, 0)], 60), [Some(5), Some(43), Some(8)]);
    }

    #[test]
    fn a_name_that_is_less_important_is_left_out_before_a_line_is_too_long() {
        let after = WantedColumn { rank: 2, ..name(30) };
        let columns = [name(20), after, number(8, 0), number(6, 1)];
        assert_eq!(fit_columns(&columns, 80), [Some(20), Some(30), Some(8), Some(6)]);
        assert_eq!(fit_columns(&columns, 50), [Some(18), Some(12), Some(8), Some(6)]);
        assert_eq!(fit_columns(&columns, 38), [Some(20), None, Some(8), Some(6)]);
        assert_eq!(fit_columns(&columns, 20), [Some(10), None, Some(8), None]);
    }

    #[test]
    fn cells_are_shorter_before_a_name_is_cut_or_a_column_is_left_out() {
        let columns =
            [name(20), number(8, 0), WantedColumn { short_width: 5, ..number(15, 2) }, number(9, 3)];
        assert_eq!(fit_columns(&columns, 58), [Some(20), Some(8), Some(15), Some(9)]);
        assert_eq!(fit_columns(&columns, 57), [Some(20), Some(8), Some(5), Some(9)]);
        assert_eq!(fit_columns(&columns, 38), [Some(20), Some(8), Some(5), None]);
    }

    proptest! {
        #[test]
        fn lines_fit_and_names_are_cut_only_where_no_space_is_left(
            columns in prop::collection::vec((1_usize..80, 0_u8..5, any::<bool>(), 1_usize..80), 1..9),
            total in 0_usize..250,
        ) {
            let columns: Vec<_> = columns
                .into_iter()
                .map(|(width, rank, is_name, short)| {
                    // Names have no shorter cells: they are cut.
                    let short_width = if is_name { width } else { width.min(short) };
                    WantedColumn { width, rank, is_name, short_width }
                })
                .collect();
            let widths = fit_columns(&columns, total);
            let used = widths.iter().flatten().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP);
            let always = columns.iter().filter(|column| column.rank == 0);
            let least = always
                .map(|one| GAP + if one.is_name { one.width.min(SHORTEST_NAME) } else { one.short_width })
                .sum::<usize>();
            prop_assert!(used <= total.max(least.saturating_sub(GAP)), "{used}");
            let mut is_cut = false;
            for (column, width) in columns.iter().zip(&widths) {
                is_cut |= column.is_name && width.is_some_and(|width| width < column.width);
                prop_assert!(column.rank > 0 || width.is_some());
                prop_assert!(!column.is_name || width.is_none_or(|width| width >= column.width.min(10)));
                let whole = [column.width, column.short_width];
                prop_assert!(column.is_name || width.is_none_or(|width| whole.contains(&width)));
            }
            prop_assert!(!is_cut || used >= total, "{used} of {total}");
        }
    }
}
