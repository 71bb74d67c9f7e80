//! Columns for people. In: a heading and rows of safe text, and how wide the terminal is. Out: aligned lines, two spaces between
//! columns; where they do not fit, the table turned: a line for each column, and as many rows side by side as fit.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

/// Between two columns.
const GAP: usize = 2;

/// Rows that are kept until the widths are known.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Columns from here on are numbers: aligned to the right.
    right_from: usize,
}

impl Table {
    /// A table with this heading.
    #[must_use]
    pub fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(ToString::to_string).collect()], right_from: usize::MAX }
    }

    /// Numbers stand in the columns from this one on.
    #[must_use]
    pub fn numbers_from(self, column: usize) -> Self {
        Self { right_from: column, ..self }
    }

    /// Adds a row. The caller escapes what came from elsewhere.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes all rows, in a terminal so that they fit it.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_within(room(), out)
    }

    /// Writes all rows, in lines of no more than `columns` if the cells allow.
    pub fn write_within(&self, columns: usize, out: &mut dyn Write) -> io::Result<()> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..count).map(|at| self.width_of(at)).collect();
        let total = widths.iter().sum::<usize>() + GAP * count.saturating_sub(1);
        // A heading alone says as much either way.
        if total > columns && self.rows.len() > 1 {
            return self.write_turned(columns, out);
        }
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate();
            let cells = cells.map(|(at, (cell, width))| padded(cell, *width, at >= self.right_from));
            writeln!(out, "{}", cells.collect::<Vec<_>>().join(GAP_TEXT).trim_end())?;
        }
        Ok(())
    }

    fn width_of(&self, column: usize) -> usize {
        self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
    }

    /// Blocks of rows as columns, the heading at the left of each.
    fn write_turned(&self, columns: usize, out: &mut dyn Write) -> io::Result<()> {
        let Some((heading, mut rows)) = self.rows.split_first() else { return Ok(()) };
        let names = heading.iter().map(|name| name.width()).max().unwrap_or(0);
        let mut is_first = true;
        while !rows.is_empty() {
            let widths: Vec<usize> = rows.iter().map(|row| widest(row)).collect();
            let mut used = names;
            let fitting = widths.iter().take_while(|width| {
                used += GAP + **width;
                used <= columns
            });
            let (block, rest) = rows.split_at(fitting.count().max(1).min(rows.len()));
            if !is_first {
                writeln!(out)?;
            }
            for (at, name) in heading.iter().enumerate() {
                let mut line = padded(name, names, false);
                for (row, width) in block.iter().zip(&widths) {
                    line.push_str(GAP_TEXT);
                    let cell = row.get(at).map_or("", String::as_str);
                    line.push_str(&padded(cell, *width, self.right_from != usize::MAX));
                }
                writeln!(out, "{}", line.trim_end())?;
            }
            (rows, is_first) = (rest, false);
        }
        Ok(())
    }
}

const GAP_TEXT: &str = "  ";

fn widest(row: &[String]) -> usize {
    row.iter().map(|cell| cell.width()).max().unwrap_or(0)
}

fn padded(cell: &str, width: usize, is_right: bool) -> String {
    let pad = " ".repeat(width.saturating_sub(cell.width()));
    if is_right { pad + cell } else { format!("{cell}{pad}") }
}

/// Columns there are: of the terminal, or of `COLUMNS`. A file or another program takes any width.
pub fn room() -> usize {
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal_size::terminal_size().map(|(width, _)| width.0.into()).or_else(named).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(table: &Table, columns: usize) -> String {
        let mut text = Vec::new();
        table.write_within(columns, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn columns_line_up_by_what_a_terminal_shows() {
        let mut table = Table::new(&["A", "B"]);
        table.row(["日本".to_owned(), "x".to_owned()]);
        table.row(["y".to_owned()]);
        assert_eq!(written(&table, 7), "A     B\n日本  x\ny\n");
    }

    #[test]
    fn numbers_stand_at_the_right() {
        let mut table = Table::new(&["", "TIME"]).numbers_from(1);
        table.row(["all".to_owned(), "1.5".to_owned()]);
        assert_eq!(written(&table, 80), "     TIME\nall   1.5\n");
    }

    #[test]
    fn what_is_too_wide_is_turned_and_nothing_of_it_is_lost() {
        let mut table = Table::new(&["HOST", "CPU", "NAME", "STATE"]).numbers_from(1);
        for row in [["a", "10", "long-name", "ok"], ["b", "7", "short", "ok"], ["c", "8", "x", "ok"]] {
            table.row(row.map(str::to_owned));
        }
        let expected = "HOST           a      b\nCPU           10      7\nNAME   long-name  short\nSTATE         ok     ok\n\n\
                        HOST    c\nCPU     8\nNAME    x\nSTATE  ok\n";
        assert_eq!(written(&table, 23), expected);
        // Narrower than a cell: one row a block, as it is.
        assert_eq!(written(&table, 1).matches("HOST").count(), 3);
        assert_eq!(written(&Table::new(&["A", "B"]), 1), "A  B\n");
    }
}
