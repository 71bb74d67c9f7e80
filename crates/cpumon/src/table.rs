//! Tables on a terminal, and its width.

use std::io::{self, Write};

pub use cpumon_export::TextTable as Table;
use cpumon_model::escape;

/// Columns of the terminal, else those of the environment variable `COLUMNS`. Files and other programs take any width.
pub fn terminal_columns() -> usize {
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal_size::terminal_size().map(|(width, _)| width.0.into()).or_else(named).unwrap_or(usize::MAX)
}

/// A name that is safe to show. One without a visible character is shown as `(no name)`.
pub fn name_text(name: &str) -> String {
    let name = escape(name).to_string();
    if name.trim().is_empty() { "(no name)".to_owned() } else { name }
}

/// Writes a text in lines of at most `columns`.
pub fn paragraph(text: &str, columns: usize, out: &mut dyn Write) -> io::Result<()> {
    textwrap::wrap(text, columns).iter().try_for_each(|line| writeln!(out, "{line}"))
}
