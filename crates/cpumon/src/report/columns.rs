//! Columns of a table, those first that fit: on a narrow terminal the less important ones are left out, and long names are cut.

use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::table::Table;

/// Space between two columns.
const GAP: usize = 2;
/// Names are not cut below this.
const SHORTEST_NAME: usize = 10;

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    title: &'static str,
    /// 0: always shown; a higher one is left out earlier.
    rank: u8,
    cells: Vec<String>,
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
        Self { title, rank, cells: cells.into_iter().collect() }
    }

    /// Title, rank and cells.
    pub(super) fn into_parts(self) -> (&'static str, u8, Vec<String>) {
        (self.title, self.rank, self.cells)
    }

    fn width(&self) -> usize {
        self.cells.iter().map(|cell| cell.width()).chain([self.title.width()]).max().unwrap_or(0)
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

    /// Writes the columns that fit into lines of `width`; `end` marks names that were cut.
    pub(crate) fn write(mut self, width: usize, end: char, out: &mut dyn Write) -> io::Result<()> {
        let shortest = |column: &Column| column.width().min(SHORTEST_NAME);
        let mut used: usize = self.names.iter().map(|column| shortest(column) + GAP).sum();
        let mut by_rank: Vec<usize> = (0..self.numbers.len()).collect();
        by_rank.sort_by_key(|at| self.numbers[*at].rank);
        let mut is_shown = vec![false; self.numbers.len()];
        for at in by_rank {
            let column = &self.numbers[at];
            let more = column.width() + GAP;
            // The last column has no gap behind it.
            if column.rank == 0 || used.saturating_add(more) <= width.saturating_add(GAP) {
                (is_shown[at], used) = (true, used + more);
            }
        }
        let mut spare = width.saturating_add(GAP).saturating_sub(used);
        for column in &mut self.names {
            let widest = shortest(column).saturating_add(spare);
            spare -= spare.min(column.width() - shortest(column));
            column.cells.iter_mut().for_each(|cell| *cell = cut(cell, widest, end));
        }
        let shown = self.numbers.iter().zip(is_shown).filter(|(_, is_shown)| *is_shown);
        let all: Vec<&Column> = self.names.iter().chain(shown.map(|(column, _)| column)).collect();
        let titles: Vec<&str> = all.iter().map(|column| column.title).collect();
        let mut table = Table::new(&titles).numbers_from(self.names.len());
        for row in 0..all.first().map_or(0, |column| column.cells.len()) {
            table.row(all.iter().map(|column| column.cells.get(row).cloned().unwrap_or_default()));
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
        Columns::new(names, numbers).write(width, '~', &mut text).unwrap();
        String::from_utf8(text).unwrap()
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
