//! `cpumon trace report --every`: the rows of a report over time.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use cpumon_model::Value;
use cpumon_trace::{CpuCell, ReportBy, Series, SeriesRow, TraceRange, series};

use super::trace_file::{
    TraceFile, Who, found, group, limit, millis, missing, ns, percent, say_left_out, title,
};
use crate::cli::{Format, TraceReportArgs};
use crate::exit::Outcome;
use crate::report::{Column, Columns, write_rows};
use crate::spark::spark_of;
use crate::table::terminal_columns;

/// A row for each interval in which a thread or group ran or waited for a CPU. `at` counts from the start of the trace.
const COLUMNS: [&str; 10] =
    ["at_ns", "length_ns", "kind", "name", "pid", "tid", "run_ns", "run_pct", "ready_ns", "ready_mean"];
/// A row for each interval of each CPU.
const CPU_COLUMNS: [&str; 10] = [
    "at_ns",
    "length_ns",
    "cpu",
    "run_ns",
    "irq_ns",
    "idle_ns",
    "unknown_ns",
    "run_pct",
    "queue_mean",
    "queue_max",
];
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
    let (format, limit) = (args.input.format.get(), limit(&args.input));
    let count = match by {
        Some(by) => {
            let mut rows = series.rows(by, file.tasks());
            let count = rows.len();
            let left_out = count.saturating_sub(limit);
            rows.truncate(limit);
            if format == Format::Table {
                table(&rows, by, &series, out).context("cannot write the report")?;
                say_left_out(left_out, out)?;
            } else {
                let lines = rows.iter().flat_map(|row| cells(row, &series, &file));
                write_rows(format, &COLUMNS, lines, out)?;
            }
            count
        }
        None if format == Format::Table => {
            cpu_table(&series, out).context("cannot write the report")?;
            cpus_of(&series)
        }
        None => {
            let lines = series.cpus().take(limit).flat_map(|(cpu, its)| cpu_cells(cpu, its, &series, &file));
            write_rows(format, &CPU_COLUMNS, lines, out)?;
            cpus_of(&series)
        }
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
    let column =
        |title, rank, cell: &dyn Fn(&Line<'_>) -> String| Column::new(title, rank, lines.iter().map(cell));
    let who = |row: &SeriesRow| Who::new(&row.key, &row.name);
    let mut names = vec![column(title(by), 0, &|(row, _)| who(row).shown())];
    if matches!(by, ReportBy::Thread | ReportBy::Process) {
        names.push(
            column(if by == ReportBy::Thread { "PID/TID" } else { "PID" }, 0, &|(row, _)| who(row).ids())
                .whole(),
        );
    }
    let sum =
        |row: &SeriesRow, of: fn(&cpumon_trace::SeriesCell) -> u64| millis(row.cells.iter().map(of).sum());
    let numbers = vec![
        column("RUN ms", 0, &|(row, _)| sum(row, |cell| cell.run_ns)),
        column("READY ms", 2, &|(row, _)| sum(row, |cell| cell.ready_ns)),
        column("PEAK %", 1, &|(_, shares)| format!("{:.1}", most(shares) * 100.0)),
        column("RUN OVER TIME", 0, &|(_, shares)| line(shares, highest)),
    ];
    Columns::new(names, numbers).write(terminal_columns(), out)?;
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
    let column =
        |title, rank, cell: &dyn Fn(&CpuLine) -> String| Column::new(title, rank, rows.iter().map(cell));
    let names = vec![column("CPU", 0, &|row| row.0.to_string())];
    let numbers = vec![
        column("PEAK %", 1, &|row| format!("{:.1}", most(&row.1) * 100.0)),
        column("RUN OVER TIME", 0, &|row| line(&row.1, 1.0)),
        column("QUEUE MAX", 1, &|row| row.3.to_string()),
        column("PEAK MEAN", 3, &|row| format!("{:.2}", most(&row.2))),
        column("QUEUE OVER TIME", 2, &|row| line(&row.2, longest)),
    ];
    Columns::new(names, numbers).write(terminal_columns(), out)?;
    say_blocks(series, out)
}

fn ratio(ns: u64, length_ns: u64) -> Value<'static> {
    if length_ns == 0 { Value::Null } else { Value::Real(ns as f64 / length_ns as f64) }
}

fn cells(row: &SeriesRow, series: &Series, file: &TraceFile<'_>) -> Vec<Vec<Value<'static>>> {
    let who = Who::new(&row.key, &row.name).cells();
    let line = |cell: &cpumon_trace::SeriesCell| {
        let (at_ns, length_ns) = series.interval(cell.interval);
        let mut cells = vec![Value::count(file.since_begin(at_ns)), Value::count(length_ns)];
        cells.extend(who.iter().cloned());
        cells.extend([
            Value::count(cell.run_ns),
            percent(cell.run_ns, length_ns),
            Value::count(cell.ready_ns),
            ratio(cell.ready_ns, length_ns),
        ]);
        cells
    };
    row.cells.iter().map(line).collect()
}

fn cpu_cells(cpu: u16, its: &[CpuCell], series: &Series, file: &TraceFile<'_>) -> Vec<Vec<Value<'static>>> {
    let line = |(number, cell): (u32, &CpuCell)| {
        let (at_ns, length_ns) = series.interval(number);
        let times = [cell.run_ns, cell.irq_ns, cell.idle_ns, cell.unknown_ns];
        let mut cells = [file.since_begin(at_ns), length_ns, cpu.into()].map(Value::count).to_vec();
        cells.extend(times.map(Value::count));
        cells.extend([
            percent(cell.run_ns, length_ns),
            ratio(cell.queue_ns, length_ns),
            Value::count(cell.queue_max.into()),
        ]);
        cells
    };
    (0..).zip(its).map(line).collect()
}
