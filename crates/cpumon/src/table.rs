//! Tables on a terminal, and its width.

pub use cpumon_export::TextTable as Table;

/// Columns of the terminal, else those of the environment variable `COLUMNS`. Files and other programs take any width.
pub fn terminal_columns() -> usize {
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal_size::terminal_size().map(|(width, _)| width.0.into()).or_else(named).unwrap_or(usize::MAX)
}
