//! `cpumon trace report`: where the time of a trace went.

use std::borrow::Cow;
use std::io::{self, Write};

use anyhow::Context;
use cpumon_model::{WaitReason, escape};
use cpumon_trace::{CpuAccount, GroupRow, Report, ReportBy, Totals, analyse};

use super::rows::{COLUMNS, CPU_COLUMNS, Scale, cells, cpu_cells};
use super::series::over_time;
use super::trace_file::{
    TraceFile, Who, found, group, limit, micros, millis, missing, range, say_left_out, seconds, share, title,
};
use crate::cli::{Format, TraceReportArgs};
use crate::exit::Outcome;
use crate::report::{Column, Columns, write_rows};
use crate::table::{name_text, paragraph, terminal_columns};

/// `cpumon trace report`.
pub(crate) fn report(args: &TraceReportArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let range = range(args.input.from, args.input.to)?;
    if let Some(every) = args.every {
        return over_time(args, range, every, out);
    }
    let mut file = TraceFile::open(&args.input.file)?;
    let (report, ending) = file.read(|trace| analyse(trace, range))?;
    let format = args.input.format.get();
    let (is_table, limit) = (format == Format::Table, limit(&args.input));
    let totals = report.totals();
    let scale = Scale {
        length_ns: totals.length_ns,
        began_ns: file.began_ns,
        has_interrupts: report.has_interrupts(),
    };
    if is_table {
        head(&totals, scale.has_interrupts, out).context("cannot write the report")?;
    }
    let count = match group(args.by) {
        Some(by) => {
            let groups = report.groups(by, file.tasks());
            let rows = groups.iter().take(limit);
            if is_table {
                table(&rows.collect::<Vec<_>>(), by, scale).write(terminal_columns(), out)?;
                say_left_out(groups.len().saturating_sub(limit), out)?;
            } else {
                write_rows(format, &COLUMNS, rows.map(|row| cells(&row, scale)), out)?;
            }
            // Of a trace of idle CPUs there are no threads, and nothing is missing.
            groups.len().max(report.cpus().count())
        }
        None if is_table => {
            cpu_table(&report).write(terminal_columns(), out)?;
            report.cpus().count()
        }
        None => {
            let cpus = report.cpus().take(limit).map(|cpu| cpu_cells(&cpu, scale.has_interrupts));
            write_rows(format, &CPU_COLUMNS, cpus, out)?;
            report.cpus().count()
        }
    };
    out.flush()?;
    Ok(found(count, "event", missing(&ending, totals.ledger.lost)))
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
            "unknown: {} switches away from a thread that was not switched to; events between are missing",
            ledger.holes
        );
        paragraph(&note, columns, out)?;
    }
    writeln!(out)
}

fn table(rows: &[GroupRow], by: ReportBy, scale: Scale) -> Columns {
    let column =
        |title, rank, cell: &dyn Fn(&GroupRow) -> String| Column::new(title, rank, rows.iter().map(cell));
    let mut names = vec![column(title(by), 0, &|row| name_text(&row.name))];
    match by {
        ReportBy::Thread => {
            names.push(column("PID/TID", 0, &|row| Who::new(&row.key, &row.name).ids()).whole());
        }
        ReportBy::Process => names.push(column("PID", 0, &|row| Who::new(&row.key, &row.name).ids()).whole()),
        ReportBy::Program | ReportBy::Container => {}
    }
    let most = |text: Option<(String, u64)>| {
        text.map_or_else(|| "-".to_owned(), |(name, ns)| format!("{} {}", escape(&name), millis(ns)))
    };
    let waited = |row: &GroupRow, words: fn(WaitReason) -> Cow<'static, str>| {
        most(row.blocked.longest().map(|(reason, ns)| (words(reason).into_owned(), ns)))
    };
    let longest = |row: &GroupRow| row.longest_delay();
    let taken = |ns| if scale.has_interrupts { millis(ns) } else { "-".to_owned() };
    let numbers = vec![
        column("RUN ms", 0, &|row| millis(row.run_ns)),
        column("RUN %", 1, &|row| share(row.run_ns, scale.length_ns)),
        column("IRQ ms", 3, &|row| taken(row.interrupts.total_ns())),
        column("READY ms", 1, &|row| millis(row.ready_woken_ns().saturating_add(row.ready_preempted_ns()))),
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
        column("MOST FOR ms", 4, &|row| waited(row, WaitReason::words_and_name))
            .or_short(rows.iter().map(|row| waited(row, WaitReason::words))),
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
