//! A table of the columns that fit: on a narrow terminal the less important ones are left out, and long names are cut.

use std::io::{self, Write};

use cpumon_tui::{ReportColumn, WantedColumn, fit_columns, is_utf8_locale};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::table::Table;

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    title: &'static str,
    /// 0: always shown; a higher one is left out earlier.
    rank: u8,
    cells: Vec<String>,
    /// For where not all columns fit; empty if there are none.
    short_cells: Vec<String>,
    /// Never cut, also among names: a part of a number would be another number.
    is_whole: bool,
}

/// A table with more columns than a narrow terminal shows.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// Of the rows: texts, cut where a terminal is too narrow for them.
    names: Vec<Column>,
    numbers: Vec<Column>,
}

impl Column {
    pub(crate) fn new(title: &'static str, rank: u8, cells: impl IntoIterator<Item = String>) -> Self {
        Self { title, rank, cells: cells.into_iter().collect(), short_cells: Vec::new(), is_whole: false }
    }

    /// Likewise, with shorter cells for where not all columns fit.
    pub(crate) fn or_short(self, cells: impl IntoIterator<Item = String>) -> Self {
        Self { short_cells: cells.into_iter().collect(), ..self }
    }

    /// Likewise, and never cut.
    pub(crate) fn whole(self) -> Self {
        Self { is_whole: true, ..self }
    }

    /// As the screens have it.
    pub(super) fn for_screen(self, is_name: bool) -> ReportColumn {
        let Self { title, rank, cells, short_cells, .. } = self;
        ReportColumn { title: title.to_owned(), rank, is_name, cells, short_cells }
    }

    fn width_with(&self, cells: &[String]) -> usize {
        cells.iter().map(|cell| cell.width()).chain([self.title.width()]).max().unwrap_or(0)
    }

    fn wanted(&self, is_name: bool) -> WantedColumn {
        let width = self.width_with(&self.cells);
        let short_width =
            if self.short_cells.is_empty() { width } else { self.width_with(&self.short_cells) };
        WantedColumn { width, rank: self.rank, is_name: is_name && !self.is_whole, short_width }
    }

    fn is_empty(&self) -> bool {
        self.cells.iter().all(|cell| cell.is_empty() || cell == "-")
    }
}

/// A text of at most `width` columns; `end` marks where it was cut.
fn cut(text: &str, width: usize, end: char) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    text.chars().take_while(fits).chain([end]).collect()
}

impl Columns {
    /// Names at the left, numbers at the right; columns without any data are left out.
    pub(crate) fn new(names: Vec<Column>, numbers: Vec<Column>) -> Self {
        let numbers = numbers.into_iter().filter(|column| column.rank == 0 || !column.is_empty()).collect();
        Self { names, numbers }
    }

    /// Names and numbers.
    pub(super) fn into_columns(self) -> (Vec<Column>, Vec<Column>) {
        (self.names, self.numbers)
    }

    /// Writes the columns that fit into lines of `width`. The locale says how names that were cut are marked.
    pub(crate) fn write(self, width: usize, out: &mut dyn Write) -> io::Result<()> {
        self.write_marked(width, if is_utf8_locale() { '…' } else { '~' }, out)
    }

    fn write_marked(self, width: usize, end: char, out: &mut dyn Write) -> io::Result<()> {
        let names = self.names.iter().map(|column| column.wanted(true));
        let wanted: Vec<_> = names.chain(self.numbers.iter().map(|column| column.wanted(false))).collect();
        let widths = fit_columns(&wanted, width);
        let count = widths[..self.names.len()].iter().flatten().count();
        let all = self.names.into_iter().chain(self.numbers).zip(wanted).zip(widths);
        let shown: Vec<(Column, usize)> = all
            .filter_map(|((mut column, wanted), width)| {
                let width = width?;
                if !wanted.is_name && width < wanted.width {
                    column.cells = std::mem::take(&mut column.short_cells);
                }
                Some((column, width))
            })
            .collect();
        let titles: Vec<&str> = shown.iter().map(|(column, _)| column.title).collect();
        let mut table = Table::new(&titles).numbers_from(count);
        for row in 0..shown.first().map_or(0, |(column, _)| column.cells.len()) {
            let cell = |(column, width): &(Column, usize)| {
                column.cells.get(row).map_or_else(String::new, |cell| cut(cell, *width, end))
            };
            table.row(shown.iter().map(cell));
        }
        // What cannot be narrower is longer than the terminal, rather than turned.
        table.write_within(usize::MAX, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(width: usize) -> String {
        let names =
            vec![Column::new("PROGRAM", 0, ["a-very-long-name-of-a-program".to_owned(), "b".to_owned()])];
        let numbers = vec![
            Column::new("CPU s", 0, ["1.5".to_owned(), "20.25".to_owned()]),
            Column::new("FIRST", 9, ["10:00:00".to_owned(), "10:00:01".to_owned()]),
            Column::new("SHARE", 1, ["6 %".to_owned(), "94 %".to_owned()]),
            Column::new("WAIT", 2, ["-".to_owned(), String::new()]),
        ];
        let mut text = Vec::new();
        Columns::new(names, numbers).write_marked(width, '~', &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn cells_are_shorter_where_not_all_columns_fit() {
        let table = |width| {
            let names = vec![Column::new("NAME", 0, ["make".to_owned()])];
            let wait = Column::new("WAIT", 2, ["lock (futex)".to_owned()]).or_short(["lock".to_owned()]);
            let last = Column::new("LAST", 3, ["10:00".to_owned()]);
            let mut text = Vec::new();
            Columns::new(names, vec![wait, last]).write_marked(width, '~', &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(table(25), "NAME          WAIT   LAST\nmake  lock (futex)  10:00\n");
        assert_eq!(table(24), "NAME  WAIT   LAST\nmake  lock  10:00\n");
        assert_eq!(table(16), "NAME  WAIT\nmake  lock\n");
    }

    #[test]
    fn the_less_important_columns_go_first_and_names_are_cut() {
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
}
