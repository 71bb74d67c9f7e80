//! `cpumon trace report`: where the time of a trace went.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::time::Duration;

use anyhow::Context;
use cpumon_model::escape;
use cpumon_trace::{
    AnyTrace, CpuAccount, Ending, GroupKey, GroupRow, Report, ReportBy, Totals, TraceRange, TraceSource,
    analyse,
};

use super::rows::{COLUMNS, CPU_COLUMNS, Scale, cells, cpu_cells};
use crate::cli::{Format, TraceReportArgs, TraceReportBy};
use crate::exit::{Outcome, Usage};
use crate::report::{Column, Columns, write_rows};
use crate::table::terminal_columns;

const BUFFER_BYTES: usize = 1 << 20;
/// Rows of a table, if no number is given.
const TABLE_ROWS: usize = 20;

/// `cpumon trace report`.
pub(crate) fn report(args: &TraceReportArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let path = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("cannot open {path}"))?;
    let range = range(args.from, args.to)?;
    let reading = || format!("cannot read {path}");
    let mut reader = AnyTrace::open(BufReader::with_capacity(BUFFER_BYTES, file)).with_context(reading)?;
    let (report, ending) = analyse(&mut reader, range).with_context(reading)?;
    let is_table = args.format.get() == Format::Table;
    let limit = args.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let limit = limit.unwrap_or(if is_table { TABLE_ROWS } else { usize::MAX });
    let totals = report.totals();
    let scale = Scale {
        length_ns: totals.length_ns,
        began_ns: reader.header().began.mono_ns,
        has_interrupts: report.has_interrupts(),
    };
    if is_table {
        head(&totals, scale.has_interrupts, out).context("cannot write the report")?;
    }
    match group(args.by) {
        Some(by) => {
            let mut rows = report.rows(by, reader.tasks());
            let left_out = rows.len().saturating_sub(limit);
            rows.truncate(limit);
            if is_table {
                table(&rows, by, scale).write(terminal_columns(), '…', out)?;
                if left_out > 0 {
                    writeln!(out, "{left_out} more; --limit shows them")?;
                }
            } else {
                let cells = rows.iter().map(|row| cells(row, scale));
                write_rows(args.format.get(), &COLUMNS, cells, out)?;
            }
        }
        None if is_table => cpu_table(&report).write(terminal_columns(), '…', out)?,
        None => write_rows(
            args.format.get(),
            &CPU_COLUMNS,
            report.cpus().take(limit).map(|cpu| cpu_cells(&cpu, scale.has_interrupts)),
            out,
        )?,
    }
    out.flush()?;
    Ok(missing(&ending, totals.ledger.lost))
}

fn group(by: TraceReportBy) -> Option<ReportBy> {
    match by {
        TraceReportBy::Thread => Some(ReportBy::Thread),
        TraceReportBy::Process => Some(ReportBy::Process),
        TraceReportBy::Program => Some(ReportBy::Program),
        TraceReportBy::Container => Some(ReportBy::Container),
        TraceReportBy::Cpu => None,
    }
}

pub(super) fn range(from: Option<Duration>, to: Option<Duration>) -> Result<TraceRange, Usage> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let range = TraceRange { from_ns: from.map_or(0, ns), until_ns: to.map_or(u64::MAX, ns) };
    if range.from_ns >= range.until_ns {
        return Err(Usage("--to must be after --from".to_owned()));
    }
    Ok(range)
}

/// Says on standard error what the trace lacks. `marked`: lost events whose span is known.
pub(super) fn missing(ending: &Ending, marked: u64) -> Outcome {
    let mut lacks = Vec::new();
    let damaged_at = ending.damaged_at.unwrap_or(0);
    if ending.gaps > 0 {
        lacks.push(format!(
            "the trace is damaged, first at byte {damaged_at}: {} bytes at {} places cannot be read, and what the CPUs did then is unknown",
            ending.unreadable_bytes, ending.gaps
        ));
    } else if ending.damaged_at.is_some() {
        lacks.push(format!(
            "the trace is damaged or ends early at byte {damaged_at}; the report covers what is before it"
        ));
    }
    if ending.ended_ns.is_none() && (ending.damaged_at.is_none() || ending.gaps > 0) {
        lacks.push(
            "the trace has no end mark: it is still being recorded, or its recorder was killed".to_owned(),
        );
    }
    if ending.malformed > 0 {
        lacks.push(format!("{} chunks or records are malformed", ending.malformed));
    }
    let lost = marked.max(ending.lost);
    if lost > 0 {
        lacks.push(format!(
            "the recorder lost {lost} events; their time is unknown. Record with a larger --buffer"
        ));
    }
    for lack in &lacks {
        // Standard error may be closed; the exit code still reports it.
        let _ = writeln!(io::stderr(), "cpumon: {lack}");
    }
    if lacks.is_empty() { Outcome::Done } else { Outcome::DataMissing }
}

fn head(totals: &Totals, has_interrupts: bool, out: &mut dyn Write) -> io::Result<()> {
    let ledger = &totals.ledger;
    writeln!(
        out,
        "{} s on {} CPUs with events, {} events, {} switches",
        seconds(totals.length_ns),
        totals.cpus,
        totals.events,
        ledger.switches
    )?;
    let interrupts = if has_interrupts {
        format!(" + irq {} s + softirq {} s", seconds(ledger.irq_ns), seconds(ledger.softirq_ns))
    } else {
        String::new()
    };
    writeln!(
        out,
        "capacity {} s = run {} s{interrupts} + idle {} s + unknown {} s",
        seconds(ledger.capacity_ns()),
        seconds(ledger.run_ns),
        seconds(ledger.idle_ns),
        seconds(ledger.unknown_ns)
    )?;
    if ledger.holes > 0 {
        writeln!(
            out,
            "unknown: {} switches away from a thread that was not switched to; events between are missing",
            ledger.holes
        )?;
    }
    writeln!(out)
}

fn seconds(ns: u64) -> String {
    format!("{:.6}", ns as f64 / 1e9)
}

fn millis(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

fn micros(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3))
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.2}", part as f64 * 100.0 / whole as f64) }
}

fn id(row: &GroupRow) -> String {
    match &row.key {
        GroupKey::Thread(thread, process) => format!("{}/{}", process.pid, thread.tid),
        GroupKey::Process(process) => process.pid.to_string(),
        GroupKey::Program(_) | GroupKey::Container(_) | GroupKey::Unnamed(_) => String::new(),
    }
}

fn table(rows: &[GroupRow], by: ReportBy, scale: Scale) -> Columns {
    let column =
        |title, rank, cell: &dyn Fn(&GroupRow) -> String| Column::new(title, rank, rows.iter().map(cell));
    let mut names = vec![column(
        match by {
            ReportBy::Thread => "THREAD",
            ReportBy::Process => "PROCESS",
            ReportBy::Program => "PROGRAM",
            ReportBy::Container => "CONTAINER",
        },
        0,
        &|row| escape(&row.name).to_string(),
    )];
    match by {
        ReportBy::Thread => names.push(column("PID/TID", 0, &id)),
        ReportBy::Process => names.push(column("PID", 0, &id)),
        ReportBy::Program | ReportBy::Container => {}
    }
    let most = |text: Option<(String, u64)>| {
        text.map_or_else(|| "-".to_owned(), |(name, ns)| format!("{} {}", escape(&name), millis(ns)))
    };
    let longest = |row: &GroupRow| row.longest_delay();
    let taken = |ns| if scale.has_interrupts { millis(ns) } else { "-".to_owned() };
    let numbers = vec![
        column("RUN ms", 0, &|row| millis(row.run_ns)),
        column("RUN %", 1, &|row| share(row.run_ns, scale.length_ns)),
        column("IRQ ms", 3, &|row| taken(row.interrupts.total_ns())),
        column("READY ms", 1, &|row| millis(row.ready_woken_ns() + row.ready_preempted_ns())),
        column("p50 us", 5, &|row| micros(row.delay_percentile_ns(50))),
        column("p99 us", 3, &|row| micros(row.delay_percentile_ns(99))),
        column("MAX us", 2, &|row| micros(longest(row).map(|longest| longest.ns))),
        column("AT s", 3, &|row| {
            longest(row)
                .map_or_else(|| "-".to_owned(), |at| seconds(at.from_ns.saturating_sub(scale.began_ns)))
        }),
        column("MOST BEHIND ms", 4, &|row| {
            most(row.behind.first().map(|(name, ns)| (name.to_string(), *ns)))
        }),
        column("BLOCKED ms", 3, &|row| millis(row.blocked.total_ns())),
        column("MOST FOR ms", 4, &|row| {
            most(row.blocked.longest().map(|(reason, ns)| (reason.name().into_owned(), ns)))
        }),
        column("SWITCHES", 5, &|row| (row.voluntary_switches() + row.involuntary_switches()).to_string()),
        column("PUSHED OFF", 6, &|row| row.involuntary_switches().to_string()),
        column("MOVES", 6, &|row| row.migrations().to_string()),
        column("UNKNOWN ms", 6, &|row| millis(row.unknown_ns)),
    ];
    Columns::new(names, numbers)
}

fn cpu_table(report: &Report) -> Columns {
    let cpus: Vec<CpuAccount> = report.cpus().collect();
    let taken = |ns| if report.has_interrupts() { millis(ns) } else { "-".to_owned() };
    let column =
        |title, rank, cell: &dyn Fn(&CpuAccount) -> String| Column::new(title, rank, cpus.iter().map(cell));
    let names = vec![column("CPU", 0, &|cpu| cpu.cpu.to_string())];
    let numbers = vec![
        column("RUN %", 0, &|cpu| share(cpu.run_ns, cpu.capacity_ns())),
        column("RUN ms", 0, &|cpu| millis(cpu.run_ns)),
        column("IRQ ms", 1, &|cpu| taken(cpu.irq_ns)),
        column("SOFTIRQ ms", 1, &|cpu| taken(cpu.softirq_ns)),
        column("IDLE ms", 0, &|cpu| millis(cpu.idle_ns)),
        column("UNKNOWN ms", 0, &|cpu| millis(cpu.unknown_ns)),
        column("SWITCHES", 1, &|cpu| cpu.switches.to_string()),
        column("HOLES", 2, &|cpu| cpu.holes.to_string()),
        column("LOST", 2, &|cpu| cpu.lost.to_string()),
    ];
    Columns::new(names, numbers)
}
