//! `cpumon ledger`: where the CPU time of a range went, from a store or measured live: in sum, CPU by CPU, and in the intervals
//! with the largest unattributed share. It shows whether the ledger is balanced, and how each line is known: a figure that is sampled or
//! unknown is marked in its place, and a sentence below explains it.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use cpumon_agent::{Sampler, SamplerOptions};
use cpumon_collect::{RetainedCapabilities, SourceOptions};
use cpumon_export::{ExportError, Format};
use cpumon_model::{Fields, Terms, escape};
use cpumon_query::fields::{Field, decimal};
use cpumon_query::ledger::{LedgerLines, LedgerSum};
use cpumon_query::{QueryError, Shown};

use crate::cli::LedgerArgs;
use crate::exit::{Outcome, Signals, Usage, say};
use crate::known_hosts::KnownHosts;
use crate::output::{Table, paragraph, terminal_columns};
use crate::past::{Past, explained};
use crate::when;

pub fn ledger(args: &LedgerArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (all, outcome) = match (args.live, &args.host) {
        (Some(length), Some(host)) => received(args, host, length)?,
        (Some(_), None) if args.past.url.is_some() => {
            return Err(Usage("--live of a receiver's host needs --host".to_owned()).into());
        }
        (Some(length), None) => measured(args, length)?,
        (None, _) => stored(args)?,
    };
    if all.iter().all(|sum| sum.intervals == 0) {
        say("there is no interval with CPU times in that range");
        return Ok(Outcome::DataMissing);
    }
    let all: Vec<&LedgerSum> = all.iter().filter(|sum| sum.intervals > 0).collect();
    match args.format.get().file() {
        None => tables(&all, terminal_columns(), out).map_err(anyhow::Error::from),
        Some(format) => rows(&all, format, out).map_err(anyhow::Error::from),
    }
    .context("cannot write the ledger")?;
    Ok(outcome)
}

/// Why much of a host's time is unattributed, if it is.
fn say_what_is_hidden(host: &str, hidden: Option<&str>) {
    if let Some(hidden) = hidden {
        say(&format!("{}: {hidden}", escape(host)));
    }
}

fn stored(args: &LedgerArgs) -> anyhow::Result<(Vec<LedgerSum>, Outcome)> {
    let past = Past::open(&args.past)?;
    let hosts: Vec<String> = args.host.iter().cloned().collect();
    let all = match past.ledger(&hosts, args.range.time_range()?, args.worst) {
        Err(QueryError::NoHost) => Vec::new(),
        all => all.map_err(explained)?,
    };
    for sum in &all {
        say_what_is_hidden(&sum.host, sum.hidden.as_deref());
    }
    Ok((all, past.end(Outcome::Done)))
}

/// The ledger of a receiver's live host over this time.
fn received(args: &LedgerArgs, wanted: &str, length: Duration) -> anyhow::Result<(Vec<LedgerSum>, Outcome)> {
    /// Long polls without an answer before the host counts as silent.
    const PATIENCE: u32 = 2;
    let client = args.past.receiver()?;
    let known = KnownHosts::read(&client)?;
    let host = known.find(&client, wanted)?;
    say_what_is_hidden(&host.info.hostname, host.info.hidden_processes());
    let signals = Signals::install()?;
    let mut sum = LedgerSum::new(&host.info.hostname, args.worst);
    let mut left_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    // Intervals that ended before now are not requested.
    let (mut last, mut missed, mut silent, mut sequence) = (0, 0_u64, 0, None);
    if known.is_reporting(host.info.host) {
        last = client.newer(host.info.host, 0)?.map_or(0, |newest| newest.serial);
    } else {
        silent = PATIENCE;
    }
    while left_ns > 0 && silent < PATIENCE && !signals.stop().load(Ordering::Relaxed) {
        let Some(Shown { serial, interval, .. }) = client.newer(host.info.host, last)? else {
            silent += 1;
            continue;
        };
        missed += sequence.map_or(0, |before| interval.sequence.saturating_sub(before).saturating_sub(1));
        (last, sequence, silent) = (serial, Some(interval.sequence), 0);
        sum.add(&interval);
        left_ns = left_ns.saturating_sub(interval.duration_ns().max(1));
    }
    if silent == PATIENCE {
        say(&format!("{} sends nothing any more", escape(&host.info.hostname)));
    }
    if missed > 0 {
        say(&format!("{missed} intervals in between are missing"));
    }
    let is_whole = missed == 0 && silent < PATIENCE;
    let outcome = if is_whole { signals.outcome() } else { Outcome::DataMissing };
    Ok((vec![sum], outcome))
}

/// The ledger of this machine over this time.
fn measured(args: &LedgerArgs, length: Duration) -> anyhow::Result<(Vec<LedgerSum>, Outcome)> {
    let source = SourceOptions {
        choice: args.source,
        interval: args.interval,
        probes: args.probes,
        ..SourceOptions::default()
    };
    let options = SamplerOptions { source, ..SamplerOptions::default() };
    let mut sampler = Sampler::open(&options).context("cannot measure this machine")?;
    cpumon_agent::give_up_rights(sampler.kind(), RetainedCapabilities::NAMES);
    say_what_is_hidden(&sampler.info().hostname, sampler.info().hidden_processes());
    let signals = Signals::install()?;
    let mut sum = LedgerSum::new(&sampler.info().hostname, args.worst);
    let mut left_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    while left_ns > 0 {
        let Some(step) = sampler.step(signals.stop())? else { break };
        if !step.is_first {
            sum.add(step.interval);
            left_ns = left_ns.saturating_sub(step.interval.duration_ns().max(1));
        }
    }
    Ok((vec![sum], signals.outcome()))
}

/// A table for each host, in lines of no more than `columns` if its numbers allow.
fn tables(all: &[&LedgerSum], columns: usize, out: &mut dyn Write) -> io::Result<()> {
    for (nth, ledger) in all.iter().enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        one(ledger, columns, out)?;
    }
    Ok(())
}

fn one(ledger: &LedgerSum, columns: usize, out: &mut dyn Write) -> io::Result<()> {
    let sources: Vec<&str> = ledger.sources.iter().map(|source| source.name()).collect();
    let head = format!(
        "{}: {} intervals, {} s measured, {} to {}, source {}",
        escape(&ledger.host),
        ledger.intervals,
        seconds(ledger.covered_ns as f64),
        when::show(ledger.begin_wall_ns),
        when::show(ledger.end_wall_ns),
        sources.join(", ")
    );
    paragraph(&head, columns, out)?;
    if ledger.without > 0 {
        paragraph(&format!("{} intervals have no CPU times and are left out", ledger.without), columns, out)?;
    }
    let terms = terms(ledger);
    let mut sums = table("", terms);
    row(&mut sums, "all CPUs", &ledger.total());
    share(&mut sums, &ledger.total());
    for (cpu, lines) in ledger.per_cpu() {
        row(&mut sums, &format!("CPU {cpu}"), &lines);
    }
    sums.write_within(columns, out)?;
    if !ledger.worst.is_empty() {
        writeln!(out)?;
        paragraph("worst first, by the unattributed share:", columns, out)?;
        let mut worst = table("END", terms);
        for bad in &ledger.worst {
            row(&mut worst, &when::show(bad.end_wall_ns), &bad.lines);
        }
        worst.write_within(columns, out)?;
    }
    writeln!(out)?;
    notes(ledger).iter().try_for_each(|note| paragraph(note, columns, out))
}

/// The names of the lines on the host's system.
fn terms(ledger: &LedgerSum) -> Terms {
    if ledger.is_windows { Terms::WINDOWS } else { Terms::LINUX }
}

struct LedgerLine {
    /// Heading for people; those of irq and softirq are the system's words.
    title: fn(Terms) -> String,
    /// Name of the column, as in exports.
    name: &'static str,
    ns: fn(&LedgerLines) -> Option<i64>,
}

/// The lines in order; behind [`SHARE_AT`] lines is the share of the capacity that is not attributed.
static LINES: [LedgerLine; 9] = [
    LedgerLine { title: |_| "CAPACITY".to_owned(), name: "capacity_ns", ns: |of| Some(of.capacity_ns) },
    LedgerLine { title: |_| "THREADS".to_owned(), name: "ledger_threads_ns", ns: |of| Some(of.threads_ns) },
    LedgerLine { title: |_| "EXITED".to_owned(), name: "ledger_exited_ns", ns: |of| of.exited_ns },
    LedgerLine { title: |terms| terms.irq.label.to_uppercase(), name: "ledger_irq_ns", ns: |of| of.irq_ns },
    LedgerLine {
        title: |terms| terms.softirq.label.to_uppercase(),
        name: "ledger_softirq_ns",
        ns: |of| of.softirq_ns,
    },
    LedgerLine { title: |_| "STEAL".to_owned(), name: "ledger_steal_ns", ns: |of| Some(of.steal_ns) },
    LedgerLine { title: |_| "IDLE".to_owned(), name: "ledger_idle_ns", ns: |of| Some(of.idle_ns) },
    LedgerLine {
        title: |_| "UNATTRIBUTED".to_owned(),
        name: "unattributed_ns",
        ns: |of| Some(of.unattributed_ns),
    },
    LedgerLine { title: |_| "UNKNOWN".to_owned(), name: "unknown_ns", ns: |of| of.unknown_ns },
];
const SHARE_AT: usize = 8;

fn table(first: &str, terms: Terms) -> Table {
    let mut titles: Vec<String> = LINES.iter().map(|line| (line.title)(terms)).collect();
    titles.insert(SHARE_AT, "%".to_owned());
    let heading: Vec<&str> = std::iter::once(first).chain(titles.iter().map(String::as_str)).collect();
    Table::new(&heading).numbers_from(1)
}

fn row(table: &mut Table, first: &str, lines: &LedgerLines) {
    let share = decimal(lines.ratio() * 100.0, 3);
    cells(table, first, lines, share, &|ns| seconds(ns as f64));
}

/// Adds the same lines in percent of the capacity.
fn share(table: &mut Table, lines: &LedgerLines) {
    let percent = |ns: i64| decimal(ns as f64 * 100.0 / lines.capacity_ns as f64, 3) + " %";
    cells(table, "", lines, String::new(), &percent);
}

fn cells(table: &mut Table, first: &str, lines: &LedgerLines, share: String, text: &dyn Fn(i64) -> String) {
    let mut cells: Vec<String> =
        LINES.iter().map(|line| (line.ns)(lines).map_or_else(|| "-".to_owned(), text)).collect();
    cells.insert(SHARE_AT, share);
    table.row(std::iter::once(first.to_owned()).chain(cells));
}

fn seconds(ns: f64) -> String {
    decimal(ns / 1e9, 4)
}

fn notes(ledger: &LedgerSum) -> Vec<String> {
    let Terms { irq, softirq } = terms(ledger);
    let both = format!("{}, {}", irq.label, softirq.label);
    let mut notes = vec![format!(
        "times in seconds; capacity = threads + exited + {} + {} + steal + idle + unattributed",
        irq.label, softirq.label
    )];
    let has = |field| ledger.fields.contains(field);
    if ledger.has_sched() {
        notes.push("threads, exited, idle: measured at each context switch; unknown: the part of unattributed for which switch events are missing".into());
    } else if ledger.is_windows {
        notes.push("all lines: counted by Windows in ticks of its clock".into());
        notes.push("unknown: no data, because no switch events were measured".into());
    } else {
        notes.push("threads: the scheduler's clock, not sampled; idle, and all of a CPU's own lines: /proc/stat, in clock ticks".into());
        notes.push(
            "unknown: no data, because no switch events were measured (`cpumon doctor` says why)".into(),
        );
    }
    notes.push(match (has(Fields::IRQ), ledger.irq_in_run_time()) {
        (true, _) => format!("{both}: measured at each interrupt, and no part of the threads' run time"),
        (false, true) if ledger.is_windows => format!("{both}: not separate, part of the threads' run time without --probes irq"),
        (false, false) if ledger.is_windows => format!("{both}: no part of the threads' run time"),
        (false, true) => format!("{both}: not separate, this kernel charges them to the thread that was running; a CPU's own are sampled at the clock tick"),
        (false, false) => format!("{both}: /proc/stat, as the kernel accounts them"),
    });
    if ledger.is_windows && !ledger.has_sched() {
        notes.push("exited: includes processes that began and ended between two samples, estimated as CPU time that no process accounts for; with source toolhelp that time is unattributed".into());
    } else if !has(Fields::EXITS) {
        notes.push(
            "exited: no record of exits, so what tasks ran after their last sample is unattributed".into(),
        );
    }
    let of_cpus = ledger.per_cpu().filter_map(|(_, lines)| lines.unknown_ns).fold(0, i64::saturating_add);
    if ledger.total().unknown_ns.is_some_and(|unknown| of_cpus > unknown) {
        notes.push("unattributed and unknown of a CPU include the run time of threads that BPF does not see: /proc does not report on which CPU they ran, so only the line of all CPUs has it under threads".into());
    }
    notes.push(
        "exited of a CPU: no data (-), because its modes do not separate ended tasks from living ones".into(),
    );
    notes
}

/// A host, a CPU or a worst interval.
struct LedgerRow<'l> {
    scope: &'static str,
    host: &'l str,
    cpu: Option<u32>,
    begin_ns: i64,
    end_ns: i64,
    duration_ns: u64,
    lines: LedgerLines,
}

/// The columns of rows for programs; names are those of the shared columns.
fn fields<'l>() -> Vec<Field<'static, LedgerRow<'l>>> {
    let mut all = vec![
        Field::text("scope", |row: &LedgerRow<'l>| Some(row.scope.into())),
        Field::text("host", |row: &LedgerRow<'l>| Some(row.host.into())),
        Field::int("cpu", |row: &LedgerRow<'l>| row.cpu.map(i64::from)),
        Field::int("begin_ns", |row: &LedgerRow<'l>| row.begin_ns),
        Field::int("end_ns", |row: &LedgerRow<'l>| row.end_ns),
        Field::count("duration_ns", |row: &LedgerRow<'l>| row.duration_ns),
    ];
    all.extend(LINES.iter().map(|line| Field::int(line.name, |row: &LedgerRow<'l>| (line.ns)(&row.lines))));
    let share = Field::real("unattributed_ratio", |row: &LedgerRow<'l>| row.lines.ratio());
    all.insert(all.len() - 1, share);
    all
}

/// One row a host, a CPU and a worst interval.
fn rows_of(ledger: &LedgerSum) -> Vec<LedgerRow<'_>> {
    let whole = |scope, cpu, lines| LedgerRow {
        scope,
        host: &ledger.host,
        cpu,
        begin_ns: ledger.begin_wall_ns,
        end_ns: ledger.end_wall_ns,
        duration_ns: ledger.covered_ns,
        lines,
    };
    let mut rows = vec![whole("host", None, ledger.total())];
    rows.extend(ledger.per_cpu().map(|(cpu, lines)| whole("cpu", Some(cpu), lines)));
    rows.extend(ledger.worst.iter().map(|bad| LedgerRow {
        begin_ns: bad.end_wall_ns.saturating_sub(i64::try_from(bad.duration_ns).unwrap_or(i64::MAX)),
        end_ns: bad.end_wall_ns,
        duration_ns: bad.duration_ns,
        ..whole("worst", None, bad.lines)
    }));
    rows
}

/// Rows for programs; no data is empty or null.
fn rows(all: &[&LedgerSum], format: Format, out: &mut dyn Write) -> Result<(), ExportError> {
    let rows: Vec<_> = all.iter().flat_map(|ledger| rows_of(ledger)).collect();
    cpumon_export::rows(format, &fields(), &rows, out)
}

#[cfg(test)]
mod tests;
