//! `cpumon trace report`: where the time of a trace went, in sum or with `--every` over time.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use cpumon_query::fields::{Field, name_text, spark_of};
use cpumon_trace::{
    CpuAccount, CpuCell, GroupKey, GroupRow, ReportBy, Series, SeriesCell, SeriesRow, Totals, TraceRange,
    analyse, series,
};

use super::{
    TraceFile, Who, behind_fields, cut, end, ids_title, limit, longest_fields, longest_wait_fields, micros,
    millis, named_fields, ns, or_dash, percent, say_left_out, seconds, share, time_field, title, who_fields,
};
use crate::cli::{OutputFormat, TraceReportArgs};
use crate::exit::Outcome;
use crate::output::{paragraph, terminal_columns, write_columns, write_rows};

/// Blocks of a line in a table; a block covers several intervals, if there are more.
const BLOCKS: u32 = 60;

/// A row and its shares in each block.
type SeriesLine<'r> = (&'r SeriesRow, Vec<f64>);
/// A CPU, its shares and the mean length of its queue in each block, and the longest queue.
type CpuLine = (u16, Vec<f64>, Vec<f64>, u32);

pub(crate) fn report(args: &TraceReportArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (mut file, range) = TraceFile::of(&args.input)?;
    if let Some(every) = args.every {
        return over_time(args, file, range, every, out);
    }
    let (report, ending) = file.read(|trace| analyse(trace, range))?;
    let format = args.input.format.get();
    let (is_table, limit) = (format == OutputFormat::Table, limit(&args.input));
    let totals = report.totals();
    let scale =
        Scale { length_ns: totals.length_ns, began_ns: file.began_ns, has_interrupts: report.has_interrupts };
    if is_table {
        head(&totals, scale.has_interrupts, out).context("cannot write the report")?;
    }
    let count = if let Some(by) = args.by {
        let groups = report.groups(by, file.tasks());
        let (fields, rows) = (group_fields(by, scale), groups.iter().take(limit));
        if let Some(format) = format.file() {
            // There may be more rows than memory is for.
            cpumon_export::rows(format, &fields, rows, out)?;
        } else {
            write_columns(&fields, &rows.collect::<Vec<_>>(), terminal_columns(), out)?;
            say_left_out(groups.count().saturating_sub(limit), out)?;
        }
        // Of a trace of idle CPUs there are no threads, and nothing is missing.
        groups.count().max(report.cpus().count())
    } else {
        let cpus: Vec<_> = report.cpus().collect();
        let shown = if is_table { cpus.len() } else { cpus.len().min(limit) };
        write_rows(format, &cpu_fields(scale), &cpus[..shown], out)?;
        cpus.len()
    };
    end(out, count, "event", &ending, totals.ledger.lost)
}

fn head(totals: &Totals, has_interrupts: bool, out: &mut dyn Write) -> io::Result<()> {
    let ledger = &totals.ledger;
    let columns = terminal_columns();
    let measured = format!(
        "{} s on {} CPUs with events, {} events, {} switches",
        seconds(totals.length_ns),
        totals.cpus,
        totals.events,
        ledger.switches
    );
    paragraph(&measured, columns, out)?;
    let interrupts = if has_interrupts {
        format!(" + irq {} s + softirq {} s", seconds(ledger.irq_ns), seconds(ledger.softirq_ns))
    } else {
        String::new()
    };
    let sums = format!(
        "capacity {} s = run {} s{interrupts} + idle {} s + unknown {} s",
        seconds(ledger.capacity_ns()),
        seconds(ledger.run_ns),
        seconds(ledger.idle_ns),
        seconds(ledger.unknown_ns)
    );
    paragraph(&sums, columns, out)?;
    if ledger.holes > 0 {
        let note = format!(
            "unknown: {} times a thread left a CPU without having been seen to come to it; events are missing",
            ledger.holes
        );
        paragraph(&note, columns, out)?;
    }
    writeln!(out)
}

#[derive(Copy, Clone, Debug)]
struct Scale {
    /// Length of the range; 100 % are one CPU.
    length_ns: u64,
    /// Begin of the trace.
    began_ns: u64,
    has_interrupts: bool,
}

/// Columns of a thread, a process or a program. Times are ns; `at` counts from the start of the trace.
fn group_fields(by: ReportBy, scale: Scale) -> Vec<Field<'static, GroupRow>> {
    type Row = GroupRow;
    let who = |row: &Row| Who::new(&row.key, &row.name);
    let process = |row: &Row| match &row.key {
        GroupKey::Thread(_, process) | GroupKey::Process(process) => Some(*process),
        GroupKey::Program(_) | GroupKey::Container(_) | GroupKey::Unnamed(_) => None,
    };
    let thread = |row: &Row| match &row.key {
        GroupKey::Thread(thread, _) => Some(*thread),
        _ => None,
    };
    let taken = move |ns: u64| scale.has_interrupts.then_some(ns);
    let mut fields: Vec<Field<'static, Row>> = vec![
        Field::text("name", |row: &Row| Some((&*row.name).into()))
            .titled(title(by), 0)
            .shows(|row| name_text(&row.name)),
        Field::int("pid", move |row: &Row| process(row).map(|key| i64::from(key.pid))),
        Field::count("process_start_ns", move |row: &Row| process(row).map(|key| key.start_ns)),
        Field::int("tid", move |row: &Row| thread(row).map(|key| i64::from(key.tid))),
        Field::count("thread_start_ns", move |row: &Row| thread(row).map(|key| key.start_ns)),
        Field::count("threads", |row: &Row| row.threads),
    ];
    fields.extend(ids_title(by).map(|title| Field::shown(title, 0, move |row: &Row| who(row).ids()).whole()));
    fields.extend([
        time_field("run_ns", "RUN ms", 0, millis, |row: &Row| row.totals.run_ns),
        Field::real("run_pct", move |row: &Row| percent(row.totals.run_ns, scale.length_ns))
            .titled("RUN %", 1)
            .shows(move |row| share(row.totals.run_ns, scale.length_ns)),
        Field::count("irq_ns", move |row: &Row| taken(row.totals.irq_ns)),
        Field::count("softirq_ns", move |row: &Row| taken(row.totals.softirq_ns)),
        Field::shown("IRQ ms", 3, move |row: &Row| or_dash(taken(row.totals.interrupts_ns()), millis)),
        Field::count("ready_woken_ns", |row: &Row| row.totals.ready_woken_ns),
        Field::count("ready_preempted_ns", |row: &Row| row.totals.ready_preempted_ns),
        Field::shown("READY ms", 1, |row: &Row| millis(row.totals.ready_ns())),
    ]);
    fields.extend([
        Field::count("delays", GroupRow::delays),
        time_field("delay_p50_ns", "p50 us", 5, micros, |row: &Row| row.delay_percentile_ns(50)),
        time_field("delay_p99_ns", "p99 us", 3, micros, |row: &Row| row.delay_percentile_ns(99)),
    ]);
    fields.extend(longest_fields(2, scale.began_ns, GroupRow::longest_delay));
    fields.extend(behind_fields(4));
    fields.push(time_field("blocked_ns", "BLOCKED ms", 3, millis, |row: &Row| row.blocked.total_ns()));
    fields.extend(longest_wait_fields(4));
    fields.extend([
        Field::shown("SWITCHES", 5, |row: &Row| {
            row.totals.voluntary_switches.saturating_add(row.totals.involuntary_switches).to_string()
        }),
        Field::count("voluntary_switches", |row: &Row| row.totals.voluntary_switches),
        Field::count("involuntary_switches", |row: &Row| row.totals.involuntary_switches)
            .titled("PUSHED OFF", 6),
        Field::count("migrations", |row: &Row| row.totals.migrations).titled("MOVES", 6),
        Field::count("unknown_wakeups", |row: &Row| row.unknown_wakeups),
        time_field("unknown_ns", "UNKNOWN ms", 6, millis, |row: &Row| row.totals.unknown_ns),
        Field::text("kind", move |row: &Row| Some(who(row).kind.into())),
    ]);
    fields
}

fn cpu_fields(scale: Scale) -> Vec<Field<'static, CpuAccount>> {
    type Row = CpuAccount;
    let taken = move |ns: u64| scale.has_interrupts.then_some(ns);
    vec![
        Field::count("cpu", |cpu: &Row| u64::from(cpu.cpu)).titled("CPU", 0).left(),
        Field::count("capacity_ns", CpuAccount::capacity_ns),
        Field::shown("RUN %", 0, |cpu: &Row| share(cpu.run_ns, cpu.capacity_ns())),
        time_field("run_ns", "RUN ms", 0, millis, |cpu: &Row| cpu.run_ns),
        time_field("irq_ns", "IRQ ms", 1, millis, move |cpu: &Row| taken(cpu.irq_ns)),
        time_field("softirq_ns", "SOFTIRQ ms", 1, millis, move |cpu: &Row| taken(cpu.softirq_ns)),
        time_field("idle_ns", "IDLE ms", 0, millis, |cpu: &Row| cpu.idle_ns),
        time_field("unknown_ns", "UNKNOWN ms", 0, millis, |cpu: &Row| cpu.unknown_ns),
        Field::real("run_pct", |cpu: &Row| percent(cpu.run_ns, cpu.capacity_ns())),
        Field::count("switches", |cpu: &Row| cpu.switches).titled("SWITCHES", 1),
        Field::count("holes", |cpu: &Row| cpu.holes).titled("HOLES", 2),
        Field::count("lost", |cpu: &Row| cpu.lost).titled("LOST", 2),
    ]
}

/// Writes the rows of `--every`.
fn over_time(
    args: &TraceReportArgs,
    mut file: TraceFile<'_>,
    range: TraceRange,
    every: Duration,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let by = args.by;
    let (series, ending) = file.read(|trace| series(trace, range, ns(every), by.is_some()))?;
    let (format, limit) = (args.input.format.get().file(), limit(&args.input));
    let count = if let Some(by) = by {
        let mut rows = series.rows(by, file.tasks());
        let count = rows.len();
        let left_out = cut(&mut rows, &args.input);
        if let Some(format) = format {
            let cells = rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
            cpumon_export::rows(format, &cell_fields(&series, &file), cells, out)?;
        } else {
            group_table(&rows, by, &series, out).context("cannot write the report")?;
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
    end(out, count, "event", &ending, ending.lost)
}

fn cpus_of(series: &Series) -> usize {
    if series.intervals() == 0 { 0 } else { series.cpus().count() }
}

/// The intervals of a block, and the number of blocks.
fn blocks(series: &Series) -> (u32, u32) {
    let each = series.intervals().div_ceil(BLOCKS).max(1);
    (each, series.intervals().div_ceil(each))
}

/// Sum of the lengths of a block's intervals, ns.
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

fn spark_line(shares: &[f64], highest: f64) -> String {
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

fn group_table(rows: &[SeriesRow], by: ReportBy, series: &Series, out: &mut dyn Write) -> io::Result<()> {
    let run = |row: &SeriesRow| {
        shares(series, |number| {
            let at = row.cells.binary_search_by_key(&number, |cell| cell.interval);
            at.map_or(0, |at| row.cells[at].run_ns)
        })
    };
    let lines: Vec<_> = rows.iter().map(|row| (row, run(row))).collect();
    let highest = lines.iter().map(|(_, shares)| most(shares)).fold(0.0, f64::max);
    let mut fields: Vec<_> = named_fields(title(by), by, 0, |(row, _): &SeriesLine<'_>| who(row)).collect();
    let sum = |row: &SeriesRow, of: fn(&SeriesCell) -> u64| millis(row.cells.iter().map(of).sum());
    fields.extend([
        Field::shown("RUN ms", 0, move |(row, _): &SeriesLine<'_>| sum(row, |cell| cell.run_ns)),
        Field::shown("READY ms", 2, move |(row, _): &SeriesLine<'_>| sum(row, |cell| cell.ready_ns)),
        Field::shown("PEAK %", 1, |(_, shares): &SeriesLine<'_>| format!("{:.1}", most(shares) * 100.0)),
        Field::shown("RUN OVER TIME", 0, move |(_, shares): &SeriesLine<'_>| spark_line(shares, highest)),
    ]);
    write_columns(&fields, &lines, terminal_columns(), out)?;
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
        Field::shown("RUN OVER TIME", 0, |row: &CpuLine| spark_line(&row.1, 1.0)),
        Field::shown("QUEUE MAX", 1, |row: &CpuLine| row.3.to_string()),
        Field::shown("PEAK MEAN", 3, |row: &CpuLine| format!("{:.2}", most(&row.2))),
        Field::shown("QUEUE OVER TIME", 2, move |row: &CpuLine| spark_line(&row.2, longest)),
    ];
    write_columns(&fields, &rows, terminal_columns(), out)?;
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
