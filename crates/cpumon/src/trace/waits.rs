//! Waits of a trace. `cpumon trace delays`: the longest single waits for a CPU. `cpumon trace histogram`: how long waits
//! and slices are. `cpumon trace wakers`: which threads wake which.

use std::io::{self, Write};
use std::ops::RangeInclusive;

use anyhow::Context;
use cpumon_model::delay_range_ns;
use cpumon_query::fields::{Field, spark};
use cpumon_trace::{
    DurationOf, DurationRow, LongWait, ReportBy, Waker, WakerKey, WakerRow, durations, longest_waits,
};

use super::{
    TraceFile, Who, behind, cut, end, limit, longest_fields, micros, millis, missing, named_fields, or_dash,
    say_left_out, seconds, share, time_field, title, who_fields,
};
use crate::cli::{OutputFormat, TraceDelaysArgs, TraceHistogramArgs, TraceWakersArgs};
use crate::exit::{Outcome, say};
use crate::table::{paragraph, terminal_columns, write_columns, write_rows};

const SHOWN_CULPRITS: usize = 3;

pub(crate) fn delays(args: &TraceDelaysArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (mut file, range) = TraceFile::of(&args.input)?;
    let (waits, ending) = file.read(|trace| longest_waits(trace, range, limit(&args.input)))?;
    write_rows(args.input.format.get(), &wait_fields(&file), &waits, out)
        .context("cannot write the waits")?;
    end(out, waits.len(), "thread that waited for a CPU", &ending, ending.lost)
}

/// Columns of a wait. Times are ns; `at` counts from the start of the trace.
fn wait_fields<'f>(file: &'f TraceFile<'_>) -> Vec<Field<'f, LongWait>> {
    let thread = |wait: &LongWait| file.thread(wait.task);
    let waker = |wait: &LongWait| Some(Who::of_waker(Waker::Task(wait.waker?), file));
    let after = move |wait: &LongWait| match waker(wait) {
        Some(waker) => format!("woken by {}", waker.shown()),
        None if wait.is_preempted => "preempted".to_owned(),
        None => "woken".to_owned(),
    };
    let waited = |wait: &LongWait| format!("{}{}", millis(wait.ns), if wait.is_over { "" } else { "+" });
    let mut fields = vec![
        time_field("at_ns", "AT s", 1, seconds, |wait: &LongWait| file.since_begin(wait.from_ns)),
        Field::count("delay_ns", |wait: &LongWait| wait.ns),
        Field::count("cpu", |wait: &LongWait| u64::from(wait.cpu)).titled("CPU", 4),
        Field::shown("WAITED ms", 0, waited),
    ];
    fields.extend(who_fields(["kind", "name", "pid", "tid"], thread));
    fields.extend([
        Field::shown("THREAD", 0, move |wait: &LongWait| thread(wait).shown()).left(),
        Field::shown("PID/TID", 2, move |wait: &LongWait| thread(wait).ids()).whole(),
        Field::text("after", |wait: &LongWait| {
            Some(if wait.is_preempted { "preempted" } else { "woken" }.into())
        })
        .titled("AFTER", 3)
        .shows(after),
        Field::text("woken_by", move |wait: &LongWait| Some(waker(wait)?.name.into())),
        Field::int("woken_by_tid", move |wait: &LongWait| waker(wait)?.tid.map(i64::from)),
        Field::int("is_over", |wait: &LongWait| i64::from(wait.is_over)),
        Field::shown("BEHIND ms", 0, |wait: &LongWait| behind(&wait.behind, file, SHOWN_CULPRITS)).left(),
    ]);
    for (at, [name, tid, ns]) in
        [["behind", "behind_tid", "behind_ns"], ["behind_2", "behind_2_tid", "behind_2_ns"]]
            .into_iter()
            .enumerate()
    {
        let culprit = move |wait: &LongWait| wait.behind.get(at).map(|(task, ns)| (file.thread(*task), *ns));
        fields.push(Field::text(name, move |wait| Some(culprit(wait)?.0.name.into())));
        fields.push(Field::int(tid, move |wait| culprit(wait)?.0.tid.map(i64::from)));
        fields.push(Field::count(ns, move |wait| culprit(wait).map(|(_, ns)| ns)));
    }
    fields.push(Field::count("behind_all_ns", |wait: &LongWait| {
        wait.behind.iter().map(|(_, ns)| ns).sum::<u64>()
    }));
    fields
}

pub(crate) fn histogram(args: &TraceHistogramArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (mut file, range) = TraceFile::of(&args.input)?;
    let (mut rows, ending) = file.read(|trace| durations(trace, range, args.of, args.by))?;
    let count = rows.len();
    let left_out = cut(&mut rows, &args.input);
    match args.input.format.get().file() {
        None => {
            histogram_table(&rows, args.by, &file, out).context("cannot write the histograms")?;
            say_left_out(left_out, out)?;
        }
        Some(format) => cpumon_export::rows(format, &bucket_fields(), rows.iter().flat_map(buckets), out)?,
    }
    let what = if args.of == DurationOf::Run { "slice that ended" } else { "wait that ended" };
    end(out, count, what, &ending, ending.lost)
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

fn histogram_table(
    rows: &[DurationRow],
    by: ReportBy,
    file: &TraceFile<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (powers, is_ascii) = (powers(rows), !cpumon_tui::is_utf8_locale());
    let percentile = |row: &DurationRow, percent| or_dash(row.durations.percentile_ns(percent), micros);
    let who = |row: &DurationRow| Who::new(&row.key, &row.name);
    let mut fields: Vec<_> = named_fields(title(by), by, 0, who).collect();
    fields.extend([
        Field::shown("COUNT", 0, |row: &DurationRow| row.durations.histogram.total().to_string()),
        Field::shown("SUM ms", 1, |row: &DurationRow| millis(row.durations.total_ns)),
        Field::shown("p50 us", 1, move |row: &DurationRow| percentile(row, 50)),
        Field::shown("p90 us", 3, move |row: &DurationRow| percentile(row, 90)),
        Field::shown("p99 us", 1, move |row: &DurationRow| percentile(row, 99)),
        Field::shown("MAX us", 0, |row: &DurationRow| micros(row.durations.longest.ns)),
        Field::shown("AT s", 4, |row: &DurationRow| seconds(file.since_begin(row.durations.longest.from_ns))),
        Field::shown("HISTOGRAM", 2, |row: &DurationRow| shape(row, &powers, is_ascii)),
    ]);
    write_columns(&fields, rows, terminal_columns(), out)?;
    if !rows.is_empty() {
        let (low, high) = (1_u64 << powers.start(), 1_u64 << (powers.end() + 1));
        let [low, high] = [low, high].map(micros);
        let note = format!("HISTOGRAM: a bar for each power of two, {low} to {high} us.");
        paragraph(&note, terminal_columns(), out)?;
    }
    Ok(())
}

/// A bucket of a row, with its count.
type DurationBucket<'r> = (&'r DurationRow, u8, u64);

fn buckets(row: &DurationRow) -> impl Iterator<Item = DurationBucket<'_>> {
    row.durations.histogram.iter().map(move |(bucket, count)| (row, bucket, count))
}

/// Columns of the buckets that have a count.
fn bucket_fields<'r>() -> Vec<Field<'r, DurationBucket<'r>>> {
    let mut fields: Vec<Field<'r, DurationBucket<'r>>> =
        who_fields(["kind", "name", "pid", "tid"], |(row, ..): &DurationBucket<'r>| {
            Who::new(&row.key, &row.name)
        })
        .into();
    fields.extend([
        Field::count("from_ns", |(_, bucket, _): &DurationBucket<'r>| *delay_range_ns(*bucket).start()),
        Field::count("to_ns", |(_, bucket, _): &DurationBucket<'r>| *delay_range_ns(*bucket).end()),
        Field::count("count", |(.., count): &DurationBucket<'r>| *count),
    ]);
    fields
}

pub(crate) fn wakers(args: &TraceWakersArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (mut file, range) = TraceFile::of(&args.input)?;
    let (wakers, ending) = file.read(|trace| cpumon_trace::wakers(trace, range))?;
    let mut rows = wakers.rows(args.by, file.tasks());
    let count = rows.len();
    let left_out = cut(&mut rows, &args.input);
    let format = args.input.format.get();
    write_rows(format, &pair_fields(args.by, &file), &rows, out).context("cannot write the rows")?;
    if format == OutputFormat::Table {
        say_left_out(left_out, out)?;
        if !wakers.has_interrupts {
            let note = "Without --irq in the recording, who was only interrupted counts as waker.";
            paragraph(note, terminal_columns(), out)?;
        }
    }
    if wakers.left_out > 0 {
        out.flush()?;
        say(&format!(
            "{} wakeups are in no row, because there are too many pairs; choose a part of the trace with --from and --to",
            wakers.left_out
        ));
        missing(&ending, ending.lost);
        return Ok(Outcome::DataMissing);
    }
    end(out, count, "wakeup", &ending, ending.lost)
}

fn waker(row: &WakerRow) -> Who {
    match &row.waker {
        WakerKey::Group(key) => Who::new(key, &row.waker_name),
        WakerKey::Idle => Who::idle(),
        WakerKey::Hard(line) => Who::irq(*line),
        WakerKey::Soft(kind) => Who::softirq(*kind),
    }
}

fn woken(row: &WakerRow) -> Who {
    Who::new(&row.woken, &row.woken_name)
}

/// Columns of a pair. Times are ns; `at` counts from the start of the trace.
fn pair_fields<'f>(by: ReportBy, file: &'f TraceFile<'_>) -> Vec<Field<'f, WakerRow>> {
    let mut fields: Vec<_> = who_fields(["waker_kind", "waker", "waker_pid", "waker_tid"], waker).into();
    fields.extend(named_fields("WAKER", by, 1, waker));
    fields.extend(who_fields(["woken_kind", "woken", "woken_pid", "woken_tid"], woken));
    fields.extend(named_fields("WOKEN", by, 1, woken));
    fields.extend([
        Field::count("wakeups", |row: &WakerRow| row.counts.wakeups).titled("WAKEUPS", 0),
        Field::count("runs", |row: &WakerRow| row.counts.runs),
        Field::count("runs_on_cpu_of_wakeup", |row: &WakerRow| row.counts.runs_here)
            .titled("SAME CPU %", 4)
            .shows(|row| share(row.counts.runs_here, row.counts.runs)),
        Field::count("delay_ns", |row: &WakerRow| row.counts.delay_ns),
        time_field("delay_mean_ns", "MEAN us", 2, micros, |row: &WakerRow| {
            row.counts.delay_ns.checked_div(row.counts.runs)
        }),
    ]);
    let [max, at, cpu] = longest_fields(0, file.began_ns, |row: &WakerRow| {
        (row.counts.runs > 0).then_some(row.counts.longest)
    });
    fields.extend([max, at, cpu.titled("CPU", 5)]);
    fields
}
