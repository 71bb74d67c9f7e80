//! Writes a store's data as files: CSV, JSON lines, JSON, Parquet, the original's layouts, answers of SQL queries and charts.
//!
//! # Overview [`export`] takes a store's reader and an [`ExportQuery`]. It reads the store once, holds one interval in memory, and
//! writes rows as it goes; Parquet holds up to 32 MiB of rows. [`rows()`] writes rows that are in memory. Three kinds need more: a
//! pivot knows its columns only at the end, so it holds up to 64 MiB of cells and reads what does not fit a second time; a comparison
//! ([`cpumon_query::report::Comparison`]) adds up two ranges of time and holds one row for each group; the original's layouts sort rows
//! of imported databases by the original's numbers, up to half a million at a time.
//!
//! [`OutputFile`] puts the result into a file that exists only when it is complete. [`chart`] draws pictures, for the receiver's
//! API and for the command line. [`sql()`] prints the answer to a query over the store's virtual tables. Examples of all formats are
//! in `docs/export.md`.
//!
//! [`trace_perfetto`] and [`trace_slices`] write context-switch traces.
//!
//! # No data, zero, exited
//! What a source does not measure is empty (CSV) or null (JSON). Zero is 0. A task that ended is marked in `life`.

pub mod chart;
mod csv;
mod error;
mod export;
mod file;
mod jsonl;
mod legacy;
mod parquet;
mod pivot;
mod query;
mod rows;
mod source;
mod sql;
mod text_table;
mod trace;

pub use cpumon_query::GroupBy;
pub use error::ExportError;
pub use export::{check, export, rows};
pub use file::OutputFile;
pub use query::{ExportQuery, Format, Kind, LegacyYear, NotStored, PivotValue, Progress, QueryPart, Report};
pub use sql::sql;
pub use text_table::TextTable;
pub use trace::{TraceSurvey, trace_perfetto, trace_slices};
