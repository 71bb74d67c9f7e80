//! `cpumon trace histogram`: how long waits and slices are.

use std::io::{self, Write};
use std::ops::RangeInclusive;

use anyhow::Context;
use cpumon_model::{Value, delay_range_ns};
use cpumon_trace::{DurationOf, DurationRow, ReportBy, durations};

use super::trace_file::{
    TraceFile, Who, found, limit, micros, millis, missing, range, say_left_out, seconds, title,
};
use crate::cli::{Format, TraceHistogramArgs, TraceHistogramOf};
use crate::exit::Outcome;
use crate::report::{Column, Columns, write_rows};
use crate::spark::spark;
use crate::table::{paragraph, terminal_columns};

/// A row for each bucket that has any.
const COLUMNS: [&str; 7] = ["kind", "name", "pid", "tid", "from_ns", "to_ns", "count"];

/// `cpumon trace histogram`.
pub(crate) fn histogram(args: &TraceHistogramArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let range = range(args.input.from, args.input.to)?;
    let mut file = TraceFile::open(&args.input.file)?;
    let of = match args.of {
        TraceHistogramOf::Delay => DurationOf::Ready,
        TraceHistogramOf::Blocked => DurationOf::Blocked,
        TraceHistogramOf::OffCpu => DurationOf::OffCpu,
        TraceHistogramOf::Run => DurationOf::Run,
    };
    let by = ReportBy::from(args.by);
    let (mut rows, ending) = file.read(|trace| durations(trace, range, of, by))?;
    let count = rows.len();
    let left_out = count.saturating_sub(limit(&args.input));
    rows.truncate(limit(&args.input));
    match args.input.format.get() {
        Format::Table => {
            table(&rows, by, &file, out).context("cannot write the histograms")?;
            say_left_out(left_out, out)?;
        }
        format => write_rows(format, &COLUMNS, rows.iter().flat_map(cells), out)?,
    }
    out.flush()?;
    let what = match args.of {
        TraceHistogramOf::Run => "slice that ended",
        TraceHistogramOf::Delay | TraceHistogramOf::Blocked | TraceHistogramOf::OffCpu => "wait that ended",
    };
    Ok(found(count, what, missing(&ending, ending.lost)))
}

/// The power of two below the lengths of a bucket.
fn power(bucket: u8) -> u32 {
    (*delay_range_ns(bucket).start()).max(1).ilog2()
}

/// Lowest and highest power of two with any length.
fn powers(rows: &[DurationRow]) -> RangeInclusive<u32> {
    let all = rows.iter().flat_map(|row| row.durations.histogram.iter()).map(|(bucket, _)| power(bucket));
    let (low, high) = all.fold((u32::MAX, 0), |(low, high), power| (low.min(power), high.max(power)));
    low..=high
}

fn shape(row: &DurationRow, powers: &RangeInclusive<u32>, is_ascii: bool) -> String {
    let (low, high) = (*powers.start(), *powers.end());
    let mut counts = vec![None; (high.saturating_sub(low) + 1) as usize];
    for (bucket, count) in row.durations.histogram.iter() {
        if let Some(sum) = counts.get_mut((power(bucket) - low) as usize) {
            *sum = Some(sum.unwrap_or(0.0) + count as f64);
        }
    }
    spark(&counts, is_ascii)
}

fn table(rows: &[DurationRow], by: ReportBy, file: &TraceFile<'_>, out: &mut dyn Write) -> io::Result<()> {
    let column =
        |title, rank, cell: &dyn Fn(&DurationRow) -> String| Column::new(title, rank, rows.iter().map(cell));
    let who = |row: &DurationRow| Who::new(&row.key, &row.name);
    let mut names = vec![column(title(by), 0, &|row| who(row).shown())];
    if matches!(by, ReportBy::Thread | ReportBy::Process) {
        names.push(
            column(if by == ReportBy::Thread { "PID/TID" } else { "PID" }, 0, &|row| who(row).ids()).whole(),
        );
    }
    let (powers, is_ascii) = (powers(rows), !cpumon_tui::is_utf8_locale());
    let percentile = |row: &DurationRow, percent| micros(row.durations.percentile_ns(percent));
    let numbers = vec![
        column("COUNT", 0, &|row| row.durations.histogram.total().to_string()),
        column("SUM ms", 1, &|row| millis(row.durations.total_ns)),
        column("p50 us", 1, &|row| percentile(row, 50)),
        column("p90 us", 3, &|row| percentile(row, 90)),
        column("p99 us", 1, &|row| percentile(row, 99)),
        column("MAX us", 0, &|row| micros(Some(row.durations.longest.ns))),
        column("AT s", 4, &|row| seconds(file.since_begin(row.durations.longest.from_ns))),
        column("HISTOGRAM", 2, &|row| shape(row, &powers, is_ascii)),
    ];
    Columns::new(names, numbers).write(terminal_columns(), out)?;
    if !rows.is_empty() {
        let (low, high) = (1_u64 << powers.start(), 1_u64 << (powers.end() + 1));
        let [low, high] = [low, high].map(|ns| micros(Some(ns)));
        let note = format!("HISTOGRAM: a bar for each power of two, {low} to {high} us.");
        paragraph(&note, terminal_columns(), out)?;
    }
    Ok(())
}

fn cells(row: &DurationRow) -> Vec<Vec<Value<'static>>> {
    let who = Who::new(&row.key, &row.name).cells();
    let bucket = |(bucket, count): (u8, u64)| {
        let range = delay_range_ns(bucket);
        let mut cells = who.to_vec();
        cells.extend([*range.start(), *range.end(), count].map(Value::count));
        cells
    };
    row.durations.histogram.iter().map(bucket).collect()
}
