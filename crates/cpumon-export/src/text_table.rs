//! [`TextTable`]: aligned columns for people, two spaces apart. A table that is wider than the terminal is turned: one line for each
//! column, and as many rows side by side as fit. Nothing is cut, which the crate comfy-table cannot do without wrapping cells.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

/// The space between two columns.
pub(crate) const GAP: &str = "  ";

#[derive(Clone, Debug)]
pub struct TextTable {
    rows: Vec<Vec<String>>,
    /// Columns from this one on are aligned to the right.
    right_from: usize,
}

impl TextTable {
    pub fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(ToString::to_string).collect()], right_from: usize::MAX }
    }

    /// Aligns the columns from this one on to the right, for numbers.
    #[must_use]
    pub fn numbers_from(self, column: usize) -> Self {
        Self { right_from: column, ..self }
    }

    /// Adds a row. The caller escapes text from other machines.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes all rows in lines of at most `columns` terminal columns; only a single wider cell makes a line longer.
    pub fn write_within(&self, columns: usize, out: &mut dyn Write) -> io::Result<()> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..count).map(|at| self.width_of(at)).collect();
        let total = widths.iter().sum::<usize>() + GAP.len() * count.saturating_sub(1);
        // A heading without rows is not turned: that would only make it longer.
        if total > columns && self.rows.len() > 1 {
            return self.write_turned(columns, out);
        }
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate();
            let cells = cells.map(|(at, (cell, width))| padded(cell, *width, at >= self.right_from));
            writeln!(out, "{}", cells.collect::<Vec<_>>().join(GAP).trim_end())?;
        }
        Ok(())
    }

    fn width_of(&self, column: usize) -> usize {
        self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
    }

    /// Writes blocks of rows as columns, with the heading at the left of each block.
    fn write_turned(&self, columns: usize, out: &mut dyn Write) -> io::Result<()> {
        let Some((heading, mut rows)) = self.rows.split_first() else { return Ok(()) };
        let names = heading.iter().map(|name| name.width()).max().unwrap_or(0);
        let mut is_first = true;
        while !rows.is_empty() {
            let widths: Vec<usize> = rows.iter().map(|row| widest(row)).collect();
            let mut used = names;
            let fitting = widths.iter().take_while(|width| {
                used += GAP.len() + **width;
                used <= columns
            });
            // At least one row per block, even if it is too wide: otherwise the loop would not end.
            let (block, rest) = rows.split_at(fitting.count().max(1).min(rows.len()));
            if !is_first {
                writeln!(out)?;
            }
            for (at, name) in heading.iter().enumerate() {
                let mut line = padded(name, names, false);
                for (row, width) in block.iter().zip(&widths) {
                    line.push_str(GAP);
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

fn widest(row: &[String]) -> usize {
    row.iter().map(|cell| cell.width()).max().unwrap_or(0)
}

/// The cell with spaces up to `width`.
pub(crate) fn padded(cell: &str, width: usize, is_right: bool) -> String {
    let pad = " ".repeat(width.saturating_sub(cell.width()));
    if is_right { pad + cell } else { format!("{cell}{pad}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(table: &TextTable, columns: usize) -> String {
        let mut text = Vec::new();
        table.write_within(columns, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn columns_line_up_by_what_a_terminal_shows() {
        let mut table = TextTable::new(&["A", "B"]);
        table.row(["日本".to_owned(), "x".to_owned()]);
        table.row(["y".to_owned()]);
        assert_eq!(written(&table, 7), "A     B\n日本  x\ny\n");
    }

    #[test]
    fn numbers_are_aligned_to_the_right() {
        let mut table = TextTable::new(&["", "TIME"]).numbers_from(1);
        table.row(["all".to_owned(), "1.5".to_owned()]);
        assert_eq!(written(&table, 80), "     TIME\nall   1.5\n");
    }

    #[test]
    fn what_is_too_wide_is_turned_and_nothing_of_it_is_lost() {
        let mut table = TextTable::new(&["HOST", "CPU", "NAME", "STATE"]).numbers_from(1);
        for row in [["a", "10", "long-name", "ok"], ["b", "7", "short", "ok"], ["c", "8", "x", "ok"]] {
            table.row(row.map(str::to_owned));
        }
        let expected = "HOST           a      b\nCPU           10      7\nNAME   long-name  short\nSTATE         ok     ok\n\n\
                        HOST    c\nCPU     8\nNAME    x\nSTATE  ok\n";
        assert_eq!(written(&table, 23), expected);
        // Narrower than a cell: one row a block, as it is.
        assert_eq!(written(&table, 1).matches("HOST").count(), 3);
        assert_eq!(written(&TextTable::new(&["A", "B"]), 1), "A  B\n");
    }
}
