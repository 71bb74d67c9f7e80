//! `cpumon trace histogram`: how long waits and slices are.

use std::io::{self, Write};
use std::ops::RangeInclusive;

use anyhow::Context;
use cpumon_model::delay_range_ns;
use cpumon_query::fields::Field;
use cpumon_query::text::spark;
use cpumon_trace::{DurationOf, DurationRow, ReportBy, durations};

use super::trace_file::{
    TraceFile, Who, found, ids_title, limit, micros, millis, missing, range, say_left_out, seconds, title,
    who_fields,
};
use crate::cli::{TraceHistogramArgs, TraceHistogramOf};
use crate::columns::Columns;
use crate::exit::Outcome;
use crate::table::{paragraph, terminal_columns};

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
    match args.input.format.get().file() {
        None => {
            table(&rows, by, &file, out).context("cannot write the histograms")?;
            say_left_out(left_out, out)?;
        }
        Some(format) => cpumon_export::rows(format, &bucket_fields(), rows.iter().flat_map(buckets), out)?,
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
    let (powers, is_ascii) = (powers(rows), !cpumon_tui::is_utf8_locale());
    let percentile = |row: &DurationRow, percent| micros(row.durations.percentile_ns(percent));
    let who = |row: &DurationRow| Who::new(&row.key, &row.name);
    let mut fields = vec![Field::shown(title(by), 0, move |row: &DurationRow| who(row).shown()).left()];
    fields.extend(
        ids_title(by).map(|title| Field::shown(title, 0, move |row: &DurationRow| who(row).ids()).whole()),
    );
    fields.extend([
        Field::shown("COUNT", 0, |row: &DurationRow| row.durations.histogram.total().to_string()),
        Field::shown("SUM ms", 1, |row: &DurationRow| millis(row.durations.total_ns)),
        Field::shown("p50 us", 1, move |row: &DurationRow| percentile(row, 50)),
        Field::shown("p90 us", 3, move |row: &DurationRow| percentile(row, 90)),
        Field::shown("p99 us", 1, move |row: &DurationRow| percentile(row, 99)),
        Field::shown("MAX us", 0, |row: &DurationRow| micros(Some(row.durations.longest.ns))),
        Field::shown("AT s", 4, |row: &DurationRow| seconds(file.since_begin(row.durations.longest.from_ns))),
        Field::shown("HISTOGRAM", 2, |row: &DurationRow| shape(row, &powers, is_ascii)),
    ]);
    Columns::new(&fields, rows).write(terminal_columns(), out)?;
    if !rows.is_empty() {
        let (low, high) = (1_u64 << powers.start(), 1_u64 << (powers.end() + 1));
        let [low, high] = [low, high].map(|ns| micros(Some(ns)));
        let note = format!("HISTOGRAM: a bar for each power of two, {low} to {high} us.");
        paragraph(&note, terminal_columns(), out)?;
    }
    Ok(())
}

/// A bucket of a row, with its count.
type Bucket<'r> = (&'r DurationRow, u8, u64);

fn buckets(row: &DurationRow) -> impl Iterator<Item = Bucket<'_>> {
    row.durations.histogram.iter().map(move |(bucket, count)| (row, bucket, count))
}

/// Columns of a bucket that has any.
fn bucket_fields<'r>() -> Vec<Field<'r, Bucket<'r>>> {
    let mut fields: Vec<Field<'r, Bucket<'r>>> =
        who_fields(["kind", "name", "pid", "tid"], |(row, ..): &Bucket<'r>| Who::new(&row.key, &row.name))
            .into();
    fields.extend([
        Field::count("from_ns", |(_, bucket, _): &Bucket<'r>| *delay_range_ns(*bucket).start()),
        Field::count("to_ns", |(_, bucket, _): &Bucket<'r>| *delay_range_ns(*bucket).end()),
        Field::count("count", |(.., count): &Bucket<'r>| *count),
    ]);
    fields
}
