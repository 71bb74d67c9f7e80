//! Prints a [`LedgerSum`] as a table, or as rows for programs. A figure that is sampled or unknown is marked in its place, and a sentence
//! below explains it.

use std::io::{self, Write};

use cpumon_export::{ExportError, Format};
use cpumon_model::{Fields, Terms, escape};
use cpumon_query::fields::Field;
use cpumon_query::ledger::{LedgerLines, LedgerSum};

use crate::table::Table;
use crate::when;

/// A table for each host, in lines of no more than `columns` if its numbers allow.
pub(super) fn tables(all: &[&LedgerSum], columns: usize, out: &mut dyn Write) -> io::Result<()> {
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
    let paragraph = |text: &str, out: &mut dyn Write| {
        textwrap::wrap(text, columns).iter().try_for_each(|line| writeln!(out, "{line}"))
    };
    let head = format!(
        "{}: {} intervals, {} s measured, {} to {}, source {}",
        escape(&ledger.host),
        ledger.intervals,
        seconds(ledger.covered_ns as f64),
        when::show(ledger.begin_wall_ns),
        when::show(ledger.end_wall_ns),
        sources.join(", ")
    );
    paragraph(&head, out)?;
    if ledger.without > 0 {
        paragraph(&format!("{} intervals have no CPU times and are left out", ledger.without), out)?;
    }
    let terms = terms(ledger);
    let mut sums = table("", terms);
    row(&mut sums, "all CPUs", &ledger.total());
    share(&mut sums, &ledger.total());
    for (cpu, lines) in ledger.per_cpu() {
        row(&mut sums, &format!("CPU {cpu}"), &lines);
    }
    sums.write_within(columns, out)?;
    if !ledger.worst().is_empty() {
        writeln!(out)?;
        paragraph("worst first, by the unattributed share:", out)?;
        let mut worst = table("END", terms);
        for bad in ledger.worst() {
            row(&mut worst, &when::show(bad.end_wall_ns), &bad.lines);
        }
        worst.write_within(columns, out)?;
    }
    writeln!(out)?;
    notes(ledger).iter().try_for_each(|note| paragraph(note, out))
}

/// What the host's system calls its lines.
fn terms(ledger: &LedgerSum) -> Terms {
    if ledger.is_windows { Terms::WINDOWS } else { Terms::LINUX }
}

/// A line of a ledger.
struct Line {
    /// Heading for people; those of irq and softirq are the system's words.
    title: fn(Terms) -> String,
    /// Column for programs, as exports have it.
    name: &'static str,
    ns: fn(&LedgerLines) -> Option<i64>,
}

/// The lines in order; behind [`SHARE_AT`] of them is the share of the capacity that is not attributed.
static LINES: [Line; 9] = [
    Line { title: |_| "CAPACITY".to_owned(), name: "capacity_ns", ns: |of| Some(of.capacity_ns) },
    Line { title: |_| "THREADS".to_owned(), name: "ledger_threads_ns", ns: |of| Some(of.threads_ns) },
    Line { title: |_| "EXITED".to_owned(), name: "ledger_exited_ns", ns: |of| of.exited_ns },
    Line { title: |terms| terms.irq.label.to_uppercase(), name: "ledger_irq_ns", ns: |of| of.irq_ns },
    Line {
        title: |terms| terms.softirq.label.to_uppercase(),
        name: "ledger_softirq_ns",
        ns: |of| of.softirq_ns,
    },
    Line { title: |_| "STEAL".to_owned(), name: "ledger_steal_ns", ns: |of| Some(of.steal_ns) },
    Line { title: |_| "IDLE".to_owned(), name: "ledger_idle_ns", ns: |of| Some(of.idle_ns) },
    Line { title: |_| "UNATTRIBUTED".to_owned(), name: "unattributed_ns", ns: |of| Some(of.unattributed_ns) },
    Line { title: |_| "UNKNOWN".to_owned(), name: "unknown_ns", ns: |of| of.unknown_ns },
];
const SHARE_AT: usize = 8;

fn table(first: &str, terms: Terms) -> Table {
    let mut titles: Vec<String> = LINES.iter().map(|line| (line.title)(terms)).collect();
    titles.insert(SHARE_AT, "%".to_owned());
    let heading: Vec<&str> = std::iter::once(first).chain(titles.iter().map(String::as_str)).collect();
    Table::new(&heading).numbers_from(1)
}

fn row(table: &mut Table, first: &str, lines: &LedgerLines) {
    let share = without_sign_of_zero(format!("{:.3}", lines.ratio() * 100.0));
    cells(table, first, lines, share, &|ns| seconds(ns as f64));
}

/// The same lines in percent of the capacity.
fn share(table: &mut Table, lines: &LedgerLines) {
    let percent = |ns: i64| format!("{:.3} %", ns as f64 * 100.0 / lines.capacity_ns as f64);
    cells(table, "", lines, String::new(), &|ns| without_sign_of_zero(percent(ns)));
}

fn cells(table: &mut Table, first: &str, lines: &LedgerLines, share: String, text: &dyn Fn(i64) -> String) {
    let mut cells: Vec<String> =
        LINES.iter().map(|line| (line.ns)(lines).map_or_else(|| "-".to_owned(), text)).collect();
    cells.insert(SHARE_AT, share);
    table.row(std::iter::once(first.to_owned()).chain(cells));
}

fn seconds(ns: f64) -> String {
    without_sign_of_zero(format!("{:.4}", ns / 1e9))
}

/// What rounds to zero is neither above nor below it.
fn without_sign_of_zero(number: String) -> String {
    let is_zero = number.chars().all(|c| matches!(c, '-' | '0' | '.' | ' ' | '%'));
    if is_zero { number.trim_start_matches('-').to_owned() } else { number }
}

/// How each line is known.
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
struct Row<'l> {
    scope: &'static str,
    host: &'l str,
    cpu: Option<u32>,
    begin_ns: i64,
    end_ns: i64,
    duration_ns: u64,
    lines: LedgerLines,
}

/// The columns of rows for programs; names are those of the shared columns.
fn fields<'l>() -> Vec<Field<'static, Row<'l>>> {
    let mut all = vec![
        Field::text("scope", |row: &Row<'l>| Some(row.scope.into())),
        Field::text("host", |row: &Row<'l>| Some(row.host.into())),
        Field::int("cpu", |row: &Row<'l>| row.cpu.map(i64::from)),
        Field::int("begin_ns", |row: &Row<'l>| row.begin_ns),
        Field::int("end_ns", |row: &Row<'l>| row.end_ns),
        Field::count("duration_ns", |row: &Row<'l>| row.duration_ns),
    ];
    all.extend(LINES.iter().map(|line| Field::int(line.name, |row: &Row<'l>| (line.ns)(&row.lines))));
    let share = Field::real("unattributed_ratio", |row: &Row<'l>| row.lines.ratio());
    all.insert(all.len() - 1, share);
    all
}

/// One row a host, a CPU and a worst interval.
fn rows_of(ledger: &LedgerSum) -> Vec<Row<'_>> {
    let whole = |scope, cpu, lines| Row {
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
    rows.extend(ledger.worst().iter().map(|bad| Row {
        begin_ns: bad.end_wall_ns.saturating_sub(i64::try_from(bad.duration_ns).unwrap_or(i64::MAX)),
        end_ns: bad.end_wall_ns,
        duration_ns: bad.duration_ns,
        ..whole("worst", None, bad.lines)
    }));
    rows
}

/// Rows for programs; no data is empty or null.
pub(super) fn rows(all: &[&LedgerSum], format: Format, out: &mut dyn Write) -> Result<(), ExportError> {
    let rows: Vec<_> = all.iter().flat_map(|ledger| rows_of(ledger)).collect();
    cpumon_export::rows(format, &fields(), &rows, out)
}

#[cfg(test)]
mod tests {
    use cpumon_model::{CpuInterval, CpuSched, CpuTimes, Interval, Ledger, SourceKind};

    use serde_json::Value;

    use super::*;

    /// Two CPUs for one second, `lost` ms of them unattributed.
    fn interval(second: i64, lost: i64, fields: Fields, irq_in_run_time: bool) -> Interval {
        const MS: i64 = 1_000_000;
        let mut one = Interval { fields, source: SourceKind::Bpf, ..Interval::default() };
        one.begin.wall_ns = second * 1_000 * MS;
        (one.end.wall_ns, one.end.mono_ns) = (one.begin.wall_ns + 1_000 * MS, 1_000_000_000);
        let (irq_ns, softirq_ns) = if irq_in_run_time { (0, 0) } else { (5 * MS, 15 * MS) };
        one.ledger = Ledger {
            capacity_ns: 2_000 * MS,
            threads_ns: 700 * MS,
            exited_ns: 100 * MS,
            irq_ns,
            softirq_ns,
            idle_ns: 1_200 * MS - irq_ns - softirq_ns - lost * MS,
            unknown_ns: lost * MS / 2,
            irq_in_run_time,
            ..Ledger::default()
        };
        let times = CpuTimes {
            user_ns: 400_000_000,
            irq_ns: 10_000_000,
            idle_ns: 580_000_000,
            ..CpuTimes::default()
        };
        let sched = CpuSched { unknown_ns: 250_000, ..CpuSched::default() };
        one.cpus = (0..2).map(|cpu| CpuInterval { cpu, times, sched, ..CpuInterval::default() }).collect();
        one
    }

    fn ledger(host: &str, fields: Fields, irq_in_run_time: bool) -> LedgerSum {
        let mut ledger = LedgerSum::new(host, 2);
        for (second, lost) in [(0, 1), (1, 90), (2, 3), (3, -40)] {
            ledger.add(&interval(second, lost, fields, irq_in_run_time));
        }
        ledger.add(&Interval::default());
        ledger
    }

    #[test]
    fn the_ledger_reads_like_this() {
        let measured = ledger("device-7", Fields::all(), false);
        let sampled = ledger("evil\x1b[2Jhost", Fields::FIRST_RELEASE - Fields::EXITS, true);
        let mut out = Vec::new();
        tables(&[&measured, &sampled], usize::MAX, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        // Moments are in the reader's time zone.
        let text = (0..5).fold(text, |text, second| {
            text.replace(&when::show(second * 1_000_000_000), &format!("<second {second}>"))
        });
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_host_of_windows_has_its_own_words() {
        let mut ledger = LedgerSum::new("device-7", 1);
        let fields = Fields::USER | Fields::SYSTEM | Fields::RUN | Fields::CPUS;
        ledger.add(&Interval { source: SourceKind::Nt, ..interval(0, 1, fields, false) });
        let mut out = Vec::new();
        tables(&[&ledger], usize::MAX, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("  ISR ") && text.contains("  DPC ") && text.contains("+ ISR + DPC +"),
            "{text}"
        );
        assert!(!text.to_lowercase().contains("irq") && !text.contains("/proc"), "{text}");
        assert!(
            text.contains("exited: includes processes") && text.contains("ISR, DPC: no part of"),
            "{text}"
        );
        // With switches, and without interrupts.
        let mut sched = LedgerSum::new("device-7", 1);
        let fields = fields | Fields::SCHED | Fields::EXITS;
        sched.add(&Interval { source: SourceKind::Nt, ..interval(0, 1, fields, true) });
        let mut out = Vec::new();
        tables(&[&sched], usize::MAX, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("ISR, DPC: not separate") && !text.contains("exited: includes"), "{text}");
        // Names of columns stay, so that a mixed fleet compares.
        let mut table = Vec::new();
        rows(&[&ledger], Format::Csv, &mut table).unwrap();
        assert!(String::from_utf8(table).unwrap().contains(",ledger_irq_ns,ledger_softirq_ns,"));
    }

    #[test]
    fn in_a_narrow_terminal_no_line_is_longer_than_it() {
        let measured = ledger("device-7", Fields::all(), false);
        for columns in [40, 80, 100] {
            let mut out = Vec::new();
            tables(&[&measured], columns, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{text}");
            for name in ["CAPACITY", "UNATTRIBUTED", "CPU 1", "worst first"] {
                assert!(text.contains(name), "{name} at {columns}:\n{text}");
            }
        }
    }

    #[test]
    fn where_threads_are_hidden_the_lines_of_the_cpus_say_what_they_have_more() {
        let has_note = |unknown_ns| {
            let mut ledger = LedgerSum::new("device-7", 2);
            let mut one = interval(0, 1, Fields::all(), false);
            one.ledger.unknown_ns = unknown_ns;
            ledger.add(&one);
            let mut out = Vec::new();
            tables(&[&ledger], usize::MAX, &mut out).unwrap();
            String::from_utf8(out).unwrap().contains("threads that BPF does not see")
        };
        // The two CPUs have 500 us of it.
        assert_eq!([has_note(500_000), has_note(499_999)], [false, true]);
    }

    #[test]
    fn what_rounds_to_zero_has_no_sign() {
        assert_eq!((seconds(-4e4), seconds(4e4)), ("0.0000".to_owned(), "0.0000".to_owned()));
        assert_eq!((seconds(-6e4), seconds(1.5e9)), ("-0.0001".to_owned(), "1.5000".to_owned()));
        let mut ledger = LedgerSum::new("device-7", 0);
        let mut one = interval(0, 0, Fields::all(), false);
        (one.ledger.idle_ns, one.ledger.unknown_ns) = (one.ledger.idle_ns + 9, -9);
        ledger.add(&one);
        let mut out = Vec::new();
        tables(&[&ledger], usize::MAX, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains("-0.000"), "{text}");
    }

    #[test]
    fn machines_read_the_same_numbers_and_no_data_is_not_zero() {
        let sampled = ledger("=cmd", Fields::FIRST_RELEASE, true);
        let (mut table, mut lines) = (Vec::new(), Vec::new());
        rows(&[&sampled], Format::Csv, &mut table).unwrap();
        rows(&[&sampled], Format::Jsonl, &mut lines).unwrap();
        let (table, lines) = (String::from_utf8(table).unwrap(), String::from_utf8(lines).unwrap());
        let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(table.lines().count(), objects.len() + 1);
        for line in lines.lines() {
            let places: Vec<_> = fields()
                .iter()
                .filter_map(Field::column)
                .map(|(name, _)| line.find(&format!("\"{name}\":")))
                .collect();
            assert!(places[0] == Some(1) && places.is_sorted(), "keys in the order of the columns: {line}");
        }
        assert_eq!(
            (objects.len(), &objects[0]["scope"], &objects[0]["unknown_ns"]),
            (5, &"host".into(), &Value::Null)
        );
        assert_eq!(objects[0]["ledger_irq_ns"], Value::Null);
        assert_eq!(objects[0]["unattributed_ns"], 54_000_000);
        assert_eq!(
            (&objects[3]["scope"], &objects[3]["unattributed_ns"]),
            (&"worst".into(), &90_000_000.into())
        );
        assert_eq!(objects[4]["unattributed_ns"], -40_000_000, "more booked than there was is as bad");
        assert!(table.lines().nth(1).unwrap().starts_with("\"host\",\"'=cmd\",,"), "{table}");
    }
}
