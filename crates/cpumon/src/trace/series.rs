//! `cpumon trace report --every`: the rows of a report over time.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use cpumon_query::fields::Field;
use cpumon_query::text::spark_of;
use cpumon_trace::{CpuCell, ReportBy, Series, SeriesCell, SeriesRow, TraceRange, series};

use super::trace_file::{
    TraceFile, Who, found, group, ids_title, limit, millis, missing, ns, percent, say_left_out, title,
    who_fields,
};
use crate::cli::TraceReportArgs;
use crate::columns::Columns;
use crate::exit::Outcome;
use crate::table::terminal_columns;

/// Blocks of a line in a table: each is of several intervals, if there are more.
const BLOCKS: u32 = 60;

/// A row and its shares in each block.
type Line<'r> = (&'r SeriesRow, Vec<f64>);
/// A CPU, its shares and the mean length of its queue in each block, and the longest queue.
type CpuLine = (u16, Vec<f64>, Vec<f64>, u32);

pub(super) fn over_time(
    args: &TraceReportArgs,
    range: TraceRange,
    every: Duration,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let mut file = TraceFile::open(&args.input.file)?;
    let by = group(args.by);
    let (series, ending) = file.read(|trace| series(trace, range, ns(every), by.is_some()))?;
    let (format, limit) = (args.input.format.get().file(), limit(&args.input));
    let count = if let Some(by) = by {
        let mut rows = series.rows(by, file.tasks());
        let count = rows.len();
        let left_out = count.saturating_sub(limit);
        rows.truncate(limit);
        if let Some(format) = format {
            let cells = rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
            cpumon_export::rows(format, &cell_fields(&series, &file), cells, out)?;
        } else {
            table(&rows, by, &series, out).context("cannot write the report")?;
            say_left_out(left_out, out)?;
        }
        count
    } else {
        if let Some(format) = format {
            let cells = series
                .cpus()
                .take(limit)
                .flat_map(|(cpu, its)| (0..).zip(its).map(move |(number, cell)| (cpu, number, cell)));
            cpumon_export::rows(format, &cpu_cell_fields(&series, &file), cells, out)?;
        } else {
            cpu_table(&series, out).context("cannot write the report")?;
        }
        cpus_of(&series)
    };
    out.flush()?;
    Ok(found(count, "event", missing(&ending, ending.lost)))
}

/// CPUs in the range.
fn cpus_of(series: &Series) -> usize {
    if series.intervals() == 0 { 0 } else { series.cpus().count() }
}

/// The intervals of a block, and the number of blocks.
fn blocks(series: &Series) -> (u32, u32) {
    let each = series.intervals().div_ceil(BLOCKS).max(1);
    (each, series.intervals().div_ceil(each))
}

/// Length of the intervals of a block, ns.
fn length_ns(series: &Series, each: u32, block: u32) -> u64 {
    let last = ((block + 1) * each).min(series.intervals());
    (block * each..last).map(|number| series.interval(number).1).sum()
}

/// Shares of one CPU in each block.
fn shares(series: &Series, ns_of: impl Fn(u32) -> u64) -> Vec<f64> {
    let (each, count) = blocks(series);
    let share = |block: u32| {
        let last = ((block + 1) * each).min(series.intervals());
        let ns: u64 = (block * each..last).map(&ns_of).sum();
        ns as f64 / length_ns(series, each, block).max(1) as f64
    };
    (0..count).map(share).collect()
}

fn line(shares: &[f64], highest: f64) -> String {
    let shares: Vec<_> = shares.iter().map(|share| Some(*share)).collect();
    spark_of(&shares, highest, !cpumon_tui::is_utf8_locale())
}

fn most(shares: &[f64]) -> f64 {
    shares.iter().copied().fold(0.0, f64::max)
}

fn say_blocks(series: &Series, out: &mut dyn Write) -> io::Result<()> {
    let (each, _) = blocks(series);
    let length = millis(series.interval(0).1 * u64::from(each));
    writeln!(out, "OVER TIME: a block is {length} ms.")
}

fn table(rows: &[SeriesRow], by: ReportBy, series: &Series, out: &mut dyn Write) -> io::Result<()> {
    let run = |row: &SeriesRow| {
        shares(series, |number| {
            let at = row.cells.binary_search_by_key(&number, |cell| cell.interval);
            at.map_or(0, |at| row.cells[at].run_ns)
        })
    };
    let lines: Vec<_> = rows.iter().map(|row| (row, run(row))).collect();
    let highest = lines.iter().map(|(_, shares)| most(shares)).fold(0.0, f64::max);
    let mut fields = vec![Field::shown(title(by), 0, |(row, _): &Line<'_>| who(row).shown()).left()];
    fields.extend(
        ids_title(by).map(|title| Field::shown(title, 0, |(row, _): &Line<'_>| who(row).ids()).whole()),
    );
    let sum = |row: &SeriesRow, of: fn(&SeriesCell) -> u64| millis(row.cells.iter().map(of).sum());
    fields.extend([
        Field::shown("RUN ms", 0, move |(row, _): &Line<'_>| sum(row, |cell| cell.run_ns)),
        Field::shown("READY ms", 2, move |(row, _): &Line<'_>| sum(row, |cell| cell.ready_ns)),
        Field::shown("PEAK %", 1, |(_, shares): &Line<'_>| format!("{:.1}", most(shares) * 100.0)),
        Field::shown("RUN OVER TIME", 0, move |(_, shares): &Line<'_>| line(shares, highest)),
    ]);
    Columns::new(&fields, &lines).write(terminal_columns(), out)?;
    say_blocks(series, out)
}

fn cpu_table(series: &Series, out: &mut dyn Write) -> io::Result<()> {
    let cell = |its: &[CpuCell], number: u32| its.get(number as usize).copied().unwrap_or_default();
    let rows: Vec<_> = series
        .cpus()
        .map(|(cpu, its)| {
            let run = shares(series, |number| cell(its, number).run_ns);
            let queue = shares(series, |number| cell(its, number).queue_ns);
            let longest = its.iter().map(|cell| cell.queue_max).max().unwrap_or(0);
            (cpu, run, queue, longest)
        })
        .collect();
    let longest = rows.iter().map(|row| most(&row.2)).fold(0.0, f64::max);
    let fields = [
        Field::shown("CPU", 0, |row: &CpuLine| row.0.to_string()).left(),
        Field::shown("PEAK %", 1, |row: &CpuLine| format!("{:.1}", most(&row.1) * 100.0)),
        Field::shown("RUN OVER TIME", 0, |row: &CpuLine| line(&row.1, 1.0)),
        Field::shown("QUEUE MAX", 1, |row: &CpuLine| row.3.to_string()),
        Field::shown("PEAK MEAN", 3, |row: &CpuLine| format!("{:.2}", most(&row.2))),
        Field::shown("QUEUE OVER TIME", 2, move |row: &CpuLine| line(&row.2, longest)),
    ];
    Columns::new(&fields, &rows).write(terminal_columns(), out)?;
    say_blocks(series, out)
}

fn ratio(ns: u64, length_ns: u64) -> Option<f64> {
    (length_ns > 0).then(|| ns as f64 / length_ns as f64)
}

fn who(row: &SeriesRow) -> Who {
    Who::new(&row.key, &row.name)
}

/// Columns of an interval in which a thread or group ran or waited for a CPU. `at` counts from the start of the trace.
fn cell_fields<'r>(
    series: &'r Series,
    file: &'r TraceFile<'_>,
) -> Vec<Field<'r, (&'r SeriesRow, &'r SeriesCell)>> {
    type Cell<'r> = (&'r SeriesRow, &'r SeriesCell);
    let length_ns = |cell: &SeriesCell| series.interval(cell.interval).1;
    let mut fields = vec![
        Field::count("at_ns", |(_, cell): &Cell<'r>| file.since_begin(series.interval(cell.interval).0)),
        Field::count("length_ns", move |(_, cell): &Cell<'r>| length_ns(cell)),
    ];
    fields.extend(who_fields(["kind", "name", "pid", "tid"], |(row, _): &Cell<'r>| who(row)));
    fields.extend([
        Field::count("run_ns", |(_, cell): &Cell<'r>| cell.run_ns),
        Field::real("run_pct", move |(_, cell): &Cell<'r>| percent(cell.run_ns, length_ns(cell))),
        Field::count("ready_ns", |(_, cell): &Cell<'r>| cell.ready_ns),
        Field::real("ready_mean", move |(_, cell): &Cell<'r>| ratio(cell.ready_ns, length_ns(cell))),
    ]);
    fields
}

/// Columns of an interval of a CPU.
fn cpu_cell_fields<'r>(
    series: &'r Series,
    file: &'r TraceFile<'_>,
) -> [Field<'r, (u16, u32, &'r CpuCell)>; 10] {
    type Cell<'r> = (u16, u32, &'r CpuCell);
    let length_ns = |number: u32| series.interval(number).1;
    [
        Field::count("at_ns", |(_, number, _): &Cell<'r>| file.since_begin(series.interval(*number).0)),
        Field::count("length_ns", move |(_, number, _): &Cell<'r>| length_ns(*number)),
        Field::count("cpu", |(cpu, ..): &Cell<'r>| u64::from(*cpu)),
        Field::count("run_ns", |(.., cell): &Cell<'r>| cell.run_ns),
        Field::count("irq_ns", |(.., cell): &Cell<'r>| cell.irq_ns),
        Field::count("idle_ns", |(.., cell): &Cell<'r>| cell.idle_ns),
        Field::count("unknown_ns", |(.., cell): &Cell<'r>| cell.unknown_ns),
        Field::real("run_pct", move |(_, number, cell): &Cell<'r>| percent(cell.run_ns, length_ns(*number))),
        Field::real("queue_mean", move |(_, number, cell): &Cell<'r>| {
            ratio(cell.queue_ns, length_ns(*number))
        }),
        Field::count("queue_max", |(.., cell): &Cell<'r>| u64::from(cell.queue_max)),
    ]
}
