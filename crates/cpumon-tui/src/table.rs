//! [`Columns`]: rows as a table that leaves out less important columns on a narrow terminal, and cuts long names. The
//! commands and the report on the screens share it.

use cpumon_query::fields::{Field, Shown};

use crate::text::{clip, safe, width};

/// Space between two columns.
const GAP: usize = 2;

#[derive(Clone, Debug)]
struct ColumnCells {
    title: &'static str,
    /// 0: always shown; a higher one is left out earlier.
    rank: u8,
    /// At the left; else a number, at the right.
    is_name: bool,
    /// Never cut, also among names: a part of a number would be another number.
    is_whole: bool,
    cells: Vec<String>,
    /// For where not all columns fit; empty if there are none.
    short_cells: Vec<String>,
}

impl ColumnCells {
    fn new<R>(field: &Field<'_, R>, shown: &Shown<'_, R>, rows: &[R]) -> Self {
        let Shown { title, rank, is_name, is_whole, .. } = *shown;
        let cells = rows.iter().map(|row| safe(&field.show(row))).collect();
        let short_cells = rows.iter().filter_map(|row| Some(safe(&field.show_short(row)?))).collect();
        Self { title, rank, is_name, is_whole, cells, short_cells }
    }

    fn wanted(&self) -> WantedColumn {
        let widest = |cells: &[String]| {
            cells.iter().map(String::as_str).chain([self.title]).map(width).max().unwrap_or(0)
        };
        let whole = widest(&self.cells);
        let short_width = if self.short_cells.is_empty() { whole } else { widest(&self.short_cells) };
        WantedColumn { width: whole, rank: self.rank, is_name: self.is_name && !self.is_whole, short_width }
    }

    fn is_empty(&self) -> bool {
        self.cells.iter().all(|cell| cell.is_empty() || cell == "-")
    }
}

/// A table with more columns than a narrow terminal shows.
#[derive(Clone, Debug)]
pub struct Columns {
    columns: Vec<ColumnCells>,
    rows: usize,
}

impl Columns {
    /// Names at the left, numbers at the right; numbers without any data are left out.
    pub fn new<R>(fields: &[Field<'_, R>], rows: &[R]) -> Self {
        let shown = fields.iter().filter_map(|field| Some(ColumnCells::new(field, field.heading()?, rows)));
        let mut columns: Vec<ColumnCells> =
            shown.filter(|column| column.is_name || column.rank == 0 || !column.is_empty()).collect();
        columns.sort_by_key(|column| !column.is_name);
        Self { columns, rows: rows.len() }
    }

    /// The titles, and a line a row, of the columns that fit into `total` columns of the terminal; a line that cannot be
    /// narrower is longer. `mark` ends a name that is cut.
    pub fn lines(&self, total: usize, mark: char) -> Vec<String> {
        let wanted: Vec<WantedColumn> = self.columns.iter().map(ColumnCells::wanted).collect();
        let widths = fit_columns(&wanted, total);
        let fitting = self.columns.iter().zip(&wanted).zip(widths);
        let fitting: Vec<(&ColumnCells, &[String], usize)> = fitting
            .filter_map(|((column, wanted), width)| {
                let width = width?;
                let is_short = !wanted.is_name && width < wanted.width;
                Some((column, if is_short { &*column.short_cells } else { &*column.cells }, width))
            })
            .collect();
        let titles =
            line(fitting.iter().map(|(column, _, width)| (column.title, *width, column.is_name)), mark);
        let row = |at: usize| {
            let cells = fitting.iter().map(|(column, cells, width)| {
                (cells.get(at).map_or("", String::as_str), *width, column.is_name)
            });
            line(cells, mark)
        };
        std::iter::once(titles).chain((0..self.rows).map(row)).collect()
    }
}

/// Cells with their widths side by side, each at the left or at the right.
fn line<'c>(cells: impl Iterator<Item = (&'c str, usize, bool)>, mark: char) -> String {
    let padded = cells.map(|(cell, columns, is_left)| {
        let cell = clip(cell, columns, mark);
        let pad = " ".repeat(columns.saturating_sub(width(&cell)));
        if is_left { cell + &pad } else { pad + &cell }
    });
    padded.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
}

/// Names are not cut below this.
const SHORTEST_NAME: usize = 10;
/// Names get this part of a line before columns that may be left out.
const NAMES_PART: usize = 3;

/// A column that wants its place in a line.
#[derive(Copy, Clone, Debug)]
struct WantedColumn {
    /// Width of its widest cell.
    width: usize,
    /// 0: always shown; a higher one is left out earlier.
    rank: u8,
    /// May be cut, down to ten columns of the terminal.
    is_name: bool,
    /// Its width with shorter cells, which are used where a line has no space for all columns; `width` if it has none.
    short_width: usize,
}

impl WantedColumn {
    fn shortened(self) -> Self {
        Self { width: self.width.min(self.short_width), ..self }
    }
}

/// Widths of the columns that fit into lines of `total`; `None` for those that are left out. Names get up to a third of
/// the line, then other columns in the order of their rank, then names the rest. Columns that are always shown can be
/// wider than the line. A column that is no name and is narrower than its `width` has its shorter cells.
fn fit_columns(columns: &[WantedColumn], total: usize) -> Vec<Option<usize>> {
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

    fn written<R>(fields: &[Field<'_, R>], rows: &[R], width: usize) -> String {
        let lines = Columns::new(fields, rows).lines(width, '~');
        lines.iter().flat_map(|line| [line, "\n"]).collect()
    }

    #[test]
    fn cells_are_shorter_where_not_all_columns_fit() {
        let fields = [
            Field::shown("NAME", 0, |()| "make".to_owned()).left(),
            Field::shown("WAIT", 2, |()| "lock (futex)".to_owned()).or_short(|()| "lock".to_owned()),
            Field::shown("LAST", 3, |()| "10:00".to_owned()),
        ];
        let table = |width| written(&fields, &[()], width);
        assert_eq!(table(25), "NAME          WAIT   LAST\nmake  lock (futex)  10:00\n");
        assert_eq!(table(24), "NAME  WAIT   LAST\nmake  lock  10:00\n");
        assert_eq!(table(16), "NAME  WAIT\nmake  lock\n");
    }

    #[test]
    fn the_less_important_columns_go_first_and_names_are_cut() {
        let at = |column: usize| move |row: &[&str; 5]| row[column].to_owned();
        let fields = [
            Field::shown("PROGRAM", 0, at(0)).left(),
            Field::shown("CPU s", 0, at(1)),
            Field::shown("FIRST", 9, at(2)),
            Field::shown("SHARE", 1, at(3)),
            Field::shown("WAIT", 2, at(4)),
        ];
        let rows = [
            ["a-very-long-name-of-a-program", "1.5", "10:00:00", "6 %", "-"],
            ["b", "20.25", "10:00:01", "94 %", ""],
        ];
        let written = |width| written(&fields, &rows, width);
        let wide = "PROGRAM                        CPU s     FIRST  SHARE\n\
                    a-very-long-name-of-a-program    1.5  10:00:00    6 %\n\
                    b                              20.25  10:00:01   94 %\n";
        assert_eq!(written(usize::MAX), wide);
        let narrow =
            "PROGRAM        CPU s  SHARE\na-very-long-~    1.5    6 %\nb              20.25   94 %\n";
        assert_eq!(written(27), narrow);
        assert_eq!(written(1), "PROGRAM     CPU s\na-very-lo~    1.5\nb           20.25\n");
        for width in 17..90 {
            assert!(written(width).lines().all(|line| line.len() <= width), "{width}");
        }
    }

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
