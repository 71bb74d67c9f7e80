//! Tables on a terminal, and its width.

use std::io::{self, Write};

pub use cpumon_export::TextTable as Table;
pub use cpumon_query::text::name_text;

/// Columns of the terminal, else those of the environment variable `COLUMNS`. Files and other programs take any width.
pub fn terminal_columns() -> usize {
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal_size::terminal_size().map(|(width, _)| width.0.into()).or_else(named).unwrap_or(usize::MAX)
}

/// Writes a text in lines of at most `columns`.
pub fn paragraph(text: &str, columns: usize, out: &mut dyn Write) -> io::Result<()> {
    textwrap::wrap(text, columns).iter().try_for_each(|line| writeln!(out, "{line}"))
}
